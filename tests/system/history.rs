//! Events: taken back, archived, and verified by others.

mod amendments;
mod archive;
mod archive_crashes;
mod archive_refusals;
mod merge_refusals;
mod merges;
mod period_resets;
mod random_amendments;
mod removals;
mod scores_counted;
mod verify;

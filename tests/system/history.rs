//! Events: taken back, and archived.

mod amendments;
mod archive;
mod archive_crashes;
mod archive_refusals;
mod random_amendments;

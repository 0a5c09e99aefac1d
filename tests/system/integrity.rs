//! Corruption that is found and repaired.

mod chain;
mod corruption;
mod daily_diff;
mod positions;
mod proof;
mod repair;
mod repair_archive;
mod repair_random;
mod report;
mod runs;

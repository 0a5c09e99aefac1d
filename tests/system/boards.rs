//! Boards: created, changed, deleted, moved to other numbers of shards.

mod agenda;
mod at_rest;
mod creation;
mod deletion;
mod deletion_under_load;
mod display;
mod joining;
mod numbers;
mod reshard;
mod reshard_crashes;
mod reshard_load;
mod segments;
mod updates;

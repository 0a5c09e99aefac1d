//! Runs of the integrity diff, their findings and their proofs.

pub mod integrity_chain;
pub mod integrity_finding;
pub mod integrity_proof;
pub mod integrity_run;

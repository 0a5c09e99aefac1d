//! Commands of `analytics`, and what they leave behind.

pub mod analytics;
pub mod archive;
pub mod diff;
pub mod erasure;
pub mod rebuild;
pub mod reshard;
pub mod seal;

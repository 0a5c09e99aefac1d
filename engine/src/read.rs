//! Reading standings.

pub mod sealed;

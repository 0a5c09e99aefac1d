//! Standings in SQL: all-time rows, and the final entries of sealed periods.

pub mod filter;
pub mod sealed_entry;
pub mod sealed_period;
pub mod standing;

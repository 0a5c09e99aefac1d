//! The history of a board as polars frames, and the fold as polars expressions.

pub(crate) mod counted;
pub(crate) mod events;
pub(crate) mod expected_rows;
pub(crate) mod fold;
pub(crate) mod history;
pub(crate) mod multiset_hash;
pub(crate) mod parquet;
pub(crate) mod sorted;

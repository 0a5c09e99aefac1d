//! Types that every noun of the schema uses: scalars, ids and connections.

pub mod connection;
pub mod global_id;
pub mod scalar;

//! Boards that several tests begin with.

pub mod busy;
pub mod corrupted;
pub mod deleted;
pub mod load;
pub mod race;
pub mod regional;
pub mod rolling;

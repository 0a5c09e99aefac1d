//! Boards that several tests begin with.

pub mod busy;
pub mod corruption;
pub mod deletion;
pub mod in_process;
pub mod load;
pub mod many;
pub mod race;
pub mod regional;
pub mod rolling;

//! The commands of the program.

pub(crate) mod demo;
pub(crate) mod serve;

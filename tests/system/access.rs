//! Access: who may do what.

mod audit;
mod boards;
mod matrix;
mod members;
mod revocation;
mod visibility;

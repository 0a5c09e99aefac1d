//! Access: who may do what.

mod boards;
mod matrix;
mod members;
mod revocation;
mod visibility;

//! What dies, and what refuses.

mod cluster;
mod earlier_layout;
mod first_start;
mod killed_processes;
mod refusing_stores;

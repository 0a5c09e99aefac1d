//! Processes and stores that die, refuse or start at once.

mod cluster;
mod earlier_layout;
mod first_start;
mod killed_processes;
mod refusing_stores;
mod two_hosts;
mod watched_stores;

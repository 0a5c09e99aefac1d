//! Processes and stores that die, refuse or start at once.

mod cluster;
mod earlier_layout;
mod first_start;
mod foreign_keys;
mod foreign_log;
mod killed_processes;
mod out_of_memory;
mod refusing_stores;
mod two_hosts;
mod watched_stores;

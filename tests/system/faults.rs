//! Processes and stores that die, refuse or start at once.

mod cluster;
mod earlier_layout;
mod first_start;
#[cfg(target_os = "linux")]
mod full_disk;
mod killed_processes;
mod refusing_stores;
mod slow_server;
mod sql_away;
mod two_hosts;
mod watched_stores;

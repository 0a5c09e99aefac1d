//! Processes and stores that die, refuse, start at once, or do not belong together.

mod clocks;
mod cluster;
mod earlier_layout;
mod first_start;
mod foreign_keys;
mod foreign_log;
#[cfg(target_os = "linux")]
mod full_disk;
mod killed_processes;
mod out_of_memory;
mod pasts;
mod refusing_stores;
mod slow_server;
mod sql_away;
mod strangers;
mod two_hosts;
mod watched_stores;
mod wrong_place;

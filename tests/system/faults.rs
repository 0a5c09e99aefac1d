//! Processes and stores that die, refuse or harm each other.

mod clocks;
mod cluster;
mod foreign_keys;
mod foreign_log;
#[cfg(target_os = "linux")]
mod full_disk;
mod killed_processes;
mod long_recovery;
mod out_of_memory;
mod redis_away;
mod redis_away_games;
mod redis_away_statements;
mod redis_unsteady;
mod refusing_stores;
mod slow_server;
mod spoiled_rows;
mod sql_away;
mod watched_stores;

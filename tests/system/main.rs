//! Whole-system tests: the real programs against a real Redis and a real SQL database, spoken to in GraphQL.
//!
//! | module | has |
//! |---|---|
//! | [`program`], [`postgres`], [`redis_server`], [`redis_cluster`] | what runs |
//! | [`deployment`], [`api`] | a deployment of its own for each test, and the processes that serve it |
//! | [`node`] | the scripts of tests/web: a browser, an audit |
//! | [`wait`] | conditions waited for, with a deadline |
//! | [`oracle`] | a board computed naively, from all its events, by the words of the documentation |
//! | [`game`], [`load`] | random boards and events, and how they are sent |
//! | [`history`] | a board whose events are taken back, computed naively too |
//! | [`listing`], [`connection`] | standings and other lists read back, page by page |
//! | the rest | the tests, by noun |
//!
//! A test starts what it needs and stops all of it, also when it fails; the log of a process is shown then.
//! Random tests print their seed; `LAUREL_TEST_SEED` repeats one.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a surprise is a failure, and its place is its best message"
)]

mod amendments;
mod api;
mod archive;
mod archive_crashes;
mod archive_refusals;
mod blocks;
mod board_ends;
mod board_lives;
mod board_races;
mod cluster;
mod commands;
mod connection;
mod daily;
mod decay;
mod dedup;
mod demo;
mod dense;
mod deployment;
mod durability;
mod export;
mod faults;
mod first_light;
mod friend_ranks;
mod friends;
mod game;
mod generate;
mod graphiql;
mod histories;
mod history;
mod hot;
mod http_audit;
mod import;
mod import_formats;
mod integrity;
mod integrity_runs;
mod jobs;
mod limits;
mod listing;
mod load;
mod members;
mod metrics;
mod node;
mod oracle;
mod pages;
mod periods;
mod persisted;
mod postgres;
mod program;
mod proof;
mod random;
mod rebuilds;
mod redis_cluster;
mod redis_server;
mod refusals;
mod refusing_stores;
mod repair;
mod repair_archive;
mod repair_random;
mod report;
mod reshard;
mod reshard_crashes;
mod reshard_load;
mod rolling;
mod rolling_boards;
mod schema;
mod seals;
mod segments;
mod spread;
mod tokens;
mod upgrade;
mod wait;
mod walks;
mod what_if;
mod window_changes;
mod windows;

//! Scores from queues, and events to them, on real brokers.

mod crashes;
mod feed_crashes;
mod feeds;
mod formats;
mod game;
mod kafka;
mod operations;
mod positions;
mod rabbitmq;
mod refusals;
mod servers;
mod streams;

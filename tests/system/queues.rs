//! Scores from queues, on real brokers.

mod crashes;
mod formats;
mod game;
mod kafka;
mod operations;
mod positions;
mod rabbitmq;
mod refusals;
mod servers;
mod streams;

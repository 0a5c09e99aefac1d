//! Scores from queues, on real brokers.

mod crashes;
mod formats;
mod game;
mod refusals;

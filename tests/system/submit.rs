//! Scores on their way in.

mod durability;
mod event_ids;
mod random_games;
mod refusals;
mod skewed_clocks;

//! Scores on their way in.

mod attempts;
mod durability;
mod effects;
mod event_ids;
mod fair_play;
mod full_log;
mod horizon;
mod many_boards;
mod metadata;
mod positions;
mod random_games;
mod refusals;
mod skewed_clocks;

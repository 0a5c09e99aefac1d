//! Windows and their periods.

mod calendars;
mod changes;
mod decay;
mod local_time;
mod periods;
mod retention;
mod rolling;
mod rolling_boards;
mod seals;
mod seals_cut_short;
mod seasons;

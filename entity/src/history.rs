//! The history: commits, their events, and how far each partition has got.

pub mod commit;
pub mod dead_letter;
pub mod log_cursor;
pub mod score_event;

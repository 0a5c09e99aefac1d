//! The history: commits, their events, checkpoints, and each partition's cursor.

pub mod by_time;
pub mod checkpoint;
pub mod commit;
pub mod counted;
pub mod dead_letter;
pub mod event_ids;
pub mod log_cursor;
pub mod makers;
pub mod score_event;
pub mod segments;
pub mod source_position;
pub mod span;

//! The archive: files of events that have left `score_event`, files of commits that have left
//! `commit`, and the rows that stand for them in SQL.

pub mod archive_file;
pub mod archive_mark;
pub mod archived_entry;
pub mod archived_metadata;
pub mod commit_file;

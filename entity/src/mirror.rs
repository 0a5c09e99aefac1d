//! The lake: files of events on an object store. Their events stay in SQL, or in the archive.

pub mod mirror_file;
pub mod mirror_mark;
pub mod mirror_place;

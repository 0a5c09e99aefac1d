//! The life of a board: windows added and dropped, and the board's end.

pub mod delete;
pub mod fill;
pub mod windows;

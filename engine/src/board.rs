//! Changes to a board: adding and dropping windows, and deleting the board.

pub mod delete;
pub mod fill;
pub mod windows;

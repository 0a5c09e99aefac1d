//! Changes to a board: adding and dropping windows, and deleting the board; and the agenda of all
//! boards.

pub mod agenda;
pub mod delete;
pub mod fill;
pub mod windows;

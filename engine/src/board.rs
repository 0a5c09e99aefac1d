//! Changes to boards: making one, adding and dropping windows and seasons, and deleting it; and the
//! agenda of all boards.

pub mod agenda;
pub mod create;
pub mod delete;
pub mod entrants;
pub mod fill;
pub mod season;
pub mod windows;

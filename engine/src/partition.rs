//! A partition: one serial history, from the commit in Redis to the rows in SQL.

pub mod all_time_rows;
pub mod barrier;
pub mod change;
mod cursor;
pub mod follow;
pub mod home;
mod load;
pub mod persist;
pub mod recovery;
pub mod settle;
pub mod submit;

//! Stores that do not belong together, or are of another time.

mod earlier_layout;
mod first_start;
mod later_version;
mod pasts;
mod strangers;
mod two_hosts;
mod wrong_place;

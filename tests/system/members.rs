//! Members and their friends.

mod bans;
mod cheats_day;
mod consent;
mod erasures;
mod exports;
mod friend_ranks;
mod friendships;
mod profiles;
mod reports;
mod search;

//! Members and their friends.

mod archived_erasures;
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

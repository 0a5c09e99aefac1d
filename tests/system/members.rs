//! Members and their friends.

mod bans;
mod cheats_day;
mod consent;
mod friend_ranks;
mod friendships;
mod profiles;
mod search;

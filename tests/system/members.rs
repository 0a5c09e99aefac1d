//! Members and their friends.

mod friend_ranks;
mod friendships;
mod profiles;
mod search;

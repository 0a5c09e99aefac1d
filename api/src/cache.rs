//! In-process caches: pages, answers, boards, friends, members, cursors.

pub(crate) mod boards;
pub(crate) mod cursors;
pub(crate) mod friends;
pub(crate) mod pages;
pub(crate) mod private_boards;
pub(crate) mod recent_members;
pub(crate) mod shared;
pub(crate) mod sql;

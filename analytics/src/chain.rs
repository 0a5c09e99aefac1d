//! The chain of commits: the id of each is recomputed from what SQL and the archive's files hold,
//! and leads on from the one before.

pub(crate) mod check;
pub(crate) mod commits;
pub(crate) mod files;
pub(crate) mod history;
mod line;
pub(crate) mod verify;

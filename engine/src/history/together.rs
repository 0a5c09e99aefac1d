//! Members whose histories are read together: as many as a bounded memory holds.

use std::collections::HashMap;

use entity::error::Result;
use entity::history::score_event;
use ranking::id::{BoardNo, MemberId};
use sea_orm::DatabaseConnection;

/// The most events of members whose histories are read together, unless a single member has more.
const EVENTS_TOGETHER_MAX: u64 = 5000;

/// Splits members of a board, in their order, into groups whose histories are read together.
pub(super) struct Together<'a> {
    db: &'a DatabaseConnection,
    board: BoardNo,
    /// The most members of a group.
    members_max: usize,
    /// The numbers of events of the next members.
    counts: HashMap<String, u64>,
}

impl<'a> Together<'a> {
    /// Groups of at most so many members.
    pub(super) fn new(db: &'a DatabaseConnection, board: BoardNo, members_max: usize) -> Self {
        Self { db, board, members_max, counts: HashMap::new() }
    }

    /// Takes the next group off the members that are left, at least one member of any.
    pub(super) async fn next<'m>(&mut self, left: &mut &'m [MemberId]) -> Result<&'m [MemberId]> {
        let all = *left;
        let some = &all[..all.len().min(self.members_max)];
        let keys = || some.iter().map(MemberId::as_str);
        if keys().next().is_some_and(|first| !self.counts.contains_key(first)) {
            self.counts = keys().map(|member| (member.to_owned(), 0)).collect();
            let found = score_event::counts_of_members(self.db, self.board, keys()).await?;
            self.counts.extend(found.into_iter().map(|(member, n)| (member, n.unsigned_abs())));
        }
        let mut events = 0;
        let fitting = keys().take_while(|member| {
            events += self.counts.get(*member).copied().unwrap_or(u64::MAX - events);
            events <= EVENTS_TOGETHER_MAX
        });
        let (group, rest) = all.split_at(fitting.count().max(1).min(all.len()));
        *left = rest;
        Ok(group)
    }
}

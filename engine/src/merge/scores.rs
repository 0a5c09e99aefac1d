//! The scores of a member that is being merged: checked, copied and removed, board by board.

use std::collections::{BTreeMap, HashSet};

use futures::TryStreamExt;
use ranking::board::Board;
use ranking::commit::{Event, EventPlace};
use ranking::id::{BoardNo, MemberId};
use sea_orm::{ColumnTrait, Condition, QueryFilter};
use tokio::time::Instant;

use super::{boards_of, check_friends};
use crate::deployment::Deployment;
use crate::failpoint;
use crate::history::amend::{By, Merge, Plan, amend_members, copy_all, counting};
use crate::partition::Partition;
use entity::archive::archived_entry;
use entity::board;
use entity::error::{Error, Result};
use entity::history::{dead_letter, score_event};
use entity::member::erasure::is_anonymous;
use entity::member::merge;

/// The archived events of a member, by board.
pub type ArchivedEvents = BTreeMap<BoardNo, Vec<(EventPlace, Event)>>;

/// The members of a merge on a board.
struct Move<'a> {
    board: Board,
    source: (Partition<'a>, MemberId),
    target: (Partition<'a>, MemberId),
    /// True if a copy has neither the event id nor the metadata of its origin: they may name the
    /// source.
    is_anonymous: bool,
    /// The source's archived events; `None` where no file can be read.
    archived: Option<&'a [(EventPlace, Event)]>,
}

/// Checks that a merge can be carried out. Both members are held, so what is found stays true.
///
/// # Errors
/// As [`merge`](super::merge).
pub(super) async fn check(
    deployment: &Deployment,
    row: &merge::Model,
    archived: Option<&ArchivedEvents>,
    deadline: Instant,
) -> Result<()> {
    let is_anonymous = is_anonymous(&deployment.db, &row.source, &row.target).await?;
    if !is_anonymous {
        check_friends(deployment, row).await?;
    }
    for found in boards_of(deployment, &row.source).await? {
        let of_board = Move::of(deployment, &found, (row, is_anonymous), archived)?;
        let scores = of_board.scores().await?;
        of_board.check(&scores, deadline).await.map_err(|error| match error {
            Error::Ranking(ranking::Error::OutOfRange(why)) => {
                let why = format!(
                    "{} and {} cannot be merged on board {}: {why}",
                    row.source, row.target, found.slug
                );
                ranking::Error::OutOfRange(why).into()
            }
            // The next attempt reads the boards again.
            Error::Ranking(ranking::Error::BoardGone) => {
                Error::Overtaken("a board of the member changed a moment ago".into())
            }
            error => error,
        })?;
    }
    Ok(())
}

/// Copies the source's scores to the target and removes the source, on all boards.
pub(super) async fn move_all(
    deployment: &Deployment,
    row: &merge::Model,
    archived: Option<&ArchivedEvents>,
    deadline: Instant,
) -> Result<()> {
    let is_anonymous = is_anonymous(&deployment.db, &row.source, &row.target).await?;
    for found in boards_of(deployment, &row.source).await? {
        // Another process may change the board meanwhile.
        let mut found = Some(found);
        while let Some(present) = found.take() {
            let of_board = Move::of(deployment, &present, (row, is_anonymous), archived)?;
            match of_board.carry_out(deadline).await {
                Err(Error::Ranking(ranking::Error::BoardGone)) if Instant::now() < deadline => {
                    let no = [present.no];
                    found = board::living_of_numbers(&deployment.db, &no).await?.remove(&no[0]);
                }
                moved => moved?,
            }
        }
    }
    Ok(())
}

impl<'a> Move<'a> {
    fn of(
        deployment: &'a Deployment,
        found: &board::Model,
        (row, is_anonymous): (&merge::Model, bool),
        archived: Option<&'a ArchivedEvents>,
    ) -> Result<Self> {
        let board = found.to_ranking()?;
        let [source, target] = row.marks()?.map(|(member, _)| {
            let no = deployment.store.partitions().of_member(&board, &member);
            (deployment.partition(no), member)
        });
        let archived = archived.map(|all| all.get(&board.no).map_or(&[][..], Vec::as_slice));
        Ok(Self { board, source, target, is_anonymous, archived })
    }

    /// Copies all scores, waits until SQL has the copies, and removes the source.
    async fn carry_out(&self, deadline: Instant) -> Result<()> {
        let (partition, member) = &self.source;
        loop {
            let scores = self.scores().await?;
            if scores.is_empty() {
                return Ok(());
            }
            copy_all((self.target.0, &self.board), self.merge(&scores), deadline).await?;
            self.target.0.settle().await?;
            // Redis may have lost copies before SQL had them.
            if self.has_all(&scores).await? {
                failpoint::hit("board-copied");
                let plan = Plan::Removal(std::slice::from_ref(member));
                amend_members((*partition, &self.board), plan, By::Upkeep, deadline).await?;
                failpoint::hit("source-removed");
                partition.settle().await?;
            }
            if Instant::now() >= deadline {
                return Err(Error::Overtaken("a merge takes long".into()));
            }
        }
    }

    /// The merge of some scores.
    fn merge<'b>(&'b self, scores: &'b [(EventPlace, Event)]) -> Merge<'b> {
        Merge { source: &self.source.1, target: &self.target.1, scores }
    }

    /// Checks that the target can have copies of all scores.
    async fn check(&self, scores: &[(EventPlace, Event)], deadline: Instant) -> Result<()> {
        let plan = Plan::Check(self.merge(scores));
        amend_members((self.target.0, &self.board), plan, By::Upkeep, deadline).await?;
        Ok(())
    }

    /// The source's scores on the board that count, in order.
    ///
    /// # Errors
    /// `Invalid` if archived events count that cannot be read.
    async fn scores(&self) -> Result<Vec<(EventPlace, Event)>> {
        let (partition, member) = &self.source;
        let (db, no) = (&partition.db, self.board.no);
        let mark = partition.archive_mark(no).await?;
        let archived = archived_entry::of_members(db, &mark, [member.as_str()]).await?;
        use score_event::Column::{Partition as In, Seq};
        let elsewhere = In.ne(i32::from(partition.no));
        let events_of = score_event::history_of(&self.board, member.as_str())
            .filter(Condition::any().add(elsewhere).add(Seq.gt(mark.archived_seq)));
        // Archived ones come first: a board with some has never moved. One by one: a row takes ten
        // times the memory of its event.
        let mut rows = events_of.stream(db).await?;
        let mut events = self.archived.unwrap_or_default().to_vec();
        while let Some(row) = rows.try_next().await? {
            events.push((row.place()?, row.to_ranking()?));
        }
        let (mut scores, begins_anew) = counting(events);
        if self.is_anonymous {
            for (_, event) in &mut scores {
                (event.event_id, event.metadata) = (None, None);
            }
        }
        let is_archived = || archived.values().any(|row| row.state().is_some());
        if self.archived.is_none() && !begins_anew && is_archived() {
            return Err(ranking::Error::Invalid(format!(
                "{member} has archived scores on board {no} and cannot be merged: expected a member without any, or removed from that board"
            ))
            .into());
        }
        Ok(scores)
    }

    /// True if SQL has a copy of every score, or refused it.
    async fn has_all(&self, scores: &[(EventPlace, Event)]) -> Result<bool> {
        let (partition, member) = &self.target;
        let db = &partition.db;
        let copies = score_event::origins(db, self.board.no, member.as_str()).await?;
        let mut origins: HashSet<EventPlace> =
            copies.iter().map(|origin| origin.parse()).collect::<ranking::Result<_>>()?;
        let letters = dead_letter::of_board(db, partition.no, self.board.no).await?;
        origins.extend(letters.iter().filter_map(|(_, event)| event.origin));
        Ok(scores.iter().all(|(place, _)| origins.contains(place)))
    }
}

//! Repair of entries in Redis: their members' history is read up to the head that the commit is
//! folded onto.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use ranking::board::Board;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::store::log::Tail;
use ranking::store::write::Writes;
use ranking::window::roll::Rolls;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, Select};

use super::{Truth, is_sealed, proposal};
use crate::history::amend::seal_names;
use crate::integrity::look::{
    Location, Locations, StoredValues, fold, home_member, is_on_its_way, probe, text_of,
};
use crate::partition::Partition;
use crate::partition::change::Proposal;
use crate::partition::follow::{Follower, Marks};
use crate::partition::home;
use crate::partition::members_history::MembersHistory;
use crate::roll::mark_new;
use entity::error::Result;
use entity::history::{log_cursor, score_event};
use entity::standings::standing;

/// The history of the members concerned, up to SQL's cursor.
struct Known {
    history: MembersHistory,
    /// The keys in `standing`, by member and segment, as of the cursor; only for
    /// [`Truth::Standings`].
    rows: BTreeMap<(String, String), StoredValues>,
}

/// A repair of entries of a board in one partition.
pub(super) struct Mending<'a> {
    board: &'a Board,
    truth: Truth<'a>,
    places: &'a Locations,
    known: Option<Known>,
}

impl<'a> Mending<'a> {
    /// A repair that has read nothing yet.
    pub(super) fn new(board: &'a Board, truth: Truth<'a>, places: &'a Locations) -> Self {
        Self { board, truth, places, known: None }
    }
}

impl Follower for Mending<'_> {
    type Outcome = Proposal<usize>;

    fn cursor(&self) -> Option<log_cursor::Model> {
        self.known.as_ref().map(|known| known.history.cursor.clone())
    }

    fn marks(&self, _: Partition<'_>) -> Marks {
        Marks { board: self.board.no, seals: seal_names(self.board), members: vec![], seen: vec![] }
    }

    async fn read_sql(&mut self, partition: Partition<'_>) -> Result<ControlFlow<Proposal<usize>>> {
        self.known = match (self.known.take(), self.truth) {
            (None, _) => self.read(partition).await?,
            (Some(known), Truth::History(_)) => {
                let history = known.history.advance(partition, self.of_members()).await?;
                history.map(|history| Known { history, ..known })
            }
            // Rows of `standing` are read again, all of them.
            (Some(_), Truth::Standings) => None,
        };
        Ok(ControlFlow::Continue(()))
    }

    async fn take_tail(
        &mut self,
        partition: Partition<'_>,
        tail: Tail,
        _: usize,
    ) -> Result<ControlFlow<Proposal<usize>>> {
        let Some(mut known) = self.known.take() else {
            return Ok(ControlFlow::Continue(()));
        };
        if let Truth::History(archived) = self.truth {
            // Read after the head: an archive job writes its mark first and moves the head
            // afterwards.
            archived.mark_now(&partition.db, self.board.no, partition.no).await?;
        }
        tail.board.check(self.board)?;
        let later = known.history.extend(partition, self.board, &tail.commits);
        if later > 0 && matches!(self.truth, Truth::Standings) {
            return Ok(ControlFlow::Continue(()));
        }
        let proposal = self.fold(partition, &tail, &known).await?;
        self.known = Some(known);
        Ok(ControlFlow::Break(proposal))
    }
}

impl Mending<'_> {
    fn members(&self) -> impl Iterator<Item = &str> {
        self.places.keys().filter_map(|bytes| text_of(bytes))
    }

    fn of_members(&self) -> Select<score_event::Entity> {
        score_event::of_members(self.board, self.members())
    }

    /// Reads the members' history up to SQL's cursor. `None` if the cursor moved where it must not.
    async fn read(&self, partition: Partition<'_>) -> Result<Option<Known>> {
        let cursor = partition.settled_cursor().await?;
        let members = self.members().map(|member| (member.to_owned(), vec![]));
        let mut history = MembersHistory { cursor, events: members.collect() };
        let mut rows = BTreeMap::new();
        let archived = match self.truth {
            Truth::History(archived) => archived,
            Truth::Standings => {
                let of_members = standing::Entity::find()
                    .filter(standing::Column::BoardNo.eq(self.board.no.0))
                    .filter(standing::Column::Member.is_in(self.members()));
                for row in of_members.all(&partition.db).await? {
                    let held = StoredValues::of_row(self.board, row.score, row.rank_key);
                    rows.insert((row.member, row.segment), held);
                }
                let is_still = partition.settled_cursor().await? == history.cursor;
                return Ok(is_still.then_some(Known { history, rows }));
            }
        };
        for (member, events) in &mut history.events {
            events.extend(archived.events.get(member).cloned().unwrap_or_default());
        }
        let later = self
            .of_members()
            .filter(home::up_to(self.board, partition.no, history.cursor.seq))
            .filter(score_event::Column::Seq.gt(archived.mark.archived_seq));
        history.add(&partition.db, later).await?;
        Ok(Some(Known { history, rows }))
    }

    /// The writes that repair the locations as of the head of `tail`.
    async fn fold(
        &self,
        partition: Partition<'_>,
        tail: &Tail,
        known: &Known,
    ) -> Result<Proposal<usize>> {
        let seals = seal_names(self.board);
        let (board, keys) = (self.board, partition.store.keys());
        let rolls = Rolls { marks: tail.rolls.clone(), now_ms: partition.clock.now_ms() };
        // Perhaps of another moment: the writes are right at the head, whatever was there.
        let (asked, probe) = probe(partition, board, self.places).await?;
        let (mut writes, mut mended) = (Writes::default(), 0);
        for ((id, asked), found) in asked.iter().zip(probe.doubles) {
            let Ok(period) = id.window.period_named(&id.period, &board.rules.calendar) else {
                continue;
            };
            let Some(doubles) = found.filter(|_| !is_sealed(&seals, tail, id, &period)) else {
                continue;
            };
            let mut set: Vec<(MemberId, RankKey)> = vec![];
            for (bytes, double) in asked.members.iter().zip(doubles) {
                let there = double.map(|double| StoredValues::of_double(board, id.window, double));
                let member = home_member(partition, board, bytes);
                let meant = match &member {
                    Some(member) => self.meant(member, id, &rolls, known)?,
                    None => None,
                };
                let is_on_its_way = there.is_none() && is_on_its_way(board, id, &rolls);
                if there == meant || is_on_its_way {
                    continue;
                }
                match (member, meant) {
                    (Some(member), Some(StoredValues::Key(key, _))) => set.push((member, key)),
                    (_, None) => writes.take_out(&asked.key, bytes),
                    // No key can hold this state, so it cannot be written.
                    _ => continue,
                }
                mended += 1;
            }
            if !set.is_empty() {
                writes.set_entries(&asked.key, &set);
                writes.note_period(keys, partition.no, id, period.present_from_ms);
                mark_new(&mut writes, partition, board, id, &rolls)?;
            }
        }
        Ok(proposal(partition, tail, writes, mended))
    }

    fn meant(
        &self,
        member: &MemberId,
        id: &StandingsId,
        rolls: &Rolls,
        known: &Known,
    ) -> Result<Option<StoredValues>> {
        match self.truth {
            Truth::History(archived) => {
                let events = known.history.of(member.as_str());
                let location = Location::Entry(id.clone());
                let locations = BTreeSet::from([location.clone()]);
                let archived_seq = archived.mark.archived_seq;
                fold(self.board, member.as_str(), events, archived_seq, rolls, &locations)?
                    .held(self.board, &location)
            }
            Truth::Standings => {
                let place = (member.to_string(), id.segment.clone());
                Ok(known.rows.get(&place).copied())
            }
        }
    }
}

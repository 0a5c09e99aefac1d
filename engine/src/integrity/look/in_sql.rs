//! SQL's rows of members on a board at one moment, and the fold of their history.

use std::collections::{BTreeMap, BTreeSet};

use ranking::board::Board;
use ranking::board::State;
use ranking::commit::{Event, EventPlace, voided};
use ranking::fold::replay::Replay;
use ranking::id::{MemberId, PartitionNo};
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::window::roll::Rolls;
use ranking::window::{Period, Window};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};

use super::{ArchivedHistory, Location, Locations, StoredValues, home_member, text_of};
use crate::partition::Partition;
use crate::partition::home::is_up_to;
use entity::archive::{archive_mark, archived_entry};
use entity::error::Result;
use entity::history::score_event;
use entity::standings::{sealed_entry, sealed_period, standing};

/// The most members in one SELECT: SQLite allows 32,766 parameters.
const MEMBERS_MAX: usize = 1000;

/// SQL's rows of members on a board at one moment.
pub(crate) struct InSql {
    pub(crate) archived_seq: i64,
    /// The events of the partition's members in question, archived ones first.
    pub(crate) events: BTreeMap<String, Vec<(EventPlace, Event)>>,
    standings: BTreeMap<(String, String), standing::Model>,
    archived: BTreeMap<(String, String), archived_entry::Model>,
    /// The numbers of the sealed standings in question.
    pub(crate) sealed_nos: BTreeMap<StandingsId, i64>,
    sealed: BTreeMap<(i64, String), sealed_entry::Model>,
    partition: PartitionNo,
}

/// The fold of a member's history.
pub(crate) struct FoldedMember {
    member: Option<MemberId>,
    replay: Replay,
    archived: Replay,
    archived_events: i64,
}

impl InSql {
    /// Reads the rows of all locations.
    pub(crate) async fn read(
        partition: Partition<'_>,
        view: &DatabaseTransaction,
        board: &Board,
        archived: &ArchivedHistory,
        places: &Locations,
    ) -> Result<Self> {
        let mark = archived.mark_now(view, board.no, partition.no).await?;
        let home = |bytes: &Vec<u8>| home_member(partition, board, bytes);
        let members: Vec<String> =
            places.keys().filter_map(home).map(|id| id.to_string()).collect();
        let sealed = places.values().flatten().filter_map(|location| match location {
            Location::Sealed(id) => Some(id),
            _ => None,
        });
        let sealed: BTreeSet<&StandingsId> = sealed.collect();
        let mut periods = BTreeMap::new();
        for id in sealed {
            let period = id.window.period_named(&id.period, &board.rules.calendar)?;
            periods.insert(id.clone(), period);
        }
        let mut read = Self {
            archived_seq: mark.archived_seq,
            events: BTreeMap::new(),
            standings: BTreeMap::new(),
            archived: BTreeMap::new(),
            sealed_nos: sealed_period::numbers(view, &periods).await?,
            sealed: BTreeMap::new(),
            partition: partition.no,
        };
        // A row may name no valid member, or a member whose row has another partition.
        let text = |bytes: &Vec<u8>| text_of(bytes).map(str::to_owned);
        let named: Vec<String> = places.keys().filter_map(text).collect();
        for members in members.chunks(MEMBERS_MAX) {
            read.read_events(view, board, archived, members).await?;
        }
        for members in named.chunks(MEMBERS_MAX) {
            read.read_rows(view, board, &mark, members).await?;
        }
        Ok(read)
    }

    async fn read_events(
        &mut self,
        view: &impl ConnectionTrait,
        board: &Board,
        archived: &ArchivedHistory,
        members: &[String],
    ) -> Result<()> {
        use score_event::Column::{BoardNo, Member, Seq};
        let mut later = score_event::Entity::find()
            .filter(BoardNo.eq(board.no.0))
            .filter(Member.is_in(members.iter().map(String::as_str)))
            .filter(Seq.gt(self.archived_seq))
            .all(view)
            .await?;
        let layout = |row: &score_event::Model| board.layout_of(row.generation.unsigned_abs());
        later.sort_unstable_by_key(|row| (layout(row), row.seq, row.event_index));
        for member in members {
            let events = archived.events.get(member).cloned().unwrap_or_default();
            self.events.insert(member.clone(), events);
        }
        for row in &later {
            let events = self.events.entry(row.member.clone()).or_default();
            events.push((row.place()?, row.to_ranking()?));
        }
        Ok(())
    }

    async fn read_rows(
        &mut self,
        view: &impl ConnectionTrait,
        board: &Board,
        mark: &archive_mark::Model,
        members: &[String],
    ) -> Result<()> {
        let of_them = Condition::all()
            .add(standing::Column::BoardNo.eq(board.no.0))
            .add(standing::Column::Member.is_in(members.iter().map(String::as_str)));
        for row in standing::Entity::find().filter(of_them).all(view).await? {
            let place = (row.member.clone(), row.segment.clone());
            self.standings.insert(place, row);
        }
        let named = members.iter().map(String::as_str);
        self.archived.extend(archived_entry::of_members(view, mark, named).await?);
        let nos: Vec<i64> = self.sealed_nos.values().copied().collect();
        for nos in nos.chunks(MEMBERS_MAX) {
            let of_them = Condition::all()
                .add(sealed_entry::Column::StandingsNo.is_in(nos.iter().copied()))
                .add(sealed_entry::Column::Member.is_in(members.iter().map(String::as_str)));
            for row in sealed_entry::Entity::find().filter(of_them).all(view).await? {
                self.sealed.insert((row.standings_no, row.member.clone()), row);
            }
        }
        Ok(())
    }

    /// The value of the row at a location; `None` if there is no row.
    pub(crate) fn row(
        &self,
        board: &Board,
        member: &[u8],
        location: &Location,
    ) -> Option<StoredValues> {
        let member = String::from_utf8(member.to_vec()).ok()?;
        let is_home = self.events.contains_key(&member);
        let (of_partition, held) = match location {
            Location::Entry(id) => {
                let row = self.standings.get(&(member, id.segment.clone()));
                let row = row.filter(|_| id.window == Window::All)?;
                let held = StoredValues::of_row(board, row.score, row.rank_key);
                (row.partition, Some(held))
            }
            Location::Sealed(id) => {
                let row = self.sealed.get(&(*self.sealed_nos.get(id)?, member))?;
                let key = RankKey::from_i64(row.rank_key);
                let held =
                    key.map_or(StoredValues::Foreign, |key| StoredValues::Key(key, row.score));
                (row.partition, Some(held))
            }
            Location::Archived(segment) => {
                let row = self.archived.get(&(member, segment.clone()))?;
                (row.partition, archived(row.state(), row.events))
            }
        };
        match of_partition == i32::from(self.partition) {
            true => held,
            // If the member belongs to this partition, its row is wrong; otherwise the row belongs
            // elsewhere.
            false => is_home.then_some(StoredValues::Foreign),
        }
    }

    /// The commit that last changed the row at a location; `None` if there is no row.
    pub(crate) fn row_seq(&self, member: &str, location: &Location) -> Option<i64> {
        match location {
            Location::Entry(id) => {
                let place = (member.to_owned(), id.segment.clone());
                self.standings.get(&place).map(|row| row.seq)
            }
            Location::Sealed(id) => {
                let place = (*self.sealed_nos.get(id)?, member.to_owned());
                self.sealed.get(&place).map(|row| row.seq)
            }
            Location::Archived(_) => None,
        }
    }

    /// Folds a member's events up to a seq, for the windows of the locations.
    pub(crate) fn fold(
        &self,
        board: &Board,
        member: &[u8],
        seq: u64,
        rolls: &Rolls,
        locations: &BTreeSet<Location>,
    ) -> Result<FoldedMember> {
        let text = std::str::from_utf8(member).unwrap_or_default();
        let events = self.events.get(text).map_or(&[][..], Vec::as_slice);
        let end = events.partition_point(|event| is_up_to(board, event, seq));
        fold(board, text, &events[..end], self.archived_seq, rolls, locations)
    }
}

/// Folds a member's events, for the windows of the locations.
pub(crate) fn fold(
    board: &Board,
    member: &str,
    events: &[(EventPlace, Event)],
    archived_seq: i64,
    rolls: &Rolls,
    locations: &BTreeSet<Location>,
) -> Result<FoldedMember> {
    let window = |location: &Location| match location {
        Location::Entry(id) | Location::Sealed(id) => id.window,
        Location::Archived(_) => Window::All,
    };
    let windows: BTreeSet<Window> = locations.iter().map(window).collect();
    let mut replay =
        Replay::without(voided(events), rolls.now_ms).rolled(board.no, rolls.clone()).only(windows);
    for (place, event) in events {
        replay.apply(board, *place, event)?;
    }
    let mut archived = Replay::without(voided(events), rolls.now_ms).only([Window::All]);
    let mut archived_events = 0;
    if locations.iter().any(|location| matches!(location, Location::Archived(_))) {
        let seq = archived_seq as u64;
        for (place, event) in events.iter().filter(|(place, _)| place.seq <= seq) {
            archived.apply(board, *place, event)?;
            archived_events += 1;
        }
    }
    Ok(FoldedMember { member: MemberId::new(member).ok(), replay, archived, archived_events })
}

impl FoldedMember {
    /// The value at a location. A state without a key is foreign: accepted history never leads to
    /// it.
    pub(crate) fn held(&self, board: &Board, location: &Location) -> Result<Option<StoredValues>> {
        let Some(member) = &self.member else {
            return Ok(None);
        };
        let id = match location {
            Location::Entry(id) | Location::Sealed(id) => id,
            Location::Archived(segment) => {
                let id = StandingsId::all_time(board, segment.clone());
                let state = self.archived.state_of(&id, member);
                let events = if segment.is_empty() { self.archived_events } else { 0 };
                return Ok(archived(state, events));
            }
        };
        let Some(state) = self.replay.state_of(id, member) else {
            return Ok(None);
        };
        let Ok(period) = id.window.period_named(&id.period, &board.rules.calendar) else {
            return Ok(None);
        };
        Ok(Some(match location {
            Location::Sealed(_) => {
                StoredValues::Key(board.rules.nearest_key(id.window, &period, state), state.score)
            }
            _ => entry_key(board, id, &period, state),
        }))
    }
}

/// The value of a state as an entry in Redis.
fn entry_key(board: &Board, id: &StandingsId, period: &Period, state: State) -> StoredValues {
    match board.rules.key(id.window, period, state) {
        Ok(key) => StoredValues::Key(key, board.rules.layout(id.window).decode(key).0),
        Err(_) => StoredValues::Foreign,
    }
}

/// The value of archived sums; `None` if a segment has nothing, as it then has no row.
fn archived(state: Option<State>, events: i64) -> Option<StoredValues> {
    let has_something = state.is_some() || events != 0;
    has_something.then_some(StoredValues::Archived {
        score: state.map(|state| state.score),
        tick: state.map(|state| state.tick),
        events,
    })
}

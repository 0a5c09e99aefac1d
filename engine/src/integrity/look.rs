//! Compares members' entries: the fold of their history up to a head, Redis at that head, and SQL
//! at one moment.

mod in_sql;

use std::collections::{BTreeMap, BTreeSet};

use ranking::board::Board;
use ranking::commit::{Event, EventPlace};
use ranking::id::{BoardNo, MemberId, PartitionNo};
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::store::scan::integrity::{Asked, Probe};
use ranking::window::Window;
use ranking::window::roll::{Coverage, Rolls};
use ranking::window::seal::NEVER_MS;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};

use crate::partition::Partition;
use entity::archive::archive_mark;
use entity::board;
use entity::error::{Error, Result};
use entity::history::score_event;
use entity::standings::standing;
pub(crate) use in_sql::{InSql, fold};

/// A location where a member's data may differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// The member's entry in standings in Redis; for `all` also its row of `standing`.
    Entry(StandingsId),
    /// The member's row of sealed standings.
    Sealed(StandingsId),
    /// The member's row of `archived_entry` in a segment.
    Archived(String),
}

/// The locations to compare, by member; members are bytes.
pub type Locations = BTreeMap<Vec<u8>, BTreeSet<Location>>;

/// The value that history or a store has at a location.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoredValues {
    /// A key and the raw score in it; in sealed standings the score of the row.
    Key(RankKey, i64),
    /// The sums of archived events, and their number.
    Archived {
        /// The raw score; none if removals or voids left nothing.
        score: Option<i64>,
        /// The time at which the score was reached, in ticks.
        tick: Option<i64>,
        /// The number of events in the row for everyone; otherwise 0.
        events: i64,
    },
    /// A value that is not a key of Laurel, or that contradicts itself.
    Foreign,
}

/// A location, and the values found there.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The member, as bytes.
    pub member: Vec<u8>,
    /// The location.
    pub location: Location,
    /// The value by the history.
    pub history: Option<StoredValues>,
    /// The value in SQL; that of the history where SQL stores none.
    pub sql: Option<StoredValues>,
    /// The value in Redis.
    pub redis: Option<StoredValues>,
}

/// The archived events of members, and a partition's archive mark.
#[derive(Debug, Clone)]
pub struct ArchivedHistory {
    /// The mark when the events were read.
    pub mark: archive_mark::Model,
    /// The events of each member in question, in order.
    pub events: BTreeMap<String, Vec<(EventPlace, Event)>>,
}

impl ArchivedHistory {
    /// The present mark.
    ///
    /// # Errors
    /// `Overtaken` if it has moved since the events were read.
    pub(crate) async fn mark_now(
        &self,
        db: &impl ConnectionTrait,
        board: BoardNo,
        partition: PartitionNo,
    ) -> Result<archive_mark::Model> {
        let mark = archive_mark::of(db, board, partition).await?;
        if mark.archived_seq != self.mark.archived_seq {
            return Err(Error::Overtaken("the board was archived".into()));
        }
        Ok(mark)
    }
}

impl StoredValues {
    /// The value of a double in Redis.
    pub fn of_double(board: &Board, window: Window, double: f64) -> Self {
        RankKey::from_f64(double)
            .map_or(Self::Foreign, |key| Self::Key(key, board.rules.layout(window).decode(key).0))
    }

    /// The value of a row of `standing`; foreign if its score is not the one in its key.
    pub fn of_row(board: &Board, score: i64, rank_key: i64) -> Self {
        match RankKey::from_i64(rank_key) {
            Ok(key) if board.rules.layout(Window::All).decode(key).0 == score => {
                Self::Key(key, score)
            }
            _ => Self::Foreign,
        }
    }

    /// The raw score, if there is one.
    pub fn score(self) -> Option<i64> {
        match self {
            Self::Key(_, score) => Some(score),
            Self::Archived { score, .. } => score,
            Self::Foreign => None,
        }
    }
}

/// The member that bytes name; `None` if they name none, or one of another partition.
pub(crate) fn home_member(
    partition: Partition<'_>,
    board: &Board,
    bytes: &[u8],
) -> Option<MemberId> {
    let member = std::str::from_utf8(bytes).ok()?;
    let member = MemberId::new(member).ok()?;
    let is_home = partition.store.partitions().of_member(board, &member) == partition.no;
    is_home.then_some(member)
}

/// Bytes as text, if a database can store it.
pub(crate) fn text_of(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// True if the period of these standings is sealed or being sealed: Redis may have dropped it.
pub fn is_sealing(board: &Board, id: &StandingsId) -> bool {
    let sealing_before_ms = board.sealed(id.window).sealing_before_ms;
    if sealing_before_ms == NEVER_MS {
        return false;
    }
    let period = id.window.period_named(&id.period, &board.rules.calendar);
    period.is_ok_and(|period| period.present_from_ms < sealing_before_ms)
}

/// True if standings are being prepared for the next period: members without an entry may still be
/// carried.
pub(crate) fn is_on_its_way(board: &Board, id: &StandingsId, rolls: &Rolls) -> bool {
    let calendar = &board.rules.calendar;
    let period = id.window.period_named(&id.period, calendar);
    let reach = period.and_then(|period| rolls.reach(id, &period, calendar));
    id.window.rolling().is_some() && reach == Ok(Coverage::Partial)
}

/// The sorted sets of entries in Redis, with the members that were looked up, and what Redis had at
/// one moment.
pub(crate) async fn probe(
    partition: Partition<'_>,
    board: &Board,
    places: &Locations,
) -> Result<(Vec<(StandingsId, Asked)>, Probe)> {
    let mut by_standings: BTreeMap<&StandingsId, Vec<Vec<u8>>> = BTreeMap::new();
    for (member, locations) in places {
        for location in locations {
            if let Location::Entry(id) = location {
                by_standings.entry(id).or_default().push(member.clone());
            }
        }
    }
    let keys = partition.store.keys();
    let asked = |(id, members): (&StandingsId, Vec<Vec<u8>>)| {
        let key = keys.standings(partition.no, id);
        (id.clone(), Asked { key, members })
    };
    let asked: Vec<_> = by_standings.into_iter().map(asked).collect();
    let sets: Vec<Asked> = asked.iter().map(|(_, asked)| asked.clone()).collect();
    let probe = partition.store.probe(partition.no, board.no, &sets).await?;
    Ok((asked, probe))
}

/// Compares locations of a partition at one moment, and folds their members' history up to that
/// moment. Returns the locations that differ.
///
/// # Errors
/// `Overtaken` if the board was archived since `archived` was read, or moved to another number of
/// shards.
pub async fn look(
    partition: Partition<'_>,
    board: &Board,
    archived: &ArchivedHistory,
    places: &Locations,
) -> Result<Vec<Observation>> {
    partition.settle().await?;
    let (asked, probe) = probe(partition, board, places).await?;
    let rolls = Rolls { marks: probe.rolls, now_ms: partition.clock.now_ms() };
    partition.settle_to(probe.head.seq).await?;
    let mut doubles: BTreeMap<(&StandingsId, &[u8]), f64> = BTreeMap::new();
    for ((id, asked), found) in asked.iter().zip(probe.doubles) {
        for (member, double) in asked.members.iter().zip(found.unwrap_or_default()) {
            if let Some(double) = double {
                doubles.insert((id, member), double);
            }
        }
    }
    // Periods sealed since then are not in Redis; the row says so before Redis does.
    let later = board::Entity::find_by_id(board.no.0).one(&partition.db).await?;
    let later = later.map_or_else(|| Ok(board.clone()), |row| row.to_ranking())?;
    if later.layouts != board.layouts {
        return Err(Error::Overtaken(format!(
            "board {} moved to another number of shards",
            board.no
        )));
    }
    let view = partition.view().await?;
    let in_sql = InSql::read(partition, &view, board, archived, places).await;
    view.rollback().await?;
    let in_sql = in_sql?;
    let mut seen = vec![];
    for (member, locations) in places {
        let folded = in_sql.fold(board, member, u64::MAX, &rolls, locations)?;
        let then = in_sql.fold(board, member, probe.head.seq, &rolls, locations)?;
        for location in locations {
            let now = folded.held(board, location)?;
            let sql = in_sql.row(board, member, location);
            let seen_here = match location {
                Location::Entry(id) if is_sealing(&later, id) => continue,
                Location::Entry(id) => {
                    let redis = doubles.get(&(id, member.as_slice()));
                    let redis =
                        redis.map(|&double| StoredValues::of_double(board, id.window, double));
                    let mut history = then.held(board, location)?;
                    if redis.is_none() && is_on_its_way(board, id, &rolls) {
                        history = None;
                    }
                    // SQL's row is right if it equals the fold of SQL's whole history.
                    let is_right = id.window != Window::All || sql == now;
                    let sql = if is_right { history } else { sql };
                    (history, sql, redis)
                }
                Location::Sealed(_) | Location::Archived(_) => (now, sql, now),
            };
            let (history, sql, redis) = seen_here;
            if history != sql || history != redis {
                let (member, location) = (member.clone(), location.clone());
                let redis = redis.filter(|_| matches!(location, Location::Entry(_)));
                seen.push(Observation { member, location, history, sql, redis });
            }
        }
    }
    Ok(seen)
}

/// The most reads of locations whose members keep playing; then they are skipped.
const LOOKS_MAX: usize = 20;

/// As [`look`], but takes the rows of `standing` as the truth. Returns locations of `all` where
/// Redis and SQL differ.
pub async fn look_at_standings(
    partition: Partition<'_>,
    board: &Board,
    places: &Locations,
) -> Result<Vec<Observation>> {
    let (mut seen, mut left) = (vec![], places.clone());
    for _ in 0..LOOKS_MAX {
        if left.is_empty() {
            break;
        }
        partition.settle().await?;
        let (asked, probe) = probe(partition, board, &left).await?;
        partition.settle().await?;
        let named: Vec<&str> = left.keys().filter_map(|bytes| text_of(bytes)).collect();
        let view = partition.view().await?;
        let rows = standing::of_members(&view, board.no.0, &named).await?;
        // Read after the rows: a member that played after the head may have a newer row.
        use score_event::Column::{BoardNo, Member, Partition as In, Seq};
        let later = score_event::Entity::find()
            .filter(In.eq(i32::from(partition.no)))
            .filter(Seq.gt(probe.head.seq as i64))
            .filter(BoardNo.eq(board.no.0))
            .filter(Member.is_in(named))
            .all(&view)
            .await?;
        view.rollback().await?;
        let later: BTreeSet<Vec<u8>> =
            later.into_iter().map(|row| row.member.into_bytes()).collect();
        let held = |row: standing::Model| {
            let held = match row.partition == i32::from(partition.no) {
                true => StoredValues::of_row(board, row.score, row.rank_key),
                false => StoredValues::Foreign,
            };
            ((row.segment, row.member.into_bytes()), held)
        };
        let rows: BTreeMap<(String, Vec<u8>), StoredValues> = rows.into_iter().map(held).collect();
        for ((id, asked), doubles) in asked.iter().zip(probe.doubles) {
            let doubles = doubles.unwrap_or_else(|| vec![None; asked.members.len()]);
            for (member, double) in asked.members.iter().zip(doubles) {
                let sql = rows.get(&(id.segment.clone(), member.clone())).copied();
                let redis = double.map(|double| StoredValues::of_double(board, id.window, double));
                if sql != redis && !later.contains(member) {
                    seen.push(Observation {
                        member: member.clone(),
                        location: Location::Entry(id.clone()),
                        history: sql,
                        sql,
                        redis,
                    });
                }
            }
        }
        left.retain(|member, _| later.contains(member));
    }
    Ok(seen)
}

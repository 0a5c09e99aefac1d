//! One pipeline of reads over shards, checked against the marks of their partitions.

use redis::{FromRedisValue, Pipeline};

use super::{Range, RankedEntry, Standings};
use crate::error::{Error, Result};
use crate::id::MemberId;
use crate::score::rank_key::RankKey;
use crate::standings_id::StandingsId;
use crate::store::marks::layout_field;
use crate::store::{Store, decode};
use crate::window::roll::RollMark;
use crate::window::seal::{SealMark, SealName};

/// The direction of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From a place forward.
    Forward,
    /// Backward from a place; entries come in reverse.
    Backward,
}

/// A pipeline of reads of one period's standings and of the heads of its partitions.
pub(crate) struct Reads<'a> {
    store: &'a Store,
    standings: &'a Standings,
    pub(crate) pipe: Pipeline,
    /// True if it reads the list of periods instead of one period.
    lists: bool,
}

impl<'a> Reads<'a> {
    pub(crate) fn new(store: &'a Store, standings: &'a Standings) -> Self {
        let mut pipe = redis::pipe();
        for &partition in &standings.partitions {
            pipe.cmd("GET").arg(store.keys().head(partition));
        }
        if standings.id.window.rolling().is_some() {
            for &partition in &standings.partitions {
                pipe.cmd("HGET")
                    .arg(store.keys().rolls(partition, standings.id.board))
                    .arg(standings.id.series());
            }
        }
        Self { store, standings, pipe, lists: false }
    }

    pub(crate) fn range(&mut self, shard: usize, start: u64, count: u64) {
        let key = self.standings.key(self.store, shard);
        self.pipe.cmd("ZRANGE").arg(key).arg(start).arg(start + count - 1).arg("WITHSCORES");
    }

    /// The entries next to a place, in one direction, and the number of entries before it: a
    /// script.
    pub(crate) fn page(&mut self, shard: usize, place: &RankedEntry, way: Way, count: usize) {
        let key = self.standings.key(self.store, shard);
        let way = match way {
            Way::Forward => "FORWARD",
            Way::Backward => "BACKWARD",
        };
        self.pipe
            .cmd("EVALSHA")
            .arg(self.store.inner.scripts.page.get_hash())
            .arg(1)
            .arg(key)
            .arg(place.key.to_redis())
            .arg(place.member.as_str())
            .arg(way)
            .arg(count);
    }

    /// The entries around places that come in order, and the number of entries before each: a
    /// script.
    pub(crate) fn around<'p>(
        &mut self,
        shard: usize,
        [above, on]: [usize; 2],
        places: impl Iterator<Item = &'p RankedEntry>,
    ) {
        let script = &self.store.inner.scripts.around;
        let key = self.standings.key(self.store, shard);
        let command = self.pipe.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(key);
        command.arg(above).arg(on);
        for place in places {
            command.arg(place.key.to_redis()).arg(place.member.as_str());
        }
    }

    /// The entries around members of the only shard, and the position of the first of them, at one
    /// moment: a script.
    pub(crate) fn neighbors(&mut self, [above, on]: [usize; 2], members: &[MemberId]) {
        let script = &self.store.inner.scripts.neighbors;
        let key = self.standings.key(self.store, 0);
        let command = self.pipe.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(key);
        command.arg(above).arg(on);
        for member in members {
            command.arg(member.as_str());
        }
    }

    /// One `EXISTS` of a shard of these standings in some other periods.
    pub(crate) fn exist_all<'l>(&mut self, shard: usize, labels: impl Iterator<Item = &'l String>) {
        self.lists = true;
        let partition = self.standings.partitions[shard];
        let command = self.pipe.cmd("EXISTS");
        for label in labels {
            let id = StandingsId { period: label.clone(), ..self.standings.id.clone() };
            command.arg(self.store.keys().standings(partition, &id));
        }
    }

    /// An `EXISTS` for each shard of these standings in another period.
    pub(crate) fn exist(&mut self, label: &str) {
        self.lists = true;
        let id = StandingsId { period: label.to_owned(), ..self.standings.id.clone() };
        for &partition in &self.standings.partitions {
            self.pipe.cmd("EXISTS").arg(self.store.keys().standings(partition, &id));
        }
    }

    pub(crate) fn periods(&mut self, shard: usize, range: Range, count: usize) {
        let partition = self.standings.partitions[shard];
        self.lists = true;
        let command =
            self.pipe.cmd("ZRANGE").arg(self.store.keys().periods(partition, &self.standings.id));
        match range {
            Range::Before(start_ms) => command.arg(format!("({start_ms}")).arg("-inf"),
            Range::After(start_ms) => command.arg(format!("({start_ms}")).arg("+inf"),
        };
        command.arg("BYSCORE");
        if matches!(range, Range::Before(_)) {
            command.arg("REV");
        }
        command.arg("LIMIT").arg(0).arg(count).arg("WITHSCORES");
    }

    /// The number of entries before each of some places that come in order: a script.
    pub(crate) fn count_before<'p>(
        &mut self,
        shard: usize,
        places: impl Iterator<Item = &'p RankedEntry>,
    ) {
        let script = &self.store.inner.scripts.count_before;
        let key = self.standings.key(self.store, shard);
        let command = self.pipe.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(key);
        for place in places {
            command.arg(place.key.to_redis()).arg(place.member.as_str());
        }
    }

    /// The keys and ranks of members of a shard, at one moment: a script.
    pub(crate) fn ranks<'p>(&mut self, shard: usize, members: impl Iterator<Item = &'p MemberId>) {
        let script = &self.store.inner.scripts.rank;
        let key = self.standings.key(self.store, shard);
        let command = self.pipe.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(key);
        for member in members {
            command.arg(member.as_str());
        }
    }

    pub(crate) async fn send<T: FromRedisValue>(mut self) -> Result<Vec<T>> {
        let seal = self.standings.id.seal_name();
        let no = self.standings.id.board;
        let moved = || Error::BoardMoved(no.0);
        let layout_since = self.standings.layout_since.ok_or_else(moved)?;
        // Last: if a period was dropped before one of the reads above, this one sees its mark.
        for &partition in &self.standings.partitions {
            let marks = self.store.keys().board_marks(partition);
            let command = self.pipe.cmd("HMGET").arg(marks).arg(layout_field(no));
            command.arg(seal.map(SealName::field));
        }
        let mut answered = self.store.read_many(&self.pipe).await?;
        let mut answers = std::mem::take(&mut answered.values);
        let shards = self.standings.partitions.len();
        let last_marks = answers.split_off(answers.len() - shards);
        let mut rest = answers.split_off(shards);
        let marks = match self.standings.id.window.rolling() {
            Some(_) => {
                let answers = rest.split_off(shards);
                std::mem::replace(&mut rest, answers)
            }
            None => vec![],
        };
        for (shard, head) in answers.into_iter().enumerate() {
            let head: Option<String> = decode(Some(head))?;
            let partition = self.standings.partitions[shard];
            self.store.check_level(partition, head.as_deref(), answered.run_id(shard))?;
        }
        for mark in marks {
            let mark: Option<String> = decode(Some(mark))?;
            let mark = mark.as_deref().map(RollMark::parse).transpose()?;
            self.standings.check_rolled(mark)?;
        }
        for marks in last_marks {
            let marks: Vec<Option<String>> = decode(Some(marks))?;
            let layout = marks.first().and_then(Option::as_deref);
            let layout: u32 = layout.map_or(Ok(1), str::parse).map_err(|_| {
                Error::corrupt(format!("the layout of board {no} is not a generation"))
            })?;
            if layout != layout_since {
                return Err(moved());
            }
            let mark = marks.get(1).and_then(Option::as_deref);
            let dropped_before_ms = SealMark::parse(mark)?.dropped_before_ms;
            let is_gone = match self.lists {
                true => self.standings.sealed_before_ms < dropped_before_ms,
                false => self.standings.period.present_from_ms < dropped_before_ms,
            };
            if is_gone {
                return Err(Error::Sealed(dropped_before_ms));
            }
        }
        rest.into_iter().map(|answer| decode(Some(answer))).collect()
    }
}

pub(crate) fn ranked_entries(entries: Vec<(String, f64)>) -> Result<Vec<RankedEntry>> {
    let foreign =
        |name: &str| Error::corrupt(format!("a sorted set holds {name:?}, which is not a member"));
    let place = |(name, double): (String, f64)| {
        let member = MemberId::new(&name).map_err(|_| foreign(&name))?;
        Ok(RankedEntry { key: RankKey::from_f64(double)?, member })
    };
    entries.into_iter().map(place).collect()
}

/// The indices of items by the shard of their member; shards without items are left out.
pub(crate) fn group_by_shard<T>(
    standings: &Standings,
    items: &[T],
    member: impl Fn(&T) -> &MemberId,
) -> Vec<(usize, Vec<usize>)> {
    let mut groups: Vec<(usize, Vec<usize>)> =
        (0..standings.partitions.len()).map(|shard| (shard, vec![])).collect();
    for (index, item) in items.iter().enumerate() {
        groups[standings.shard(member(item))].1.push(index);
    }
    groups.retain(|(_, indices)| !indices.is_empty());
    groups
}

//! The metadata of entries: that of the events which made them.
//!
//! No standings hold it. An entry's key has its score and its tick, and these lead to the event in
//! the history: first in the end of the log that SQL may not have yet, then in SQL. So what an
//! entry shows follows from the history, whatever was rebuilt, restored, moved or sealed since.
//! Keys of decaying windows have no tick; they count all events, as "all" does, so the entry there
//! leads to the event.

use std::collections::{BTreeSet, HashMap, HashSet};

use entity::error::Result;
use entity::history::makers::{Events, MemberTime, amendments, with_metadata};
use futures::FutureExt;
use ranking::board::{Board, Policy};
use ranking::commit::{Event, EventKind, EventPlace};
use ranking::id::MemberId;
use ranking::metadata::{Maker, Metadata};
use ranking::standings_id::StandingsId;
use ranking::store::read::{RankedEntry, Standings};
use ranking::window::Period;

use super::reader::Reader;

/// An entry whose event is looked for.
struct Sought<'a> {
    member: &'a MemberId,
    from_ms: i64,
    until_ms: i64,
    /// The score of the event; `None` where scores add up.
    score: Option<i64>,
}

impl Reader {
    /// The metadata of entries of some standings of a board, in their order; `None` for an entry
    /// that was made by an event without metadata, or by one that was taken back since. A round
    /// trip to Redis for each partition of their members, and four SELECTs for each 100 entries.
    ///
    /// # Errors
    /// `Unavailable` if SQL does not answer, or is far behind.
    pub async fn metadata(
        &self,
        board: &Board,
        standings: &Standings,
        entries: &[RankedEntry],
    ) -> Result<Vec<Option<Metadata>>> {
        if !board.has_metadata || entries.is_empty() {
            return Ok(vec![None; entries.len()]);
        }
        if standings.id.window.half_life().is_none() {
            return self.metadata_by_time(board, standings, entries).await;
        }
        let id = StandingsId::all_time(board, standings.id.segment.clone());
        let all_time = Standings::new(&self.deployment.store, board, id, Period::all());
        let members: Vec<MemberId> = entries.iter().map(|entry| entry.member.clone()).collect();
        let keys = self.rank_keys(&all_time, &members).await?;
        let there = keys.iter().zip(members);
        let there: Vec<RankedEntry> =
            there.filter_map(|(key, member)| Some(RankedEntry { key: (*key)?, member })).collect();
        let mut found = self.metadata_by_time(board, &all_time, &there).await?.into_iter();
        Ok(keys.iter().map(|key| key.and_then(|_| found.next().flatten())).collect())
    }

    /// As [`Self::metadata`], of entries whose keys have their ticks.
    async fn metadata_by_time(
        &self,
        board: &Board,
        standings: &Standings,
        entries: &[RankedEntry],
    ) -> Result<Vec<Option<Metadata>>> {
        let sought: Vec<Sought<'_>> =
            entries.iter().map(|entry| sought(board, standings, entry)).collect();
        // The log before SQL: an event is in one of them at least.
        let mut known = self.recent(standings, &sought).await?;
        let db = &self.deployment.reads;
        let each_once: BTreeSet<&str> = sought.iter().map(|of| of.member.as_str()).collect();
        let members: Vec<&str> = each_once.into_iter().collect();
        let asked: Vec<MemberTime<'_>> = sought.iter().map(Sought::asked).collect();
        known.extend(amendments(db, board.no, &members).await?);
        known.extend(with_metadata(db, board.no, &asked).await?);
        let histories = Histories::of(board, known);
        Ok(sought.iter().map(|of| histories.maker(&standings.id.segment, of)).collect())
    }

    /// The events of members in the log that may be looked for; none where SQL has all that count.
    async fn recent(&self, standings: &Standings, sought: &[Sought<'_>]) -> Result<Events> {
        if standings.is_sealed() {
            return Ok(vec![]);
        }
        let members: BTreeSet<MemberId> = sought.iter().map(|of| of.member.clone()).collect();
        let read = self.read_redis(standings, |store, now| {
            let (tails, members) = (&self.tails, &members);
            async move {
                let events = tails.events(store, &now, members).await?;
                // A log does not say that the board has moved elsewhere.
                store.size(&now).await?;
                Ok(events)
            }
            .boxed()
        });
        match read.await {
            Ok(Ok(events)) => Ok(events),
            // The period was sealed a moment ago.
            Ok(Err(_)) => Ok(vec![]),
            // SQL alone answers while Redis is away.
            Err(error) => self.fallback_for(error).map(|_| vec![]),
        }
    }
}

/// The tick of an entry, within its period.
fn sought<'a>(board: &Board, standings: &Standings, entry: &'a RankedEntry) -> Sought<'a> {
    let (rules, period) = (&board.rules, &standings.period);
    let state = rules.state(standings.id.window, period, entry.key);
    let tick_ms = i64::from(rules.tick_ms);
    let until_ms = (state.tick + 1) * tick_ms;
    Sought {
        member: &entry.member,
        score: (rules.policy != Policy::Sum).then_some(state.score),
        from_ms: (state.tick * tick_ms).max(period.start_ms),
        until_ms: period.end_ms.map_or(until_ms, |end_ms| until_ms.min(end_ms)),
    }
}

impl Sought<'_> {
    fn asked(&self) -> MemberTime<'_> {
        let Self { member, from_ms, until_ms, score, .. } = *self;
        MemberTime { member: member.as_str(), from_ms, until_ms, score }
    }
}

/// The events of some members that may have made entries, and what takes events back.
struct Histories<'b> {
    board: &'b Board,
    voided: HashSet<EventPlace>,
    events: HashMap<MemberId, Events>,
}

impl<'b> Histories<'b> {
    fn of(board: &'b Board, known: Events) -> Self {
        let mut histories = Self { board, voided: HashSet::new(), events: HashMap::new() };
        let mut seen = HashSet::new();
        // The log and SQL may both have an event.
        for (place, event) in known.into_iter().filter(|(place, _)| seen.insert(*place)) {
            if let EventKind::Void { target } = event.kind {
                histories.voided.insert(target);
            } else {
                histories.events.entry(event.member.clone()).or_default().push((place, event));
            }
        }
        histories
    }

    /// The metadata of the event that made an entry of a segment.
    fn maker(&self, segment: &str, of: &Sought<'_>) -> Option<Metadata> {
        let rules = &self.board.rules;
        let events = self.events.get(of.member)?;
        let events = || events.iter().filter(|(place, _)| !self.voided.contains(place));
        let removed = events()
            .filter(|(_, event)| event.kind == EventKind::Removal)
            .map(|of| self.order(of))
            .max();
        let makers = events().filter_map(|of_member| {
            let event = &of_member.1;
            let EventKind::Score { score, at_ms, .. } = event.kind else { return None };
            let counts = (of.from_ms..of.until_ms).contains(&at_ms)
                && of.score.is_none_or(|sought| score == sought)
                && (segment.is_empty() || event.segments.iter().any(|one| one == segment))
                && removed.is_none_or(|removed| self.order(of_member) > removed);
            let metadata = event.metadata.clone().filter(|_| counts)?;
            Some(Maker { at_ms, metadata })
        });
        let maker = makers.reduce(|one, other| match rules.is_made_by(&other, &one) {
            true => other,
            false => one,
        });
        maker.map(|maker| maker.metadata)
    }

    /// The place of an event in the history of its member.
    fn order(&self, (place, event): &(EventPlace, Event)) -> (usize, u64, u32) {
        (self.board.layout_of(event.generation), place.seq, place.index)
    }
}

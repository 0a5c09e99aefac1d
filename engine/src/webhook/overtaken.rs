//! Members who were overtaken, told to the webhooks that ask for them, each within its circle.
//!
//! ```text
//! heads ──> circles that are due ──> a look: the entries of the circle
//!                                      │  compared with the order of the last look
//!                                      ▼
//!                       one transaction: the new order, and an event for each who was overtaken
//! ```
//!
//! The order of a circle is replaced by compare-and-set, in the transaction that writes the events.
//! So each pass is told once, however many processes look, and however they end. A look sees the
//! difference to the last one and not the way there: those who pass each other in between and back
//! are not told.
//!
//! A merge copies a member's scores before it removes the member. A look at both would take the
//! copy for a newcomer that passes others, so a circle with a source waits until the copies are
//! made.

mod order;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use entity::board;
use entity::error::Result;
use entity::member::merge;
use entity::sql::begin;
use entity::webhook::Kind;
use entity::webhook::circle::{self, Extent, Sign, StoredPlace};
use entity::webhook::outbox::{Notice, tell_one};
use futures::stream::{self, StreamExt};
use ranking::commit::Head;
use ranking::id::{MemberId, PartitionNo};
use ranking::score::format_in;
use ranking::score::rank_key::RankKey;
use ranking::shown_instant;
use ranking::store::read::{RankedEntry, Standings};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::order::{Moved, Overtaken, Place, compare};
use super::ended::READ_TIMEOUT;
use crate::board::agenda::Agenda;
use crate::deployment::Deployment;
use crate::failpoint;
use crate::read::choice::{Choice, PeriodChoice};
use crate::read::reader::Reader;

pub use self::order::OVERTAKERS_MAX;

/// The circles that are looked at side by side.
const CIRCLES_AT_ONCE: usize = 8;

/// How long a process leaves a circle to another one that was first.
const LEAD_PAUSE: Duration = Duration::from_secs(5);

/// The looks of one process: for each webhook, how its circle was found the last time.
#[derive(Debug, Default)]
pub struct Looks(Mutex<HashMap<String, Seen>>);

/// A circle as it was found.
#[derive(Debug, Clone)]
struct Seen {
    /// The version of its row after the look.
    version: i64,
    /// The heads of the board's partitions before it.
    heads: Vec<(PartitionNo, Head)>,
    /// The end of the period, in Unix milliseconds.
    end_ms: Option<i64>,
    /// Until when another process looks at it.
    left_until: Option<Instant>,
}

/// The heads of all partitions at one moment.
type Heads = Vec<ranking::Result<Head>>;

impl Looks {
    /// Looks at the circles whose boards have moved since the last look, and tells of those who
    /// were overtaken. Looks at nothing unless a webhook has a circle.
    ///
    /// # Errors
    /// If SQL fails, or the last circle that failed. It does not stop the others.
    pub async fn tell(&self, deployment: &Deployment, agenda: &Agenda, now_ms: i64) -> Result<()> {
        if agenda.signs().circles == 0 {
            self.lock().clear();
            return Ok(());
        }
        let signs = circle::signs(&deployment.db).await?;
        let Ok(heads) = &deployment.store.for_reads().heads().await else { return Ok(()) };
        self.lock().retain(|webhook, _| signs.iter().any(|sign| sign.webhook == *webhook));
        let due: Vec<Sign> =
            signs.into_iter().filter(|sign| self.is_due(sign, heads, now_ms)).collect();
        if due.is_empty() {
            return Ok(());
        }
        let numbers: BTreeSet<i64> = due.iter().map(|sign| sign.board_no).collect();
        let numbers: Vec<i64> = numbers.into_iter().collect();
        let boards = &board::living_of_numbers(&deployment.db, &numbers).await?;
        let reader = &Reader::new(deployment, READ_TIMEOUT);
        let failed = Mutex::new(None);
        let looking = stream::iter(due).for_each_concurrent(CIRCLES_AT_ONCE, async |sign| {
            let Some(row) = boards.get(&sign.board_no) else { return };
            let look = Look { deployment, reader, row, heads, now_ms };
            match look.at(&sign).await {
                Ok(Some(seen)) => drop(self.lock().insert(sign.webhook, seen)),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(webhook = sign.webhook, %error, "a look at a circle waits");
                    failed.lock().unwrap_or_else(PoisonError::into_inner).replace(error);
                }
            }
        });
        looking.await;
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// True if a circle may be another one than the last look of this process left, and no other
    /// process looks at it.
    fn is_due(&self, sign: &Sign, heads: &Heads, now_ms: i64) -> bool {
        let mut all = self.lock();
        let Some(seen) = all.get_mut(&sign.webhook) else { return true };
        if seen.left_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        if seen.left_until.take().is_some() && seen.version != sign.version {
            seen.version = sign.version;
            seen.left_until = Some(Instant::now() + LEAD_PAUSE);
            return false;
        }
        let same = |(no, head): &(PartitionNo, Head)| {
            heads
                .get(usize::from(no.0))
                .is_some_and(|now| now.as_ref().is_ok_and(|now| now == head))
        };
        let is_over = seen.end_ms.is_some_and(|end_ms| now_ms >= end_ms);
        seen.version != sign.version || is_over || !seen.heads.iter().all(same)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entries of a circle, compared with those of the last look.
enum Found {
    Same,
    /// The scores of one of its members are being copied to another one.
    BeingMerged,
    /// Its entries in their order, then those of before that left it and are in the standings
    /// still, and the number of the former.
    Changed(Vec<Place>, usize),
}

/// One look at a circle of a board.
struct Look<'a> {
    deployment: &'a Deployment,
    reader: &'a Reader,
    row: &'a board::Model,
    heads: &'a Heads,
    now_ms: i64,
}

impl Look<'_> {
    /// Looks at a circle. Returns how it was found; `None` if it cannot be looked at now.
    async fn at(&self, sign: &Sign) -> Result<Option<Seen>> {
        let db = &self.deployment.db;
        let Some(row) = circle::find(db, &sign.webhook).await? else { return Ok(None) };
        let Some(standings) = self.standings(&row)? else { return Ok(None) };
        let Some(heads) = self.heads_of(&standings) else { return Ok(None) };
        let end_ms = standings.period.end_ms;
        let seen = |version, left_until| Some(Seen { version, heads, end_ms, left_until });
        let name = standings.id.to_string();
        let before = row.places_of(&name)?.map(places).transpose()?;
        let extent = row.circle()?.extent;
        let (now, in_circle) = match self.read(&standings, &extent, before.as_deref()).await? {
            Found::Same => return Ok(seen(row.version, None)),
            Found::BeingMerged => return Ok(None),
            Found::Changed(now, in_circle) => (now, in_circle),
        };
        let notices: Vec<Notice> = compare(before.as_deref().unwrap_or_default(), &now)
            .iter()
            .map(|overtaken| self.notice(&standings, overtaken))
            .collect();
        failpoint::hit("overtaken-looked");
        let transaction = begin(db).await?;
        let stored: Vec<StoredPlace> = now[..in_circle].iter().map(stored).collect();
        if !circle::settle(&transaction, &row, &name, &stored).await? {
            transaction.rollback().await?;
            return Ok(seen(row.version, Some(Instant::now() + LEAD_PAUSE)));
        }
        failpoint::hit("overtaken-settled");
        tell_one(&transaction, &notices, &row.webhook).await?;
        transaction.commit().await?;
        failpoint::hit("overtaken-told");
        Ok(seen(row.version + 1, None))
    }

    /// The present standings of a circle; `None` while there are none, as between two seasons.
    fn standings(&self, row: &circle::Model) -> Result<Option<Standings>> {
        let board = self.row.to_ranking()?;
        let choice = Choice {
            window: row.window.parse()?,
            period: PeriodChoice::Present,
            segment: row.segment.clone(),
        };
        let attributes = self.row.segment_attributes()?;
        let Ok((id, period)) = choice.resolve(&board, &self.row.slug, &attributes, self.now_ms)
        else {
            return Ok(None);
        };
        Ok(Some(Standings::new(&self.deployment.store, &board, id, period)))
    }

    /// The heads of the partitions of standings; `None` if one is not level.
    fn heads_of(&self, standings: &Standings) -> Option<Vec<(PartitionNo, Head)>> {
        let head = |no: &PartitionNo| {
            let head = self.heads.get(usize::from(no.0))?.as_ref().ok()?;
            Some((*no, head.clone()))
        };
        standings.partitions().iter().map(head).collect()
    }

    /// Reads a circle until it was read after all merges of its members.
    async fn read(
        &self,
        standings: &Standings,
        extent: &Extent,
        before: Option<&[Place]>,
    ) -> Result<Found> {
        let mut known = 0;
        loop {
            let Some((now, in_circle)) = self.read_once(standings, extent, before).await? else {
                return Ok(Found::Same);
            };
            let all = before.unwrap_or_default().iter().chain(&now);
            let members: BTreeSet<&MemberId> =
                all.filter_map(|place| place.member.as_ref()).collect();
            let members = members.into_iter().map(MemberId::as_str);
            let merges = merge::of_any(&self.deployment.db, members).await?;
            if merges.iter().any(|merge| merge.step == merge::Step::Decided) {
                return Ok(Found::BeingMerged);
            }
            // Of a merge that is news, this read may have seen a part.
            if merges.len() == known {
                return Ok(Found::Changed(now, in_circle));
            }
            known = merges.len();
        }
    }

    /// The present entries of a circle in their order, then those of before that left it and are
    /// in the standings still, and the number of the former; `None` if nothing has changed.
    async fn read_once(
        &self,
        standings: &Standings,
        extent: &Extent,
        before: Option<&[Place]>,
    ) -> Result<Option<(Vec<Place>, usize)>> {
        match extent {
            Extent::Top(top) => {
                let top = *top as usize;
                let entries = self.reader.forward_from(standings, 0, top).await?;
                if before.is_some_and(|before| are_same(before, &entries)) {
                    return Ok(None);
                }
                self.top(standings, top, entries, before.unwrap_or_default()).await.map(Some)
            }
            Extent::Group(members) => self.group(standings, members, before).await,
        }
    }

    async fn top(
        &self,
        standings: &Standings,
        top: usize,
        entries: Vec<RankedEntry>,
        before: &[Place],
    ) -> Result<(Vec<Place>, usize)> {
        let here: BTreeSet<&MemberId> = entries.iter().map(|entry| &entry.member).collect();
        let left = before.iter().filter_map(|place| place.member.as_ref());
        let left: Vec<MemberId> = left.filter(|key| !here.contains(key)).cloned().collect();
        let found = self.reader.find(standings, &left).await?.into_iter().flatten();
        let mut all: Vec<(RankedEntry, u64)> = found.collect();
        all.extend(entries.into_iter().map(|entry| (entry, 0)));
        // One that left may have come back since the others were read.
        all.sort_unstable();
        let placed = all.into_iter().enumerate().map(|(index, (entry, position))| {
            let rank = match index < top {
                true => index as u64 + 1,
                false => position.max(top as u64) + 1,
            };
            Place { member: Some(entry.member), key: entry.key, rank }
        });
        let now: Vec<Place> = placed.collect();
        let in_circle = now.len().min(top);
        Ok((now, in_circle))
    }

    async fn group(
        &self,
        standings: &Standings,
        members: &[String],
        before: Option<&[Place]>,
    ) -> Result<Option<(Vec<Place>, usize)>> {
        let members: Vec<MemberId> =
            members.iter().map(|key| MemberId::new(key)).collect::<ranking::Result<_>>()?;
        if let Some(before) = before {
            let keys = self.reader.rank_keys(standings, &members).await?;
            let entry = |(member, key): (&MemberId, Option<RankKey>)| {
                Some(RankedEntry { key: key?, member: member.clone() })
            };
            let mut entries: Vec<RankedEntry> =
                members.iter().zip(keys).filter_map(entry).collect();
            entries.sort_unstable();
            if are_same(before, &entries) {
                return Ok(None);
            }
        }
        let found = self.reader.find(standings, &members).await?.into_iter().flatten();
        let mut found: Vec<(RankedEntry, u64)> = found.collect();
        found.sort_unstable();
        let placed = found.into_iter().map(|(entry, position)| Place {
            member: Some(entry.member),
            key: entry.key,
            rank: position + 1,
        });
        let now: Vec<Place> = placed.collect();
        let in_circle = now.len();
        Ok(Some((now, in_circle)))
    }

    /// The event of a member that was overtaken.
    fn notice(&self, standings: &Standings, overtaken: &Overtaken) -> Notice {
        let (id, period, rules) = (&standings.id, &standings.period, &standings.rules);
        let shown = |moved: &Moved| {
            let score = rules.state(id.window, period, moved.key).score;
            json!({
                "member": moved.member.as_str(),
                "score": format_in(id.window, score, rules.decimals, self.now_ms),
                "rank": moved.rank,
                "formerRank": moved.former_rank,
            })
        };
        let mut data = json!({
            "board": self.row.slug,
            "window": id.window.to_string(),
            "period": {
                "label": period.label,
                "startsAt": period.end_ms.map(|_| shown_instant(period.start_ms)),
                "endsAt": period.end_ms.map(shown_instant),
            },
            "segment": Some(&id.segment).filter(|segment| !segment.is_empty()),
            "by": overtaken.by.iter().map(shown).collect::<Vec<Value>>(),
            "byCount": overtaken.by_count,
        });
        if let (Some(data), Value::Object(own)) = (data.as_object_mut(), shown(&overtaken.member)) {
            data.extend(own);
        }
        Notice {
            kind: Kind::Overtaken,
            board_no: Some(self.row.no),
            member: Some(overtaken.member.member.to_string()),
            data,
            at_ms: self.now_ms,
        }
    }
}

/// True if entries in their order are those of the last look.
fn are_same(before: &[Place], entries: &[RankedEntry]) -> bool {
    let is_of = |(place, entry): (&Place, &RankedEntry)| {
        place.key == entry.key && place.member.as_ref() == Some(&entry.member)
    };
    before.len() == entries.len() && before.iter().zip(entries).all(is_of)
}

fn places(stored: Vec<StoredPlace>) -> ranking::Result<Vec<Place>> {
    let place = |(member, key, rank): StoredPlace| {
        let member = member.map(|key| MemberId::new(&key)).transpose()?;
        Ok(Place { member, key: RankKey::from_i64(key)?, rank })
    };
    stored.into_iter().map(place).collect()
}

fn stored(place: &Place) -> StoredPlace {
    let member = place.member.as_ref().map(|member| member.as_str().to_owned());
    (member, place.key.to_i64(), place.rank)
}

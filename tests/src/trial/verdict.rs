//! The verdict on a trial: each event that was confirmed is in SQL exactly once, each that was
//! refused is not, each whose outcome is unknown is at most once, and all standings are what the
//! events in SQL add up to.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use sea_orm::{ConnectionTrait, Statement};

use crate::api::listing::check_standings;
use crate::jobs::analytics::output_beside;
use crate::model::oracle::{Event, Oracle};
use crate::trial::load::{Acknowledged, Record, State, id};
use crate::trial::world::World;

/// How many confirmed events are sent once more at the end.
const SENT_AGAIN: usize = 100;

/// How often an event whose outcome is unknown is sent again, at most.
const TRIES: usize = 5;

/// How many events are sent again at once.
const AT_ONCE: usize = 16;

/// The commits that are read from SQL at once.
const COMMITS: i64 = 5000;

/// The most events that a finding names.
const NAMED: usize = 5;

/// Figures of a trial, and what was not as promised.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Events that were sent.
    pub sent: usize,
    /// Events that were confirmed, as ranked or as being in SQL.
    pub acknowledged: usize,
    /// Confirmed events that SQL does not have, and that the fault may have lost.
    pub lost_with_redis: usize,
    /// Confirmed events that SQL does not have, against the promise.
    pub lost: usize,
    /// Events that SQL has more than once.
    pub doubled: usize,
    /// How often an event was refused, as a store was away or full.
    pub refused: usize,
    /// Refused events that SQL has, and refusals of another kind than that a store is away.
    pub false_refusals: usize,
    /// The times until the deployment took and persisted scores again, a fault each.
    pub recoveries: Vec<Duration>,
    /// The broken promises, in words.
    pub findings: Vec<String>,
}

/// How often SQL has each event, by number.
type Counts = HashMap<usize, usize>;

/// A span of time in which Redis may have lost events that SQL did not have.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// SQL has what was acknowledged before.
    pub from: Instant,
    /// The end of the fault.
    pub until: Instant,
}

impl Loss {
    /// True if an event may have been in Redis alone in that time.
    fn excuses(&self, acknowledged: &Acknowledged) -> bool {
        acknowledged.asked < self.until && acknowledged.told > self.from
    }
}

impl Verdict {
    /// True if all was as promised.
    pub fn holds(&self) -> bool {
        self.findings.is_empty()
    }

    /// Judges a world without faults whose load has stopped. Events that were last confirmed during
    /// one of `losses`, as ranked and not as being in SQL, may be lost.
    pub async fn of(
        world: &World,
        rng: &mut StdRng,
        recoveries: Vec<Option<Duration>>,
        losses: &[Loss],
    ) -> Self {
        let mut verdict = Self::default();
        let never = recoveries.iter().filter(|time| time.is_none()).count();
        if never > 0 {
            verdict.findings.push(format!("did not recover in time: {never} of the faults"));
        }
        verdict.recoveries = recoveries.into_iter().flatten().collect();
        verdict.judge_answers(world, losses).await;
        verdict.send_again(world, rng).await;
        verdict.judge_refusals(world);
        verdict.judge_history(world).await;
        verdict.judge_diff(world).await;
        verdict
    }

    /// Compares the answers with SQL.
    async fn judge_answers(&mut self, world: &World, losses: &[Loss]) {
        let records: Vec<Record> = world.load.records().clone();
        let (counts, strangers) = history(world).await;
        if strangers > 0 {
            self.findings.push(format!("SQL has {strangers} events that were never sent"));
        }
        self.sent = records.len();
        let (mut lost, mut refused) = (vec![], vec![]);
        for (number, record) in records.iter().enumerate() {
            let is_there = counts.contains_key(&number);
            let is_confirmed = record.state.is_confirmed();
            self.acknowledged += usize::from(is_confirmed);
            if record.state == State::Refused && is_there {
                refused.push(id(number));
            }
            if is_confirmed && !is_there {
                let is_excused = record
                    .acknowledged
                    .is_some_and(|at| losses.iter().any(|loss| loss.excuses(&at)));
                match record.state == State::Applied && is_excused {
                    true => self.lost_with_redis += 1,
                    false => lost.push(format!("{} ({:?})", id(number), record.state)),
                }
            }
        }
        self.lost = lost.len();
        self.find("confirmed, but not in SQL", &lost);
        self.find("refused, but in SQL", &refused);
        self.false_refusals = refused.len();
    }

    /// Takes over the answers that the clients found to be wrong.
    fn judge_refusals(&mut self, world: &World) {
        let answers = world.load.false_answers();
        self.find("answers without a cause", &answers.shown);
        self.false_refusals += answers.count;
        self.refused = world.load.refusals().len();
    }

    /// Makes what is unknown definite, and repeats some of what is known, through any process.
    async fn send_again(&mut self, world: &World, rng: &mut StdRng) {
        let records: Vec<Record> = world.load.records().clone();
        let of_state = |wanted: fn(State) -> bool| -> Vec<usize> {
            let numbers = records.iter().enumerate();
            let wanted = numbers.filter(|(_, record)| wanted(record.state));
            wanted.map(|(number, _)| number).collect()
        };
        let unknown = of_state(|state| state == State::Unknown);
        let known = of_state(State::is_confirmed);
        let target =
            |rng: &mut StdRng| world.apis[rng.random_range(0..world.apis.len())].url().to_owned();
        let load = &world.load;
        let send = |sent: Vec<(usize, String)>| {
            stream::iter(sent).for_each_concurrent(AT_ONCE, move |(number, target)| async move {
                load.send_again(&target, number).await;
            })
        };
        let repeated: Vec<usize> =
            known.sample(rng, SENT_AGAIN.min(known.len())).copied().collect();
        send(repeated.iter().map(|&number| (number, target(rng))).collect()).await;
        let mut left = unknown;
        for _ in 0..TRIES {
            send(left.iter().map(|&number| (number, target(rng))).collect()).await;
            let records = world.load.records();
            left.retain(|&number| records[number].state != State::Durable);
        }
        let left: Vec<String> = left.into_iter().map(id).collect();
        self.find("still unknown after they were sent again", &left);
    }

    /// Compares the standings of every window with the events in SQL, and these with what was sent.
    async fn judge_history(&mut self, world: &World) {
        let (counts, _) = history(world).await;
        let doubled = counts.iter().filter(|(_, count)| **count > 1);
        let doubled: Vec<String> = doubled.map(|(number, _)| id(*number)).collect();
        self.doubled = doubled.len();
        self.find("more than once in SQL", &doubled);
        let records: Vec<Record> = world.load.records().clone();
        let is_missing = |(number, record): &(usize, &Record)| {
            record.state == State::Durable && !counts.contains_key(number)
        };
        // Those that were sent again have been confirmed since the answers were judged.
        let missing = records.iter().enumerate().filter(is_missing);
        let missing: Vec<String> = missing.map(|(number, _)| id(number)).collect();
        self.find("durable at the end, but not in SQL", &missing);
        for (index, board) in world.load.boards().iter().enumerate() {
            let mut events: Vec<Event> = vec![];
            for (&number, &count) in &counts {
                if records[number].board == index {
                    events.extend(std::iter::repeat_n(world.load.event(number), count));
                }
            }
            let oracle = Oracle::of(board.clone(), events);
            for api in &world.apis {
                let checking = AssertUnwindSafe(check_standings(api, &oracle)).catch_unwind();
                if checking.await.is_err() {
                    let finding = format!("standings of {} differ from the history", board.slug);
                    self.findings.push(finding);
                    break;
                }
            }
        }
    }

    async fn judge_diff(&mut self, world: &World) {
        let output = output_beside(&world.deployment, &["diff", "--full"]).await;
        if output.status.code() != Some(0) {
            let said = String::from_utf8_lossy(&output.stdout);
            let error = String::from_utf8_lossy(&output.stderr);
            let said: String = format!("{said}{error}").chars().take(2000).collect();
            self.findings.push(format!("the diff is not clean: {said}"));
        }
    }

    fn find(&mut self, what: &str, places: &[String]) {
        if !places.is_empty() {
            let named = places[..places.len().min(NAMED)].join(", ");
            self.findings.push(format!("{what}: {} ({named})", places.len()));
        }
    }
}

/// How often SQL has each event; and how many events SQL has that were not sent, or not so.
async fn history(world: &World) -> (Counts, usize) {
    let db = world.deployment.sql().await;
    let backend = db.get_database_backend();
    let rows = async |select: &str| {
        db.query_all_raw(Statement::from_string(backend, select)).await.unwrap()
    };
    let (mut counts, mut strangers) = (Counts::new(), 0);
    let ends = r#"SELECT "partition", MAX(seq) FROM score_event GROUP BY "partition""#;
    for end in rows(ends).await {
        let partition: i32 = end.try_get_by_index(0).unwrap();
        let last: i64 = end.try_get_by_index(1).unwrap();
        let mut from = 0;
        while from <= last {
            let select = format!(
                r#"SELECT event_id, member, score, at_ms FROM score_event
                   WHERE "partition" = {partition} AND seq >= {from} AND seq < {from} + {COMMITS}
                   AND kind = 'SCORE'"#
            );
            for row in rows(&select).await {
                let event = Event {
                    id: row.try_get_by_index(0).unwrap(),
                    member: row.try_get_by_index(1).unwrap(),
                    score: row.try_get_by_index(2).unwrap(),
                    at_ms: row.try_get_by_index(3).unwrap(),
                    metadata: None,
                };
                let number = world.load.number(event.id.as_deref().unwrap_or_default());
                match number.filter(|&number| world.load.event(number) == event) {
                    Some(number) => *counts.entry(number).or_default() += 1,
                    None => strangers += 1,
                }
            }
            from += COMMITS;
        }
    }
    db.close().await.unwrap();
    (counts, strangers)
}

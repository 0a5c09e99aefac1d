//! A board with rolling windows at work in this process, and what each of its periods must hold.

mod periods;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::audit::of_command;
use engine::board::windows;
use engine::deployment::Deployment as Stores;
use engine::history::amend::{Amended, Amendment, amend};
use engine::partition::submit::Prepared;
use engine::settings::stores::Missing;
use engine::settings::{Settings, SqlSettings};
use engine::{roll, seal};
use entity::board;
use rand::prelude::*;
use ranking::board::rules::{Rules, RulesInput};
use ranking::board::{Board, Direction, Policy, TieBreak};
use ranking::commit::EventPlace;
use ranking::id::{EventId, MemberId};
use ranking::submission::effect::Report;
use ranking::submission::{Submission, Verdict};
use ranking::window::calendar::{Calendar, Weekday};
use ranking::window::{Window, parse_zone};
use sea_orm::EntityTrait;
use tokio::time::Instant;

use crate::clock::DAY_MS;
use crate::deployment::{Deployment, settle};

const ROLLING: [&str; 8] = ["3h", "24h", "1d", "2d", "3d", "7d", "2w", "2mo"];

const MEMBERS: [&str; 7] = ["a", "b", "c", "Z", "ü", "aa", "m"];

/// A score that was accepted.
#[derive(Debug, Clone)]
pub struct Scored {
    place: EventPlace,
    member: &'static str,
    score: i64,
    at_ms: i64,
    segments: Vec<String>,
    counts: bool,
}

/// A score to submit.
#[derive(Debug, Clone, Default)]
pub struct Reported<'a> {
    pub member: &'static str,
    pub score: i64,
    /// `None` for the present.
    pub at_ms: Option<i64>,
    pub segments: &'a [&'a str],
}

/// A board at work, and all scores it accepted.
pub struct World {
    stores: Stores,
    pub board: Board,
    scores: Vec<Scored>,
    ids: u64,
}

/// Stores in this process, on a database and a Redis of the test's own.
pub async fn stores(deployment: &Arc<Deployment>, partitions: u16) -> Stores {
    let settings = Settings {
        sql: SqlSettings::new(deployment.new_file("data"), None),
        redis_prefix: format!("laurel{partitions}"),
        partitions: Some(partitions),
        redis_timeout_ms: 60_000,
        ..deployment.settings()
    };
    let db = settings.connect_sql(Missing::Create).await.unwrap();
    let stores = settings.open(db).await.unwrap();
    for partition in stores.partitions() {
        partition.recover().await.unwrap();
    }
    stores
}

/// A random one of these.
pub fn pick<T: Clone>(rng: &mut impl Rng, from: &[T]) -> T {
    from.choose(rng).unwrap().clone()
}

/// Random rules with some rolling windows.
fn rules(rng: &mut impl Rng, zone: &str) -> Rules {
    let others = [Window::Hourly, Window::Daily, Window::Weekly];
    loop {
        let mut windows: Vec<Window> =
            ROLLING.sample(rng, 2).map(|name| name.parse().unwrap()).collect();
        windows.extend(others.sample(rng, 1));
        let direction = pick(rng, &[Direction::HighFirst, Direction::LowFirst]);
        let policies = [Policy::Sum, Policy::Sum, Policy::Best, Policy::Latest];
        let policy = pick(rng, &policies);
        if (direction, policy) == (Direction::HighFirst, Policy::Sum) {
            let decaying = ["decay:1h", "decay:7d", "decay:12w"].sample(rng, 1);
            windows.extend(decaying.map(|name| name.parse::<Window>().unwrap()));
        }
        let calendar = Calendar::of_zone(parse_zone(zone).unwrap());
        let calendar = calendar.reset_at(pick(rng, &[0, 2, 5, 23])).unwrap();
        let week_start = pick(rng, &[Weekday::Monday, Weekday::Sunday, Weekday::Thursday]);
        let tried = Rules::new(RulesInput {
            direction,
            policy,
            tie_break: pick(rng, &[TieBreak::Earliest, TieBreak::Latest, TieBreak::Member]),
            tick_ms: pick(rng, &[None, Some(1000), Some(100_000)]),
            decimals: 0,
            min: pick(rng, &[-60, 0]),
            max: 60,
            calendar: Calendar { week_start, ..calendar },
            shards: pick(rng, &[1, 2]),
            windows,
            attempts: BTreeMap::new(),
        });
        if let Ok(rules) = tried {
            return rules;
        }
    }
}

impl World {
    /// Creates a board with random rules in a time zone.
    pub async fn new(stores: &Stores, rng: &mut impl Rng, slug: &str, zone: &str) -> Self {
        let rules = rules(rng, zone);
        let mut retained = BTreeMap::new();
        if rng.random_bool(0.5) {
            for &window in &rules.windows {
                retained.insert(window, Some(rng.random_range(0..4)));
            }
        }
        Self::of(stores, slug, zone, &rules, &retained).await
    }

    /// Creates a board whose windows retain so many past periods.
    pub async fn of(
        stores: &Stores,
        slug: &str,
        zone: &str,
        rules: &Rules,
        retained: &BTreeMap<Window, Option<u32>>,
    ) -> Self {
        let mut row = board::of_rules(slug, slug, rules, zone, 0);
        row.windows = board::windows_text(&board::first_windows(rules, retained));
        let row = board::insert(&stores.db, row).await.unwrap().unwrap();
        Self { stores: stores.clone(), board: row.to_ranking().unwrap(), scores: vec![], ids: 0 }
    }

    /// Submits a few scores, on time and late, in one batch.
    pub async fn play(&mut self, rng: &mut impl Rng, now_ms: i64) {
        let mut scores = vec![];
        for _ in 0..rng.random_range(1..6) {
            let late_ms = match rng.random_range(0..10) {
                0..5 => None,
                5..7 => Some(rng.random_range(0..DAY_MS)),
                7..9 => Some(rng.random_range(0..14 * DAY_MS)),
                _ => Some(rng.random_range(0..70 * DAY_MS)),
            };
            let segments: &[&[&str]] = &[&[], &["region:eu"], &["region:ü:%"]];
            scores.push(Reported {
                member: pick(rng, &MEMBERS),
                score: rng.random_range(-5..=5_i64).max(self.board.rules.min),
                // A time ahead by less than the skew is taken as now.
                at_ms: late_ms
                    .map(|late_ms| (now_ms - late_ms).max(0))
                    .or(rng.random_bool(0.2).then_some(now_ms + 900)),
                segments: pick(rng, segments),
            });
        }
        self.submit(&scores, now_ms).await;
    }

    /// Submits scores in one batch.
    pub async fn submit(&mut self, scores: &[Reported<'_>], now_ms: i64) {
        let partitions = self.stores.store.partitions();
        let mut batches: BTreeMap<_, Vec<(Submission, &'static str)>> = BTreeMap::new();
        for scored in scores {
            let member = MemberId::new(scored.member).unwrap();
            self.ids += 1;
            let submission = Submission {
                report: Report::Nothing,
                board: self.board.clone(),
                member: member.clone(),
                score: scored.score,
                at_ms: scored.at_ms,
                event_id: Some(EventId::new(&self.ids.to_string()).unwrap()),
                segments: scored.segments.iter().map(ToString::to_string).collect(),
                metadata: None,
                provenance: None,
            };
            let partition = partitions.of_member(&self.board, &member);
            batches.entry(partition).or_default().push((submission, scored.member));
        }
        for (partition, batch) in batches {
            let submissions = batch.iter().map(|(submission, _)| submission.clone()).collect();
            let deadline = Instant::now() + Duration::from_secs(30);
            let prepared = Prepared::new(submissions, now_ms);
            let handle = self.stores.partition(partition);
            let submitted = handle.submit(prepared, None, deadline).await.unwrap();
            for ((submission, member), verdict) in batch.into_iter().zip(submitted.verdicts) {
                let Verdict::Accepted { seq, index, .. } = verdict else {
                    continue;
                };
                let place = EventPlace { partition, seq, index };
                self.scores.push(Scored {
                    place,
                    member,
                    score: submission.score,
                    at_ms: submission.at_ms.map_or(now_ms, |at_ms| at_ms.min(now_ms)),
                    segments: submission.segments,
                    counts: true,
                });
            }
        }
    }

    /// Removes a member, or voids one of its scores.
    pub async fn take_back(&mut self, rng: &mut impl Rng) {
        let Some(of) = self.scores.iter().filter(|scored| scored.counts).choose(rng) else {
            return;
        };
        let (place, name) = (of.place, of.member);
        let removes = rng.random_bool(0.5);
        let amendment = if removes { Amendment::Removal } else { Amendment::Void(place) };
        let deadline = Instant::now() + Duration::from_secs(30);
        let member = MemberId::new(name).unwrap();
        match amend(&self.stores, &self.board, &member, amendment, deadline).await {
            Ok(amended) => assert_eq!(amended, Amended::Done),
            // The remaining scores may be out of range.
            Err(entity::Error::Ranking(ranking::Error::OutOfRange(_))) => return,
            Err(error) => panic!("{error}"),
        }
        for scored in &mut self.scores {
            if scored.place == place || (removes && scored.member == name) {
                scored.counts = false;
            }
        }
    }

    /// Rolls, and cuts that off anywhere or not at all.
    pub async fn roll(&self, rng: &mut impl Rng, now_ms: i64) {
        let cut = Duration::from_micros(rng.random_range(0..6000));
        let rolling = roll::roll(&self.stores, now_ms);
        if rng.random_bool(0.5) {
            let _ = tokio::time::timeout(cut, rolling).await;
        } else {
            rolling.await.unwrap();
        }
    }

    /// Seals, and cuts that off anywhere or not at all.
    pub async fn seal(&mut self, rng: &mut impl Rng, now_ms: i64) {
        let cut = Duration::from_micros(rng.random_range(0..60_000));
        let sealing = seal::seal(&self.stores, now_ms);
        if rng.random_bool(0.4) {
            let _ = tokio::time::timeout(cut, sealing).await;
        } else {
            sealing.await.unwrap();
        }
        self.read_board().await;
    }

    /// Adds a rolling window, or drops one.
    pub async fn change_windows(&mut self, rng: &mut impl Rng, now_ms: i64) {
        let shown = self.board.rules.shown().filter(|window| *window != Window::All);
        let mut windows: BTreeMap<Window, Option<u32>> =
            shown.map(|window| (window, None)).collect();
        let changed: Window = pick(rng, &ROLLING).parse().unwrap();
        if windows.remove(&changed).is_none() {
            windows.insert(changed, rng.random_bool(0.5).then(|| rng.random_range(0..4)));
        }
        self.set_windows(&windows, now_ms).await;
    }

    /// Changes the windows, and waits until the board has them.
    pub async fn set_windows(&mut self, windows: &BTreeMap<Window, Option<u32>>, now_ms: i64) {
        let db = &self.stores.db;
        loop {
            let row = board::find(db, self.board.no.0).await.unwrap().unwrap();
            let Some(changed) = windows::change(&row, windows, now_ms).unwrap() else { return };
            let to = (board::windows_text(&changed.windows), changed.generation as i32);
            let mut later = row.clone();
            (later.windows, later.generation) = to.clone();
            if later.to_ranking().is_err() {
                // They do not fit beside the range and the ties.
                return;
            }
            let change = board::Change { windows: Some(to), ..Default::default() };
            let act = of_command("test", &self.stores.clock);
            // The background work may have changed the board in between.
            if board::update(db, &row, change, &act).await.unwrap().is_some() {
                break;
            }
        }
        loop {
            let row = board::find(db, self.board.no.0).await.unwrap().unwrap();
            if row.window_rows().unwrap().iter().all(board::WindowRow::is_settled) {
                break;
            }
            windows::finish(&self.stores, &row).await.unwrap();
        }
        self.read_board().await;
    }

    /// Reads the board's row.
    pub async fn read_board(&mut self) {
        let row = board::Entity::find_by_id(self.board.no.0);
        let row = row.one(&self.stores.db).await.unwrap().unwrap();
        self.board = row.to_ranking().unwrap();
    }

    /// Empties Redis once SQL has everything, and recovers the partitions.
    pub async fn lose_redis(&self) {
        settle(&self.stores).await;
        self.flush().await;
        for partition in self.stores.partitions() {
            partition.recover().await.unwrap();
        }
    }

    /// Empties the partitions of Redis.
    pub async fn flush(&self) {
        for partition in self.stores.store.partitions().each() {
            let recovery = self.stores.store.begin_recovery(partition, "flush").await;
            let recovery = recovery.unwrap().unwrap();
            recovery.close().await.unwrap();
            recovery.clear().await.unwrap();
            recovery.abandon().await.unwrap();
        }
    }
}

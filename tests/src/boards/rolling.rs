//! A board with rolling windows at work in this process, and what each of its periods must hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::amend::{Amended, Amendment, amend};
use engine::deployment::Deployment as Stores;
use engine::partition::settle;
use engine::partition::{recovery, submit};
use engine::read::sealed;
use engine::settings::stores::Missing;
use engine::settings::{Settings, SqlSettings};
use engine::{roll, seal};
use entity::board;
use rand::prelude::*;
use ranking::board::rules::{Rules, RulesInput};
use ranking::board::{Board, Direction, Policy, TieBreak};
use ranking::commit::EventPlace;
use ranking::id::{EventId, MemberId};
use ranking::standings_id::StandingsId;
use ranking::store::read::merge::Start;
use ranking::store::read::{RankedEntry, Standings};
use ranking::submission::{Submission, Verdict};
use ranking::window::{Period, Window, parse_zone};
use sea_orm::{EntityTrait, Set};
use tokio::time::Instant;

use crate::deployment::Deployment;
use crate::model::decay::{Earned, check_code, check_order};

pub const DAY_MS: i64 = 86_400_000;

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

/// A board at work, and all that it was told.
pub struct World {
    stores: Stores,
    pub board: Board,
    scores: Vec<Scored>,
    ids: u64,
}

/// Stores in this process, on a database and a Redis of the test's own.
pub async fn stores(deployment: &Arc<Deployment>, partitions: u16) -> Stores {
    let settings = Settings {
        sql: SqlSettings { data_dir: deployment.new_file("data"), database_url: None },
        redis_prefix: format!("laurel{partitions}"),
        partitions: Some(partitions),
        redis_timeout_ms: 60_000,
        ..deployment.settings()
    };
    let db = settings.connect_sql(Missing::Create).await.unwrap();
    let stores = settings.open(db).await.unwrap();
    for partition in stores.store.partitions().each() {
        recovery::recover(&stores, partition).await.unwrap();
    }
    stores
}

pub fn pick<T: Clone>(rng: &mut impl Rng, from: &[T]) -> T {
    from.choose(rng).unwrap().clone()
}

/// Random rules with some rolling windows.
fn rules(rng: &mut impl Rng, zone: &str) -> Rules {
    let every = ["3h", "24h", "1d", "2d", "3d", "7d", "2w", "2mo"];
    let others = [Window::Hourly, Window::Daily, Window::Weekly];
    loop {
        let mut windows: Vec<Window> =
            every.sample(rng, 2).map(|name| name.parse().unwrap()).collect();
        windows.extend(others.sample(rng, 1));
        let direction = pick(rng, &[Direction::HighFirst, Direction::LowFirst]);
        let policies = [Policy::Sum, Policy::Sum, Policy::Best, Policy::Latest];
        let policy = pick(rng, &policies);
        if (direction, policy) == (Direction::HighFirst, Policy::Sum) {
            let decaying = ["decay:1h", "decay:7d", "decay:12w"].sample(rng, 1);
            windows.extend(decaying.map(|name| name.parse::<Window>().unwrap()));
        }
        let tried = Rules::new(RulesInput {
            direction,
            policy,
            tie_break: pick(rng, &[TieBreak::Earliest, TieBreak::Latest, TieBreak::Member]),
            tick_ms: pick(rng, &[None, Some(1000), Some(100_000)]),
            decimals: 0,
            min: pick(rng, &[-60, 0]),
            max: 60,
            zone: parse_zone(zone).unwrap(),
            shards: pick(rng, &[1, 2]),
            windows,
        });
        if let Ok(rules) = tried {
            return rules;
        }
    }
}

impl World {
    pub async fn new(stores: &Stores, rng: &mut impl Rng, slug: &str, zone: &str) -> Self {
        let rules = rules(rng, zone);
        let mut row = board::of_rules(slug, slug, &rules, zone, 0);
        let mut retained = BTreeMap::new();
        if rng.random_bool(0.5) {
            for &window in &rules.windows {
                retained.insert(window, Some(rng.random_range(0..4)));
            }
        }
        row.windows = Set(board::windows_text(&board::first_windows(&rules, &retained)));
        let row = board::Entity::insert(row).exec_with_returning(&stores.db).await.unwrap();
        Self { stores: stores.clone(), board: row.to_ranking().unwrap(), scores: vec![], ids: 0 }
    }

    /// Submits a few scores, on time and late, in one batch.
    pub async fn play(&mut self, rng: &mut impl Rng, now_ms: i64) {
        let partitions = self.stores.store.partitions();
        let mut batches: BTreeMap<_, Vec<(Submission, &'static str)>> = BTreeMap::new();
        for _ in 0..rng.random_range(1..6) {
            let name = pick(rng, &MEMBERS);
            let member = MemberId::new(name).unwrap();
            let late_ms = match rng.random_range(0..10) {
                0..5 => None,
                5..7 => Some(rng.random_range(0..DAY_MS)),
                7..9 => Some(rng.random_range(0..14 * DAY_MS)),
                _ => Some(rng.random_range(0..70 * DAY_MS)),
            };
            self.ids += 1;
            let segments: &[&[&str]] = &[&[], &["region:eu"], &["region:ü:%"]];
            let submission = Submission {
                board: self.board.clone(),
                member: member.clone(),
                score: rng.random_range(-5..=5_i64).max(self.board.rules.min),
                // One that is early by the skew is taken as now.
                at_ms: late_ms
                    .map(|late_ms| (now_ms - late_ms).max(0))
                    .or(rng.random_bool(0.2).then_some(now_ms + 900)),
                event_id: Some(EventId::new(&self.ids.to_string()).unwrap()),
                segments: pick(rng, segments).iter().map(ToString::to_string).collect(),
            };
            let partition = partitions.of_member(&self.board, &member);
            batches.entry(partition).or_default().push((submission, name));
        }
        for (partition, batch) in batches {
            let submissions = batch.iter().map(|(submission, _)| submission.clone()).collect();
            let deadline = Instant::now() + Duration::from_secs(30);
            let submitted = submit::submit(
                &self.stores,
                partition,
                submit::Prepared::new(submissions, now_ms),
                None,
                deadline,
            )
            .await
            .unwrap();
            for ((submission, member), verdict) in batch.into_iter().zip(submitted.verdicts) {
                let Verdict::Accepted { seq, index } = verdict else {
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

    /// Takes a member out, or voids one of its scores.
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
            // What is left may leave a range.
            Err(entity::Error::Ranking(ranking::Error::OutOfRange(_))) => return,
            Err(error) => panic!("{error}"),
        }
        for scored in &mut self.scores {
            if scored.place == place || (removes && scored.member == name) {
                scored.counts = false;
            }
        }
    }

    /// A roller that is cut off somewhere, or not at all.
    pub async fn roll(&self, rng: &mut impl Rng, now_ms: i64) {
        let cut = Duration::from_micros(rng.random_range(0..6000));
        let rolling = roll::roll(&self.stores, now_ms);
        if rng.random_bool(0.5) {
            let _ = tokio::time::timeout(cut, rolling).await;
        } else {
            rolling.await.unwrap();
        }
    }

    /// A sealing that is cut off somewhere, or not at all.
    pub async fn seal(&mut self, rng: &mut impl Rng, now_ms: i64) {
        let cut = Duration::from_micros(rng.random_range(0..60_000));
        let sealing = seal::seal(&self.stores, now_ms);
        if rng.random_bool(0.4) {
            let _ = tokio::time::timeout(cut, sealing).await;
        } else {
            sealing.await.unwrap();
        }
        let row = board::Entity::find_by_id(self.board.no.0);
        let row = row.one(&self.stores.db).await.unwrap().unwrap();
        self.board = row.to_ranking().unwrap();
    }

    /// Empties Redis once SQL has everything; the partitions are recovered.
    pub async fn lose_redis(&self) {
        let partitions = self.stores.store.partitions();
        for partition in partitions.each() {
            settle::settle(&self.stores, partition).await.unwrap();
        }
        self.flush().await;
        for partition in partitions.each() {
            recovery::recover(&self.stores, partition).await.unwrap();
        }
    }

    pub async fn flush(&self) {
        for partition in self.stores.store.partitions().each() {
            let recovery = self.stores.store.begin_recovery(partition, "flush").await;
            let recovery = recovery.unwrap().unwrap();
            recovery.close().await.unwrap();
            recovery.clear().await.unwrap();
            recovery.abandon().await.unwrap();
        }
    }

    /// Checks every window as it is at an instant.
    pub async fn check(&self, now_ms: i64) {
        let rules = &self.board.rules;
        for &window in &rules.windows {
            let period = window.period_at(now_ms, &rules.zone).unwrap();
            for segment in ["", "region:eu", "region:ü:%"] {
                self.check_standings(window, &period, segment, now_ms).await;
            }
        }
    }

    pub async fn check_standings(
        &self,
        window: Window,
        period: &Period,
        segment: &str,
        now_ms: i64,
    ) {
        let Stores { store, .. } = &self.stores;
        let id = StandingsId::of(&self.board, segment, window, period);
        let standings = Standings::new(store, &self.board, id, period.clone());
        let sealed = self.board.sealed(window);
        let placed = loop {
            if period.present_from_ms < sealed.sealed_before_ms {
                break self.archived(&standings).await;
            }
            if period.present_from_ms < sealed.sealing_before_ms {
                // Late events are nowhere yet, until the next one tries again.
                return;
            }
            let from = store.split_at_position(&standings, 0).await;
            let read = match from {
                Ok(from) => {
                    let start = Start::Split(from);
                    store.forward(&standings, &start, 100).await
                }
                Err(error) => Err(error),
            };
            match read {
                Ok((_, placed)) => break placed,
                // It has left Redis: what comes late for it is in SQL once the log is.
                Err(ranking::Error::Sealed(_)) => break self.archived(&standings).await,
                Err(ranking::Error::NotLevel(partition)) => {
                    let partition = ranking::id::Partition(partition);
                    recovery::recover(&self.stores, partition).await.unwrap();
                }
                Err(ranking::Error::NotRolled(_)) => {
                    let rolled = roll::roll_board(&self.stores, &self.board, now_ms).await;
                    rolled.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        };
        let rules = &self.board.rules;
        if let Some(half_life) = window.half_life() {
            let mut earned: BTreeMap<&str, Vec<Earned>> = BTreeMap::new();
            for scored in self.inside(window, period, segment) {
                let earned = earned.entry(scored.member).or_default();
                earned.push((scored.score, scored.at_ms));
            }
            let members: Vec<&str> = placed.iter().map(|placed| placed.member.as_str()).collect();
            check_order(&members, &earned, half_life);
            for placed in &placed {
                let code = rules.state(window, period, placed.key).score;
                check_code(code, &earned[placed.member.as_str()], half_life, now_ms);
            }
            return;
        }
        let got: Vec<(String, i64, i64)> = placed
            .into_iter()
            .map(|placed| {
                let state = rules.state(window, period, placed.key);
                (placed.member.to_string(), state.score, state.tick)
            })
            .collect();
        let expected = self.expected(window, period, segment);
        assert_eq!(
            got, expected,
            "{window} {} {segment:?} of {:?} at {now_ms}: {:?}",
            period.label, self.board, self.scores
        );
    }

    pub async fn archived(&self, standings: &Standings) -> Vec<RankedEntry> {
        for partition in self.stores.store.partitions().each() {
            settle::settle(&self.stores, partition).await.unwrap();
        }
        let found = sealed::find(&self.stores.db, standings).await.unwrap();
        match found {
            Some(archived) => archived.forward_from(0, 100).await.unwrap(),
            None => vec![],
        }
    }

    /// The events that count in a period.
    pub fn inside(
        &self,
        window: Window,
        period: &Period,
        segment: &str,
    ) -> impl Iterator<Item = &Scored> {
        let start_ms = first_ms(window, period, &self.board.rules);
        let is_inside = move |scored: &&Scored| {
            let at_ms = scored.at_ms;
            let of_segment = segment.is_empty() || scored.segments.iter().any(|of| of == segment);
            scored.counts
                && of_segment
                && start_ms <= at_ms
                && period.end_ms.is_none_or(|end_ms| at_ms < end_ms)
        };
        self.scores.iter().filter(is_inside)
    }

    /// What a period must hold, from all events.
    pub fn expected(
        &self,
        window: Window,
        period: &Period,
        segment: &str,
    ) -> Vec<(String, i64, i64)> {
        let rules = &self.board.rules;
        let mut by_member: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
        for scored in self.inside(window, period, segment) {
            let tick = scored.at_ms.div_euclid(rules.tick_ms.into());
            by_member.entry(scored.member).or_default().push((scored.score, tick));
        }
        let better = |score: i64| match rules.direction {
            Direction::HighFirst => -score,
            Direction::LowFirst => score,
        };
        let mut held: Vec<(String, i64, i64)> = vec![];
        for (member, scores) in by_member {
            let latest = scores.iter().map(|(_, tick)| *tick).max().unwrap();
            let best = |scores: &mut dyn Iterator<Item = i64>| {
                scores.min_by_key(|score| better(*score)).unwrap()
            };
            let (score, tick) = match rules.policy {
                Policy::Sum => (scores.iter().map(|(score, _)| score).sum(), latest),
                Policy::Best => {
                    let top = best(&mut scores.iter().map(|(score, _)| *score));
                    let had = scores.iter().filter(|(score, _)| *score == top);
                    (top, had.map(|(_, tick)| *tick).min().unwrap())
                }
                Policy::Latest => {
                    let last = scores.iter().filter(|(_, tick)| *tick == latest);
                    (best(&mut last.map(|(score, _)| *score)), latest)
                }
            };
            let tick = if rules.tie_break == TieBreak::Member { 0 } else { tick };
            held.push((member.to_owned(), score, tick));
        }
        let by_time = |tick: i64| match rules.tie_break {
            TieBreak::Latest => -tick,
            _ => tick,
        };
        held.sort_by(|a, b| {
            let (left, right) = ((better(a.1), by_time(a.2)), (better(b.1), by_time(b.2)));
            left.cmp(&right).then(a.0.as_bytes().cmp(b.0.as_bytes()))
        });
        held
    }
}

/// The first instant of a period: of a rolling one, counted back period by period.
fn first_ms(window: Window, period: &Period, rules: &Rules) -> i64 {
    let Some(rolling) = window.rolling() else {
        return period.start_ms;
    };
    let mut start_ms = period.present_from_ms;
    for _ in 1..rolling.count() {
        if start_ms > 0 {
            let before = rolling.base().period_at(start_ms - 1, &rules.zone);
            start_ms = before.unwrap().start_ms;
        }
    }
    start_ms
}

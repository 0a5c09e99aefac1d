//! The periods of such a board, compared with all its events.

use std::collections::BTreeMap;

use engine::deployment::Deployment as Stores;
use engine::read::sealed;
use engine::roll;
use ranking::board::rules::Rules;
use ranking::board::{Direction, Policy, TieBreak};
use ranking::standings_id::StandingsId;
use ranking::store::read::merge::Start;
use ranking::store::read::{RankedEntry, Standings};
use ranking::window::{Period, Window};

use crate::boards::rolling::{Scored, World};
use crate::deployment::settle;
use crate::model::decay::{Earned, check_code, check_order};

impl World {
    /// Checks every window as it is at an instant.
    pub async fn check(&self, now_ms: i64) {
        let rules = &self.board.rules;
        for &window in &rules.windows {
            let period = window.period_at(now_ms, &rules.calendar).unwrap();
            for segment in ["", "region:eu", "region:ü:%"] {
                self.check_standings(window, &period, segment, now_ms).await;
            }
        }
    }

    async fn check_standings(&self, window: Window, period: &Period, segment: &str, now_ms: i64) {
        let Some(placed) = self.read(window, period, segment, now_ms).await else {
            return;
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

    /// The entries of a period, from Redis or SQL; nothing while they are on their way to SQL.
    async fn read(
        &self,
        window: Window,
        period: &Period,
        segment: &str,
        now_ms: i64,
    ) -> Option<Vec<RankedEntry>> {
        let Stores { store, .. } = &self.stores;
        let id = StandingsId::of(&self.board, segment, window, period);
        let standings = Standings::new(store, &self.board, id, period.clone());
        let sealed = self.board.sealed(window);
        loop {
            if period.present_from_ms < sealed.sealed_before_ms {
                return Some(self.archived(&standings).await);
            }
            if period.present_from_ms < sealed.sealing_before_ms {
                // Late events are in neither store until the next seal.
                return None;
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
                Ok((_, placed)) => return Some(placed),
                // The period has left Redis; late events for it are in SQL once the log is.
                Err(ranking::Error::Sealed(_)) => return Some(self.archived(&standings).await),
                Err(ranking::Error::NotLevel(partition)) => {
                    let partition = ranking::id::PartitionNo(partition);
                    self.stores.partition(partition).recover().await.unwrap();
                }
                Err(ranking::Error::NotRolled(_)) => {
                    let rolled = roll::roll_board(&self.stores, &self.board, now_ms).await;
                    rolled.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn archived(&self, standings: &Standings) -> Vec<RankedEntry> {
        settle(&self.stores).await;
        let found = sealed::find(&self.stores.db, standings).await.unwrap();
        match found {
            Some(archived) => archived.forward_from(0, 100).await.unwrap(),
            None => vec![],
        }
    }

    /// The events that count in a period.
    fn inside(
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

    /// The expected entries of a period, from all events.
    fn expected(&self, window: Window, period: &Period, segment: &str) -> Vec<(String, i64, i64)> {
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
            let before = rolling.base().period_at(start_ms - 1, &rules.calendar);
            start_ms = before.unwrap().start_ms;
        }
    }
    start_ms
}

//! The numbers of a report, all computed here or in the timeline. The page and its pictures only
//! show them.

use anyhow::Result;
use entity::board;
use polars::prelude::DataFrame;
use ranking::board::{Board, Direction};
use ranking::score;
use serde::Serialize;

use super::timeline::{Activity, Movement, Timeline};
use crate::frame::sorted::Entry;

/// Ranks that the report follows.
pub(crate) const TOP: usize = 10;

/// Buckets that scores are counted in.
const BUCKETS: i64 = 30;

/// Buckets grow if the best score is more than this many times the median.
const SKEW: i64 = 20;

/// How many of the largest ties are shown.
const TIES: usize = 10;

/// The most points of a curve.
const POINTS: usize = 200;

/// The numbers of a report. Scores are exact decimals.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    pub(crate) slug: String,
    pub(crate) title: String,
    pub(crate) policy: String,
    pub(crate) direction: String,
    pub(crate) tie_break: String,
    pub(crate) time_zone: String,
    /// The time of the report.
    pub(crate) made_at: String,
    /// The number of members with an entry.
    pub(crate) members: usize,
    /// The number of events that count: those neither voided nor before a removal.
    pub(crate) events: usize,
    pub(crate) top: Vec<MemberMove>,
    pub(crate) scores: Scores,
    pub(crate) ties: Ties,
    pub(crate) share: Share,
    pub(crate) activity: Activity,
    pub(crate) movement: Movement,
}

/// A member at the top.
#[derive(Debug, Serialize)]
pub(crate) struct MemberMove {
    pub(crate) rank: usize,
    pub(crate) member: String,
    pub(crate) score: String,
    pub(crate) events: usize,
}

/// The spread of scores.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scores {
    pub(crate) lowest: String,
    pub(crate) median: String,
    pub(crate) highest: String,
    /// True if each bucket is wider than the one before it.
    pub(crate) buckets_grow: bool,
    pub(crate) buckets: Vec<Bucket>,
}

/// The number of members with a score from `from` (inclusive) to `to` (exclusive, except in the
/// last bucket).
#[derive(Debug, Serialize)]
pub(crate) struct Bucket {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) count: usize,
}

/// Members with equal scores.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ties {
    /// Members who share their score.
    pub(crate) members: usize,
    /// Scores that several members have.
    pub(crate) scores: usize,
    /// Members whom only their names tell apart.
    pub(crate) by_name: usize,
    /// The scores that the most members have.
    pub(crate) largest: Vec<Tie>,
}

/// The number of members with a score.
#[derive(Debug, Serialize)]
pub(crate) struct Tie {
    pub(crate) score: String,
    pub(crate) members: usize,
}

/// The points and events that the top members have of all.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Share {
    /// The number of members in the top 1 %, at least one.
    pub(crate) members: usize,
    /// Their percentage of all points; none if points do not add up: a score is below 0, or the
    /// lowest comes first.
    pub(crate) scores: Option<f64>,
    /// The percentage of all events that the most active 1 % sent.
    pub(crate) events: f64,
    /// Percentages of the members, the best first, with their percentages of all points.
    pub(crate) scores_curve: Vec<(f64, f64)>,
    /// Percentages of the members, the most active first, with their percentages of all events.
    pub(crate) events_curve: Vec<(f64, f64)>,
}

impl Figures {
    /// The figures of a board's all-time standings of everyone, and of the events behind them.
    pub(crate) fn new(
        row: &board::Model,
        board: &Board,
        events: &DataFrame,
        entries: &[Entry],
        now_ms: i64,
    ) -> Result<Self> {
        let (rules, format) = (&board.rules, |raw| score::format(raw, board.rules.decimals));
        let members: Vec<&str> = entries.iter().map(|entry| entry.member.as_str()).collect();
        let timeline = Timeline::new(board, events, &members[..TOP.min(members.len())])?;
        let top = entries.iter().zip(1..).take(TOP);
        let top = top.map(|(entry, rank)| MemberMove {
            rank,
            member: entry.member.to_string(),
            score: format(entry.score),
            events: timeline.events_of(entry.member.as_str()),
        });
        Ok(Self {
            slug: row.slug.clone(),
            title: row.title.clone(),
            policy: rules.policy.name().to_owned(),
            direction: rules.direction.name().to_owned(),
            tie_break: rules.tie_break.name().to_owned(),
            time_zone: row.time_zone.clone(),
            made_at: format!("{:.0}", jiff::Timestamp::from_millisecond(now_ms)?),
            members: entries.len(),
            events: timeline.events,
            top: top.collect(),
            scores: scores(entries, &format)?,
            ties: ties(entries, &format),
            share: share(rules.direction, entries, timeline.events_each()),
            activity: timeline.activity,
            movement: timeline.movement,
        })
    }
}

fn scores(entries: &[Entry], format: &impl Fn(i64) -> String) -> Result<Scores> {
    let mut sorted: Vec<i64> = entries.iter().map(|entry| entry.score).collect();
    sorted.sort_unstable();
    let (Some(&lowest), Some(&highest)) = (sorted.first(), sorted.last()) else {
        anyhow::bail!("there are no scores");
    };
    let median = sorted[sorted.len() / 2];
    let buckets_grow = lowest >= 0 && highest / SKEW > median.max(1);
    let bounds = bounds(lowest, highest, buckets_grow);
    let below = |bound: i64| sorted.partition_point(|&score| score < bound);
    let buckets = bounds.windows(2).map(|pair| {
        let is_last = pair[1] == highest;
        let end = if is_last { sorted.len() } else { below(pair[1]) };
        Bucket { from: format(pair[0]), to: format(pair[1]), count: end - below(pair[0]) }
    });
    Ok(Scores {
        buckets: buckets.collect(),
        lowest: format(lowest),
        median: format(median),
        highest: format(highest),
        buckets_grow,
    })
}

/// The bounds of the buckets, the end of the last one included: at least two.
fn bounds(lowest: i64, highest: i64, grow: bool) -> Vec<i64> {
    let bound = |step: i64| {
        if grow {
            // By equal factors from 1 on; scores below 1 have their own bucket.
            let factor = libm::pow(highest as f64, step as f64 / BUCKETS as f64);
            return (libm::round(factor) as i64).clamp(lowest, highest);
        }
        let span = i128::from(highest) - i128::from(lowest);
        lowest + (span * i128::from(step) / i128::from(BUCKETS)) as i64
    };
    let mut bounds: Vec<i64> = (0..=BUCKETS).map(bound).collect();
    bounds.extend([lowest, highest]);
    bounds.sort_unstable();
    bounds.dedup();
    if bounds.len() == 1 {
        bounds.push(highest);
    }
    bounds
}

fn ties(entries: &[Entry], format: &impl Fn(i64) -> String) -> Ties {
    let shared =
        |runs: &mut dyn Iterator<Item = usize>| -> usize { runs.filter(|&size| size > 1).sum() };
    let by_score = || entries.chunk_by(|a, b| a.score == b.score);
    let by_key = entries.chunk_by(|a, b| a.key == b.key);
    let mut tied: Vec<&[Entry]> = by_score().filter(|run| run.len() > 1).collect();
    // A stable sort: among ties of one size the better score comes first.
    tied.sort_by_key(|run| std::cmp::Reverse(run.len()));
    let tie = |run: &&[Entry]| Tie { score: format(run[0].score), members: run.len() };
    Ties {
        members: shared(&mut by_score().map(<[Entry]>::len)),
        scores: tied.len(),
        by_name: shared(&mut by_key.map(<[Entry]>::len)),
        largest: tied.iter().take(TIES).map(tie).collect(),
    }
}

fn share(direction: Direction, entries: &[Entry], mut events: Vec<usize>) -> Share {
    let members = entries.len().div_ceil(100);
    events.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    let events: Vec<f64> = events.into_iter().map(|count| count as f64).collect();
    let adds_up = direction == Direction::HighFirst && entries.iter().all(|entry| entry.score >= 0);
    let scores: Vec<f64> = entries.iter().map(|entry| entry.score as f64).collect();
    let total: f64 = scores.iter().sum();
    let adds_up = adds_up && total > 0.0;
    let percentage = |values: &[f64]| {
        let all: f64 = values.iter().sum();
        100.0 * values.iter().take(members).sum::<f64>() / all
    };
    Share {
        members,
        scores: adds_up.then(|| percentage(&scores)),
        events: percentage(&events),
        scores_curve: if adds_up { curve(&scores) } else { vec![] },
        events_curve: curve(&events),
    }
}

/// Percentages of the values with percentages of their sum, at positions that grow by equal
/// factors.
fn curve(values: &[f64]) -> Vec<(f64, f64)> {
    let (count, all) = (values.len(), values.iter().sum::<f64>());
    let mut places: Vec<usize> = (0..=POINTS)
        .map(|point| {
            let place = libm::pow(count as f64, point as f64 / POINTS as f64);
            libm::round(place) as usize
        })
        .collect();
    places.dedup();
    let (mut passed, mut sum, mut points) = (0, 0.0, vec![]);
    for place in places {
        sum += values[passed..place].iter().sum::<f64>();
        passed = place;
        points.push((100.0 * place as f64 / count as f64, 100.0 * sum / all));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use ranking::id::MemberId;
    use ranking::score::rank_key::RankKey;

    /// Entries with these scores, which are sorted, the highest first; equal scores share a key.
    fn entries(scores: &[i64]) -> Vec<Entry> {
        let entry = |(index, &score): (usize, &i64)| Entry {
            member: MemberId::new(&format!("m{index:03}")).unwrap(),
            key: RankKey::from_i64((1 << 50) - score).unwrap(),
            score,
            seq: 1,
        };
        scores.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn every_score_is_in_one_bucket() {
        let growing: Vec<i64> = (0..500).rev().map(|n: i64| n.pow(5)).collect();
        let even: Vec<i64> = (-50..400).rev().collect();
        for (list, grow) in [
            (&growing[..], true),
            (&even[..], false),
            (&[7, 7, 7][..], false),
            (&[1, 0, 0][..], false),
        ] {
            let scores = scores(&entries(list), &|raw| raw.to_string()).unwrap();
            assert_eq!(scores.buckets_grow, grow);
            let bound = |text: &str| text.parse::<i64>().unwrap();
            for (index, bucket) in scores.buckets.iter().enumerate() {
                let (from, to) = (bound(&bucket.from), bound(&bucket.to));
                let is_last = index + 1 == scores.buckets.len();
                let inside =
                    |score: &&i64| from <= **score && (**score < to || is_last && **score == to);
                assert_eq!(bucket.count, list.iter().filter(inside).count());
            }
            let counted: usize = scores.buckets.iter().map(|bucket| bucket.count).sum();
            assert_eq!(counted, list.len());
        }
    }

    #[test]
    fn ties_and_shares_are_those_of_the_standings() {
        let mut list = vec![900, 50, 50, 50, 20, 20];
        list.extend([1; 194]);
        let entries = entries(&list);
        let ties = ties(&entries, &|raw| raw.to_string());
        assert_eq!((ties.members, ties.scores, ties.by_name), (199, 3, 199));
        assert_eq!((ties.largest[0].members, &*ties.largest[1].score), (194, "50"));
        let events = vec![1; 199].into_iter().chain([301]).collect();
        let share = share(Direction::HighFirst, &entries, events);
        assert_eq!(share.members, 2);
        let total: i64 = list.iter().sum();
        assert_eq!(share.scores, Some(100.0 * 950.0 / total as f64));
        assert_eq!(share.events, 100.0 * 302.0 / 500.0);
        assert_eq!(share.scores_curve.last(), Some(&(100.0, 100.0)));
        assert!(share.events_curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }
}

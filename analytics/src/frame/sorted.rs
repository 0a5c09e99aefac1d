//! The standings of a window as a fold gives them, in the order of Redis.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use polars::prelude::{DataFrame, Int64Chunked, StringChunked};
use ranking::board::Board;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::window::{Period, Window};

use crate::frame::expected_rows::ExpectedRows;

/// The standings of a window as one frame.
pub struct Folded {
    /// Every period that may have entries, in order.
    pub periods: Vec<Period>,
    /// One row per entry: `member`, `segment`, `period` (an index into `periods`), `key`, `score`,
    /// and `seq` of its member's last event. Sorted by segment, period, key and member.
    pub frame: DataFrame,
}

/// An entry that history folds to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The member.
    pub member: MemberId,
    /// The rank key.
    pub key: RankKey,
    /// The raw score.
    pub score: i64,
    /// The seq of the member's last event.
    pub seq: i64,
}

/// Entries by standings, in the order of keys and member bytes.
pub type Entries = BTreeMap<StandingsId, Vec<Entry>>;

/// The standings of one window as columns, which hold each entry once.
pub struct Sorted {
    window: Window,
    members: StringChunked,
    keys: Int64Chunked,
    scores: Int64Chunked,
    seqs: Int64Chunked,
    runs: Vec<Run>,
}

/// The rows of one segment and period.
pub struct Run {
    /// The id of the standings.
    pub id: StandingsId,
    /// The period.
    pub period: Period,
    /// The rows, in the order of keys and member bytes.
    pub rows: Range<usize>,
}

impl Sorted {
    /// Takes the columns of a fold, and finds the rows of each segment and period.
    ///
    /// # Errors
    /// If an entry is out of range, or has no key.
    pub fn of(board: &Board, window: Window, folded: &Folded) -> Result<Self> {
        let Folded { periods, frame } = folded;
        let number = |name: &str| -> Result<_> { Ok(frame.column(name)?.i64()?.clone()) };
        let places = number("period")?;
        let segments = frame.column("segment")?.str()?.clone();
        let mut sorted = Self {
            window,
            members: frame.column("member")?.str()?.clone(),
            keys: number("key")?,
            scores: number("score")?,
            seqs: number("seq")?,
            runs: vec![],
        };
        let (low, high) = board.rules.range(window);
        let gap = || "the fold returned a null";
        let mut last: Option<(&str, i64)> = None;
        for row in 0..frame.height() {
            let (member, score) = (
                sorted.members.get(row).with_context(gap)?,
                sorted.scores.get(row).with_context(gap)?,
            );
            sorted.seqs.get(row).with_context(gap)?;
            let place = places.get(row).with_context(gap)?;
            let segment = segments.get(row).with_context(gap)?;
            let period = &periods[usize::try_from(place)?];
            ensure!(
                (low..=high).contains(&score),
                "history folds {member} to {score} in {window} {}, which is out of range",
                period.label
            );
            RankKey::from_i64(sorted.keys.get(row).with_context(gap)?)?;
            if last == Some((segment, place))
                && let Some(run) = sorted.runs.last_mut()
            {
                run.rows.end = row + 1;
                continue;
            }
            last = Some((segment, place));
            sorted.runs.push(Run {
                id: StandingsId::of(board, segment, window, period),
                period: period.clone(),
                rows: row..row + 1,
            });
        }
        Ok(sorted)
    }

    /// The entries, by standings.
    ///
    /// # Errors
    /// If a member's id is invalid.
    pub fn entries(&self) -> Result<Entries> {
        let mut entries = Entries::new();
        for Run { id, rows, .. } in self.runs() {
            let entry = |row: usize| {
                Ok(Entry {
                    member: MemberId::new(self.member(row))?,
                    key: self.key(row),
                    score: self.score(row),
                    seq: self.seq(row),
                })
            };
            let of_run = rows.clone().map(entry).collect::<Result<_>>()?;
            entries.insert(id.clone(), of_run);
        }
        Ok(entries)
    }

    /// The window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The rows by segment, then by time.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The rows that are expected, by segment and member, of a window without periods.
    pub fn awaited(&self) -> ExpectedRows<'_> {
        let segments = self.runs.iter();
        let segments = segments.map(|run| (run.id.segment.as_str(), run.rows.clone()));
        ExpectedRows::new(self.members.len(), segments, |row| self.member(row))
    }

    /// The member of a row.
    pub fn member(&self, row: usize) -> &str {
        self.members.get(row).expect("no member is null")
    }

    /// The key of a row.
    pub fn key(&self, row: usize) -> RankKey {
        let key = RankKey::from_i64(self.keys.get(row).expect("no key is null"));
        key.expect("`of` has checked all keys")
    }

    /// The raw score of a row.
    pub fn score(&self, row: usize) -> i64 {
        self.scores.get(row).expect("no score is null")
    }

    /// The seq of the last event behind a row.
    pub fn seq(&self, row: usize) -> i64 {
        self.seqs.get(row).expect("no seq is null")
    }
}

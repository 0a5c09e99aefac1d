//! Which rows of a file a board takes: the answers of an ordinary import, from rows on disk.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use anyhow::{Result, bail, ensure};
use engine::partition::append::marks::MemberMarks;
use ranking::board::{Board, Policy};
use ranking::fold::replay::Replay;
use xxhash_rust::xxh3::xxh3_64;

use super::spool::{Spool, SpooledRow};
use crate::import::rows::{BadRow, FileRow};

/// The most bad rows: they are listed in memory.
const BAD_MAX: usize = 1_000_000;

/// The parts in which rows with event ids are looked at, so that memory has one part of them.
pub(crate) const ID_PARTS: usize = 256;

/// The rows of a file that are not imported.
#[derive(Default)]
pub(crate) struct Skipped {
    /// A bit for each number of a row.
    bits: Vec<u64>,
    /// The rows whose event an earlier row has.
    pub(crate) known: usize,
    /// The bad rows, in no order.
    pub(crate) bad: Vec<BadRow>,
}

impl Skipped {
    /// True if the row of a number is not imported.
    pub(crate) fn has(&self, number: u64) -> bool {
        let word = self.bits.get((number / 64) as usize);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Adds a bad row, which had no number if it could not be read.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn add_bad(&mut self, number: Option<u64>, row: BadRow) -> Result<()> {
        self.bad.push(row);
        ensure!(
            self.bad.len() <= BAD_MAX,
            "the file has more than {BAD_MAX} bad rows: expected a file of scores, or an import without --bulk"
        );
        number.into_iter().for_each(|number| self.skip(number));
        Ok(())
    }

    fn skip(&mut self, number: u64) {
        let word = (number / 64) as usize;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (number % 64);
    }
}

/// The part of a row with an event id.
pub(crate) fn id_part(row: &FileRow) -> Option<usize> {
    let id = row.event_id.as_ref()?;
    let hash = xxh3_64(format!("{}\n{id}", row.member).as_bytes());
    Some((hash % ID_PARTS as u64) as usize)
}

/// Skips the rows whose event id an earlier row has; one with another content is a bad row.
///
/// # Errors
/// If the rows cannot be read, or too many are bad.
pub(crate) fn skip_known(ids: &Spool, skipped: &mut Skipped) -> Result<()> {
    for part in 0..ids.parts() {
        let mut known = HashMap::new();
        for spooled in ids.rows(part)? {
            let SpooledRow { number, row, .. } = spooled?;
            let Some(id) = row.event_id else { continue };
            let content = (row.score, row.at_ms, row.metadata);
            match known.entry((row.member, id)) {
                Entry::Vacant(place) => {
                    place.insert(content);
                }
                Entry::Occupied(first) if *first.get() == content => {
                    skipped.known += 1;
                    skipped.skip(number);
                }
                Entry::Occupied(first) => {
                    let reason = reused(first.key().1.as_str());
                    skipped.add_bad(Some(number), BadRow { line: row.line, reason })?;
                }
            }
        }
    }
    Ok(())
}

/// Says that an event id is not new.
pub(crate) fn reused(id: &str) -> String {
    format!("its event id {id:?} was used with another score, time or metadata")
}

/// The rules by which rows are taken.
pub(crate) struct Checker<'a> {
    pub(crate) board: &'a Board,
    pub(crate) marks: &'a MemberMarks,
    pub(crate) now_ms: i64,
    /// The instant before which periods of the board are sealed, in Unix milliseconds.
    pub(crate) sealed_before_ms: i64,
}

/// The rows of one partition that are imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) rows: usize,
    /// The earliest time of a row, in Unix milliseconds.
    pub(crate) first_at_ms: i64,
}

impl Checker<'_> {
    /// Skips the rows of one partition that its board refuses.
    ///
    /// # Errors
    /// If a row lies in a sealed period, the rows cannot be read, or too many are bad.
    pub(crate) fn check(
        &self,
        rows: &Spool,
        part: usize,
        skipped: &mut Skipped,
    ) -> Result<Figures> {
        let mut bounds = Bounds::of(self.board);
        for spooled in rows.rows(part)? {
            let SpooledRow { number, row, .. } = spooled?;
            if skipped.has(number) {
                continue;
            }
            let reason = match self.check_alone(&row) {
                Ok(()) => {
                    bounds.add(&row);
                    continue;
                }
                Err(ranking::Error::Suspicious(_, reason)) => reason,
                Err(error) => error.to_string(),
            };
            skipped.add_bad(Some(number), BadRow { line: row.line, reason })?;
        }
        let mut replay = bounds
            .may_be_left(self.board)
            .then(|| Replay::without(Default::default(), self.now_ms));
        let mut figures = Figures { rows: 0, first_at_ms: i64::MAX };
        for spooled in rows.rows(part)? {
            let SpooledRow { number, row, segments } = spooled?;
            if skipped.has(number) {
                continue;
            }
            if row.at_ms < self.sealed_before_ms {
                bail!(
                    "row {} was earned in a period that is sealed: expected later scores, or an import without --bulk",
                    row.line
                );
            }
            let admitted = replay.as_mut().map_or(Ok(()), |replay| {
                replay.admit(self.board, &row.member, &segments, (row.score, row.at_ms))
            });
            if let Err(error) = admitted {
                let reason = error.to_string();
                skipped.add_bad(Some(number), BadRow { line: row.line, reason })?;
                continue;
            }
            figures.rows += 1;
            figures.first_at_ms = figures.first_at_ms.min(row.at_ms);
        }
        Ok(figures)
    }

    /// The checks that need no other row.
    fn check_alone(&self, row: &FileRow) -> ranking::Result<()> {
        let mark = self.marks.get(&row.member);
        mark.map_or(Ok(()), |mark| mark.check())?;
        self.board.admission.check(row.at_ms, self.now_ms)?;
        if self.board.rules.policy != Policy::Sum {
            self.board.rules.check_score(row.score)?;
        }
        mark.map_or(Ok(()), |mark| mark.check_ban(self.board.no))
    }
}

/// The sums that the scores of each member can add up to, whichever of them count. A map of numbers
/// takes less memory than a fold, and less time.
struct Bounds {
    /// The sum of negative scores and the sum of positive ones, by the hash of the member; `None`
    /// if no sums say whether a row is refused.
    sums: Option<HashMap<u64, (i64, i64)>>,
    is_needed: bool,
}

impl Bounds {
    fn of(board: &Board) -> Self {
        let rules = &board.rules;
        let has_decay = rules.windows.iter().any(|window| window.half_life().is_some());
        let is_plain = rules.attempts.is_empty() && !has_decay;
        let holds_nothing = (rules.min..=rules.max).contains(&0);
        let is_sum = rules.policy == Policy::Sum;
        let sums = (is_plain && is_sum && holds_nothing).then(HashMap::new);
        Self { sums, is_needed: is_sum || !is_plain }
    }

    fn add(&mut self, row: &FileRow) {
        let Some(sums) = &mut self.sums else { return };
        let (low, high) = sums.entry(xxh3_64(row.member.as_str().as_bytes())).or_default();
        *low = low.saturating_add(row.score.min(0));
        *high = high.saturating_add(row.score.max(0));
    }

    /// True if the rows have to be folded to learn whether an entry leaves its range. No window has
    /// a narrower range than the board.
    fn may_be_left(&self, board: &Board) -> bool {
        let (min, max) = (board.rules.min, board.rules.max);
        let leaves = |&(low, high): &(i64, i64)| low < min || high > max;
        self.is_needed && self.sums.as_ref().is_none_or(|sums| sums.values().any(leaves))
    }
}

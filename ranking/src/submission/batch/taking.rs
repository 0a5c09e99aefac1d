//! The places in sources that a batch takes.
//!
//! A partition is one serial history, and a commit is refused unless its writer has read the head
//! before it. So a position that a fold has read cannot have moved before the commit that moves it.

use std::collections::{BTreeMap, BTreeSet};

use crate::commit::{Commit, Head};
use crate::error::{Error, Result};
use crate::id::{BoardNo, SourceName};
use crate::position::{
    COUNT_FIELD, POSITIONS_MAX, Position, Provenance, REFUSED_MAX, SourcePlace, SourcePosition,
    position_field,
};
use crate::submission::{Snapshot, Submission, Verdict, Wanted};

/// A board in a layout.
type OfBoard = (BoardNo, u32);

/// Asks for the positions in the sources that submissions come from.
pub(super) fn want_positions(submissions: &[Submission], wanted: &mut Wanted) {
    let mut fields: BTreeMap<OfBoard, BTreeSet<String>> = BTreeMap::new();
    for (of_board, provenance) in submissions.iter().filter_map(of) {
        let field = position_field(&provenance.source.name, provenance.source.partition);
        fields.entry(of_board).or_default().insert(field);
    }
    for ((no, since), fields) in fields {
        let first = std::iter::once(COUNT_FIELD.to_owned());
        wanted.positions.push((no, since, first.chain(fields).collect()));
    }
}

fn of(submission: &Submission) -> Option<(OfBoard, &Provenance)> {
    let provenance = submission.provenance.as_ref()?;
    Some(((submission.board.no, submission.board.layout_since()), provenance))
}

/// A position during a fold.
#[derive(Default)]
struct Moving<'a> {
    position: Position,
    is_new: bool,
    /// Set by the first place that is taken.
    source: Option<(&'a SourceName, u32)>,
    /// The places that this batch refused since the last one that it took.
    refused: Vec<SourcePlace>,
}

/// The positions of a batch during its fold.
pub(super) struct Taking<'a> {
    head: &'a Head,
    by_field: BTreeMap<(OfBoard, String), Moving<'a>>,
    counts: BTreeMap<OfBoard, u64>,
}

impl<'a> Taking<'a> {
    /// The positions of a snapshot.
    ///
    /// # Errors
    /// `Corrupt` if one is no position.
    pub(super) fn onto(wanted: &Wanted, snapshot: &'a Snapshot) -> Result<Self> {
        let (mut by_field, mut counts) = (BTreeMap::new(), BTreeMap::new());
        for ((no, since, fields), found) in wanted.positions.iter().zip(&snapshot.positions) {
            let of_board = (*no, *since);
            for (field, text) in fields.iter().zip(found) {
                if field == COUNT_FIELD {
                    let count = text.as_deref().unwrap_or("0").parse();
                    let corrupt = |_| Error::corrupt("the number of positions is no number");
                    counts.insert(of_board, count.map_err(corrupt)?);
                    continue;
                }
                let position = text.as_deref().map(Position::parse).transpose()?;
                let is_new = position.is_none();
                let position = position.unwrap_or_default();
                let moving = Moving { position, is_new, ..Moving::default() };
                by_field.insert((of_board, field.clone()), moving);
            }
        }
        Ok(Self { head: &snapshot.head, by_field, counts })
    }

    /// The verdict on a submission by its place alone; `None` if it has to be judged.
    pub(super) fn verdict(&self, submission: &Submission) -> Option<Verdict> {
        let (of_board, provenance) = of(submission)?;
        let moving = self.by_field.get(&key(of_board, provenance))?;
        if moving.position.has_taken(&submission.member, provenance.place) {
            let is_by_batch = moving.source.is_some();
            let seq = self.head.seq + u64::from(is_by_batch);
            // The commit of this batch has no id yet; see `name_commit`.
            let commit = if is_by_batch { String::new() } else { self.head.commit.clone() };
            return Some(Verdict::Taken { seq, commit });
        }
        if moving.is_new && self.counts.get(&of_board).copied().unwrap_or(0) >= POSITIONS_MAX {
            return Some(Verdict::Rejected(Error::LimitExceeded(format!(
                "this board has scores of {POSITIONS_MAX} source partitions: expected at most as many"
            ))));
        }
        let refused = &provenance.source.refused;
        let most = moving.position.refused.len() + moving.refused.len() + refused.len();
        if most > REFUSED_MAX && moving.after(provenance).refused.len() > REFUSED_MAX {
            return Some(Verdict::Rejected(Error::Unavailable(format!(
                "{REFUSED_MAX} refused scores of source partition {} are not settled: expected settled to tell how far they are",
                provenance.source.partition
            ))));
        }
        None
    }

    /// The verdict on a submission that is not accepted; the place of a refused one stays open.
    pub(super) fn noted(&mut self, submission: &Submission, verdict: Verdict) -> Verdict {
        if matches!(verdict, Verdict::Rejected(_) | Verdict::Quarantined { .. })
            && let Some((of_board, provenance)) = of(submission)
            && let Some(moving) = self.by_field.get_mut(&key(of_board, provenance))
        {
            moving.refused.push(provenance.place);
        }
        verdict
    }

    /// Takes the place of a submission.
    pub(super) fn take(&mut self, submission: &'a Submission) {
        let Some((of_board, provenance)) = of(submission) else { return };
        let Some(moving) = self.by_field.get_mut(&key(of_board, provenance)) else { return };
        moving.position = moving.after(provenance);
        moving.refused.clear();
        if std::mem::take(&mut moving.is_new) {
            *self.counts.entry(of_board).or_default() += 1;
        }
        moving.source = Some((&provenance.source.name, provenance.source.partition));
    }

    /// The positions that the batch moves, and the new numbers of positions.
    pub(super) fn changes(self) -> (Vec<SourcePosition>, Vec<(BoardNo, u32, u64)>) {
        let mut moved = vec![];
        for (((board, layout_since), _), Moving { position, source, .. }) in self.by_field {
            if let Some((source, source_partition)) = source {
                let source = source.clone();
                moved.push(SourcePosition {
                    board,
                    layout_since,
                    source,
                    source_partition,
                    position,
                });
            }
        }
        let is_moved = |of_board: &OfBoard| {
            moved.iter().any(|moved| (moved.board, moved.layout_since) == *of_board)
        };
        let counts = self.counts.into_iter().filter(|(of_board, _)| is_moved(of_board));
        let counts = counts.map(|((no, since), count)| (no, since, count)).collect();
        (moved, counts)
    }
}

impl Moving<'_> {
    /// The position once a place is taken.
    fn after(&self, provenance: &Provenance) -> Position {
        let mut position = self.position.clone();
        let refused = self.refused.iter().chain(&provenance.source.refused).copied();
        position.take(provenance.place, refused, provenance.source.settled);
        position
    }
}

fn key(of_board: OfBoard, provenance: &Provenance) -> (OfBoard, String) {
    (of_board, position_field(&provenance.source.name, provenance.source.partition))
}

/// Names the commit of a batch in the verdicts on places that the batch itself took.
pub(super) fn name_commit(verdicts: &mut [Verdict], commit: Option<&Commit>) {
    let Some(own) = commit else { return };
    for verdict in verdicts {
        if let Verdict::Taken { seq, commit } = verdict
            && *seq == own.seq
        {
            commit.clone_from(&own.id);
        }
    }
}

//! Duplicates under `ack: DURABLE`: SQL must have the event that was accepted first, and not only a
//! commit of its seq.

use std::collections::{BTreeMap, BTreeSet};

use entity::archive::archive_mark;
use entity::history::event_ids;
use ranking::id::PartitionNo;
use ranking::submission::event_ids::ELSEWHERE;
use ranking::submission::{Submission, Verdict};

use crate::app::App;
use crate::error::Result;

/// The indices of duplicates whose first event SQL does not have, although it may have a commit of
/// that seq: Redis lost the event, and another commit took its place. `own` is the seq of the
/// commit that accepted others of these submissions.
pub(super) async fn lost(
    app: &App,
    partition: PartitionNo,
    submissions: &[Submission],
    verdicts: &[Verdict],
    own: Option<u64>,
) -> Result<BTreeSet<usize>> {
    let mut by_seq: BTreeMap<u64, Vec<(usize, &Submission, &str)>> = BTreeMap::new();
    for (index, (submission, verdict)) in submissions.iter().zip(verdicts).enumerate() {
        if let Verdict::Duplicate { seq } = verdict
            && ![Some(ELSEWHERE), own].contains(&Some(*seq))
            && let Some(id) = &submission.event_id
        {
            by_seq.entry(*seq).or_default().push((index, submission, id.as_str()));
        }
    }
    let db = &app.deployment.lookups;
    let mut lost = BTreeSet::new();
    for (seq, duplicates) in by_seq {
        let ids = duplicates.iter().map(|(_, _, id)| *id).collect();
        let found = event_ids::among(db, partition, seq, ids).await?;
        for (index, submission, id) in duplicates {
            let board = submission.board.no;
            let event = (board.0, submission.member.to_string(), id.to_owned());
            if !found.contains(&event)
                && archive_mark::of(db, board, partition).await?.archived_seq < seq as i64
            {
                lost.insert(index);
            }
        }
    }
    Ok(lost)
}

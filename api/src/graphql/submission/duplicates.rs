//! Duplicates under `ack: DURABLE`: SQL must have the event that was accepted first, and not only a
//! commit of its seq.

use std::collections::BTreeSet;

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
    let mut firsts = vec![];
    for (index, (submission, verdict)) in submissions.iter().zip(verdicts).enumerate() {
        if let Verdict::Duplicate { seq } = verdict
            && ![Some(ELSEWHERE), own].contains(&Some(*seq))
            && let Some(id) = &submission.event_id
        {
            let event = (submission.member.to_string(), *seq as i64, id.as_str().to_owned());
            firsts.push((index, event));
        }
    }
    let (Some(first), false) = (submissions.first(), firsts.is_empty()) else {
        return Ok(BTreeSet::new());
    };
    // All of a request are of one board.
    let (db, board) = (&app.deployment.lookups, first.board.no);
    let events: Vec<_> = firsts.iter().map(|(_, event)| event.clone()).collect();
    let found = event_ids::among(db, (board, partition), &events).await?;
    firsts.retain(|(_, event)| !found.contains(event));
    if firsts.is_empty() {
        return Ok(BTreeSet::new());
    }
    let archived_seq = archive_mark::of(db, board, partition).await?.archived_seq;
    firsts.retain(|(_, (_, seq, _))| *seq > archived_seq);
    Ok(firsts.into_iter().map(|(index, _)| index).collect())
}

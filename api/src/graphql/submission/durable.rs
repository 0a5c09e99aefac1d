//! `ack: DURABLE`: an answer that waits until SQL holds the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::settings::traces::SPANS;
use entity::history::{commit, dead_letter};
use ranking::id::PartitionNo;
use ranking::submission::event_ids::ELSEWHERE;
use ranking::submission::{Submission, Verdict};
use tokio::time::{Instant, sleep, timeout_at};

use super::duplicates;
use crate::app::App;
use crate::cache::cursors::INTERVAL;
use crate::error::{Error, ErrorCode, Result};
use crate::submit::committer::Submitted;

/// How long a request waits for SQL.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until SQL has the commits of submissions, and returns their outcomes. One that SQL does
/// not confirm in time has a `TIMEOUT`; one that SQL refused for its content is refused. A
/// duplicate waits for the commit of the first one, and one by its position for the commit that had
/// passed it.
pub(crate) async fn confirm(
    app: &App,
    partition: PartitionNo,
    submissions: &[Submission],
    placed: Submitted,
) -> Vec<Result<Verdict>> {
    let _span = tracing::info_span!(target: SPANS, "durable", partition = partition.0);
    let own = placed.commit;
    let seq_of = |verdict: &Verdict| match verdict {
        Verdict::Accepted { seq, .. } => Some(*seq),
        // Another partition accepted the first one before the board moved, so SQL has it.
        Verdict::Duplicate { seq: ELSEWHERE } => None,
        Verdict::Duplicate { seq } | Verdict::Taken { seq, .. } => Some(*seq),
        Verdict::Quarantined { .. } | Verdict::Rejected(_) => None,
    };
    let mut seqs: BTreeSet<u64> = placed.verdicts.iter().filter_map(seq_of).collect();
    // The id of this commit is known: if SQL has it, SQL has all commits before it too.
    let last = own.as_ref().map(|(seq, _)| *seq);
    seqs.extend(last);
    let taken = placed.verdicts.iter().filter_map(|verdict| match verdict {
        Verdict::Taken { seq, commit } => Some((*seq, commit.as_str())),
        _ => None,
    });
    let own_id = own.as_ref().map(|(seq, id)| (*seq, id.as_str()));
    let ids: BTreeMap<u64, &str> = taken.chain(own_id).collect();
    let deadline = Instant::now() + TIMEOUT;
    let mut confirmed = BTreeMap::new();
    for seq in seqs {
        let id = ids.get(&seq).copied();
        confirmed.insert(seq, wait(app, partition, seq, id, deadline).await);
    }
    let lost = duplicates::lost(app, partition, submissions, &placed.verdicts, last);
    // It is bounded too: a connection may be silent.
    let lost = timeout_at(deadline, lost).await.unwrap_or_else(|_| Err(unknown()));
    let last = last.and_then(|last| confirmed.get(&last).cloned());
    let confirm = |(index, verdict): (usize, Verdict)| {
        let is_duplicate = matches!(verdict, Verdict::Duplicate { .. });
        if is_duplicate && lost.as_ref().ok().is_none_or(|lost| lost.contains(&index)) {
            return Err(unknown());
        }
        if let (Verdict::Accepted { .. }, Some(Err(error))) = (&verdict, &last) {
            return Err(error.clone());
        }
        let Some(refused) = seq_of(&verdict).and_then(|seq| confirmed.get(&seq)) else {
            return Ok(verdict);
        };
        match (refused, &verdict) {
            (Err(error), _) => Err(error.clone()),
            (Ok(refused), Verdict::Accepted { index, .. }) if refused.contains(index) => {
                Err(Error::new(
                    ErrorCode::Internal,
                    "the database refused this score for its content; the server keeps it for its operator",
                ))
            }
            _ => Ok(verdict),
        }
    };
    placed.verdicts.into_iter().enumerate().map(confirm).collect()
}

/// Waits until SQL has the commit of a seq, and of an id if that is known. Returns the indices of
/// the events that SQL refused. An error of SQL is no answer: the score is ranked, and the wait
/// goes on.
///
/// # Errors
/// `TIMEOUT`, and nothing else.
async fn wait(
    app: &App,
    partition: PartitionNo,
    seq: u64,
    id: Option<&str>,
    deadline: Instant,
) -> Result<BTreeSet<u32>> {
    loop {
        match timeout_at(deadline, look(app, partition, seq, id)).await {
            Ok(Ok(Look::Confirmed(refused))) => return Ok(refused),
            Ok(Ok(Look::Other)) => return Err(unknown()),
            Ok(Ok(Look::NotYet)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "waiting for the database"),
            Err(_) => return Err(unknown()),
        }
        if Instant::now() + INTERVAL >= deadline {
            return Err(unknown());
        }
        app.committers.hurry_persister();
        sleep(INTERVAL).await;
    }
}

/// The answer of SQL about a commit.
enum Look {
    /// It has the commit; it refused the events of these indices.
    Confirmed(BTreeSet<u32>),
    /// It has another commit of this seq: Redis lost the awaited one before SQL had it.
    Other,
    /// It has not got so far.
    NotYet,
}

/// Looks for a commit, by connections that write nothing: what they read is committed.
async fn look(app: &App, partition: PartitionNo, seq: u64, id: Option<&str>) -> Result<Look> {
    if app.cursors.seq(&app.deployment, &app.health, partition).await? < seq {
        return Ok(Look::NotYet);
    }
    let db = &app.deployment.lookups;
    let look_up = async {
        if let Some(id) = id {
            match commit::find(db, partition, seq).await? {
                Some(row) if row.id == id => {}
                Some(_) => return Ok(Look::Other),
                None => return Ok(Look::NotYet),
            }
        }
        let letters = dead_letter::of_commit(db, partition, seq).await?;
        Ok(Look::Confirmed(letters.iter().map(|row| row.event_index.unsigned_abs()).collect()))
    };
    app.health.sql.ask_again(look_up).await
}

fn unknown() -> Error {
    Error::new(
        ErrorCode::Timeout,
        "the score is ranked, but the database has not confirmed it in time; send again with the same eventId",
    )
}

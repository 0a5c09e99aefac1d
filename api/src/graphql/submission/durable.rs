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
    let confirmed = wait(app, partition, seqs, &ids, deadline).await;
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

/// The indices of a commit's events that SQL refused, or `TIMEOUT`.
type Confirmed = Result<BTreeSet<u32>>;

/// Waits until SQL has the commits of some seqs, and of their ids where these are known. An error
/// of SQL is no answer: the score is ranked, and the wait goes on.
async fn wait(
    app: &App,
    partition: PartitionNo,
    mut seqs: BTreeSet<u64>,
    ids: &BTreeMap<u64, &str>,
    deadline: Instant,
) -> BTreeMap<u64, Confirmed> {
    let mut confirmed = BTreeMap::new();
    while !seqs.is_empty() {
        match timeout_at(deadline, look(app, partition, &seqs, ids)).await {
            Ok(Ok(found)) => confirmed.extend(found),
            Ok(Err(error)) => tracing::debug!(%error, "waiting for the database"),
            Err(_) => break,
        }
        seqs.retain(|seq| !confirmed.contains_key(seq));
        if seqs.is_empty() || Instant::now() + INTERVAL >= deadline {
            break;
        }
        app.committers.hurry_persister();
        sleep(INTERVAL).await;
    }
    confirmed.extend(seqs.into_iter().map(|seq| (seq, Err(unknown()))));
    confirmed
}

/// Looks for commits, by connections that write nothing: what they read is committed. Returns those
/// that SQL has got to; it may have another one of such a seq, if Redis lost the awaited one before
/// SQL had it.
async fn look(
    app: &App,
    partition: PartitionNo,
    seqs: &BTreeSet<u64>,
    ids: &BTreeMap<u64, &str>,
) -> Result<BTreeMap<u64, Confirmed>> {
    let cursor = app.cursors.seq(&app.deployment, &app.health, partition).await?;
    let reached: Vec<u64> = seqs.iter().copied().filter(|seq| *seq <= cursor).collect();
    if reached.is_empty() {
        return Ok(BTreeMap::new());
    }
    let db = &app.deployment.lookups;
    let look_up = async {
        let named = || reached.iter().filter_map(|seq| Some((*seq, *ids.get(seq)?)));
        let rows = commit::ids(db, partition, named().map(|(seq, _)| seq).collect()).await?;
        let mut confirmed: BTreeMap<u64, Confirmed> =
            reached.iter().map(|seq| (*seq, Ok(BTreeSet::new()))).collect();
        for (seq, id) in named() {
            match rows.get(&seq) {
                Some(row) if row == id => {}
                Some(_) => _ = confirmed.insert(seq, Err(unknown())),
                None => _ = confirmed.remove(&seq),
            }
        }
        for letter in dead_letter::of_commits(db, partition, &reached).await? {
            if let Some(Ok(refused)) = confirmed.get_mut(&letter.seq.unsigned_abs()) {
                refused.insert(letter.event_index.unsigned_abs());
            }
        }
        Ok(confirmed)
    };
    app.health.sql.ask_again(look_up).await
}

fn unknown() -> Error {
    Error::new(
        ErrorCode::Timeout,
        "the score is ranked, but the database has not confirmed it in time; send again with the same eventId",
    )
}

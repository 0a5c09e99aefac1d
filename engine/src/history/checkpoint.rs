//! Checkpoints: signed statements about the last commit of a partition.
//!
//! A commit's id stands for the whole history before it. So an outsider who holds a checkpoint can
//! tell whether a history that is shown later leads to that commit.

pub mod key;

use std::fmt;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use entity::deployment::clock::sql_now_ms;
use entity::error::Result;
use entity::history::{checkpoint, log_cursor};
use entity::sql::insert_chunked;
use ranking::Error;
use ranking::commit::content::{from_hex, to_hex};
use sea_orm::IntoActiveModel;
use sea_orm::sea_query::OnConflict;

use self::key::Key;
use crate::deployment::Deployment;
use crate::partition::Partition;

/// The first line of a statement.
const TITLE: &str = "laurel checkpoint 1";

/// The time between two checkpoints of a partition that goes on, in milliseconds.
pub const INTERVAL_MS: i64 = 86_400_000;

/// The partitions that get a checkpoint, of those that went on since their last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// All of them.
    Now,
    /// Those whose last one is older than [`INTERVAL_MS`].
    Daily,
}

/// A statement about a partition's last commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The deployment.
    pub deployment: String,
    /// The partition.
    pub partition: u16,
    /// The epoch of SQL's cursor.
    pub epoch: u64,
    /// The seq of the commit.
    pub seq: u64,
    /// The id of the commit.
    pub commit_id: String,
    /// When it was signed, in Unix milliseconds.
    pub at_ms: i64,
    /// The public key, in hexadecimal.
    pub key: String,
}

/// The statement, which is what is signed.
impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deployment, partition, epoch, seq, commit_id, at_ms, key } = self;
        write!(
            f,
            "{TITLE}\ndeployment: {deployment}\npartition: {partition}\nepoch: {epoch}\nseq: {seq}\ncommit: {commit_id}\ntime: {at_ms}\nkey: {key}\n"
        )
    }
}

impl Checkpoint {
    /// The statement with its signature as a last line.
    fn signed(&self, key: &Key) -> String {
        let text = self.to_string();
        let signature = to_hex(&key.sign(text.as_bytes()));
        format!("{text}signature: {signature}\n")
    }

    /// Reads a statement with its signature, and checks that the key which it names has signed it.
    /// The caller checks whose key it is.
    ///
    /// # Errors
    /// `Invalid` for any other text.
    pub fn parse(text: &str) -> ranking::Result<Self> {
        let read = || {
            let mut lines = text.lines();
            let mut next = |name: &str| lines.next()?.strip_prefix(name);
            next(TITLE).filter(|rest| rest.is_empty())?;
            let checkpoint = Self {
                deployment: next("deployment: ")?.to_owned(),
                partition: next("partition: ")?.parse().ok()?,
                epoch: next("epoch: ")?.parse().ok()?,
                seq: next("seq: ")?.parse().ok()?,
                commit_id: next("commit: ")?.to_owned(),
                at_ms: next("time: ")?.parse().ok()?,
                key: next("key: ")?.to_owned(),
            };
            let signature = from_hex(next("signature: ")?)?;
            lines.next().is_none().then_some((checkpoint, signature))
        };
        let (checkpoint, signature) = read().ok_or_else(|| {
            Error::Invalid(format!("invalid checkpoint: expected {TITLE:?} and eight lines more"))
        })?;
        let key = from_hex(&checkpoint.key).unwrap_or_default();
        let statement = checkpoint.to_string();
        UnparsedPublicKey::new(&ED25519, key).verify(statement.as_bytes(), &signature).map_err(
            |_| {
                Error::Invalid(format!(
                    "invalid checkpoint of partition {} at seq {}: its key did not sign it",
                    checkpoint.partition, checkpoint.seq
                ))
            },
        )?;
        Ok(checkpoint)
    }

    /// Reads statements with blank lines between them.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_all(text: &str) -> ranking::Result<Vec<Self>> {
        let each = text.split("\n\n").map(str::trim).filter(|each| !each.is_empty());
        each.map(Self::parse).collect()
    }
}

/// Signs a checkpoint of each partition that is due, and keeps them in SQL.
///
/// # Errors
/// If SQL does not answer, or the key's file cannot be read or made.
pub async fn make(deployment: &Deployment, when: Due) -> Result<()> {
    // The clock of SQL, as other processes judge the age of what this one signs.
    let now_ms = sql_now_ms(&deployment.db).await?;
    let mut due = vec![];
    for partition in deployment.partitions() {
        let cursor = log_cursor::of(&deployment.db, partition.no).await?;
        let Some(cursor) = cursor.filter(|cursor| cursor.seq > 0) else { continue };
        let last = checkpoint::last(&deployment.db, partition.no).await?;
        let is_due = last.is_none_or(|last| {
            last.seq < cursor.seq && (when == Due::Now || is_old(last.created_at_ms, now_ms))
        });
        if is_due {
            due.push((partition, cursor));
        }
    }
    if due.is_empty() {
        return Ok(());
    }
    let key = Key::load(&deployment.checkpoint_key)?;
    for (partition, cursor) in due {
        let statement = Checkpoint {
            deployment: deployment.identity.to_string(),
            partition: partition.no.0,
            epoch: cursor.epoch.unsigned_abs(),
            seq: cursor.seq.unsigned_abs(),
            commit_id: cursor.commit_id.clone(),
            at_ms: now_ms,
            key: key.public(),
        };
        keep(partition, &cursor, statement.signed(&key), now_ms).await?;
    }
    Ok(())
}

/// True if a checkpoint is older than [`INTERVAL_MS`]; also if it is so far in the future, as of a
/// clock that was ahead.
fn is_old(created_at_ms: i64, now_ms: i64) -> bool {
    now_ms.abs_diff(created_at_ms) >= INTERVAL_MS.unsigned_abs()
}

/// Keeps a statement, unless another process made one of the same commit.
async fn keep(
    partition: Partition<'_>,
    cursor: &log_cursor::Model,
    statement: String,
    now_ms: i64,
) -> Result<()> {
    use checkpoint::Column::{Partition as In, Seq};
    let row = checkpoint::Model {
        partition: cursor.partition,
        seq: cursor.seq,
        commit_id: cursor.commit_id.clone(),
        statement,
        created_at_ms: now_ms,
    };
    let known = OnConflict::columns([In, Seq]).do_nothing_on([In, Seq]).to_owned();
    let rows = vec![row.into_active_model()];
    Ok(insert_chunked::<checkpoint::Entity, _>(&partition.db, rows, Some(known)).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(key: &Key) -> Checkpoint {
        Checkpoint {
            deployment: "d".to_owned(),
            partition: 3,
            epoch: 2,
            seq: 7,
            commit_id: "c".to_owned(),
            at_ms: 1_700_000_000_000,
            key: key.public(),
        }
    }

    #[test]
    fn a_checkpoint_is_old_after_a_day_and_a_day_before_it() {
        assert!(!is_old(INTERVAL_MS, INTERVAL_MS));
        assert!(!is_old(INTERVAL_MS, 2 * INTERVAL_MS - 1));
        assert!(is_old(INTERVAL_MS, 2 * INTERVAL_MS));
        assert!(!is_old(INTERVAL_MS, 1));
        assert!(is_old(INTERVAL_MS, 0));
    }

    #[test]
    fn a_statement_is_read_back_and_every_change_of_it_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let key = Key::load(&directory.path().join("key")).unwrap();
        let statement = checkpoint(&key).signed(&key);
        assert_eq!(Checkpoint::parse(&statement), Ok(checkpoint(&key)));
        let two = format!("{statement}\n{statement}");
        assert_eq!(Checkpoint::parse_all(&two).unwrap().len(), 2);
        for (part, other) in
            [("seq: 7", "seq: 8"), ("commit: c", "commit: d"), ("time: 17", "time: 18")]
        {
            assert!(Checkpoint::parse(&statement.replace(part, other)).is_err(), "{other}");
        }
        let page = include_str!("../../../docs/explanation/history.md");
        let example = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
        assert_eq!(Checkpoint::parse(example).unwrap().seq, 7);
        let another = Key::load(&directory.path().join("another")).unwrap();
        let forged = statement.replace(&key.public(), &another.public());
        assert!(Checkpoint::parse(&forged).is_err());
        assert!(Checkpoint::parse("laurel checkpoint 2\n").is_err());
    }
}

//! A partition's log and head: read, measured and trimmed.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use redis::Pipeline;

use super::scan::rolling::marks_of;
use super::{Store, decode};
use crate::board::mark::BoardMark;
use crate::commit::{Commit, Head};
use crate::error::{Error, Result};
use crate::id::{BoardNo, MemberId, PartitionNo};
use crate::merge::{MemberMark, member_field};
use crate::window::roll::RollMark;
use crate::window::seal::{SealMark, SealName};

/// A part of a partition's log, with the head.
#[derive(Debug)]
pub struct LogRead {
    /// The head at that moment.
    pub head: Head,
    /// The commits after the requested seq, oldest first.
    pub commits: Vec<Commit>,
    /// The seq up to which SQL had the commits when the log was last trimmed.
    pub settled: u64,
}

/// A part of a partition's log as it is, with the head.
pub(crate) struct RawLog {
    /// The text of the head.
    pub(crate) head: Option<String>,
    pub(crate) entries: LogEntries,
    /// As in [`LogRead`].
    pub(crate) settled: u64,
    /// The run id of the server that answered.
    pub(crate) run_id: Arc<str>,
}

/// Stream entries: ids and fields.
pub(crate) type LogEntries = Vec<(String, HashMap<Vec<u8>, Vec<u8>>)>;

/// The seq and text of a log entry; `None` if it does not look like one of Laurel's.
pub(crate) fn own_entry(
    (id, mut fields): (String, HashMap<Vec<u8>, Vec<u8>>),
) -> Option<(u64, String)> {
    let seq = id.strip_suffix("-0")?.parse().ok()?;
    Some((seq, String::from_utf8(fields.remove(&b"c"[..])?).ok()?))
}

/// The commits of log entries.
///
/// # Errors
/// `NotLevel` if another program wrote an entry: recovery makes a new log. `Corrupt` if an entry is
/// damaged or of another version.
fn commits_of(partition: PartitionNo, entries: LogEntries) -> Result<Vec<Commit>> {
    let commit = |entry| {
        let (seq, text) = own_entry(entry).ok_or(Error::NotLevel(partition.0))?;
        Commit::from_log(seq, &text)
    };
    entries.into_iter().map(commit).collect()
}

/// The id of the first log entry after a seq.
pub(crate) fn first_after(seq: u64) -> String {
    format!("{}-0", seq + 1)
}

/// A head, a part of a log, and the seq up to which SQL had it.
type LogRange = (Option<String>, LogEntries, Option<String>);

/// Asks for at most `count` entries of a log from an id on: `XRANGE`.
fn ask_log(pipe: &mut Pipeline, log: &str, from: &str, count: usize) {
    pipe.cmd("XRANGE").arg(log).arg(from).arg("+").arg("COUNT").arg(count);
}

/// The answers of all servers, in the order of the partitions that each was asked for.
///
/// # Errors
/// The first server's, if none answered.
pub(super) fn by_partition<P: Ord + Copy, T>(
    groups: Vec<Vec<P>>,
    asked: Vec<Result<Vec<T>>>,
) -> Result<Vec<Result<T>>> {
    if let Some(Err(error)) = asked.first()
        && asked.iter().all(Result::is_err)
    {
        return Err(error.clone());
    }
    let mut all: Vec<(P, Result<T>)> = vec![];
    for (group, asked) in groups.into_iter().zip(asked) {
        match asked {
            Ok(asked) => all.extend(group.into_iter().zip(asked.into_iter().map(Ok))),
            Err(error) => all.extend(group.into_iter().map(|one| (one, Err(error.clone())))),
        }
    }
    all.sort_unstable_by_key(|(partition, _)| *partition);
    Ok(all.into_iter().map(|(_, answer)| answer).collect())
}

impl Store {
    /// The commits after `seq`, at most `count`, and the head at that moment. One round trip:
    /// `GET`, `XRANGE` in a script.
    ///
    /// # Errors
    /// `NotLevel`, also if another program wrote an entry; `Unavailable`; `Corrupt` if an entry is
    /// damaged.
    pub async fn log_after(
        &self,
        partition: PartitionNo,
        seq: u64,
        count: usize,
    ) -> Result<LogRead> {
        let RawLog { head, entries, settled, run_id } =
            self.head_and_log(partition, &first_after(seq), count).await?;
        let head = self.check_level(partition, head.as_deref(), &run_id)?;
        Ok(LogRead { head, commits: commits_of(partition, entries)?, settled })
    }

    /// The log from an id on, level or not.
    pub(crate) async fn head_and_log(
        &self,
        partition: PartitionNo,
        from: &str,
        count: usize,
    ) -> Result<RawLog> {
        let keys = self.keys();
        let keys = [keys.head(partition), keys.log(partition), keys.settled(partition)];
        let mut pipe = redis::pipe();
        let script = pipe.cmd("EVALSHA").arg(self.inner.scripts.log.get_hash());
        script.arg(keys.len()).arg(&keys).arg(from).arg(count);
        let ((read,), run_id): ((LogRange,), _) = self.read(&pipe).await?;
        let (head, entries, settled) = read;
        let settled = settled.and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(RawLog { head, entries, settled, run_id })
    }

    /// The heads of all partitions, in order; an error for a partition that is not level or whose
    /// server does not answer. One round trip to all servers at once: a `GET` for each partition.
    ///
    /// # Errors
    /// `Unavailable` if no server answers.
    pub async fn heads(&self) -> Result<Vec<Result<Head>>> {
        let groups = self.inner.cluster.map().await?.by_server();
        let asked = join_all(groups.iter().map(|group| self.heads_of(group))).await;
        Ok(by_partition(groups, asked)?.into_iter().map(Result::flatten).collect())
    }

    /// The partitions, by the servers that have them.
    ///
    /// # Errors
    /// `Unavailable` if no server answers.
    pub async fn partitions_by_server(&self) -> Result<Vec<Vec<PartitionNo>>> {
        Ok(self.inner.cluster.map().await?.by_server())
    }

    /// Asks another server of a cluster which server has the partition of one that is silent.
    ///
    /// # Errors
    /// `Unavailable` if none tells.
    pub async fn look_beside(&self, silent: PartitionNo) -> Result<()> {
        self.inner.cluster.look_beside(silent).await
    }

    /// The heads of the partitions of one server, in their order; an error for one that is not
    /// level. One round trip: a `GET` for each.
    ///
    /// # Errors
    /// `Unavailable` if the server does not answer.
    pub async fn heads_of(&self, partitions: &[PartitionNo]) -> Result<Vec<Result<Head>>> {
        let mut pipe = redis::pipe();
        for &partition in partitions {
            pipe.cmd("GET").arg(self.keys().head(partition));
        }
        let mut answers = self.read_many(&pipe).await?;
        let values = std::mem::take(&mut answers.values).into_iter().enumerate();
        let head = |(index, value)| {
            let head: Option<String> = decode(Some(value))?;
            self.check_level(partitions[index], head.as_deref(), answers.run_id(index))
        };
        Ok(values.map(head).collect())
    }

    /// Notes that SQL has the commits up to `seq`, and drops them from the log but for the last
    /// `kept`; does nothing unless the run with that id accepted them. One round trip: `SET` and
    /// `XTRIM` in a script.
    pub async fn trim(
        &self,
        partition: PartitionNo,
        run_id: &str,
        seq: u64,
        kept: u64,
    ) -> Result<u64> {
        let keys = self.keys();
        let keys = [
            keys.head(partition),
            keys.log(partition),
            keys.sizes(partition),
            keys.settled(partition),
        ];
        let (settled, first) = (seq.to_string(), first_after(seq.saturating_sub(kept)));
        let args = [run_id.as_bytes(), first.as_bytes(), settled.as_bytes()];
        Ok(self.write(&self.inner.scripts.trim, &keys, &args).await?)
    }
}

/// The end of a partition's history, at one moment.
#[derive(Debug)]
pub struct Tail {
    /// The head.
    pub head: Head,
    /// The commits after the requested seq, oldest first.
    pub commits: Vec<Commit>,
    /// The mark of the board.
    pub board: BoardMark,
    /// The marks of its rolling windows, by series.
    pub rolls: HashMap<String, RollMark>,
    /// The marks of the requested seals.
    pub seals: Vec<SealMark>,
    /// The marks of the requested members.
    pub members: Vec<MemberMark>,
    /// The records of the requested event ids.
    pub seen: Vec<Option<String>>,
}

/// The length of a partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLength {
    /// The number of commits in it.
    pub commits: u64,
    /// The bytes of its commits without the oldest one.
    pub bytes: u64,
    /// The head's seq, level or not; `None` if there is no head.
    pub seq: Option<u64>,
}

impl Store {
    /// The length of each partition's log; `None` if its server does not answer. One round trip for
    /// each server: `XLEN`, `GET` and two `LINDEX` for each partition.
    ///
    /// # Errors
    /// `Unavailable` if no server answers.
    pub async fn log_lengths(&self) -> Result<Vec<Option<LogLength>>> {
        let groups = self.inner.cluster.map().await?.by_server();
        let asked = join_all(groups.iter().map(|group| self.log_lengths_of(group))).await;
        Ok(by_partition(groups, asked)?.into_iter().map(Result::ok).collect())
    }

    async fn log_lengths_of(&self, partitions: &[PartitionNo]) -> Result<Vec<LogLength>> {
        let mut pipe = redis::pipe();
        for &partition in partitions {
            pipe.cmd("XLEN").arg(self.keys().log(partition));
            pipe.cmd("GET").arg(self.keys().head(partition));
            for place in [0, -1] {
                pipe.cmd("LINDEX").arg(self.keys().sizes(partition)).arg(place);
            }
        }
        let answers = self.read_many(&pipe).await?.values;
        let mut values = answers.into_iter();
        let length = |_| {
            let commits = decode(values.next())?;
            let head: Option<String> = decode(values.next())?;
            let head = head.and_then(|head| Head::parse(&head).ok());
            let [first, last]: [Option<u64>; 2] = [decode(values.next())?, decode(values.next())?];
            let bytes = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
            Ok(LogLength { commits, bytes, seq: head.map(|head| head.seq) })
        };
        partitions.iter().map(length).collect()
    }

    /// As [`Store::tail`], without commits.
    pub async fn head_and_marks(
        &self,
        partition: PartitionNo,
        board: BoardNo,
        seals: &[SealName],
        seen: &[(i64, &str)],
    ) -> Result<Tail> {
        self.tail(partition, u64::MAX - 1, 1, (board, seals, &[]), seen).await
    }

    /// The commits after `seq`, at most `count`, with the marks of a board, of some seals and of
    /// some members, and the values of event ids (seen hashes and their fields). One round trip:
    /// `GET`, `XRANGE`, `HMGET`, `HGETALL`, `HGET` in a transaction.
    ///
    /// # Errors
    /// As [`Store::log_after`].
    pub async fn tail(
        &self,
        partition: PartitionNo,
        seq: u64,
        count: usize,
        (board, seals, members): (BoardNo, &[SealName], &[MemberId]),
        seen: &[(i64, &str)],
    ) -> Result<Tail> {
        let keys = self.keys();
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("GET").arg(keys.head(partition));
        ask_log(&mut pipe, &keys.log(partition), &first_after(seq), count);
        let marks = pipe.cmd("HMGET").arg(keys.board_marks(partition)).arg(board.0);
        for seal in seals {
            marks.arg(seal.field());
        }
        for member in members {
            marks.arg(member_field(member));
        }
        pipe.cmd("HGETALL").arg(keys.rolls(partition, board));
        for (bucket, field) in seen {
            pipe.cmd("HGET").arg(keys.seen(partition, *bucket)).arg(field);
        }
        let (answers, run_id): (Vec<redis::Value>, _) = self.read(&pipe).await?;
        let mut answers = answers.into_iter();
        let head: Option<String> = decode(answers.next())?;
        let head = self.check_level(partition, head.as_deref(), &run_id)?;
        let commits = commits_of(partition, decode(answers.next())?)?;
        let marks: Vec<Option<String>> = decode(answers.next())?;
        let mut marks = marks.into_iter();
        let board = BoardMark::parse(marks.next().flatten().as_deref())?;
        let of_seals = marks.by_ref().take(seals.len());
        let seals = of_seals.map(|mark| SealMark::parse(mark.as_deref())).collect::<Result<_>>()?;
        let members =
            marks.map(|mark| MemberMark::parse(mark.as_deref())).collect::<Result<_>>()?;
        Ok(Tail {
            head,
            commits,
            board,
            seals,
            members,
            rolls: marks_of(decode(answers.next())?)?,
            seen: seen.iter().map(|_| decode(answers.next())).collect::<Result<_>>()?,
        })
    }
}

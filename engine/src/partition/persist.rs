//! The persister: writes a partition's log to SQL, exactly once, in whichever process and however
//! often it runs.
//!
//! One transaction moves the cursor from exactly its former position (run id included). It also
//! writes the commits, their events, new members, the all-time standings, corrections of sealed
//! standings, and positions in sources. A persister that loses the race for the cursor changes
//! nothing.

mod refusals;

use std::collections::HashMap;
use std::time::Duration;

use ranking::board::Board;
use ranking::commit::{Commit, Event, EventKind};
use ranking::id::BoardNo;
use ranking::store::log::LogRead;
use ranking::submission::Wanted;
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, QueryFilter,
};
use tokio::time::{sleep, timeout};
use tracing::Instrument;

use crate::partition::all_time_rows;
use crate::partition::{HistoryTransaction, Partition};
use crate::seal::correction;
use crate::seal::correction::Source;
use crate::settings::traces::SPANS;
use entity::deployment::clock::sql_now_ms;
use entity::error::{Error, Result, is_deadlock, is_refused_content};
use entity::history::{commit, dead_letter, log_cursor, score_event, source_position};
use entity::sql::{begin, insert_chunked};
use entity::{board, member};
pub(crate) use refusals::Refusals;
use refusals::{Refused, letter};

/// The most commits in one transaction.
const COMMITS_MAX: usize = 1000;

/// The number of commits in the first read of a log: each may have a thousand events, or one.
const COMMITS_AT_FIRST: usize = 8;

/// The most events in one transaction, unless a single commit has more.
const EVENTS_MAX: usize = 5000;

/// The longest time of one transaction, with all that it reads: a connection that is silent must
/// not be waited for. It is longer than SQLite waits for a lock.
const PERSIST_TIMEOUT: Duration = Duration::from_secs(45);

/// The pause before a cursor that is behind what SQL had is looked at again.
const CURSOR_WAIT: Duration = Duration::from_millis(500);

/// The most commits that stay in a log although SQL has them; the part of a full log that they are
/// at most; and the most events in them, about.
const TAIL_COMMITS_MAX: u64 = 1000;
const TAIL_PART: u64 = 10;
const TAIL_EVENTS_MAX: u64 = 20_000;

/// The result of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// SQL already had the whole log.
    Level {
        /// The head's seq.
        seq: u64,
    },
    /// Commits were written; the log may have more.
    Wrote {
        /// The seq of the last commit written.
        seq: u64,
        /// The seq of the head when the log was read.
        head: u64,
    },
    /// Another persister moved the cursor first, or another transaction won a deadlock.
    Beaten,
}

impl Partition<'_> {
    /// Writes one transaction's worth of the partition's log after the cursor, then trims the log
    /// up to a tail behind the cursor.
    ///
    /// # Errors
    /// `NotLevel` if the log does not lead on from the cursor in this run of Redis; `Unavailable`
    /// if that takes too long, as on a silent connection, which is then closed.
    pub async fn persist(self) -> Result<Progress> {
        let persisted = timeout(PERSIST_TIMEOUT, Box::pin(self.persist_once())).await;
        match persisted {
            Ok(Err(Error::Sql(error))) if is_deadlock(&error) => {
                tracing::debug!(partition = %self, %error, "another transaction goes first");
                Ok(Progress::Beaten)
            }
            Ok(persisted) => persisted,
            Err(_) => {
                let seconds = PERSIST_TIMEOUT.as_secs();
                Err(ranking::Error::Unavailable(format!(
                    "partition {self} was not persisted in {seconds} s"
                ))
                .into())
            }
        }
    }

    async fn persist_once(self) -> Result<Progress> {
        let not_level = || Error::Ranking(ranking::Error::NotLevel(self.no.0));
        let cursor = self.cursor().await?.ok_or_else(not_level)?;
        let log = self.read_log(cursor.seq as u64).await?;
        if !cursor.accepts(&log.head) {
            return Err(not_level());
        }
        if log.settled > cursor.seq as u64 {
            // Another persister has moved the cursor since, which a node of a cluster of databases
            // may learn late, or SQL has gone back.
            sleep(CURSOR_WAIT).await;
            let is_behind = self.cursor().await?.is_none_or(|now| log.settled > now.seq as u64);
            return if is_behind { Err(not_level()) } else { Ok(Progress::Beaten) };
        }
        if log.commits.is_empty() {
            let level = log.head.seq == cursor.seq as u64 && log.head.commit == cursor.commit_id;
            return if level {
                self.watch.note_persisted(self.no, None);
                self.trim_full_log(&cursor).await;
                Ok(Progress::Level { seq: log.head.seq })
            } else {
                Err(not_level())
            };
        }
        let commits = one_transaction(log.commits);
        if !descends(&cursor, &commits) {
            return Err(not_level());
        }
        let span = tracing::info_span!(
            target: SPANS,
            parent: None,
            "persist",
            partition = self.no.0,
            commits = commits.len(),
            events = events_of(&commits),
        );
        let Some(seq) = self.persist_commits(&cursor, &commits).instrument(span).await? else {
            return Ok(Progress::Beaten);
        };
        self.watch.note_persisted(self.no, None);
        let kept = tail_of(&commits, self.log_commits_max.min(self.log_bytes_max >> 10));
        self.store.trim(self.no, &cursor.run_id, seq, kept).await?;
        Ok(Progress::Wrote { seq, head: log.head.seq })
    }

    /// Trims a log that is full although SQL has all of it: a persister that ended before it
    /// trimmed would leave the partition without commits, and so without another persister.
    async fn trim_full_log(self, cursor: &log_cursor::Model) {
        let Ok(found) = self.snapshot(&Wanted::default()).await else { return };
        if self.is_full(found.log_len, found.log_bytes) {
            // The next round tries again.
            let seq = cursor.seq.unsigned_abs();
            let _ = self.store.trim(self.no, &cursor.run_id, seq, 0).await;
        }
    }

    /// Reads about as much of a log as one transaction takes.
    async fn read_log(self, seq: u64) -> Result<LogRead> {
        let mut count = COMMITS_AT_FIRST;
        let mut log = self.store.log_after(self.no, seq, count).await?;
        let mut read = log.commits.len();
        while let Some(last) = log.commits.last()
            && read == count
            && log.commits.len() < COMMITS_MAX
            && events_of(&log.commits) < EVENTS_MAX
        {
            count *= 4;
            let more = self.store.log_after(self.no, last.seq, count).await?;
            read = more.commits.len();
            log.head = more.head;
            log.commits.extend(more.commits);
        }
        Ok(log)
    }

    /// Writes commits that descend from the cursor.
    ///
    /// If SQL refuses content, the commits are halved until the faulty events are found; those
    /// become dead letters and the rest goes on.
    ///
    /// Returns the seq of the last commit written, which may not be the last one given; `None` if
    /// another persister moved the cursor first.
    ///
    /// # Errors
    /// Any error of SQL except refused content; that, too, if SQL refuses a commit and none of its
    /// events. The watch then tells of it.
    pub(crate) async fn persist_commits(
        self,
        cursor: &log_cursor::Model,
        commits: &[Commit],
    ) -> Result<Option<u64>> {
        let numbers = commits.iter().flat_map(|commit| &commit.events).map(|event| event.board);
        let boards = board::some_given_out(&self.db, numbers.collect()).await?;
        let (mut part, mut refused) = (commits, Refused::new());
        // A former call had too little time for the first commit, the only one that is searched.
        if let Some(first) = commits.first()
            && self.refusals.has_begun(self.no, first)
        {
            part = &commits[..1];
            refused = self.find_refused(cursor, first, &boards).await?;
        }
        loop {
            match self.write(cursor, part, &boards, &refused).await {
                Ok(true) => {
                    self.refusals.forget(self.no);
                    return Ok(part.last().map(|commit| commit.seq));
                }
                Ok(false) => return Ok(None),
                Err(error) if !is_refused_content(&error) => return Err(error.into()),
                Err(_) if part.len() > 1 => part = &part[..part.len() / 2],
                Err(error) => {
                    let before = refused.len();
                    refused = self.find_refused(cursor, &part[0], &boards).await?;
                    if refused.len() == before {
                        self.refusals.forget(self.no);
                        let text = format!(
                            "SQL refuses commit {} of partition {self} though it takes each of its events alone ({error}): expected it to take both; remove the cause, or the partition's log grows to its limit",
                            part[0].seq
                        );
                        self.watch.note_persisted(self.no, Some(text));
                        return Err(error.into());
                    }
                }
            }
        }
    }

    async fn write(
        self,
        cursor: &log_cursor::Model,
        commits: &[Commit],
        boards: &HashMap<BoardNo, Board>,
        refused: &Refused,
    ) -> Result<bool, DbErr> {
        let writing = async {
            let transaction = begin(&self.db).await?;
            if write_into(self.within(&transaction, boards), cursor, commits, refused).await? {
                transaction.commit().await?;
                return Ok(true);
            }
            transaction.rollback().await?;
            Ok(false)
        };
        writing.instrument(tracing::info_span!(target: SPANS, "transaction")).await
    }

    /// A transaction of this partition.
    pub(crate) fn within<'a>(
        self,
        db: &'a DatabaseTransaction,
        boards: &'a HashMap<BoardNo, Board>,
    ) -> HistoryTransaction<'a> {
        HistoryTransaction { db, partition: self.no, boards, now_ms: self.clock.now_ms() }
    }
}

/// The number of commits that stay in the log although SQL has them, where commits are as large as
/// these: an SQL that loses its last commits gets them again from there. They have a tenth of the
/// events, and of the commits, that fill a log.
fn tail_of(commits: &[Commit], log_max: u64) -> u64 {
    let each = events_of(commits) / commits.len().max(1);
    let most = log_max / TAIL_PART;
    (TAIL_EVENTS_MAX.min(most) / each.max(1) as u64).min(TAIL_COMMITS_MAX).min(most)
}

fn events_of(commits: &[Commit]) -> usize {
    commits.iter().map(|commit| commit.events.len()).sum()
}

/// Writes everything into the transaction. Returns false if the cursor has moved.
async fn write_into(
    within: HistoryTransaction<'_>,
    cursor: &log_cursor::Model,
    commits: &[Commit],
    refused: &Refused,
) -> Result<bool, DbErr> {
    let Some(last) = commits.last() else {
        return Ok(true);
    };
    // The cursor first: this takes SQLite's only write lock at once, and a row lock elsewhere.
    let moved = log_cursor::Entity::update_many()
        .set(log_cursor::ActiveModel {
            seq: Set(last.seq as i64),
            commit_id: Set(last.id.clone()),
            ..Default::default()
        })
        .filter(is_still(cursor))
        .exec(within.db)
        .await?;
    if moved.rows_affected != 1 {
        return Ok(false);
    }
    write_commits(within, commits, refused).await?;
    Ok(true)
}

async fn write_commits(
    within: HistoryTransaction<'_>,
    commits: &[Commit],
    refused: &Refused,
) -> Result<(), DbErr> {
    let (mut rows, mut events, mut dead) = (vec![], vec![], vec![]);
    let mut members = HashMap::new();
    let mut taken: Vec<(u64, &Event)> = vec![];
    let mut unwritten: Vec<(u64, &Event)> = vec![];
    let refused_ms = if refused.is_empty() { 0 } else { sql_now_ms(within.db).await? };
    for commit in commits {
        let written = events.len();
        for (index, event) in commit.events.iter().enumerate() {
            // The board was deleted: its history is gone, and events in flight go with it.
            if !within.boards.contains_key(&event.board) {
                continue;
            }
            if let EventKind::Void { target } = event.kind
                && dead_letter::void(within.db, target).await?
            {
                // History has neither the void nor its target, but sealed standings may have the
                // target.
                unwritten.push((commit.seq, event));
                continue;
            }
            if let Some(reason) = refused.get(&(commit.seq, index)) {
                dead.push(letter(within.partition, (commit, index), reason, refused_ms));
                continue;
            }
            members.entry(event.member.as_str()).or_insert(commit.accepted_at_ms);
            let row = score_event::Model::of_event(within.partition, commit, index);
            events.push(row.into_active_model());
            taken.push((commit.seq, event));
        }
        let gone = commit.events.len() - (events.len() - written);
        rows.push(commit::Model::of_commit(within.partition, commit, gone).into_active_model());
    }
    insert_chunked::<commit::Entity, _>(within.db, rows, None).await?;
    let standings = all_time_rows::load(within.db, &taken).await?;
    // A member with rows of standings already has a row of its own.
    for (_, member) in standings.keys() {
        members.remove(member.as_str());
    }
    // In one order, or two persisters would wait for each other's rows.
    let mut members: Vec<(&str, i64)> = members.into_iter().collect();
    members.sort_unstable();
    let members = members.into_iter().map(|(key, created_at_ms)| member::ActiveModel {
        key: Set(key.to_owned()),
        name: Set(None),
        name_folded: Set(None),
        region: Set(None),
        attributes: Set(None),
        avatar_url: Set(None),
        created_at_ms: Set(created_at_ms),
    });
    let known =
        OnConflict::column(member::Column::Key).do_nothing_on([member::Column::Key]).to_owned();
    insert_chunked::<member::Entity, _>(within.db, members.collect(), Some(known)).await?;
    insert_chunked::<score_event::Entity, _>(within.db, events, None).await?;
    insert_chunked::<dead_letter::Entity, _>(within.db, dead, None).await?;
    all_time_rows::fold_onto(within, &taken, standings).await?;
    let is_living = |board| within.boards.contains_key(&board);
    source_position::advance(within.db, within.partition, commits, is_living).await?;
    crate::webhook::corrected::note(within.db, commits).await?;
    taken.append(&mut unwritten);
    correction::correct(within, &taken, Source::History).await
}

/// The condition that the cursor is unchanged.
pub fn is_still(cursor: &log_cursor::Model) -> Condition {
    use log_cursor::Column::{CommitId, Epoch, Partition, RunId, Seq};
    Condition::all()
        .add(Partition.eq(cursor.partition))
        .add(RunId.eq(&cursor.run_id))
        .add(Seq.eq(cursor.seq))
        .add(CommitId.eq(&cursor.commit_id))
        .add(Epoch.eq(cursor.epoch))
}

/// True if the commits lead on from the cursor, each the parent of the next.
pub(crate) fn descends(cursor: &log_cursor::Model, commits: &[Commit]) -> bool {
    let (mut seq, mut id) = (cursor.seq as u64, cursor.commit_id.as_str());
    commits.iter().all(|commit| {
        let next = commit.seq == seq + 1 && commit.parent == id;
        (seq, id) = (commit.seq, &commit.id);
        next
    })
}

pub(crate) fn one_transaction(mut commits: Vec<Commit>) -> Vec<Commit> {
    let mut events = 0;
    let fits = commits.iter().take_while(|commit| {
        events += commit.events.len();
        events <= EVENTS_MAX
    });
    let count = fits.count().max(1);
    commits.truncate(count.min(COMMITS_MAX));
    commits
}

//! What takes back: a member leaves a board, or one of its events is voided. Both are events themselves; the member's entries are folded
//! anew from its history, up to the very head that the commit is a fast-forward of. Nothing is subtracted.

mod known;
mod unarchived;

use std::collections::{BTreeMap, HashSet};

use ranking::board::Board;
use ranking::commit::{Event, EventKind, EventPlace, Head};
use ranking::fold::replay::Replay;
use ranking::id::{BoardNo, MemberId, Partition};
use ranking::roll::Rolls;
use ranking::seal::SealName;
use ranking::standings_id::StandingsId;
use ranking::store::history::Tail;
use ranking::store::write::Writes;
use ranking::submission::StandingsChange;
use ranking::window::Window;
use tokio::time::{Duration, Instant};

use crate::deployment::Deployment;
use crate::partition::change::{Change, Proposal, carry_out};
use crate::partition::follow;
use crate::partition::recovery::settle;
use crate::roll::mark_new;
use entity::archive::{archive_mark, archived_entry};
use entity::board;
use entity::error::Result;
use entity::history::{dead_letter, score_event};
use known::Known;

/// How often a history is read again because the persister moved on meanwhile, before it is said that others write too fast.
const READS_MAX: usize = 20;

/// How long the void of an event that SQL refused is tried for; the next round tries again.
const VOID_TIMEOUT: Duration = Duration::from_secs(5);

/// What is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amendment {
    /// All that the member has on the board.
    Removal,
    /// One event, as if it had never been: a score, or a removal.
    Void(EventPlace),
}

/// What became of an amendment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amended {
    /// It is in the history.
    Done,
    /// There was nothing to take back: no entry, or the event was voided before.
    Nothing,
    /// The history has no such event of this member on this board; a void cannot be voided.
    NoSuchEvent,
}

/// Amends a member's history on a board, and gives it to SQL. Tries until `deadline`.
///
/// # Errors
/// `OutOfRange` where what is left would leave a range; `BoardGone`; else as [`crate::partition::submit::submit`]. Needs SQL.
pub async fn amend(
    deployment: &Deployment,
    board: &Board,
    member: &MemberId,
    amendment: Amendment,
    deadline: Instant,
) -> Result<Amended> {
    let partition = deployment.store.partitions().of_member(board, member);
    let mut amending = Amending {
        board: board.clone(),
        member: member.clone(),
        amendment,
        known: None,
        sealing_before_ms: vec![],
        archived_before_ms: None,
    };
    let done = carry_out(deployment, partition, &mut amending, deadline).await?;
    if done.commit.is_some()
        && let Err(error) = settle(deployment, partition).await
    {
        // It stands; only whoever looks at the history right away may not see it yet.
        tracing::debug!(%partition, %error, "an amendment waits for the database");
    }
    Ok(done.outcome)
}

/// Voids the events that SQL refused: whoever sent them was told, and they count no more.
pub async fn void_dead_letters(deployment: &Deployment) -> Result<()> {
    for letter in dead_letter::pending(&deployment.db, None).await? {
        if let Err(error) = void_dead_letter(deployment, &letter).await {
            tracing::debug!(partition = letter.partition, seq = letter.seq, %error, "what SQL refused cannot be voided yet");
        }
    }
    Ok(())
}

async fn void_dead_letter(deployment: &Deployment, letter: &dead_letter::Model) -> Result<()> {
    let (place, event) = letter.event()?;
    let boards = board::some(&deployment.db, [event.board].into()).await?;
    if let Some(board) = boards.get(&event.board) {
        let deadline = Instant::now() + VOID_TIMEOUT;
        let void = Amendment::Void(place);
        amend(deployment, board, &event.member, void, deadline).await?;
    }
    Ok(())
}

struct Amending {
    board: Board,
    member: MemberId,
    amendment: Amendment,
    known: Option<Known>,
    /// Before which instant periods of a window are sealed, as the partition says.
    sealing_before_ms: Vec<((BoardNo, Window), i64)>,
    /// Before which instant scores of the partition are archived, or being archived.
    archived_before_ms: Option<i64>,
}

impl Change for Amending {
    type Outcome = Amended;

    async fn propose(
        &mut self,
        deployment: &Deployment,
        partition: Partition,
    ) -> Result<Proposal<Amended>> {
        for _ in 0..READS_MAX {
            let mut known = match self.known.take() {
                Some(known) => known,
                None => self.read(deployment, partition).await?,
            };
            let bucket = |(accepted_at_ms, field): &(i64, String)| {
                (deployment.dedup.bucket(*accepted_at_ms), field.clone())
            };
            let seen = known.seen.as_ref().map(bucket);
            let seen_asked = seen.as_ref().map(|(bucket, field)| (*bucket, field.as_str()));
            let (of_board, seals) = (self.board.no, seal_names(&self.board));
            let tail =
                follow::tail(deployment, partition, &known.cursor, of_board, &seals, seen_asked);
            let Some(tail) = tail.await? else {
                // The persister was here, or the log is long: SQL has more now.
                let of_member = score_event::of_member(of_board, self.member.as_str());
                let since = follow::since(deployment, partition, &known.cursor, of_member).await?;
                if let Some((cursor, rows)) = since {
                    for row in rows {
                        known.events.push((row.place()?, row.to_ranking()?));
                    }
                    known.cursor = cursor;
                    self.known = Some(known);
                }
                continue;
            };
            // After the head: whoever archives says so first, and then moves the head.
            let mark = archive_mark::of(&deployment.db, of_board, partition).await?;
            if mark != known.mark {
                continue;
            }
            self.archived_before_ms = match mark.closing_seq > mark.archived_seq {
                true => board::archived_before_ms(&deployment.db, of_board).await?,
                false => mark.archived_before_ms,
            };
            tail.board.check(&self.board)?;
            let log_len = tail.commits.len() as u64;
            for commit in &tail.commits {
                known.extend(&self.board, &self.member, partition, commit);
            }
            let forget = match (&seen, &tail.seen, self.amendment) {
                (Some(seen), Some(value), Amendment::Void(target))
                    if known.is_seen_as(value, partition, target)? =>
                {
                    Some(seen)
                }
                _ => None,
            };
            // What is sealed is left to the persister.
            let marks = seals.iter().zip(&tail.seals);
            self.sealing_before_ms = marks
                .map(|(name, mark)| ((name.board, name.window), mark.sealing_before_ms))
                .collect();
            let proposal = self.fold(deployment, partition, &tail, &known, forget)?;
            self.known = Some(known);
            return Ok(Proposal { log_len, ..proposal });
        }
        Err(ranking::Error::Unavailable(
            "others write faster than a history is read; try again".into(),
        )
        .into())
    }
}

impl Amending {
    /// What the amendment does to a history that ends at `head`.
    fn fold(
        &self,
        deployment: &Deployment,
        partition: Partition,
        tail: &Tail,
        known: &Known,
        forget: Option<&(i64, String)>,
    ) -> Result<Proposal<Amended>> {
        let (head, now_ms) = (tail.head.clone(), deployment.clock.now_ms());
        let rolls = Rolls { marks: tail.rolls.clone(), now_ms };
        let nothing =
            |head: Head, outcome: Amended| Proposal { head, log_len: 0, commit: None, outcome };
        let before = self.entries(&known.archived, &known.events, &rolls)?;
        let kind = match self.amendment {
            Amendment::Removal if before.is_empty() => return Ok(nothing(head, Amended::Nothing)),
            Amendment::Removal => EventKind::Removal,
            Amendment::Void(target) => {
                let event = known.events.iter().find(|(place, _)| *place == target);
                if event.is_none_or(|(_, event)| matches!(event.kind, EventKind::Void { .. })) {
                    return Ok(nothing(head, Amended::NoSuchEvent));
                }
                if voided(&known.events).contains(&target) {
                    return Ok(nothing(head, Amended::Nothing));
                }
                if !known.refused.contains(&target) {
                    self.check_unarchived(known, target)?;
                }
                EventKind::Void { target }
            }
        };
        let event = Event {
            board: self.board.no,
            generation: self.board.generation,
            member: self.member.clone(),
            kind,
            event_id: None,
            segments: vec![],
        };
        let commit = head.next(entity::random_id(), now_ms, vec![event.clone()]);
        let place = EventPlace { partition, seq: commit.seq, index: 0 };
        let events: Vec<_> = known.events.iter().cloned().chain([(place, event)]).collect();
        let after = self.entries(&known.archived, &events, &rolls)?;
        let mut writes = Writes::default();
        let keys = deployment.store.keys();
        for change in changes(before, after) {
            writes.change(keys, partition, &change);
            mark_new(&mut writes, keys, partition, &self.board, &change.id, &rolls)?;
        }
        if let Some((bucket, field)) = forget {
            writes.forget_seen(&keys.seen(partition, *bucket), field);
        }
        Ok(Proposal { head, log_len: 0, commit: Some((commit, writes)), outcome: Amended::Done })
    }
}

impl Amending {
    /// What a member's history gives it in Redis, by standings.
    fn entries(
        &self,
        archived: &[archived_entry::Model],
        events: &[(EventPlace, Event)],
        rolls: &Rolls,
    ) -> ranking::Result<BTreeMap<StandingsId, StandingsChange>> {
        let sealed = self.sealing_before_ms.iter().copied();
        let replay = replayed(&self.board, &self.member, archived, events, rolls, sealed)?;
        let changes = replay.changes()?.into_iter();
        Ok(changes.map(|change| (change.id.clone(), change)).collect())
    }
}

/// A member's history, folded: what its archived events add up to in `all`, then its events; no periods that are being sealed.
pub(crate) fn replayed(
    board: &Board,
    member: &MemberId,
    archived: &[archived_entry::Model],
    events: &[(EventPlace, Event)],
    rolls: &Rolls,
    sealing_before_ms: impl IntoIterator<Item = ((BoardNo, Window), i64)>,
) -> ranking::Result<Replay> {
    let replay = Replay::without(voided(events), rolls.now_ms).rolled(board.no, rolls.clone());
    let mut replay = replay.skipping_before(sealing_before_ms);
    for row in archived {
        if let Some(state) = row.state() {
            replay.begin_with(board, member, &row.segment, state);
        }
    }
    for (place, event) in events {
        replay.apply(board, *place, event)?;
    }
    Ok(replay)
}

/// The events that a history voids.
fn voided(events: &[(EventPlace, Event)]) -> HashSet<EventPlace> {
    let target = |(_, event): &(EventPlace, Event)| match event.kind {
        EventKind::Void { target } => Some(target),
        _ => None,
    };
    events.iter().filter_map(target).collect()
}

/// The windows of a board that can be sealed.
pub(crate) fn seal_names(board: &Board) -> Vec<SealName> {
    let name = |(&window, added): (&Window, &ranking::board::Added)| {
        let name = SealName { board: board.no, generation: added.generation, window };
        window.has_periods().then_some(name)
    };
    board.added.iter().filter_map(name).collect()
}

/// What leads from one to the other.
fn changes(
    mut before: BTreeMap<StandingsId, StandingsChange>,
    after: BTreeMap<StandingsId, StandingsChange>,
) -> Vec<StandingsChange> {
    let mut changes = vec![];
    for (id, change) in after {
        if before.remove(&id).as_ref() != Some(&change) {
            changes.push(change);
        }
    }
    for mut change in before.into_values() {
        for (_, key) in &mut change.entries {
            *key = None;
        }
        changes.push(change);
    }
    changes
}

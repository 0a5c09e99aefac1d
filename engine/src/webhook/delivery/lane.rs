//! One run of a lane: some events in their order, until one of them is not taken.

use std::collections::HashSet;
use std::time::Duration;

use entity::Result;
use entity::history::score_event;
use entity::webhook::lane::{BEHIND_ALL, Model, OUTBOX, advance, note_failure};
use entity::webhook::{self, outbox};
use ranking::id::PartitionNo;
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::message::{Context, Message};
use super::{Courier, Present, Sent, Source};
use crate::failpoint;

/// The fewest events that a run reads.
const EVENTS_MIN: u64 = 100;

/// The time for which events that were read are good: a member may be erased meanwhile.
const READ_AGE_MAX: Duration = Duration::from_secs(2);

/// The interval at which the place of a lane is written.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// A lane under way.
pub(super) struct Lane<C> {
    pub(super) source: Source,
    pub(super) courier: C,
    pub(super) present: watch::Receiver<Present>,
    pub(super) row: Model,
    /// The seq up to which SQL has the partition's history.
    pub(super) end: i64,
    /// True once the receiver took an event.
    pub(super) has_taken: bool,
}

/// The first events of some, as far as they are handed over together.
#[derive(Default)]
struct Round {
    messages: Vec<Message>,
    /// The index of each one's event.
    indexes: Vec<usize>,
    /// The number of events, of which some are not asked for.
    count: usize,
}

/// The outcome of a round.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Taken,
    /// So many of the first messages were taken, and the next one was not.
    Failed(usize, String),
    /// Nothing was sent, as this process is to deliver nothing more.
    Stopped,
}

impl<C: Courier> Lane<C> {
    /// The events of one run of the history.
    const EVENTS_MAX: u64 = {
        let some = 2 * C::TOGETHER_MAX as u64;
        if some > EVENTS_MIN { some } else { EVENTS_MIN }
    };

    /// Delivers some events. A later run tries again those that fail. Returns its partition.
    pub(super) async fn run(mut self) -> i32 {
        let mut done = match self.row.partition {
            OUTBOX => self.outbox().await,
            _ => self.history().await,
        };
        if self.has_taken {
            let (db, now_ms) = (&self.source.db, self.source.clock.now_ms());
            let noted = webhook::note_delivery(db, &self.row.webhook, now_ms).await;
            done = done.and(noted.map_err(Into::into));
        }
        if let Err(error) = done {
            let (webhook, lane) = (&self.row.webhook, self.row.partition);
            tracing::debug!(webhook, lane, %error, "a lane of a webhook waits");
        }
        self.row.partition
    }

    /// Delivers some events of the outbox, one after the other.
    async fn outbox(&mut self) -> Result<()> {
        let source = self.source.clone();
        let begun = Instant::now();
        for event in outbox::first(&source.db, &self.row.webhook, EVENTS_MIN).await? {
            match self.send(&[Message::of_outbox(&source, &event)]).await {
                Outcome::Taken => {
                    failpoint::hit("webhook-taken");
                    outbox::delete(&source.db, event.no).await?;
                    self.recover().await?;
                }
                Outcome::Failed(_, error) => return self.fail(&error).await,
                Outcome::Stopped => break,
            }
            if begun.elapsed() >= READ_AGE_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Delivers some events of the history, round after round.
    async fn history(&mut self) -> Result<()> {
        let source = self.source.clone();
        let Ok(partition) = u16::try_from(self.row.partition) else { return Ok(()) };
        let mut at = (self.row.seq, self.row.event_index);
        let page = score_event::page_after(PartitionNo(partition), at, Self::EVENTS_MAX);
        let mut events = page.all(&source.db).await?;
        events.retain(|event| event.seq <= self.end);
        let mut is_whole = (events.len() as u64) < Self::EVENTS_MAX;
        let context = Context::of(&source, self.row.partition, &events).await?;
        let (begun, mut noted) = (Instant::now(), Instant::now());
        let mut left = &events[..];
        while !left.is_empty() {
            let (round, sent) = match self.round(left, &context) {
                Ok(round) => {
                    let sent = self.send(&round.messages).await;
                    (round, sent)
                }
                Err(error) => (Round::default(), Outcome::Failed(0, error.to_string())),
            };
            let passed = match &sent {
                Outcome::Taken => round.count,
                Outcome::Failed(taken, _) => round.indexes.get(*taken).copied().unwrap_or(0),
                Outcome::Stopped => 0,
            };
            if let Some(last) = left[..passed].last() {
                failpoint::hit("webhook-taken");
                at = (last.seq, last.event_index);
                left = &left[passed..];
            }
            match sent {
                Outcome::Taken => {}
                Outcome::Failed(_, error) => {
                    self.move_to(at).await?;
                    return self.fail(&error).await;
                }
                Outcome::Stopped => return self.move_to(at).await,
            }
            if noted.elapsed() >= NOTE_INTERVAL {
                self.move_to(at).await?;
                noted = Instant::now();
            }
            if begun.elapsed() >= READ_AGE_MAX {
                is_whole = false;
                break;
            }
        }
        self.move_to(if is_whole { (self.end, BEHIND_ALL) } else { at }).await
    }

    /// The first of some events that may be handed over together: one of a member on a board, as
    /// the next one has to wait until it is taken.
    ///
    /// # Errors
    /// If the first one cannot be told.
    fn round(&self, events: &[score_event::Model], context: &Context<'_>) -> Result<Round> {
        let mut members = HashSet::new();
        let mut round = Round::default();
        for (index, event) in events.iter().enumerate() {
            if self.is_asked_for(event) {
                if round.messages.len() == C::TOGETHER_MAX
                    || !members.insert((event.board_no, &event.member))
                {
                    break;
                }
                match context.message(event) {
                    Ok(None) => {}
                    Ok(Some(message)) => {
                        round.messages.push(message);
                        round.indexes.push(index);
                    }
                    Err(error) if index == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            round.count += 1;
        }
        Ok(round)
    }

    /// True if the webhook gets the events of the board.
    fn is_asked_for(&self, event: &score_event::Model) -> bool {
        let present = self.present.borrow();
        let board_no = present.as_ref().and_then(|(webhook, _)| webhook.board_no);
        board_no.is_none_or(|no| no == event.board_no)
    }

    /// Hands over messages, as the webhook is now.
    async fn send(&mut self, messages: &[Message]) -> Outcome {
        if messages.is_empty() {
            return Outcome::Taken;
        }
        let Some((webhook, until)) = self.present.borrow().clone() else {
            return Outcome::Stopped;
        };
        if Instant::now() >= until {
            return Outcome::Stopped;
        }
        let now_ms = self.source.clock.now_ms();
        match self.courier.send(&webhook, messages, now_ms).await {
            Sent::All => {
                self.has_taken = true;
                Outcome::Taken
            }
            Sent::Failed(taken, error) => {
                self.has_taken |= taken > 0;
                Outcome::Failed(taken, error)
            }
            Sent::Gone(reason) => match self.give_up(&reason).await {
                Ok(()) => Outcome::Stopped,
                Err(_) => Outcome::Failed(0, reason),
            },
        }
    }

    /// Moves the lane on, which ends its failures. Does nothing at the place where it is.
    async fn move_to(&mut self, at: (i64, i32)) -> Result<()> {
        if at == (self.row.seq, self.row.event_index) {
            return Ok(());
        }
        if !advance(&self.source.db, &self.row, at).await? {
            return Err(entity::Error::Overtaken("the lane of a webhook was moved".into()));
        }
        let webhook = self.row.webhook.clone();
        let partition = self.row.partition;
        self.row = Model { partition, seq: at.0, event_index: at.1, ..Model::of_outbox(&webhook) };
        Ok(())
    }

    /// Ends the failures of the outbox.
    async fn recover(&mut self) -> Result<()> {
        if self.row.failures > 0 {
            advance(&self.source.db, &self.row, (self.row.seq, self.row.event_index)).await?;
            self.row = Model::of_outbox(&self.row.webhook);
        }
        Ok(())
    }

    /// Notes a failed attempt. Gives the webhook up if they have failed for too long.
    async fn fail(&self, error: &str) -> Result<()> {
        let (row, patience) = (&self.row, self.courier.patience());
        let now_ms = self.source.clock.now_ms();
        let retry_at_ms = now_ms + row.pause_ms(patience.pause_ms, patience.pause_ms_max);
        note_failure(&self.source.db, row, error, (now_ms, retry_at_ms)).await?;
        let failing_ms = row.failing_since_ms.map_or(0, |since_ms| now_ms - since_ms);
        let is_over = |fail_ms| failing_ms > 0 && failing_ms.unsigned_abs() >= fail_ms;
        if patience.fail_ms.is_some_and(is_over) {
            let hours = failing_ms / 3_600_000;
            self.give_up(&format!("deliveries have failed for {hours} hours: {error}")).await?;
        }
        Ok(())
    }

    async fn give_up(&self, reason: &str) -> Result<()> {
        let (db, now_ms) = (&self.source.db, self.source.clock.now_ms());
        if webhook::fail(db, &self.row.webhook, reason, now_ms).await? {
            let webhook = &self.row.webhook;
            tracing::error!(
                webhook,
                reason,
                "a webhook failed and gets no more events: `resumeWebhook` goes on where it stopped"
            );
        }
        Ok(())
    }
}

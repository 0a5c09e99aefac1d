//! One run of a lane: some events, one after the other, until one of them is not taken.

use std::time::Duration;

use engine::deployment::Deployment;
use engine::failpoint;
use entity::Result;
use entity::history::score_event;
use entity::webhook::lane::{BEHIND_ALL, Model, OUTBOX, advance, note_failure};
use entity::webhook::{self, outbox};
use ranking::id::PartitionNo;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Delivery, Present};
use crate::metrics::METRICS;
use crate::webhook::message::{Context, Message};
use crate::webhook::receiver::Delivered;

/// The events of one run.
const EVENTS_MAX: u64 = 100;

/// The time for which events that were read are good: a member may be erased meanwhile.
const READ_AGE_MAX: Duration = Duration::from_secs(2);

/// The interval at which the place of a lane is written.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// A lane under way.
pub(super) struct Lane {
    pub(super) deployment: Deployment,
    pub(super) delivery: Delivery,
    pub(super) present: watch::Receiver<Present>,
    pub(super) row: Model,
    /// The seq up to which SQL has the partition's history.
    pub(super) end: i64,
    /// True once the receiver took an event.
    pub(super) has_taken: bool,
}

/// The outcome of one event.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Taken,
    Failed(String),
    /// Nothing was sent, as this process is to deliver nothing more.
    Stopped,
}

impl Lane {
    /// Delivers some events. A later run tries again those that fail. Returns its partition.
    pub(super) async fn run(mut self) -> i32 {
        let mut done = match self.row.partition {
            OUTBOX => self.outbox().await,
            _ => self.history().await,
        };
        if self.has_taken {
            let (db, now_ms) = (&self.deployment.db, self.deployment.clock.now_ms());
            let noted = webhook::note_delivery(db, &self.row.webhook, now_ms).await;
            done = done.and(noted.map_err(Into::into));
        }
        if let Err(error) = done {
            let (webhook, lane) = (&self.row.webhook, self.row.partition);
            tracing::debug!(webhook, lane, %error, "a lane of a webhook waits");
        }
        self.row.partition
    }

    async fn outbox(&mut self) -> Result<()> {
        let deployment = self.deployment.clone();
        let begun = Instant::now();
        for event in outbox::first(&deployment.db, &self.row.webhook, EVENTS_MAX).await? {
            match self.send(&Message::of_outbox(&deployment, &event)).await {
                Sent::Taken => {
                    failpoint::hit("webhook-taken");
                    outbox::delete(&deployment.db, event.no).await?;
                    self.recover().await?;
                }
                Sent::Failed(error) => return self.fail(&error).await,
                Sent::Stopped => break,
            }
            if begun.elapsed() >= READ_AGE_MAX {
                break;
            }
        }
        Ok(())
    }

    async fn history(&mut self) -> Result<()> {
        let deployment = self.deployment.clone();
        let Ok(partition) = u16::try_from(self.row.partition) else { return Ok(()) };
        let mut at = (self.row.seq, self.row.event_index);
        let page = score_event::page_after(PartitionNo(partition), at, EVENTS_MAX);
        let mut events = page.all(&deployment.db).await?;
        events.retain(|event| event.seq <= self.end);
        let mut is_whole = (events.len() as u64) < EVENTS_MAX;
        let context = Context::of(&deployment, self.row.partition, &events).await?;
        let (begun, mut noted) = (Instant::now(), Instant::now());
        for event in &events {
            let message = match self.is_asked_for(event) {
                true => context.message(event),
                false => Ok(None),
            };
            let sent = match message {
                Ok(Some(message)) => self.send(&message).await,
                Ok(None) => Sent::Taken,
                Err(error) => Sent::Failed(error.to_string()),
            };
            match sent {
                Sent::Taken => failpoint::hit("webhook-taken"),
                Sent::Failed(error) => {
                    self.move_to(at).await?;
                    return self.fail(&error).await;
                }
                Sent::Stopped => return self.move_to(at).await,
            }
            at = (event.seq, event.event_index);
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

    /// True if the webhook gets the events of the board.
    fn is_asked_for(&self, event: &score_event::Model) -> bool {
        let present = self.present.borrow();
        let board_no = present.as_ref().and_then(|(webhook, _)| webhook.board_no);
        board_no.is_none_or(|no| no == event.board_no)
    }

    /// Sends a message, as the webhook is now.
    async fn send(&mut self, message: &Message) -> Sent {
        let Some((webhook, until)) = self.present.borrow().clone() else { return Sent::Stopped };
        if Instant::now() >= until {
            return Sent::Stopped;
        }
        let now_ms = self.deployment.clock.now_ms();
        let secrets = webhook.secrets(now_ms);
        let receivers = &self.delivery.receivers;
        match receivers.send(&webhook.url, &secrets, message, now_ms).await {
            Delivered::Taken => {
                METRICS.webhooks.taken.inc();
                self.has_taken = true;
                Sent::Taken
            }
            Delivered::Failed(error) => {
                METRICS.webhooks.refused.inc();
                Sent::Failed(error)
            }
            Delivered::Gone => {
                METRICS.webhooks.refused.inc();
                let reason = "the receiver answered 410 Gone";
                match self.give_up(reason).await {
                    Ok(()) => Sent::Stopped,
                    Err(_) => Sent::Failed(reason.to_owned()),
                }
            }
        }
    }

    /// Moves the lane on, which ends its failures. Does nothing at the place where it is.
    async fn move_to(&mut self, at: (i64, i32)) -> Result<()> {
        if at == (self.row.seq, self.row.event_index) {
            return Ok(());
        }
        if !advance(&self.deployment.db, &self.row, at).await? {
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
            advance(&self.deployment.db, &self.row, (self.row.seq, self.row.event_index)).await?;
            self.row = Model::of_outbox(&self.row.webhook);
        }
        Ok(())
    }

    /// Notes a failed attempt. Gives the webhook up if they have failed for too long.
    async fn fail(&self, error: &str) -> Result<()> {
        let (row, settings) = (&self.row, &self.delivery.settings);
        let now_ms = self.deployment.clock.now_ms();
        let retry_at_ms = now_ms + row.pause_ms(settings.webhook_retry_ms);
        note_failure(&self.deployment.db, row, error, (now_ms, retry_at_ms)).await?;
        let failing_ms = row.failing_since_ms.map_or(0, |since_ms| now_ms - since_ms);
        let fail_ms = settings.webhook_fail_seconds.saturating_mul(1000);
        if failing_ms.unsigned_abs() >= fail_ms && failing_ms > 0 {
            let hours = failing_ms / 3_600_000;
            self.give_up(&format!("deliveries have failed for {hours} hours: {error}")).await?;
        }
        Ok(())
    }

    async fn give_up(&self, reason: &str) -> Result<()> {
        let (db, now_ms) = (&self.deployment.db, self.deployment.clock.now_ms());
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

//! Deliveries of events: of all processes one at a time delivers to a webhook.
//!
//! Each partition's history is a lane, and so is the outbox. The events of a lane are delivered in
//! their order, and lanes side by side. A lane moves on only once the receiver took its events, so
//! an event comes at least once, with the same id each time. All events of a member on a board are
//! of one partition, until the board moves to another number of shards, and the next one is sent
//! once the receiver took the one before.

mod lane;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use entity::deployment as deployment_row;
use entity::deployment::clock::Clock;
pub use entity::error::Error;
use entity::error::Result;
use entity::webhook::{self, HELD_MS, lane as row, outbox};
pub use entity::webhook::{Model as Webhook, State, feed_name};
use sea_orm::DatabaseConnection;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::message::Message;
use crate::deployment::Deployment;
use crate::job::holder;
use crate::settings::SqlSettings;
use lane::Lane;

/// The time that one hand-over to a receiver may take.
pub const HANDOVER_TIMEOUT: Duration = Duration::from_secs(15);

/// The pause after a look for events that failed.
const FAILED_LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The pause between two looks for events of a webhook.
const EVENTS_INTERVAL: Duration = Duration::from_millis(250);

/// The pause between two renewals of the hold on a webhook.
const HOLD_INTERVAL: Duration = Duration::from_secs(10);

/// The longest time of one look. A silent connection must not end all of them.
const EVENTS_LOOK_TIMEOUT: Duration = Duration::from_secs(20);

/// The lanes of a webhook that are delivered side by side.
pub const LANES_AT_ONCE: usize = 8;

/// The time that deliveries under way may take when the process stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// A way to receivers.
pub trait Courier: Clone + Send + Sync + 'static {
    /// The most events that are handed over together. No two of them are of one member on a board.
    const TOGETHER_MAX: usize;

    /// True if it delivers to a webhook.
    fn reaches(&self, webhook: &Webhook) -> bool;

    /// How failed attempts are repeated.
    fn patience(&self) -> Patience;

    /// Hands over some events within [`HANDOVER_TIMEOUT`].
    fn send(
        &self,
        webhook: &Webhook,
        messages: &[Message],
        now_ms: i64,
    ) -> impl Future<Output = Sent> + Send;
}

/// The outcome of some events that were handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// The receiver has all of them.
    All,
    /// It has so many of the first ones, and for now not the next one; with the reason.
    Failed(usize, String),
    /// It is gone for good; with the reason.
    Gone(String),
}

/// The time for which failed attempts are repeated.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The pause after the first one, in milliseconds. It doubles with each further one.
    pub pause_ms: u64,
    /// The longest pause, in milliseconds.
    pub pause_ms_max: u64,
    /// The time after which the webhook counts as failed, in milliseconds; none for never.
    pub fail_ms: Option<u64>,
}

/// A deployment, as far as deliveries need it: SQL and the clock. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Source {
    pub(super) identity: Arc<str>,
    pub(super) db: DatabaseConnection,
    pub(super) clock: Clock,
}

/// The events that a webhook waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The commits of the history.
    pub commits: i64,
    /// The events of the outbox.
    pub events: u64,
}

impl Source {
    /// That of an open deployment.
    pub fn of(deployment: &Deployment) -> Self {
        Self {
            identity: deployment.identity.clone(),
            db: deployment.db.clone(),
            clock: deployment.clock.clone(),
        }
    }

    /// Connects to the database of a deployment; Redis is not needed.
    ///
    /// # Errors
    /// As [`SqlSettings::connect`].
    pub async fn open(sql: &SqlSettings) -> Result<Self> {
        let db = sql.connect().await?;
        let row = deployment_row::find(&db).await?.ok_or_else(|| sql.no_deployment())?;
        Ok(Self { identity: row.identity.into(), db, clock: Clock::default() })
    }

    /// The events that a webhook waits for.
    ///
    /// # Errors
    /// If SQL fails.
    pub async fn waiting(&self, webhook: &str) -> Result<Waiting> {
        let commits = row::behind(&self.db, webhook).await?.commits;
        Ok(Waiting { commits, events: outbox::count(&self.db, webhook).await? })
    }
}

/// A webhook as a lane sees it before each delivery; `None` once this process must deliver nothing
/// more.
type Present = Option<(Arc<Webhook>, Instant)>;

/// The deliveries of this process.
pub struct Deliveries<C> {
    source: Source,
    courier: C,
    stop: watch::Receiver<bool>,
    webhooks: JoinSet<String>,
    held: HashSet<String>,
}

impl<C: Courier> Deliveries<C> {
    /// No deliveries yet. All of them end once `stop` is set.
    pub fn new(source: Source, courier: C, stop: watch::Receiver<bool>) -> Self {
        Self { source, courier, stop, webhooks: JoinSet::new(), held: HashSet::new() }
    }

    /// Begins to deliver to the active webhooks to which no process does. To be called every second
    /// or so. Returns all webhooks.
    ///
    /// # Errors
    /// If SQL fails.
    pub async fn look(&mut self) -> Result<Vec<Webhook>> {
        while let Some(ended) = self.webhooks.try_join_next() {
            match ended {
                Ok(id) => drop(self.held.remove(&id)),
                Err(error) => {
                    tracing::error!(%error, "the delivery to webhooks ended badly");
                    self.webhooks.abort_all();
                    self.held.clear();
                }
            }
        }
        let taking = timeout(EVENTS_LOOK_TIMEOUT, self.take());
        let (rows, taken) = taking.await.map_err(|_| silent())??;
        for id in taken {
            self.held.insert(id.clone());
            let of = (self.source.clone(), self.courier.clone());
            self.webhooks.spawn(deliver(of, id, self.stop.clone()));
        }
        Ok(rows)
    }

    /// Waits until all deliveries have ended, after `stop` was set.
    pub async fn end(mut self) {
        while self.webhooks.join_next().await.is_some() {}
    }

    /// All webhooks, and the ids of those that this process took just now.
    async fn take(&self) -> Result<(Vec<Webhook>, Vec<String>)> {
        let rows = webhook::list(&self.source.db).await?;
        let mut taken = vec![];
        for row in rows.iter().filter(|row| row.state == State::Active) {
            if self.held.contains(&row.id) || !self.courier.reaches(row) {
                continue;
            }
            let gone = row.holder.as_deref().filter(|holder| holder::is_gone(holder));
            if webhook::hold(&self.source.db, &row.id, holder::own(), gone).await? {
                taken.push(row.id.clone());
            }
        }
        Ok((rows, taken))
    }
}

fn silent() -> Error {
    ranking::Error::Unavailable("SQL did not answer in time".to_owned()).into()
}

/// Delivers to a webhook that this process has taken, until it is another's, no longer active, or
/// `stop` is set. Returns its id.
async fn deliver<C: Courier>(
    (source, courier): (Source, C),
    id: String,
    mut stop: watch::Receiver<bool>,
) -> String {
    let (present, _) = watch::channel(None);
    let mut delivering = Delivering {
        source,
        courier,
        present,
        lanes: JoinSet::new(),
        busy: HashSet::new(),
        held_at: None,
    };
    while !*stop.borrow() {
        let looked = timeout(EVENTS_LOOK_TIMEOUT, delivering.look(&id)).await;
        match looked {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => break,
            Ok(Err(error)) => {
                tracing::debug!(webhook = id, %error, "events of a webhook wait");
                sleep(FAILED_LOOK_PAUSE).await;
            }
            Err(_) => {}
        }
        tokio::select! {
            () = sleep(EVENTS_INTERVAL) => {}
            Some(ended) = delivering.lanes.join_next() => delivering.end_lane(ended),
            _ = stop.changed() => {}
        }
    }
    delivering.present.send_replace(None);
    let ending = async { while delivering.lanes.join_next().await.is_some() {} };
    // An event that is cut short is delivered again.
    let _ = timeout(STOP_TIMEOUT, ending).await;
    delivering.lanes.shutdown().await;
    let letting_go = webhook::let_go(&delivering.source.db, &id, holder::own());
    let _ = timeout(STOP_TIMEOUT, letting_go).await;
    id
}

/// The lanes of a webhook that this process delivers.
struct Delivering<C> {
    source: Source,
    courier: C,
    present: watch::Sender<Present>,
    lanes: JoinSet<i32>,
    /// The partitions of the lanes under way.
    busy: HashSet<i32>,
    held_at: Option<Instant>,
}

impl<C: Courier> Delivering<C> {
    /// Goes on holding the webhook, and begins the lanes that have events. Returns false once the
    /// webhook is not this process' to deliver to.
    async fn look(&mut self, id: &str) -> Result<bool> {
        let db = &self.source.db.clone();
        let now = Instant::now();
        if self.held_at.is_none_or(|at| now - at >= HOLD_INTERVAL) {
            if !webhook::hold(db, id, holder::own(), None).await? {
                return Ok(false);
            }
            self.held_at = Some(now);
        }
        let is_own = |row: &Webhook| row.state == State::Active && self.courier.reaches(row);
        let Some(webhook) = webhook::find(db, id).await?.filter(is_own) else {
            return Ok(false);
        };
        let webhook = Arc::new(webhook);
        // A delivery that begins before this instant has ended while the webhook is still held.
        let held = Duration::from_millis(HELD_MS.unsigned_abs());
        let until = self.held_at.unwrap_or(now) + held - HANDOVER_TIMEOUT * 2;
        self.present.send_replace(Some((webhook.clone(), until)));
        let now_ms = self.source.clock.now_ms();
        let lane = row::of_outbox(db, id).await?;
        if lane.retry_at_ms <= now_ms
            && !self.busy.contains(&row::OUTBOX)
            && !outbox::first(db, id, 1).await?.is_empty()
        {
            self.start_lane(lane, 0);
        }
        for (lane, end) in row::due(db, id, now_ms).await? {
            if self.busy.len() >= LANES_AT_ONCE {
                break;
            }
            if !self.busy.contains(&lane.partition) {
                self.start_lane(lane, end);
            }
        }
        Ok(true)
    }

    fn start_lane(&mut self, row: row::Model, end: i64) {
        let partition = row.partition;
        let lane = Lane {
            source: self.source.clone(),
            courier: self.courier.clone(),
            present: self.present.subscribe(),
            row,
            end,
            has_taken: false,
        };
        self.lanes.spawn(lane.run());
        self.busy.insert(partition);
    }

    fn end_lane(&mut self, ended: std::result::Result<i32, JoinError>) {
        match ended {
            Ok(partition) => drop(self.busy.remove(&partition)),
            Err(error) => {
                tracing::error!(%error, "the delivery of a webhook's lane ended badly");
                self.lanes.abort_all();
                self.busy.clear();
            }
        }
    }
}

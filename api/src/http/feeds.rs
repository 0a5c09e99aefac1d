//! Feeds: subscriptions of the same document, with the same arguments and rights, are executed once
//! a change, however many clients have sent them.
//!
//! A feed keeps its last answer. A socket that is slower takes the last one when it can, and those
//! before are lost to it: so a slow socket costs nothing, and holds one answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use entity::member::visibility::Visibility;
use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use ranking::id::MemberId;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::Service;
use super::operation::{Operation, Question, Update, one};
use super::rates::{Client, RetryAfter};
use super::response::server_error;
use super::shares::Part;
use super::sockets::Holders;
use crate::access::Principal;
use crate::access::scope::Scope;
use crate::error::ErrorCode;
use crate::graphql::subscription::Following;
use crate::live::RETRY_PAUSE;
use crate::metrics::METRICS;

/// The memory of an answer for each byte of its JSON, in bytes, about: the text, and the tree that
/// WebSockets are written from.
pub const ANSWER_BYTES: u64 = 8;

/// The costly feeds that are executed at a time. Others wait here, and not among the requests.
const HEAVY_AT_ONCE: usize = 4;

/// The light feeds that are executed at a time: none of them waits for a costly one.
const LIGHT_AT_ONCE: usize = 64;

/// The points of reads and executions with the same answer for which clients pay together, for each
/// of up to [`DUE_SOCKETS_MAX`] sockets.
const DUE_MAX: u64 = 1000;
const DUE_SOCKETS_MAX: u64 = 10;

/// How long a feed waits for a client to pay before it has nothing read any more.
const PAID_SOON: Duration = Duration::from_millis(100);

/// The memory of a subscription besides that of its document and its answers, in bytes, about.
const SUBSCRIPTION_BYTES: u64 = 4 << 10;

/// The pause between two tries of a feed while no season is open, which may be for weeks.
const SEASON_PAUSE: Duration = Duration::from_secs(30);

/// The feeds that anyone has subscribed to.
pub struct Feeds {
    by_question: Mutex<HashMap<Question, Weak<Feed>>>,
    heavy: Semaphore,
    light: Semaphore,
}

impl Default for Feeds {
    fn default() -> Self {
        Self {
            by_question: Mutex::default(),
            heavy: Semaphore::new(HEAVY_AT_ONCE),
            light: Semaphore::new(LIGHT_AT_ONCE),
        }
    }
}

/// A document that is executed after each change of what it follows.
struct Feed {
    question: Question,
    service: Service,
    updates: watch::Receiver<Option<Arc<Update>>>,
    /// Told when a client has paid for an answer.
    taken: Arc<Notify>,
    holders: Arc<Holders>,
    _executing: AbortOnDropHandle<()>,
}

/// Those who get the answers of a feed.
struct Listeners {
    updates: watch::Sender<Option<Arc<Update>>>,
    /// Told when one has paid for an answer.
    taken: Arc<Notify>,
    holders: Arc<Holders>,
}

/// A subscription of a socket.
struct Subscribed {
    feed: Arc<Feed>,
    updates: watch::Receiver<Option<Arc<Update>>>,
    /// The last answer that the client got.
    last: Option<Arc<Update>>,
    client: Client,
    is_over: bool,
    _memory: Part<Client>,
}

impl Feeds {
    /// Subscribes a client.
    pub async fn subscribe(
        &self,
        service: &Service,
        client: Client,
        principal: Option<&Principal>,
        operation: Arc<Operation>,
    ) -> BoxStream<'static, Arc<Update>> {
        let is_personal = match principal {
            Some(principal) => operation.is_personal() || is_special(service, principal).await,
            None => false,
        };
        let bytes = operation.bytes + SUBSCRIPTION_BYTES;
        let memory = match service.sockets.hold(&client, bytes) {
            Ok(memory) => memory,
            Err(error) => return one(Update::refusal(vec![server_error(error)])),
        };
        // Without the token that they came by, nor the member unless the answers depend on it.
        let rights = principal.map(|principal| {
            let member = principal.member.clone().filter(|_| is_personal);
            Arc::new(Principal { member, ..principal.rights() })
        });
        let question = operation.question(rights);
        let mut feeds = self.lock();
        let known = feeds.get(&question).and_then(Weak::upgrade);
        let living = known.as_ref().filter(|feed| feed.is_living()).cloned();
        let feed = match living {
            Some(feed) => {
                feed.holders.add(&client);
                feed
            }
            None => {
                let (service, client) = (service.clone(), client.clone());
                let feed = Arc::new(Feed::start(service, client, question.clone(), operation));
                feeds.insert(question, Arc::downgrade(&feed));
                feed
            }
        };
        drop(feeds);
        // The last owner of a feed needs the lock.
        drop(known);
        let updates = feed.updates.clone();
        METRICS.live.subscriptions.inc();
        let subscribed =
            Subscribed { feed, updates, last: None, client, is_over: false, _memory: memory };
        unfold(subscribed, Subscribed::next).boxed()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Question, Weak<Feed>>> {
        self.by_question.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    /// A feed whose answers lie in the memory of one of its clients; `client` asked first.
    fn start(
        service: Service,
        client: Client,
        question: Question,
        operation: Arc<Operation>,
    ) -> Self {
        let (sender, updates) = watch::channel(None);
        let asker = (client, question.rights.clone());
        let taken = Arc::new(Notify::new());
        let holders = Holders::new(service.sockets.clone(), &asker.0);
        let listeners =
            Listeners { updates: sender, taken: taken.clone(), holders: holders.clone() };
        let executing = push(service.clone(), operation, asker, listeners);
        let _executing = AbortOnDropHandle::new(tokio::spawn(executing));
        Self { question, service, updates, taken, holders, _executing }
    }

    /// True until its last answer.
    fn is_living(&self) -> bool {
        self.updates.has_changed().is_ok()
            && self.updates.borrow().as_ref().is_none_or(|update| !update.is_refusal())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut feeds = self.service.feeds.lock();
        if feeds.get(&self.question).is_some_and(|feed| feed.strong_count() == 0) {
            feeds.remove(&self.question);
        }
    }
}

/// True if a client may see members by name whom others with its rights do not see: itself, or a
/// friend. One that becomes so later sees them once it subscribes again.
async fn is_special(service: &Service, principal: &Principal) -> bool {
    let app = &service.app;
    let Some(own) = principal.member.as_deref() else {
        return false;
    };
    // Without its member it would be a moderator who sees all.
    if principal.may(Scope::Moderate) {
        return true;
    }
    if app.visibilities.are_all_public() {
        return false;
    }
    if app.visibilities.of(own) != Some(Visibility::Public) {
        return true;
    }
    let Ok(own) = MemberId::new(own) else {
        return false;
    };
    let Ok((friends, _)) = app.friends.of(&app.deployment, &own).await else {
        return true;
    };
    let is_for_friends =
        |friend: &MemberId| app.visibilities.of(friend.as_str()) != Some(Visibility::Public);
    friends.iter().any(is_for_friends)
}

/// Executes a document after each change, and hands its answers out. As long as no client pays for
/// the last answer and takes it, there is no further one.
async fn push(
    service: Service,
    operation: Arc<Operation>,
    (client, principal): (Client, Option<Arc<Principal>>),
    Listeners { updates, taken, holders }: Listeners,
) {
    let following = Following::of(holders.clone());
    let mut last: Option<Arc<Update>> = None;
    // The points of reads and executions that brought nothing new, and that no client has paid for.
    let mut due = 0;
    let mut _memory = None;
    loop {
        let feeds = &service.feeds;
        let places = if operation.is_heavy() { &feeds.heavy } else { &feeds.light };
        // They are never closed.
        let place = places.acquire().await;
        let asker = (&client, principal.clone());
        let executed = operation.execute(&service, asker, &following).await;
        drop(place);
        METRICS.live.executions.inc();
        // One receiver is the feed's own.
        let sockets = updates.receiver_count().saturating_sub(1).max(1) as u64;
        let spent = executed.spent;
        let mut update = Update::new(executed, service.live.push_bytes_max, sockets);
        match holders.hold(ANSWER_BYTES * update.json.len() as u64) {
            Ok(held) => _memory = Some(held),
            Err(error) => update.refuse(error),
        }
        let mut pause = None;
        if let Some(last) = last.as_ref().filter(|_| update.is_passing()) {
            // The last answer stays until there is a better one.
            let is_closed = update.has_code(ErrorCode::SeasonNotOpen);
            pause = Some(if is_closed { SEASON_PAUSE } else { RETRY_PAUSE });
            update = last.again(update.executed);
        }
        let is_other = last.as_ref().is_none_or(|last| last.json != update.json);
        let is_due = is_other || due + spent >= DUE_MAX * sockets.min(DUE_SOCKETS_MAX);
        if is_due {
            update.executed += std::mem::take(&mut due).div_ceil(sockets);
        } else {
            due += spent;
        }
        let update = Arc::new(update);
        if is_due {
            updates.send_replace(Some(update.clone()));
        }
        if update.is_refusal() {
            return;
        }
        let mut is_unpaid = is_due;
        loop {
            let has_changed = wait(pause.take(), &following).await;
            due += following.take_points().await;
            if is_unpaid && timeout(PAID_SOON, taken.notified()).await.is_err() {
                following.pause().await;
                taken.notified().await;
                break;
            }
            if has_changed {
                break;
            }
            // Reads that find nothing new are paid for.
            let share = std::mem::take(&mut due).div_ceil(sockets);
            updates.send_replace(Some(Arc::new(update.again(share))));
            is_unpaid = true;
        }
        last = Some(update);
    }
}

/// Waits until another execution may give another answer, or for so long; false if clients have
/// reads to pay for before.
async fn wait(pause: Option<Duration>, following: &Following) -> bool {
    match pause {
        None => following.changed().await,
        // Between two seasons nothing is followed that could change.
        Some(SEASON_PAUSE) => {
            sleep(SEASON_PAUSE).await;
            true
        }
        Some(pause) => {
            let _ = timeout(pause, following.changed()).await;
            true
        }
    }
}

impl Subscribed {
    /// The next answer, once the client can pay for it. The client pays for the execution of one
    /// that is as the last was, too, and does not get it again.
    async fn next(mut self) -> Option<(Arc<Update>, Self)> {
        if self.is_over {
            return None;
        }
        self.updates.changed().await.ok()?;
        loop {
            let update = self.updates.borrow_and_update().clone()?;
            let is_same = self.last.as_ref().is_some_and(|last| last.json == update.json);
            let points = update.executed + if is_same { 0 } else { update.sent };
            match self.feed.service.rates.account(&self.client).read(points) {
                Ok(_) => {
                    self.feed.taken.notify_one();
                    if is_same {
                        self.updates.changed().await.ok()?;
                        continue;
                    }
                    METRICS.live.pushes.inc();
                    self.is_over = update.is_refusal();
                    self.last = Some(update.clone());
                    return Some((update, self));
                }
                // A later answer may take its place.
                Err(RetryAfter(wait)) => sleep(wait).await,
            }
        }
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.feed.holders.remove(&self.client);
        METRICS.live.subscriptions.dec();
    }
}

//! The state of one connection, and the time that it may spend in it.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::settings::ConnectionSettings;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// The instant that times of connections count from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The work that a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It waits for the first byte of a request, or for its client to take an answer.
    Idle,
    /// A request's headers arrive.
    Headers,
    /// A request's body arrives.
    Body,
    /// A request is answered.
    Answer,
}

/// The times that connections may spend in states where they wait for their clients, in
/// milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    headers_ms: u64,
    idle_ms: u64,
    write_ms: u64,
}

/// Why the server closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The headers of a request took too long.
    Headers,
    /// It waited too long for a request.
    Idle,
    /// Its client took none of the answer.
    Write,
    /// Another connection needs its place.
    Room,
}

/// The state of one connection. Its reads, writes and requests change it without a timer; a task
/// looks at it now and then.
#[derive(Debug)]
pub struct Activity {
    phase: AtomicU8,
    /// When the phase began, or when an answer last moved.
    since_ms: AtomicU64,
    /// Since when the client takes no bytes; 0 while it does.
    stalled_since_ms: AtomicU64,
    is_unwanted: AtomicBool,
    unwanted: Notify,
}

impl Times {
    /// The times of the settings.
    pub fn new(settings: &ConnectionSettings) -> Self {
        Self {
            headers_ms: settings.header_timeout_ms,
            idle_ms: settings.idle_timeout_ms,
            write_ms: settings.write_timeout_ms,
        }
    }

    /// The time between two looks at a connection. A time-out is late by at most that much.
    fn interval(&self) -> Duration {
        let shortest_ms = self.headers_ms.min(self.idle_ms).min(self.write_ms);
        Duration::from_millis((shortest_ms / 8).max(10))
    }
}

impl Activity {
    /// The state of a new connection: its headers are due.
    pub fn new() -> Self {
        Self {
            phase: AtomicU8::new(Phase::Headers as u8),
            since_ms: AtomicU64::new(now_ms()),
            stalled_since_ms: AtomicU64::new(0),
            is_unwanted: AtomicBool::new(false),
            unwanted: Notify::new(),
        }
    }

    /// Begins a phase.
    pub fn enter(&self, phase: Phase) {
        self.since_ms.store(now_ms(), Relaxed);
        self.phase.store(phase as u8, Relaxed);
    }

    /// Notes that bytes arrived.
    pub fn note_read(&self) {
        if self.is(Phase::Idle) {
            self.enter(Phase::Headers);
        }
    }

    /// Notes that the client took bytes.
    pub fn note_written(&self) {
        if self.stalled_since_ms.load(Relaxed) != 0 {
            self.stalled_since_ms.store(0, Relaxed);
        }
        if self.is(Phase::Idle) {
            self.since_ms.store(now_ms(), Relaxed);
        }
    }

    /// Notes that the client takes no bytes.
    pub fn note_stalled(&self) {
        if self.stalled_since_ms.load(Relaxed) == 0 {
            self.stalled_since_ms.store(now_ms(), Relaxed);
        }
    }

    /// Asks the connection to close, as another one needs its place.
    pub fn make_room(&self) {
        self.is_unwanted.store(true, Relaxed);
        self.unwanted.notify_one();
    }

    /// How long the connection has waited for its client, in milliseconds; `None` while the server
    /// works for it, or if it is closing.
    pub fn waiting_ms(&self) -> Option<u64> {
        let is_busy = self.is(Phase::Answer) || self.is_unwanted.load(Relaxed);
        (!is_busy).then(|| now_ms().saturating_sub(self.since_ms.load(Relaxed)))
    }

    /// Waits until the server has a reason to close the connection.
    pub async fn ended(&self, times: Times) -> Closing {
        loop {
            tokio::select! {
                () = self.unwanted.notified() => return Closing::Room,
                () = sleep(times.interval()) => {}
            }
            if let Some(closing) = self.overdue(times, now_ms()) {
                return closing;
            }
        }
    }

    fn overdue(&self, times: Times, now_ms: u64) -> Option<Closing> {
        let stalled_since_ms = self.stalled_since_ms.load(Relaxed);
        if stalled_since_ms != 0 && now_ms.saturating_sub(stalled_since_ms) >= times.write_ms {
            return Some(Closing::Write);
        }
        let for_ms = now_ms.saturating_sub(self.since_ms.load(Relaxed));
        // A request has time limits of its own, and so has its body.
        if self.is(Phase::Headers) && for_ms >= times.headers_ms {
            Some(Closing::Headers)
        } else if self.is(Phase::Idle) && for_ms >= times.idle_ms {
            Some(Closing::Idle)
        } else {
            None
        }
    }

    /// True if the connection is in a phase.
    pub fn is(&self, phase: Phase) -> bool {
        self.phase.load(Relaxed) == phase as u8
    }
}

/// Milliseconds since the process began to serve, from 1.
fn now_ms() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times { headers_ms: 10_000, idle_ms: 60_000, write_ms: 30_000 };

    #[test]
    fn headers_are_due_from_the_first_byte_and_not_from_each() {
        let activity = Activity::new();
        let begun_ms = now_ms();
        activity.note_read();
        assert_eq!(activity.overdue(TIMES, begun_ms + 9000), None);
        assert_eq!(activity.overdue(TIMES, begun_ms + 10_001), Some(Closing::Headers));
        activity.enter(Phase::Idle);
        assert_eq!(activity.overdue(TIMES, begun_ms + 59_000), None);
        assert_eq!(activity.overdue(TIMES, begun_ms + 61_000), Some(Closing::Idle));
        activity.note_read();
        assert_eq!(activity.overdue(TIMES, begun_ms + 11_000), Some(Closing::Headers));
    }

    #[test]
    fn a_request_that_is_answered_is_not_hurried() {
        let activity = Activity::new();
        activity.enter(Phase::Answer);
        assert_eq!(activity.overdue(TIMES, now_ms() + 3_600_000), None);
        assert_eq!(activity.waiting_ms(), None);
        activity.enter(Phase::Body);
        assert!(activity.waiting_ms().is_some());
    }

    #[test]
    fn an_answer_stalls_until_its_client_takes_some() {
        let activity = Activity::new();
        activity.enter(Phase::Idle);
        activity.note_stalled();
        assert_eq!(activity.overdue(TIMES, now_ms() + 30_001), Some(Closing::Write));
        activity.note_written();
        assert_eq!(activity.overdue(TIMES, now_ms() + 30_001), None);
    }

    #[tokio::test]
    async fn a_connection_makes_room_at_once() {
        let activity = Activity::new();
        activity.make_room();
        assert_eq!(activity.ended(TIMES).await, Closing::Room);
        assert_eq!(activity.waiting_ms(), None);
    }
}

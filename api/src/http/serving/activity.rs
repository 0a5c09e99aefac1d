//! The state of one connection, and the time that it may spend in it.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::settings::ConnectionSettings;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// The instant that times of connections count from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The rate at which a client has to take an answer once it has been on its way for longer than
/// the time for writing.
const ANSWER_BYTES_PER_SECOND: u64 = 16 << 10;

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
    /// When the answer that the client takes began, and its bytes that it has taken.
    answer_since_ms: AtomicU64,
    answer_bytes: AtomicU64,
    is_unwanted: AtomicBool,
    unwanted: Notify,
    /// True if the answer under way is the last one.
    is_last: AtomicBool,
    last: Notify,
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
            answer_since_ms: AtomicU64::new(now_ms()),
            answer_bytes: AtomicU64::new(0),
            is_unwanted: AtomicBool::new(false),
            unwanted: Notify::new(),
            is_last: AtomicBool::new(false),
            last: Notify::new(),
        }
    }

    /// Begins a phase.
    pub fn enter(&self, phase: Phase) {
        let now_ms = now_ms();
        if phase == Phase::Idle {
            self.answer_since_ms.store(now_ms, Relaxed);
            self.answer_bytes.store(0, Relaxed);
        }
        self.since_ms.store(now_ms, Relaxed);
        self.phase.store(phase as u8, Relaxed);
    }

    /// Notes that bytes arrived.
    pub fn note_read(&self) {
        if self.is(Phase::Idle) {
            self.enter(Phase::Headers);
        }
    }

    /// Notes that the client took so many bytes.
    pub fn note_written(&self, bytes: usize) {
        if self.stalled_since_ms.load(Relaxed) != 0 {
            self.stalled_since_ms.store(0, Relaxed);
        }
        if self.is(Phase::Idle) {
            self.since_ms.store(now_ms(), Relaxed);
            self.answer_bytes.fetch_add(bytes as u64, Relaxed);
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

    /// Makes the answer under way the last one of the connection, as another one needs its place.
    pub fn end_with_answer(&self) {
        self.is_last.store(true, Relaxed);
        self.last.notify_one();
    }

    /// True if the connection ends with the answer under way.
    pub fn ends_with_answer(&self) -> bool {
        self.is_last.load(Relaxed)
    }

    /// Waits until the connection ends with the answer under way, for one that has no end itself.
    pub async fn last_answer(&self) {
        while !self.ends_with_answer() {
            self.last.notified().await;
        }
    }

    /// How long an answer has been under way, in milliseconds; `None` if there is none, or if it is
    /// the last one.
    pub fn answering_ms(&self) -> Option<u64> {
        let is_answer = self.is(Phase::Answer) && !self.ends_with_answer();
        is_answer.then(|| now_ms().saturating_sub(self.since_ms.load(Relaxed)))
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
        // One that takes a little now and then keeps the memory of a long answer as well.
        if stalled_since_ms != 0 && self.is(Phase::Idle) {
            let at_rate_ms = self.answer_bytes.load(Relaxed) * 1000 / ANSWER_BYTES_PER_SECOND;
            let for_ms = now_ms.saturating_sub(self.answer_since_ms.load(Relaxed));
            if for_ms >= times.write_ms + at_rate_ms {
                return Some(Closing::Write);
            }
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
        activity.note_written(1);
        assert_eq!(activity.overdue(TIMES, now_ms() + 30_001), None);
    }

    #[test]
    fn a_client_takes_a_long_answer_at_some_rate() {
        let activity = Activity::new();
        let after_s = |seconds: u64| activity.overdue(TIMES, now_ms() + 1000 * seconds);
        activity.enter(Phase::Idle);
        activity.note_written(160 << 10);
        activity.note_stalled();
        assert_eq!((after_s(29), activity.answer_bytes.load(Relaxed)), (None, 160 << 10));
        // As if it had stalled a moment ago: ten seconds are good for the bytes.
        activity.stalled_since_ms.store(now_ms() + 35_000, Relaxed);
        assert_eq!((after_s(39), after_s(41)), (None, Some(Closing::Write)));
        // A stream of events has times of its own.
        activity.enter(Phase::Answer);
        assert_eq!(after_s(41), None);
    }

    #[tokio::test]
    async fn a_connection_makes_room_at_once() {
        let activity = Activity::new();
        activity.make_room();
        assert_eq!(activity.ended(TIMES).await, Closing::Room);
        assert_eq!(activity.waiting_ms(), None);
    }
}

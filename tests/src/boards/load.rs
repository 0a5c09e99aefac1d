//! A board and its load: batches sent by several senders at once, beside faults.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt};
use rand::RngExt;
use rand::rngs::StdRng;
use ranking::window::Window;

use crate::api::Api;
use crate::api::listing::check_board;
use crate::api::submission::{submit_events, try_submit};
use crate::deployment::Deployment;
use crate::model::oracle::{Board, Event, Oracle, Verdict};

/// How many batches a load has.
pub const BATCHES: usize = 120;

/// How many events a batch has.
pub const BATCH_EVENTS: usize = 12;

/// How many requests are under way at once.
pub const SENDERS: usize = 8;

/// A board and its load: events of different ids.
pub struct Load {
    pub board: Board,
    pub batches: Vec<Vec<Event>>,
}

impl Load {
    /// The load with this number; the number decides on the rules of its board.
    pub fn new(rng: &mut StdRng, number: usize) -> Self {
        let board = Board {
            slug: format!("load-{number}"),
            direction: ["HIGH_FIRST", "LOW_FIRST"][number % 2],
            policy: ["SUM", "BEST", "LATEST"][number % 3],
            tie_break: ["EARLIEST", "LATEST"][number / 2 % 2],
            tick_ms: 1000,
            decimals: 1,
            min: -100_000,
            max: 100_000,
            zone: "Australia/Lord_Howe",
            shards: [4, 1, 2][number % 3],
            windows: vec![Window::Hourly, Window::Daily],
            ..Board::default()
        };
        let event = |number: usize, rng: &mut StdRng| Event {
            member: format!("m{}", rng.random_range(0..60)),
            score: rng.random_range(-3..9),
            at_ms: 1_743_863_000_000 + rng.random_range(0..4) * 1_800_000,
            id: Some(format!("e{number}")),
            metadata: None,
        };
        let mut batches: Vec<Vec<Event>> = vec![];
        for batch in 0..BATCHES {
            let numbers = batch * BATCH_EVENTS..(batch + 1) * BATCH_EVENTS;
            batches.push(numbers.map(|number| event(number, rng)).collect());
        }
        Self { board, batches }
    }

    /// Sends all batches, several at once and through the processes in turn, and calls `fault` when
    /// the k-th is acknowledged. Returns the acknowledged events; refused and unanswered batches
    /// are not sent again, as by a client that gives up.
    pub async fn send(&self, apis: &[&Api], k: usize, mut fault: impl AsyncFnMut()) -> Vec<Event> {
        let mut answers = stream::iter(self.batches.iter().zip(apis.iter().cycle()))
            .map(async |(batch, api)| (batch, try_submit(api, &self.board, batch).await))
            .buffer_unordered(SENDERS);
        let (mut acknowledged, mut count) = (vec![], 0);
        while let Some((batch, answer)) = answers.next().await {
            let outcomes = answer.unwrap_or_default();
            let taken = batch.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
            acknowledged.extend(taken.map(|(event, _)| event.clone()));
            if outcomes.iter().any(Result::is_ok) {
                count += 1;
                if count == k {
                    fault().await;
                }
            }
        }
        assert!(count >= k, "the load was over before the fault");
        acknowledged
    }

    /// Sends everything again to a healthy service. The ids in `counted` must be duplicates;
    /// afterwards the board must equal the oracle.
    pub async fn send_again(&self, api: &Api, counted: &BTreeSet<String>) {
        let mut oracle = Oracle::new(self.board.clone());
        for batch in &self.batches {
            let told = submit_events(api, &self.board, batch).await;
            for (event, verdict) in batch.iter().zip(told) {
                oracle.submit(event);
                let id = event.id.as_ref().unwrap();
                assert_ne!(verdict, Verdict::Rejected, "{id} of {}", self.board.slug);
                if counted.contains(id) {
                    assert_eq!(verdict, Verdict::Duplicate, "{id} of {}", self.board.slug);
                }
            }
        }
        assert_eq!(oracle.accepted().len(), BATCHES * BATCH_EVENTS);
        check_board(api, &oracle).await;
    }

    /// The ids that SQL has.
    pub async fn ids_in_sql(&self, deployment: &Deployment) -> BTreeSet<String> {
        let select = format!(
            "SELECT event_id FROM score_event WHERE board_no = (SELECT no FROM board \
                WHERE slug = '{}')",
            self.board.slug
        );
        deployment.column(&select).await.into_iter().collect()
    }
}

/// The ids of events.
pub fn ids(events: &[Event]) -> BTreeSet<String> {
    events.iter().filter_map(|event| event.id.clone()).collect()
}

/// Checks that the service recovers by itself, that the events in SQL count, and that all others
/// can be sent again.
pub async fn check_recovered(api: &Api, load: &Load) {
    api.wait_until_ready().await;
    let counted = load.ids_in_sql(api.deployment()).await;
    load.send_again(api, &counted).await;
}

//! The load on a deployment: clients that submit numbered events at once, each event with an id,
//! and what they were told of each.
//!
//! An event follows from its number and the seed, so only the answers are kept. A client that is
//! not told the outcome often sends again, through any process; some send again what they were
//! told.

pub mod false_answers;
pub mod steady;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ranking::window::Window;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::clock::{DAY_MS, now_ms};
use crate::documents::SUBMIT_SCORES;
use crate::model::oracle::{Board, Event};
use false_answers::FalseAnswers;

/// How many clients send at once.
const CLIENTS: u64 = 8;

/// The longest pause of a client between two requests, in milliseconds.
const PAUSE_MS_MAX: u64 = 120;

/// The most events of a request.
const BATCH_EVENTS_MAX: usize = 20;

/// The members of a board.
const MEMBERS: u64 = 150;

/// The longest wait for an answer: longer than the server waits for its stores.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);

/// The most answers that should not have been given which are kept in words.
const FALSE_ANSWERS_SHOWN: usize = 10;

/// The durability that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    Applied,
    Durable,
}

/// The state of an event, as its clients know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It was not sent, or each time refused.
    Refused,
    /// It was sent, and its outcome is not known.
    Unknown,
    /// It was said to be ranked.
    Applied,
    /// It was said to be in SQL.
    Durable,
}

impl State {
    /// True if it was said to be ranked, or to be in SQL.
    pub fn is_confirmed(self) -> bool {
        matches!(self, Self::Applied | Self::Durable)
    }
}

/// The knowledge that clients have of an event.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    /// The index of its board.
    pub board: usize,
    pub state: State,
    /// The last time that it was acknowledged.
    pub acknowledged: Option<Acknowledged>,
}

/// The request that an event was acknowledged by. The event was in Redis at an instant in between.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledged {
    /// When it was sent.
    pub asked: Instant,
    /// When its answer came.
    pub told: Instant,
}

/// The state that all clients share.
struct Shared {
    seed: u64,
    began_ms: i64,
    boards: Vec<Board>,
    token: String,
    client: Client,
    targets: RwLock<Vec<String>>,
    records: Mutex<Vec<Record>>,
    false_answers: Mutex<FalseAnswers>,
    /// For each refusal of an event, when its request was sent.
    refusals: Mutex<Vec<Instant>>,
    /// True while clients are to send.
    is_on: AtomicBool,
    is_damaged: AtomicBool,
}

/// The load: it can be started and stopped.
pub struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// A load for processes at these URLs; nothing is sent yet.
    pub fn new(seed: u64, token: &str, targets: Vec<String>) -> Self {
        let shared = Shared {
            seed,
            began_ms: now_ms(),
            boards: boards(),
            token: token.to_owned(),
            client: Client::builder().timeout(ANSWER_TIMEOUT).build().unwrap(),
            targets: RwLock::new(targets),
            records: Mutex::default(),
            false_answers: Mutex::default(),
            refusals: Mutex::default(),
            is_on: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), clients: vec![] }
    }

    /// The boards that it submits to.
    pub fn boards(&self) -> &[Board] {
        &self.shared.boards
    }

    /// The input of `createBoard` for each board; the first one also has windows that only the diff
    /// checks.
    pub fn inputs(&self) -> Vec<Value> {
        let mut inputs: Vec<Value> = self.shared.boards.iter().map(Board::input).collect();
        let more = ["7d", "decay:7d"].map(|name| json!({ "name": name }));
        inputs[0]["windows"].as_array_mut().unwrap().extend(more);
        inputs
    }

    /// Sends through other processes from now on.
    pub fn retarget(&self, targets: Vec<String>) {
        *self.shared.targets.write().unwrap_or_else(PoisonError::into_inner) = targets;
    }

    /// Lets the clients send.
    pub fn start(&mut self) {
        self.shared.is_on.store(true, Ordering::Relaxed);
        let seed = self.shared.seed ^ self.records().len() as u64;
        let client = |number| {
            let rng = StdRng::seed_from_u64(seed.wrapping_mul(CLIENTS).wrapping_add(number));
            tokio::spawn(send_steadily(self.shared.clone(), rng))
        };
        self.clients = (0..CLIENTS).map(client).collect();
    }

    /// Lets the clients end what they have begun.
    pub async fn stop(&mut self) {
        self.shared.is_on.store(false, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.await.unwrap();
        }
    }

    /// From now on scores may be refused with `INTERNAL`, as stored data are damaged.
    pub fn expect_damage(&self) {
        self.shared.is_damaged.store(true, Ordering::Relaxed);
    }

    /// The record of each event, by number.
    pub fn records(&self) -> MutexGuard<'_, Vec<Record>> {
        lock(&self.shared.records)
    }

    /// Answers so far that should not have been given.
    pub fn false_answers(&self) -> FalseAnswers {
        lock(&self.shared.false_answers).clone()
    }

    /// For each refusal of an event so far, when its request was sent.
    pub fn refusals(&self) -> MutexGuard<'_, Vec<Instant>> {
        lock(&self.shared.refusals)
    }

    /// An event.
    pub fn event(&self, number: usize) -> Event {
        self.shared.event(number)
    }

    /// The number of the event with an id, if it is one of this load.
    pub fn number(&self, id: &str) -> Option<usize> {
        let number = id.strip_prefix(ID)?.parse().ok()?;
        (number < self.records().len()).then_some(number)
    }

    /// Submits new events to each board through one process; true if SQL has all of them.
    pub async fn probe(&self, target: &str) -> bool {
        let probe = |board| {
            let numbers = self.shared.new_numbers(board, BATCH_EVENTS_MAX);
            async move {
                self.shared.send(target, numbers.clone(), Ack::Durable).await;
                self.shared.are_durable(numbers)
            }
        };
        let probed = join_all((0..self.shared.boards.len()).map(probe)).await;
        probed.into_iter().all(|is_durable| is_durable)
    }

    /// Sends an event once more through one process, and waits until SQL has it.
    pub async fn send_again(&self, target: &str, number: usize) {
        self.shared.send(target, number..number + 1, Ack::Durable).await;
    }
}

/// The beginning of each event's id.
pub const ID: &str = "fault-";

/// The id of the event with a number.
pub fn id(number: usize) -> String {
    format!("{ID}{number}")
}

/// Boards of each policy, with ties.
fn boards() -> Vec<Board> {
    let board = |slug: &str, policy, direction, tie_break, shards| Board {
        slug: slug.to_owned(),
        direction,
        policy,
        tie_break,
        min: -100_000_000,
        max: 100_000_000,
        shards,
        windows: vec![Window::Daily, Window::Weekly],
        ..Board::default()
    };
    vec![
        board("total", "SUM", "HIGH_FIRST", "EARLIEST", 2),
        board("best", "BEST", "LOW_FIRST", "LATEST", 1),
        board("last", "LATEST", "HIGH_FIRST", "EARLIEST", 1),
    ]
}

/// Sends one request after the other until [`Load::stop`] asks it to end.
async fn send_steadily(shared: Arc<Shared>, mut rng: StdRng) {
    while shared.is_on.load(Ordering::Relaxed) {
        let board = rng.random_range(0..shared.boards.len());
        let numbers = shared.new_numbers(board, rng.random_range(1..=BATCH_EVENTS_MAX));
        let ack = if rng.random_bool(0.3) { Ack::Durable } else { Ack::Applied };
        let target = shared.target(&mut rng);
        shared.send(&target, numbers.clone(), ack).await;
        let again = if shared.is_unknown(numbers.clone()) { 0.5 } else { 0.05 };
        if rng.random_bool(again) {
            let target = shared.target(&mut rng);
            shared.send(&target, numbers, ack).await;
        }
        sleep(Duration::from_millis(rng.random_range(0..PAUSE_MS_MAX))).await;
    }
}

impl Shared {
    fn event(&self, number: usize) -> Event {
        let mut rng = StdRng::seed_from_u64(self.seed.wrapping_add(number as u64));
        // Old enough for a clock that is two days behind, with few times, so that there are ties.
        let age_ms = 5 * DAY_MS / 2 + rng.random_range(0..600) * 60_000;
        Event {
            member: format!("m{}", rng.random_range(0..MEMBERS)),
            score: rng.random_range(-3..=9),
            at_ms: self.began_ms - age_ms,
            id: Some(id(number)),
            metadata: None,
        }
    }

    /// The numbers of so many new events of a board.
    fn new_numbers(&self, board: usize, count: usize) -> Range<usize> {
        let mut records = lock(&self.records);
        let first = records.len();
        let record = Record { board, state: State::Refused, acknowledged: None };
        records.resize(first + count, record);
        first..first + count
    }

    fn target(&self, rng: &mut StdRng) -> String {
        let targets = self.targets.read().unwrap_or_else(PoisonError::into_inner);
        targets[rng.random_range(0..targets.len())].clone()
    }

    fn is_unknown(&self, numbers: Range<usize>) -> bool {
        lock(&self.records)[numbers].iter().any(|record| record.state == State::Unknown)
    }

    fn are_durable(&self, numbers: Range<usize>) -> bool {
        lock(&self.records)[numbers].iter().all(|record| record.state == State::Durable)
    }

    /// Sends events of one board, and keeps what the answer says of each.
    async fn send(&self, target: &str, numbers: Range<usize>, ack: Ack) {
        let board = lock(&self.records)[numbers.start].board;
        let board = &self.boards[board];
        let events: Vec<Event> = numbers.clone().map(|number| self.event(number)).collect();
        let scores: Vec<Value> = events.iter().map(|event| board.score_input(event)).collect();
        let ack_name = if ack == Ack::Durable { "DURABLE" } else { "APPLIED" };
        let variables = json!({ "board": board.slug, "scores": scores, "ack": ack_name });
        let body = json!({ "query": SUBMIT_SCORES, "variables": variables });
        let request = self.client.post(format!("{target}/graphql")).bearer_auth(&self.token);
        let asked = Instant::now();
        let answer = match request.json(&body).send().await {
            Ok(answer) => answer.json::<Value>().await.unwrap_or_default(),
            Err(_) => Value::Null,
        };
        let results = answer["data"]["submitScores"]["results"].as_array();
        match results.filter(|results| results.len() == numbers.len()) {
            Some(results) => {
                for (number, result) in numbers.zip(results) {
                    let code = result["error"]["code"].as_str().unwrap_or_default();
                    let status = result["status"].as_str().unwrap_or_default();
                    let state = self.state_told(status, code, ack, &result["error"]["message"]);
                    if status == "DUPLICATE" {
                        self.check_duplicate(number);
                    }
                    self.note(number, state, asked);
                }
            }
            None => {
                let error = &answer["errors"][0];
                let code = error["extensions"]["code"].as_str().unwrap_or("TIMEOUT");
                let status = if code == "TIMEOUT" { "UNKNOWN" } else { "REJECTED" };
                let state = self.state_told(status, code, ack, &error["message"]);
                numbers.for_each(|number| self.note(number, state, asked));
            }
        }
    }

    /// The state of an event by one answer. Every event is right, so only the stores may be the
    /// cause of a refusal.
    fn state_told(&self, status: &str, code: &str, ack: Ack, message: &Value) -> State {
        match (status, code) {
            ("APPLIED" | "DUPLICATE", _) if ack == Ack::Durable => State::Durable,
            ("APPLIED" | "DUPLICATE", _) => State::Applied,
            ("UNKNOWN", _) => State::Unknown,
            ("REJECTED", "UNAVAILABLE") => State::Refused,
            ("REJECTED", "INTERNAL") if self.is_damaged.load(Ordering::Relaxed) => State::Refused,
            _ => {
                self.note_false_answer(format!("{status} {code} {message}"));
                State::Refused
            }
        }
    }

    /// Checks that an event that counted before was sent before, and not refused each time.
    fn check_duplicate(&self, number: usize) {
        let state = lock(&self.records)[number].state;
        if state == State::Refused {
            self.note_false_answer(format!("DUPLICATE of {}, which was refused", id(number)));
        }
    }

    fn note_false_answer(&self, answer: String) {
        let mut answers = lock(&self.false_answers);
        answers.count += 1;
        if answers.shown.len() < FALSE_ANSWERS_SHOWN {
            answers.shown.push(answer);
        }
    }

    /// Keeps an answer: a refusal does not take back an earlier one.
    fn note(&self, number: usize, told: State, asked: Instant) {
        if told == State::Refused {
            lock(&self.refusals).push(asked);
        }
        let mut records = lock(&self.records);
        let record = &mut records[number];
        let is_more = match told {
            State::Refused => false,
            State::Unknown => record.state == State::Refused,
            State::Applied => record.state != State::Durable,
            State::Durable => true,
        };
        if is_more {
            record.state = told;
        }
        if told.is_confirmed() {
            record.acknowledged = Some(Acknowledged { asked, told: Instant::now() });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

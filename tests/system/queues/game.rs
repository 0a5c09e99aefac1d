//! Messages with poison among them, and what the board must hold once all are settled.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::Deployment;
use tests::queue::{Ingest, Kind, Letter, Queue, Sent};

/// The members of a game.
const MEMBERS: usize = 60;

/// Every how many messages there is poison.
const POISON: usize = 50;

/// The steps of a batch at which the program is made to crash; the number is that of the batch.
pub(super) const STEPS: [&str; 5] = [
    "ingest-taken:2",
    "ingest-submitted:2",
    "ingest-dead-lettered",
    "ingest-settling:2",
    "ingest-settled",
];

/// A page of the standings.
const TOP: &str =
    "{ board(slug: \"b\") { standings { top(first: 100) { nodes { score member { key } } } } } }";

/// The brokers that tests run on: all with `make test-brokers`, Kafka alone with `make test-kafka`,
/// else those that start in a moment.
pub(super) fn kinds() -> Vec<Kind> {
    match (has_tansu(), is_wanted()) {
        (true, _) => vec![Kind::Kafka],
        (false, true) => vec![Kind::Nats, Kind::Kafka, Kind::RabbitMq],
        (false, false) => vec![Kind::Nats, Kind::Kafka],
    }
}

/// True with `make test-kafka`: the broker is tansu, not the mock cluster.
pub(super) fn has_tansu() -> bool {
    std::env::var_os("LAUREL_TEST_TANSU").is_some()
}

/// True with `make test-brokers` or `make test-kafka`; says otherwise that its test does not run.
pub(super) fn is_wanted() -> bool {
    let is_wanted = std::env::var("LAUREL_TEST_BROKERS").is_ok_and(|value| value == "1");
    if !is_wanted {
        println!("not on every broker: make test-brokers runs it");
    }
    is_wanted
}

/// The messages of a game, and what they lead to.
pub(super) struct Game {
    pub(super) messages: Vec<Sent>,
    /// The score of each member.
    scores: BTreeMap<String, i64>,
    /// The payloads of poison, each with its code.
    poison: BTreeMap<String, &'static str>,
    ids: Ids,
}

/// The event ids of a game.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    Sent,
    None,
}

impl Game {
    /// So many messages: single scores, every tenth an array of three, some of them poison.
    pub(super) fn new(count: usize) -> Self {
        Self::of(count, Ids::Sent)
    }

    /// As [`Self::new`], without event ids: only the places of messages tell them apart.
    pub(super) fn without_ids(count: usize) -> Self {
        Self::of(count, Ids::None)
    }

    fn of(count: usize, ids: Ids) -> Self {
        let mut game =
            Self { messages: vec![], scores: BTreeMap::new(), poison: BTreeMap::new(), ids };
        for number in 0..count {
            let message = match number {
                _ if number % POISON == 7 => game.poison(number),
                _ if number % 10 == 0 => {
                    (0..3).map(|item| game.score(number, item)).collect::<Vec<_>>().into()
                }
                _ => game.score(number, 0),
            };
            let payload = match message {
                Value::String(text) => text,
                message => message.to_string(),
            };
            game.messages.push(payload.into());
        }
        game
    }

    fn score(&mut self, number: usize, item: usize) -> Value {
        let (member, score) = (format!("m{}", number * 7 % MEMBERS), (number % 9 + item) as i64);
        *self.scores.entry(member.clone()).or_default() += score;
        let id = (self.ids == Ids::Sent).then(|| format!("e{number}-{item}"));
        json!({ "board": "b", "member": member, "score": score, "eventId": id })
    }

    /// A message of which nothing counts, but for the score beside the poison in an array.
    fn poison(&mut self, number: usize) -> Value {
        let id = format!("p{number}");
        let (message, code) = match number / POISON % 5 {
            0 => (json!(format!("{{\"no JSON\": {number}")), "BAD_USER_INPUT"),
            1 => {
                let member = "\u{200b}";
                (
                    json!({ "board": "b", "member": member, "score": 1, "eventId": id }),
                    "BAD_USER_INPUT",
                )
            }
            2 => {
                let message = json!({ "board": "none", "member": "m1", "score": 1, "eventId": id });
                (message, "NOT_FOUND")
            }
            3 => {
                let message =
                    json!({ "board": "b", "member": "m1", "score": "2000000000", "eventId": id });
                (message, "SCORE_OUT_OF_RANGE")
            }
            _ => {
                let bad = json!({ "board": "b", "member": "m1", "score": "1.5", "eventId": id });
                (json!([self.score(number, 0), bad]), "BAD_USER_INPUT")
            }
        };
        let payload = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
        self.poison.insert(payload, code);
        message
    }

    /// The board that the game is on.
    pub(super) async fn create_board(api: &Api) {
        let board = json!({ "slug": "b", "policy": "SUM", "windows": [{ "name": "daily" }] });
        api.create_board(board).await;
    }

    /// Checks that each score counted once, and that each poison is among the dead letters, and
    /// nothing else there.
    pub(super) async fn check(&self, api: &Api, queue: &Queue) {
        self.check_scores(api).await;
        let letters = queue.letters().await;
        let found: BTreeMap<String, &str> =
            letters.iter().map(|letter| (letter.payload.clone(), &*letter.code)).collect();
        assert_eq!(found, self.poison.clone());
        assert!(letters.iter().all(|letter| !letter.reason.is_empty()));
    }

    /// Checks that each score counted once.
    pub(super) async fn check_scores(&self, api: &Api) {
        let data = api.data(TOP, json!({})).await;
        let nodes = data["board"]["standings"]["top"]["nodes"].as_array().unwrap();
        let told: BTreeMap<String, i64> = nodes
            .iter()
            .map(|node| {
                let member = node["member"]["key"].as_str().unwrap().to_owned();
                (member, node["score"].as_str().unwrap().parse().unwrap())
            })
            .collect();
        assert_eq!(told, self.scores);
    }
}

/// Runs the program until it dies at a step.
pub(super) async fn crash_at(step: &str, deployment: &Arc<Deployment>, mut command: Command) {
    command.arg("--once").env("CRASH_AT", step);
    let (status, log) = Ingest::start(deployment, command).wait().await;
    assert_eq!(status.code(), None, "it does not die at {step}: {log}");
}

/// Runs the program until the queue is empty; returns its log and its output.
pub(super) async fn run_once(deployment: &Arc<Deployment>, mut command: Command) -> String {
    command.arg("--once");
    let (status, log) = Ingest::start(deployment, command).wait().await;
    assert!(status.success(), "{log}");
    log
}

/// The only dead letter.
pub(super) async fn only_letter(queue: &Queue) -> Letter {
    let letters = queue.letters().await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    letters.into_iter().next().unwrap()
}

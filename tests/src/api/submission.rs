//! Submissions: batches of scores and of events, and their outcomes.

use std::sync::atomic::{AtomicBool, Ordering};

use ranking::window::Window;
use serde_json::{Value, json};

use crate::api::Api;
use crate::documents::{ADD_SEASON, SEASONS, SUBMIT_SCORES};
use crate::model::oracle::{Board, Event, Verdict};
use crate::wait::until;

/// Creates a board with the rules of the oracle's.
pub async fn create_board(api: &Api, board: &Board) {
    let created = api.create_board(board.input()).await;
    assert_eq!(created["slug"], board.slug);
    if board.tie_break != "MEMBER" {
        assert_eq!(created["tieBreakResolutionMs"], board.tick_ms);
    }
    add_seasons(api, board).await;
}

/// Lists the seasons of the oracle's board, if it has their window, and waits until they are ready.
pub async fn add_seasons(api: &Api, board: &Board) {
    if !board.windows.contains(&Window::Season) {
        return;
    }
    for (name, start_ms, end_ms) in &board.seasons {
        let at = |ms| jiff::Timestamp::from_millisecond(ms).unwrap().to_string();
        let input = json!({
            "board": board.slug, "name": name, "startsAt": at(*start_ms), "endsAt": at(*end_ms),
        });
        let data = api.data(ADD_SEASON, json!({ "input": input })).await;
        assert_eq!(data["addSeason"]["season"]["name"], *name);
    }
    wait_until_ready(api, board).await;
}

/// Waits until the seasons of the oracle's board have all scores from before they were listed.
pub async fn wait_until_ready(api: &Api, board: &Board) {
    until("the seasons are ready", async || {
        let data = api.data(SEASONS, json!({ "slug": board.slug })).await;
        let seasons = data["board"]["seasons"].as_array().unwrap();
        // A process learns within a moment of those that another one has listed.
        let are_all = seasons.len() == board.seasons.len();
        (are_all && seasons.iter().all(|season| season["ready"] == true)).then_some(())
    })
    .await;
}

/// Submits a batch of scores in GraphQL's form; returns the payload.
pub async fn submit(api: &Api, board: &str, scores: Value) -> Value {
    let variables = json!({ "board": board, "scores": scores, "ack": "APPLIED" });
    api.data(SUBMIT_SCORES, variables).await["submitScores"].take()
}

/// Submits a batch of scores and waits until SQL has them; returns the payload.
pub async fn submit_durably(api: &Api, board: &str, scores: Value) -> Value {
    let variables = json!({ "board": board, "scores": scores, "ack": "DURABLE" });
    api.data(SUBMIT_SCORES, variables).await["submitScores"].take()
}

/// Submits a batch of events, whose inputs another function completes; returns the outcome of each.
pub async fn submit_completed(
    api: &Api,
    board: &Board,
    events: &[Event],
    complete: impl Fn(usize, &mut Value),
) -> Vec<Verdict> {
    let mut scores: Vec<Value> = events.iter().map(|event| board.score_input(event)).collect();
    scores.iter_mut().enumerate().for_each(|(index, score)| complete(index, score));
    let answers = try_submit_scores(api, board, events, scores).await.expect("the service answers");
    let verdicts = answers.iter().map(|answer| {
        answer.unwrap_or_else(|code| panic!("a score of {} was answered with {code}", board.slug))
    });
    verdicts.collect()
}

/// Submits a batch of events to a healthy service; returns the outcome of each.
pub async fn submit_events(api: &Api, board: &Board, events: &[Event]) -> Vec<Verdict> {
    submit_completed(api, board, events, |_, _| {}).await
}

/// The outcome of an event, or the code of an answer that it is unknown or that the service is
/// unavailable.
pub type Outcome = Result<Verdict, &'static str>;

/// Submits a batch of events; returns nothing if no answer came.
pub async fn try_submit(api: &Api, board: &Board, events: &[Event]) -> Option<Vec<Outcome>> {
    let scores = events.iter().map(|event| board.score_input(event)).collect();
    try_submit_scores(api, board, events, scores).await
}

async fn try_submit_scores(
    api: &Api,
    board: &Board,
    events: &[Event],
    scores: Vec<Value>,
) -> Option<Vec<Outcome>> {
    let variables = json!({ "board": board.slug, "scores": scores, "ack": "APPLIED" });
    let answer = api.try_ask(Some(api.token()), SUBMIT_SCORES, variables).await.ok()?;
    if answer.body.get("errors").is_some() {
        // No other reason is possible: the requests are well-formed and the token is valid.
        assert_eq!(answer.codes(), ["UNAVAILABLE"], "{:?}", answer.body);
        return None;
    }
    let payload = &answer.body["data"]["submitScores"];
    let results = payload["results"].as_array().unwrap();
    assert_eq!(results.len(), events.len());
    let outcomes: Vec<Outcome> =
        results.iter().zip(events).map(|(result, event)| outcome(result, event)).collect();
    let count = |verdict| outcomes.iter().filter(|outcome| **outcome == Ok(verdict)).count();
    assert_eq!(payload["accepted"], count(Verdict::Applied));
    assert_eq!(payload["duplicates"], count(Verdict::Duplicate));
    Some(outcomes)
}

fn outcome(result: &Value, event: &Event) -> Outcome {
    assert_eq!(result["member"], event.member);
    let code = result["error"]["code"].as_str();
    match (result["status"].as_str().unwrap(), code) {
        ("APPLIED", None) => Ok(Verdict::Applied),
        ("DUPLICATE", None) => Ok(Verdict::Duplicate),
        (
            "REJECTED",
            Some(
                "BAD_USER_INPUT" | "SCORE_OUT_OF_RANGE" | "EVENT_ID_CONFLICT" | "MEMBER_MERGED"
                | "ATTEMPTS_EXHAUSTED",
            ),
        ) => Ok(Verdict::Rejected),
        ("REJECTED", Some("UNAVAILABLE")) => Err("UNAVAILABLE"),
        ("UNKNOWN", Some("TIMEOUT")) => Err("TIMEOUT"),
        other => panic!("{other:?} is no outcome: {result}"),
    }
}

/// How many members a steady writer scores for.
const WRITTEN: usize = 10;

/// Submits the lowest score above 0 for each of ten members again and again until it is stopped;
/// returns the number of batches, at least one.
pub async fn write_steadily(api: &Api, board: &Board, name: &str, stop: &AtomicBool) -> i64 {
    let score = |number: usize| {
        json!({
            "member": format!("{name}{number}"), "score": board.decimal(1),
            "at": "2025-10-26T01:00:00Z",
        })
    };
    let scores: Vec<Value> = (0..WRITTEN).map(score).collect();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) || sent == 0 {
        let told = submit(api, &board.slug, json!(scores)).await;
        assert_eq!(told["accepted"], WRITTEN, "{told}");
        sent += 1;
    }
    sent
}

/// An event a member that leads to the same standings as so many batches of a steady writer.
pub fn written(board: &Board, name: &str, batches: i64) -> Vec<Event> {
    let score = if board.policy == "SUM" { batches } else { 1 };
    let event = |number: usize| Event {
        member: format!("{name}{number}"),
        score,
        at_ms: 1_761_440_400_000,
        id: None,
        metadata: None,
    };
    (0..WRITTEN).map(event).collect()
}

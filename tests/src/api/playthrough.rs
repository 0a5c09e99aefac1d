//! Histories played through the API: batches with amendments between them, then all answers
//! compared with the oracle.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use ranking::window::Window;
use serde_json::{Value, json};

use crate::api::Api;
use crate::api::amendment::{events, member_events, remove, void};
use crate::api::listing::{check_all_time_in_sql, check_standings};
use crate::api::submission::{create_board, submit_events};
use crate::model::game::{Game, Range, every_game};
use crate::model::history::{Amended, History, Item};
use crate::model::oracle::Event;
use crate::wait::until;

/// The boards of some games of so many events, on which the first half of the events was played.
pub async fn begun(
    rng: &mut StdRng,
    api: &Api,
    events: usize,
    shards: u16,
    boards: usize,
) -> Vec<(Game, History)> {
    let mut games = every_game(rng, shards, Range::Wide, events);
    games.shuffle(rng);
    let mut begun = vec![];
    for game in games.into_iter().take(boards) {
        create_board(api, &game.board).await;
        let mut history = History::new(game.board.clone());
        play(rng, api, &mut history, &game.events[..events / 2]).await;
        begun.push((game, history));
    }
    begun
}

/// Submits events in batches, with a random amendment after each.
pub async fn play(rng: &mut StdRng, api: &Api, history: &mut History, events: &[Event]) {
    for batch in events.chunks(8) {
        play_batch(rng, api, history, batch).await;
    }
}

/// Submits a batch, whose outcome must be the expected one, and amends the history at random.
pub async fn play_batch(rng: &mut StdRng, api: &Api, history: &mut History, batch: &[Event]) {
    let told = submit_events(api, &history.board, batch).await;
    let expected: Vec<_> = batch.iter().map(|event| history.submit(event)).collect();
    assert_eq!(told, expected, "{batch:?} to {:?}", history.board);
    amend(rng, api, history).await;
}

/// Makes a random amendment: a removal, or a void of any score or removal, voided before or not.
pub async fn amend(rng: &mut StdRng, api: &Api, history: &mut History) -> Amended {
    let slug = history.board.slug.clone();
    let can_be_voided: Vec<usize> = (0..history.items().len())
        .filter(|&number| !matches!(history.items()[number], Item::Void(_)))
        .filter(|&number| !history.is_merged(history.member(number)))
        .collect();
    let Some(&number) = can_be_voided.choose(rng) else {
        return Amended::Nothing;
    };
    let member = history.member(number).to_owned();
    if rng.random_bool(0.35) {
        let expected = history.remove(&member);
        let removed = remove(api, &slug, &member).await["removed"] == true;
        assert_eq!(removed, expected == Amended::Done, "{member} of {slug}");
        return expected;
    }
    let numbers = history.of_member(&member);
    let index = numbers.iter().position(|other| *other == number).unwrap();
    let id = history_in_sql(api, history, &member).await[index]["id"].clone();
    let expected = history.void(number);
    let answer = void(api, id.as_str().unwrap()).await;
    let of_member = history.of_member(&member);
    let context =
        || format!("{number} of {:?}: {:?}\n{:?}", of_member, history.items(), history.board);
    if expected == Amended::OutOfRange {
        assert_eq!(answer.codes(), ["SCORE_OUT_OF_RANGE"], "{}", context());
        return expected;
    }
    assert_eq!(answer.codes(), [""; 0], "{}", context());
    let voided = &answer.body["data"]["voidEvent"];
    assert_eq!(voided["voided"], expected == Amended::Done, "{}", context());
    let mut all = history.oracle().standings();
    let all = all.remove(&(Window::All, "all".to_owned())).unwrap_or_default();
    let row = all.iter().find(|row| row.member == member);
    let entry = row.map(|row| json!({ "score": row.score }));
    assert_eq!(voided["entry"], json!(entry), "{}", context());
    expected
}

/// A member's events once SQL has all of them; checks them against the oracle.
async fn history_in_sql(api: &Api, history: &History, member: &str) -> Vec<Value> {
    let numbers = history.of_member(member);
    let slug = &history.board.slug;
    until("the member's events are in SQL", async || {
        let connection = member_events(slug, member);
        let page = connection.page(api, json!({})).await;
        (page["totalCount"] == numbers.len()).then_some(())
    })
    .await;
    let seen = events(api, slug, member).await;
    let id = |number: &usize| {
        let index = numbers.iter().position(|other| other == number).unwrap();
        seen[index]["id"].clone()
    };
    for (&number, event) in numbers.iter().zip(&seen) {
        let (kind, score, event_id, metadata, voids) = match &history.items()[number] {
            Item::Score(event) => {
                let score = history.board.decimal(event.score);
                ("SCORE", Some(score), event.id.clone(), event.metadata.clone(), Value::Null)
            }
            Item::Removal(_) => ("REMOVAL", None, None, None, Value::Null),
            Item::Void(target) => ("VOID", None, None, None, id(target)),
        };
        let metadata: Option<Value> = metadata.map(|text| serde_json::from_str(&text).unwrap());
        let expected = json!([kind, score, event_id, metadata, voids, history.is_voided(number)]);
        let shown = json!([
            event["kind"],
            event["score"],
            event["eventId"],
            event["metadata"],
            event["voids"],
            event["voided"]
        ]);
        assert_eq!(shown, expected, "{number}: {:?}", history.items());
    }
    seen
}

/// Checks every entry of every period, the list of periods, and SQL.
pub async fn check(api: &Api, history: &History) {
    let oracle = history.oracle();
    check_standings(api, &oracle).await;
    check_all_time_in_sql(api, &oracle).await;
    let text = "
        query($slug: String!, $window: String!) { board(slug: $slug) {
            periods(window: $window, first: 1000) { nodes { label } }
        } }";
    for &window in [Window::All].iter().chain(&oracle.board.windows) {
        let variables = json!({ "slug": oracle.board.slug, "window": window.to_string() });
        let data = api.data(text, variables).await;
        let label = |label: String| json!({ "label": label });
        let expected: Vec<Value> = oracle.periods(window).into_iter().map(label).collect();
        assert_eq!(
            data["board"]["periods"]["nodes"],
            json!(expected),
            "{window} of {:?}",
            oracle.board
        );
    }
}

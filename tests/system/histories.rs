//! Random histories in which events are taken back, against the oracle; and amendments beside writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use ranking::window::Window;
use serde_json::{Value, json};

use crate::amendments::{self, check_diff, events, remove, void};
use crate::api::Api;
use crate::deployment::{Deployment, Redis, Sql};
use crate::game::{Game, Range, every_game, seeded};
use crate::history::{Amended, History, Item};
use crate::listing::{check_all_time_in_sql, check_standings};
use crate::load::{create_board, submit_durably, submit_events};
use crate::oracle::Oracle;
use crate::seals;
use crate::wait::until;

/// How many boards are played on, of the kinds that there are.
const BOARDS: usize = 6;

/// How many events each is sent.
const EVENTS: usize = 70;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_never_was_on_sqlite() {
    check_games(Sql::Sqlite, 1, Seals::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_never_was_in_four_shards_on_postgres() {
    check_games(Sql::Postgres, 4, Seals::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_is_corrected_where_it_was_sealed_on_sqlite() {
    check_games(Sql::Sqlite, 4, Seals::InBetween).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_is_corrected_where_it_was_sealed_on_postgres() {
    check_games(Sql::Postgres, 1, Seals::InBetween).await;
}

/// Whether past periods are sealed while a game is played.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seals {
    None,
    InBetween,
}

async fn check_games(sql: Sql, shards: u16, seals: Seals) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let mut games = every_game(&mut rng, shards, Range::Wide, EVENTS);
    if seals == Seals::None {
        // What comes late for a sealed period is not checked against its range.
        games.extend(every_game(&mut rng, shards, Range::Narrow, EVENTS));
    }
    games.shuffle(&mut rng);
    let mut histories = vec![];
    for game in games.into_iter().take(BOARDS) {
        histories.push(play(&mut rng, &apis, game, seals).await);
    }
    check_diff(&deployment);
    let flush = redis::cmd("FLUSHALL");
    flush.query_async::<()>(&mut deployment.redis().await).await.unwrap();
    for history in &histories {
        check(&apis[0], history).await;
    }
    for history in &histories {
        let rebuilt = deployment.analytics(&["rebuild", "--board", &history.board.slug]);
        assert!(rebuilt.status.success(), "{}", String::from_utf8_lossy(&rebuilt.stderr));
        check(&apis[1], history).await;
    }
    check_diff(&deployment);
}

/// Sends a game's events, and takes some back in between.
async fn play(rng: &mut StdRng, apis: &[Api], game: Game, seals: Seals) -> History {
    create_board(&apis[0], &game.board).await;
    let mut history = History::new(game.board);
    let (mut amended, mut refused) = (0, 0);
    for (number, batch) in game.events.chunks(6).enumerate() {
        let api = &apis[number % apis.len()];
        if number == 4 && seals == Seals::InBetween {
            seals::retain(api, &history.board, 0).await;
            for api in apis {
                seals::wait_until_sealed(api, &history.board).await;
            }
        }
        let told = submit_events(api, &history.board, batch).await;
        let expected: Vec<_> = batch.iter().map(|event| history.submit(event)).collect();
        assert_eq!(told, expected, "{batch:?} to {:?}", history.board);
        for _ in 0..3 {
            match amend(rng, api, &mut history).await {
                Amended::Done => amended += 1,
                Amended::OutOfRange => refused += 1,
                Amended::Nothing => {}
            }
        }
        if number % 4 == 3 {
            check(api, &history).await;
        }
    }
    println!("{}: {amended} amendments, {refused} refused", history.board.slug);
    assert!(amended > 5, "a game with {amended} amendments tests little");
    check(&apis[0], &history).await;
    history
}

/// A random amendment: a removal, or a void of any score or removal, also of one that was voided.
pub(crate) async fn amend(rng: &mut StdRng, api: &Api, history: &mut History) -> Amended {
    let slug = history.board.slug.clone();
    let can_be_voided: Vec<usize> = (0..history.items().len())
        .filter(|&number| !matches!(history.items()[number], Item::Void(_)))
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

/// A member's events, as soon as SQL has all of them: they are as the oracle says.
async fn history_in_sql(api: &Api, history: &History, member: &str) -> Vec<Value> {
    let numbers = history.of_member(member);
    let slug = &history.board.slug;
    until("the member's events are in SQL", async || {
        let connection = amendments::history(slug, member);
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
        let (kind, score, event_id, voids) = match &history.items()[number] {
            Item::Score(event) => {
                ("SCORE", Some(history.board.decimal(event.score)), event.id.clone(), Value::Null)
            }
            Item::Removal(_) => ("REMOVAL", None, None, Value::Null),
            Item::Void(target) => ("VOID", None, None, id(target)),
        };
        let expected = json!([kind, score, event_id, voids, history.is_voided(number)]);
        let shown = json!([
            event["kind"],
            event["score"],
            event["eventId"],
            event["voids"],
            event["voided"]
        ]);
        assert_eq!(shown, expected, "{number}: {:?}", history.items());
    }
    seen
}

/// Every entry of every period, the periods that there are, and SQL.
pub(crate) async fn check(api: &Api, history: &History) {
    let oracle = history.oracle();
    check_standings(api, &oracle).await;
    check_all_time_in_sql(api, &oracle).await;
    let text = "query($slug: String!, $window: String!) { board(slug: $slug) { periods(window: $window, first: 1000) { nodes { label } } } }";
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn amendments_succeed_beside_writers_of_the_same_partition() {
    for sql in [Sql::Sqlite, Sql::Postgres] {
        check_beside_writers(sql).await;
    }
}

async fn check_beside_writers(sql: Sql) {
    let mut rng = seeded();
    let deployment: Arc<Deployment> = Deployment::new(sql, Redis::Private).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let game = every_game(&mut rng, 1, Range::Wide, 40).swap_remove(0);
    let board = game.board;
    create_board(&apis[0], &board).await;
    let stop = AtomicBool::new(false);
    let write = async |api: &Api, name: &str| {
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) || sent == 0 {
            let score = |number: usize| json!({ "member": format!("{name}{number}"), "score": board.decimal(1), "at": "2025-10-26T01:00:00Z" });
            let scores: Vec<Value> = (0..10).map(score).collect();
            let told = crate::load::submit(api, &board.slug, json!(scores)).await;
            assert_eq!(told["accepted"], 10, "{told}");
            sent += 1;
        }
        sent
    };
    let mut change = async || {
        let mut history = History::new(board.clone());
        for batch in game.events.chunks(5) {
            submit_durably_all(&apis[1], &mut history, batch).await;
            amend(&mut rng, &apis[0], &mut history).await;
            amend(&mut rng, &apis[1], &mut history).await;
        }
        stop.store(true, Ordering::Relaxed);
        history
    };
    let (first, second, history) =
        futures::join!(write(&apis[0], "w"), write(&apis[1], "v"), change());
    println!("{first} and {second} batches beside the amendments");
    let mut counting = history.oracle().accepted().to_vec();
    for (name, sent) in [("w", first), ("v", second)] {
        for number in 0..10 {
            let event = crate::oracle::Event {
                member: format!("{name}{number}"),
                score: sent,
                at_ms: 1_761_440_400_000,
                id: None,
            };
            counting.push(event);
        }
    }
    let oracle = Oracle::of(board, counting);
    check_standings(&apis[1], &oracle).await;
    check_all_time_in_sql(&apis[1], &oracle).await;
    check_diff(&deployment);
}

/// Submits events, each of which must be accepted or be known.
async fn submit_durably_all(api: &Api, history: &mut History, batch: &[crate::oracle::Event]) {
    let scores: Vec<Value> = batch.iter().map(|event| history.board.score_input(event)).collect();
    let told = submit_durably(api, &history.board.slug, json!(scores)).await;
    for (event, result) in batch.iter().zip(told["results"].as_array().unwrap()) {
        let expected = format!("{:?}", history.submit(event)).to_uppercase();
        assert_eq!(result["status"], expected, "{event:?}");
    }
}

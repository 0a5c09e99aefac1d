//! Seasons: the periods of a window that the owner of a board lists.

use rand::RngExt;
use rand::seq::IndexedRandom;
use ranking::window::Window;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::listing::check_standings;
use tests::api::submission::{create_board, submit_durably, submit_events, wait_until_ready};
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{ADD_SEASON, REMOVE_SEASON, SEASONS, UPDATE_BOARD};
use tests::jobs::analytics::figures;
use tests::jobs::archive::{age, archive};
use tests::jobs::diff::check_diff;
use tests::jobs::seal::wait_until_dropped;
use tests::model::game::seeded;
use tests::model::oracle::{Board, Event, Oracle};
use tests::wait::until;

const STANDINGS: &str = "
    query($period: String, $at: DateTime) { board(slug: \"b\") {
        standings(of: { window: \"season\", period: $period, at: $at }) {
            source period { label start end nextResetAt sealed }
            top(first: 10) { nodes { member { key } score change } }
        }
    } }";

const WINDOWS: &str = "
    { board(slug: \"b\") {
        windows { name kind ready current { label } }
        periods(window: \"season\", first: 10) { totalCount nodes { label } }
    } }";

fn text(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).unwrap().to_string()
}

fn season(name: &str, start_ms: i64, end_ms: i64) -> Value {
    let input = json!({
        "board": "b", "name": name, "startsAt": text(start_ms), "endsAt": text(end_ms),
    });
    json!({ "input": input })
}

/// The code and the argument of a refused change, whose message says something.
async fn refused(api: &Api, document: &str, variables: Value, says: &str) -> (String, Value) {
    let answer = api.ask(Some(api.token()), document, variables).await;
    let error = &answer.body["errors"][0];
    assert!(error["message"].as_str().unwrap_or_default().contains(says), "{:?}", answer.body);
    let extensions = &error["extensions"];
    (extensions["code"].as_str().unwrap().to_owned(), extensions["argument"].clone())
}

async fn labels(api: &Api) -> Value {
    api.data(WINDOWS, json!({})).await["board"]["periods"]["nodes"].take()
}

#[tokio::test]
async fn a_season_is_a_period_and_between_seasons_there_is_none() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "season" }] })).await;
    let now_ms = now_ms();
    let board = api.data(WINDOWS, json!({})).await["board"].take();
    let window = json!({ "name": "season", "kind": "SEASON", "ready": true, "current": null });
    assert_eq!(board["windows"][1], window);
    let none = refused(&api, STANDINGS, json!({}), "no season of board b is open now").await;
    assert_eq!(none, ("SEASON_NOT_OPEN".to_owned(), json!("of.window")));
    // A score between two seasons counts in the other windows.
    let scores = json!([{ "member": "ann", "score": 5 }]);
    assert_eq!(submit_durably(&api, "b", scores).await["accepted"], 1);
    assert_eq!(labels(&api).await, json!([]));
    // One begins now, and one later.
    let (start_ms, end_ms) = (now_ms - DAY_MS, now_ms + DAY_MS);
    let added = api.data(ADD_SEASON, season("first", start_ms, end_ms)).await;
    let start = &added["addSeason"]["season"]["startsAt"];
    assert_eq!(
        start.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().to_string(),
        text(start_ms)
    );
    api.data(ADD_SEASON, season("next", end_ms, end_ms + DAY_MS)).await;
    let seasons = until("both are ready", async || {
        let seasons = api.data(SEASONS, json!({ "slug": "b" })).await["board"]["seasons"].take();
        let all = seasons.as_array().unwrap();
        all.iter().all(|season| season["ready"] == true).then(|| all.clone())
    })
    .await;
    assert_eq!(seasons.len(), 2);
    assert_eq!((&seasons[0]["name"], &seasons[1]["name"]), (&json!("first"), &json!("next")));
    // The score that the board had counts.
    let standings = api.data(STANDINGS, json!({})).await["board"]["standings"].take();
    assert_eq!(standings["period"]["label"], "first");
    assert_eq!(standings["period"]["nextResetAt"], standings["period"]["end"]);
    let node = json!({ "member": { "key": "ann" }, "score": "5", "change": null });
    assert_eq!(standings["top"]["nodes"], json!([node]));
    assert_eq!(labels(&api).await, json!([{ "label": "first" }]));
    let by_instant = api.data(STANDINGS, json!({ "at": text(now_ms) })).await;
    let by_label = api.data(STANDINGS, json!({ "period": "first" })).await;
    assert_eq!(by_instant, by_label);
    let later = api.data(STANDINGS, json!({ "at": text(end_ms) })).await;
    assert_eq!(later["board"]["standings"]["period"]["label"], "next");
    for (variables, says) in [
        (json!({ "at": text(start_ms - 1) }), "is open then"),
        (json!({ "period": "third" }), "such as \"next\""),
        (json!({ "period": "" }), "such as \"next\""),
    ] {
        refused(&api, STANDINGS, variables, says).await;
    }
    check_diff(&deployment);
}

#[tokio::test]
async fn a_season_that_cannot_be_is_refused() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let at = now_ms() + DAY_MS;
    let no_board = refused(&api, ADD_SEASON, season("a", at, at + 1), "no board").await;
    assert_eq!(no_board, ("NOT_FOUND".to_owned(), json!("input.board")));
    api.create_board(json!({ "slug": "b" })).await;
    let no_window = refused(&api, ADD_SEASON, season("a", at, at + 1), "no window season").await;
    assert_eq!(no_window.0, "BAD_USER_INPUT");
    api.update_board(json!({ "slug": "b", "windows": [{ "name": "season" }] })).await;
    api.data(ADD_SEASON, season("a", at, at + 10)).await;
    let bad = |code: &str, argument: &str| (code.to_owned(), json!(argument));
    for (name, start, end, says, expected) in [
        ("a", at + 20, at + 30, "already exists", bad("ALREADY_EXISTS", "input.name")),
        ("b", at + 9, at + 30, "a and b overlap", bad("BAD_USER_INPUT", "input.startsAt")),
        ("b", at - 5, at + 30, "overlap", bad("BAD_USER_INPUT", "input.startsAt")),
        ("b", at + 20, at + 20, "endsAt after it", bad("BAD_USER_INPUT", "input.endsAt")),
        ("B", at + 20, at + 30, "a-z", bad("BAD_USER_INPUT", "input.name")),
        ("b", at + 20, at + 400 * DAY_MS, "366 days", bad("LIMIT_EXCEEDED", "input.endsAt")),
    ] {
        assert_eq!(refused(&api, ADD_SEASON, season(name, start, end), says).await, expected);
    }
    api.data(ADD_SEASON, season("b", at + 10, at + 30)).await;
    let token = deployment.new_token(&["--scope", "submit"]).await;
    let answer = api.ask(Some(&token), ADD_SEASON, season("c", at + 40, at + 50)).await;
    assert_eq!(answer.codes(), ["FORBIDDEN"]);
}

#[tokio::test]
async fn a_season_that_has_not_begun_can_be_taken_back() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "season" }] })).await;
    let now_ms = now_ms();
    api.data(ADD_SEASON, season("open", now_ms - DAY_MS, now_ms + DAY_MS)).await;
    api.data(ADD_SEASON, season("later", now_ms + DAY_MS, now_ms + 2 * DAY_MS)).await;
    let name = |name: &str| json!({ "input": { "board": "b", "name": name } });
    let begun = refused(&api, REMOVE_SEASON, name("open"), "has begun").await;
    assert_eq!(begun, ("BAD_USER_INPUT".to_owned(), json!("input.name")));
    for removed in [true, false] {
        let told = api.data(REMOVE_SEASON, name("later")).await["removeSeason"].take();
        let left = json!({ "seasons": [{ "name": "open" }] });
        assert_eq!((&told["removed"], &told["board"]), (&json!(removed), &left));
    }
    // Its time is free, and so is its name.
    until("the name is free", async || {
        let again = season("later", now_ms + DAY_MS, now_ms + 3 * DAY_MS);
        let answer = api.ask(Some(api.token()), ADD_SEASON, again).await;
        answer.codes().is_empty().then_some(())
    })
    .await;
    let answer = api.ask(
        Some(api.token()),
        UPDATE_BOARD,
        json!({ "input": { "slug": "b", "windows": [] } }),
    );
    assert_eq!(answer.await.codes(), [""; 0]);
    assert_eq!(api.data(SEASONS, json!({ "slug": "b" })).await["board"]["seasons"], json!([]));
}

/// Plays while seasons are added; the standings are those of the oracle, live, rebuilt and
/// restored.
async fn check_added_later(sql: Sql, shards: u16) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let start_ms = now_ms() - 40 * DAY_MS;
    let board = Board {
        policy: ["SUM", "BEST", "LATEST"][rng.random_range(0..3)],
        min: -100_000,
        max: 100_000,
        shards,
        windows: vec![Window::Daily, Window::Season],
        ..Board::default()
    };
    create_board(&apis[0], &board).await;
    let mut events = vec![];
    let spans = [("past", 0, 10), ("short", 12, 13), ("open", 30, 50), ("later", 60, 70)];
    let mut seasons = vec![];
    for (name, from, to) in spans {
        let some: Vec<Event> = (0..60)
            .map(|number| Event {
                member: format!("m{}", rng.random_range(0..20)),
                score: rng.random_range(1..9),
                at_ms: start_ms + rng.random_range(0..40 * DAY_MS),
                id: Some(format!("{name}-{number}")),
                metadata: None,
            })
            .collect();
        let (from_ms, to_ms) = (start_ms + from * DAY_MS, start_ms + to * DAY_MS);
        let play = async {
            for (number, batch) in some.chunks(6).enumerate() {
                submit_events(&apis[number % 2], &board, batch).await;
            }
        };
        let add = async {
            apis[1].data(ADD_SEASON, season(name, from_ms, to_ms)).await;
        };
        futures::join!(play, add);
        seasons.push((name, from_ms, to_ms));
        events.extend(some);
    }
    let board = Board { seasons: seasons.clone(), ..board };
    wait_until_ready(&apis[0], &board).await;
    let oracle = Oracle::of(board.clone(), events.clone());
    for api in &apis {
        check_standings(api, &oracle).await;
    }
    deployment.settle().await;
    check_diff(&deployment);
    figures(&deployment, &["rebuild", "--board", "b"]);
    check_standings(&apis[0], &oracle).await;
    deployment.flush_redis().await;
    check_standings(&apis[1], &oracle).await;
    let last = events.choose(&mut rng).unwrap();
    let again = submit_durably(&apis[0], "b", json!([board.score_input(last)])).await;
    assert_eq!(again["duplicates"], 1);
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seasons_that_are_added_while_people_play_are_exact() {
    for sql in Sql::all() {
        check_added_later(sql, 2).await;
    }
}

#[tokio::test]
async fn past_seasons_are_sealed_and_late_scores_correct_them() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let input = json!({ "slug": "b", "windows": [{ "name": "season", "retain": 0 }] });
    api.create_board(input).await;
    let now_ms = now_ms();
    let day = |day: i64| now_ms - day * DAY_MS;
    api.data(ADD_SEASON, season("one", day(30), day(20))).await;
    api.data(ADD_SEASON, season("two", day(10), day(5))).await;
    let score =
        |member: &str, at_ms: i64| json!({ "member": member, "score": 1, "at": text(at_ms) });
    let scores = json!([score("ann", day(25)), score("bob", day(15)), score("ann", day(6))]);
    submit_durably(&api, "b", scores).await;
    wait_until_dropped(&api, "b").await;
    let top = async |period: &str| {
        let data = api.data(STANDINGS, json!({ "period": period })).await;
        let standings = &data["board"]["standings"];
        let nodes = standings["top"]["nodes"].as_array().unwrap().len();
        (standings["source"].clone(), standings["period"]["sealed"].clone(), nodes)
    };
    for period in ["one", "two"] {
        until("it is read from SQL", async || {
            (top(period).await == (json!("ARCHIVE"), json!(true), 1)).then_some(())
        })
        .await;
    }
    submit_durably(&api, "b", json!([score("cid", day(24)), score("cid", day(12))])).await;
    until("a late score corrects it", async || (top("one").await.2 == 2).then_some(())).await;
    assert_eq!(top("two").await.2, 1);
    // No season may be added before what is sealed.
    let before = season("zero", day(40), day(35));
    let refused = refused(&api, ADD_SEASON, before, "past seasons are sealed or archived").await;
    assert_eq!(refused, ("BAD_USER_INPUT".to_owned(), json!("input.startsAt")));
    api.data(ADD_SEASON, season("three", day(4), now_ms + DAY_MS)).await;
    submit_durably(&api, "b", json!([score("dan", now_ms)])).await;
    let data = api.data(STANDINGS, json!({})).await;
    assert_eq!(data["board"]["standings"]["period"]["label"], "three");
    assert_eq!(labels(&api).await.as_array().unwrap().len(), 3);
    deployment.settle().await;
    check_diff(&deployment);
    figures(&deployment, &["rebuild", "--board", "b"]);
    deployment.flush_redis().await;
    assert_eq!(top("one").await.2, 2);
    check_diff(&deployment);
}

#[tokio::test]
async fn scores_between_seasons_are_archived_and_no_season_is_added_there() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let input = json!({ "slug": "b", "windows": [{ "name": "season", "retain": 0 }] });
    api.create_board(input).await;
    let now_ms = now_ms();
    let day = |day: i64| now_ms - day * DAY_MS;
    api.data(ADD_SEASON, season("one", day(30), day(20))).await;
    let score = |member: &str, at_ms| json!({ "member": member, "score": 1, "at": text(at_ms) });
    let scores = json!([score("ann", day(25)), score("bob", day(15))]);
    submit_durably(&api, "b", scores).await;
    wait_until_dropped(&api, "b").await;
    age(&deployment, 40).await;
    assert_eq!(archive(&deployment, &[])["events"], 2);
    let among = season("among", day(18), day(12));
    let refused = refused(&api, ADD_SEASON, among, "sealed or archived").await;
    assert_eq!(refused, ("BAD_USER_INPUT".to_owned(), json!("input.startsAt")));
    api.data(ADD_SEASON, season("two", day(1), now_ms + DAY_MS)).await;
    submit_durably(&api, "b", json!([score("cid", now_ms)])).await;
    let standings = api.data(STANDINGS, json!({})).await["board"]["standings"].take();
    assert_eq!(standings["top"]["nodes"].as_array().unwrap().len(), 1);
    check_diff(&deployment);
}

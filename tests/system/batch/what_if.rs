//! The what-if: a board under other rules has the standings of a board with such rules, and nothing
//! is written.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rand::prelude::*;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::remove;
use tests::api::submission::{add_seasons, submit_durably, submit_events};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::CREATE_BOARD;
use tests::jobs::analytics::run;
use tests::model::game::seeded;
use tests::model::oracle::{Board, Event};
use tests::wait::until;

const TOP: &str = "
    query($slug: String!, $window: String!, $period: String!, $segment: String!) {
        board(slug: $slug) { standings(of: { window: $window, period: $period, segment: $segment }) {
            top(first: 1000) { nodes { rank score member { key } } }
        } }
    }";

/// Policy, tie-break, direction.
const RULES: [[&str; 3]; 6] = [
    ["SUM", "EARLIEST", "HIGH_FIRST"],
    ["BEST", "LATEST", "HIGH_FIRST"],
    ["BEST", "EARLIEST", "LOW_FIRST"],
    ["LATEST", "LATEST", "LOW_FIRST"],
    ["SUM", "MEMBER", "LOW_FIRST"],
    ["BEST", "MEMBER", "HIGH_FIRST"],
];

/// Rank and score by member.
type Places = BTreeMap<String, (i64, String)>;

async fn places(api: &Api, slug: &str, window: &str, period: &str, segment: &str) -> Places {
    let variables = json!({ "slug": slug, "window": window, "period": period, "segment": segment });
    let data = api.data(TOP, variables).await;
    let nodes = data["board"]["standings"]["top"]["nodes"].as_array().unwrap().clone();
    let place = |node: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&node["member"]["key"]), (node["rank"].as_i64().unwrap(), text(&node["score"])))
    };
    nodes.iter().map(place).collect()
}

/// The rank and score of each member according to a run: under other rules, or now.
fn told(found: &Value, list: &str, when: &str) -> Places {
    let place = |place: &Value| {
        let member = place["member"].as_str().unwrap().to_owned();
        let of = &place[when];
        (member, (of["rank"].as_i64().unwrap(), of["score"].as_str().unwrap().to_owned()))
    };
    found[list].as_array().unwrap().iter().map(place).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_rules_give_what_a_board_of_such_rules_has_on_sqlite() {
    check(Sql::Sqlite, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_rules_give_what_a_board_of_such_rules_has_in_four_shards_on_postgres() {
    check(Sql::Postgres, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_rules_give_what_a_board_of_such_rules_has_in_four_shards_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check(sql, 4).await;
    }
}

async fn check(sql: Sql, shards: u16) {
    let deployment = Deployment::new(sql, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let mut rng = seeded();
    let regions: Vec<Value> = (0..20)
        .map(|member| json!({ "key": format!("m{member}"), "region": (["eu", "us"][member % 2]) }))
        .collect();
    api.upsert_members(regions).await;
    let now_s = Timestamp::now().as_second();
    let events: Vec<Event> = (0..300)
        .map(|_| Event {
            member: format!("m{}", rng.random_range(0..30)),
            score: rng.random_range(-300..900),
            at_ms: 1000 * (now_s - rng.random_range(0..40 * 86_400)),
            id: None,
            metadata: None,
        })
        .collect();
    for (number, [policy, tie_break, direction]) in (0..).zip(RULES) {
        let board = Board {
            slug: format!("b{number}"),
            direction,
            policy,
            tie_break,
            tick_ms: 1000,
            decimals: 2,
            min: -10_000_000,
            max: 10_000_000,
            zone: "America/St_Johns",
            reset_hour: 4,
            week_start: ranking::window::calendar::Weekday::Sunday,
            shards,
            attempts: std::collections::BTreeMap::new(),
            windows: ["daily", "weekly", "4d", "season"].map(|name| name.parse().unwrap()).into(),
            seasons: vec![("cup", 1000 * (now_s - 20 * 86_400), 1000 * (now_s + 86_400))],
            metadata: false,
        };
        let mut input = board.input();
        input["segmentBy"] = json!(["region"]);
        api.create_board(input).await;
        add_seasons(&api, &board).await;
        submit_events(&api, &board, &events).await;
        // A member who was removed counts from its first score after that.
        remove(&api, &board.slug, "m3").await;
        let again = json!([
            {
                "member": "m3", "score": "1.50",
                "at": Timestamp::from_second(now_s - 90_000).unwrap().to_string(),
            },
        ]);
        assert_eq!(submit_durably(&api, &board.slug, again).await["accepted"], 1);
    }
    let count =
        async |table: &str| deployment.number(&format!("SELECT count(*) FROM {table}")).await;
    // The counts below are compared with all that was submitted, so SQL must have all of it.
    let submitted = (RULES.len() * (events.len() + 2)) as i64;
    until("every event is in SQL", async || {
        (count("score_event").await == submitted).then_some(())
    })
    .await;
    let held = (count("score_event").await, count("job").await, count("standing").await);
    for _ in 0..14 {
        let (from, to) = (rng.random_range(0..RULES.len()), rng.random_range(0..RULES.len()));
        let window = *["all", "daily", "weekly", "4d", "season"].choose(&mut rng).unwrap();
        let segment = *["", "region:eu"].choose(&mut rng).unwrap();
        check_one(&api, [from, to], window, segment, &mut rng).await;
    }
    let held_now = (count("score_event").await, count("job").await, count("standing").await);
    assert_eq!(held_now, held);
    assert_eq!(run(&deployment, &["diff"]).0, 0);
}

async fn check_one(
    api: &Api,
    [from, to]: [usize; 2],
    window: &str,
    segment: &str,
    rng: &mut StdRng,
) {
    let ask = "
        query($slug: String!, $window: String!) { board(slug: $slug) {
            periods(window: $window, first: 50) { nodes { label } }
        } }";
    let data = api.data(ask, json!({ "slug": "b0", "window": window })).await;
    let periods = data["board"]["periods"]["nodes"].as_array().unwrap();
    let period = periods.choose(rng).unwrap()["label"].as_str().unwrap();
    let slugs = [from, to].map(|number| format!("b{number}"));
    let [policy, tie_break, direction] = RULES[to];
    let arguments = [
        "what-if",
        "--board",
        &slugs[0],
        "--window",
        window,
        "--period",
        period,
        "--segment",
        segment,
        "--first",
        "1000",
        "--policy",
        policy,
        "--tie-break",
        tie_break,
        "--direction",
        direction,
    ];
    let (code, found, error) = run(api.deployment(), &arguments);
    assert_eq!(code, 0, "{arguments:?}: {error}");
    let before = places(api, &slugs[0], window, period, segment).await;
    let after = places(api, &slugs[1], window, period, segment).await;
    let what = format!("{arguments:?}: {found:#}");
    assert_eq!(told(&found, "top", "after"), after, "{what}");
    assert_eq!(told(&found, "top", "before"), before, "{what}");
    let top: Vec<i64> = found["top"]
        .as_array()
        .unwrap()
        .iter()
        .map(|place| place["after"]["rank"].as_i64().unwrap())
        .collect();
    assert_eq!(top, (1..=after.len() as i64).collect::<Vec<_>>());
    let distance = |member: &String| (before[member].0 - after[member].0).abs();
    let moved = after.keys().filter(|member| distance(member) > 0).count();
    assert_eq!(
        (&found["moved"], &found["entries"]),
        (&json!(moved), &json!(after.len())),
        "{what}"
    );
    let movers = found["movers"].as_array().unwrap();
    let movers: Vec<i64> = movers
        .iter()
        .map(|place| distance(&place["member"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(movers.len(), moved);
    assert!(movers.is_sorted_by(|a, b| a >= b), "{movers:?}");
}

#[tokio::test]
async fn rules_that_no_board_can_have_are_refused_in_the_words_of_its_creation() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let input = json!({ "slug": "b", "policy": "BEST", "maxScore": 100 });
    api.create_board(input).await;
    let scores: Vec<Value> = (0..3).map(|_| json!({ "member": "ann", "score": 60 })).collect();
    submit_durably(&api, "b", json!(scores)).await;
    let input = json!({ "slug": "c", "policy": "LATEST", "tieBreak": "MEMBER" });
    let refused = api.query(CREATE_BOARD, json!({ "input": input })).await;
    let message = refused["errors"][0]["message"].as_str().unwrap();
    let input = json!({ "slug": "d", "windows": [{ "name": "decay:7d" }] });
    api.create_board(input).await;
    for (more, reason) in [
        (&["--policy", "LATEST", "--tie-break", "MEMBER"][..], message),
        (&["--policy", "MOST"], "\"MOST\" is not one of [\"SUM\", \"BEST\", \"LATEST\"]"),
        (&["--policy", "SUM"], "history folds ann to 180 in all all, which is out of range"),
        (&["--max-score", "1.5"], "1.5 has 1 decimals"),
        (&["--max-score", "-1"], "invalid minScore: expected less than maxScore"),
        (&["--window", "7d"], "has no window 7d: expected all"),
    ] {
        let (code, _, error) = run(&deployment, &[&["what-if", "--board", "b"], more].concat());
        assert!(code != 0 && error.contains(reason), "{reason} in {error}");
    }
    let (code, _, error) = run(&deployment, &["what-if", "--board", "d", "--policy", "BEST"]);
    assert!(code == 1 && error.contains("expected policy SUM and direction HIGH_FIRST"), "{error}");
    // Another range makes room.
    let wider = ["what-if", "--board", "b", "--policy", "SUM", "--max-score", "1000"];
    let (code, found, error) = run(&deployment, &wider);
    assert_eq!((code, &found["top"][0]["after"]["score"]), (0, &json!("180")), "{error}");
    let text = deployment.analytics(&wider);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("ann: 1 with 180, now 1 with 60"), "{text}");
}

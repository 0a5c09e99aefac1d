//! Scores as places: the entries of a range of scores, the rank that a score would have, the score
//! that a rank needs, and the way from a member to its neighbors and on.

use rand::RngExt;
use rand::seq::IteratorRandom;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::connection::{Connection, texts};
use tests::api::submission::{create_board, submit_durably, submit_events};
use tests::boards::race::race;
use tests::deployment::{Deployment, Redis, Sql};
use tests::model::game::{Range, every_game, seeded};
use tests::model::oracle::Oracle;

const RANGE: &str = "
    query(
        $slug: String!, $window: String!, $period: String!, $min: Decimal, $max: Decimal,
        $first: Int, $after: String, $last: Int, $before: String
    ) { board(slug: $slug) { standings(of: { window: $window, period: $period }) {
        top(
            minScore: $min, maxScore: $max,
            first: $first, after: $after, last: $last, before: $before
        ) {
            totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
            nodes { rank score member { key } }
        }
    } } }";

/// The answer to a question about the standings of all time of `race`.
async fn ask(api: &Api, fields: &str) -> Value {
    let text = format!("{{ board(slug: \"race\") {{ standings {{ {fields} }} }} }}");
    let mut data = api.data(&text, json!({})).await;
    data["board"]["standings"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_entries_of_a_score_range_are_those_of_the_whole_list() {
    let mut rng = seeded();
    for (sql, shards) in Sql::all_with([1, 4]) {
        let api = Api::start(&Deployment::new(sql, Redis::Private).await).await;
        let games = every_game(&mut rng, shards, Range::Wide, 60).into_iter();
        for game in games.sample(&mut rng, 5) {
            create_board(&api, &game.board).await;
            submit_events(&api, &game.board, &game.events).await;
            let mut oracle = Oracle::new(game.board);
            game.events.iter().for_each(|event| {
                oracle.submit(event);
            });
            let all = oracle.standings().into_iter();
            for ((window, period), rows) in all.sample(&mut rng, 4) {
                let raw = |score: &str| score.replace('.', "").parse::<i64>().unwrap();
                let mut bound = || {
                    let some = rows.iter().choose(&mut rng).map_or(0, |row| raw(&row.score));
                    let bound = some + rng.random_range(-1..=1);
                    rng.random_bool(0.8).then_some(bound)
                };
                let (one, two) = (bound(), bound());
                let (min, max) = match (one, two) {
                    (Some(one), Some(two)) => (Some(one.min(two)), Some(one.max(two))),
                    bounds => bounds,
                };
                let inside = rows.iter().filter(|row| {
                    let score = raw(&row.score);
                    min.is_none_or(|min| score >= min) && max.is_none_or(|max| score <= max)
                });
                let expected: Vec<Value> = inside
                    .map(|row| {
                        json!({
                            "rank": row.rank, "score": row.score, "member": { "key": row.member },
                        })
                    })
                    .collect();
                let decimal = |bound: Option<i64>| bound.map(|raw| oracle.board.decimal(raw));
                let connection = Connection {
                    text: RANGE,
                    variables: json!({
                        "slug": oracle.board.slug, "window": window.to_string(), "period": period,
                        "min": decimal(min), "max": decimal(max),
                    }),
                    pointer: "/board/standings/top",
                };
                let nodes = connection.nodes(&api).await;
                assert_eq!(nodes, expected, "{:?} of {:?}", connection.variables, oracle.board);
            }
        }
    }
}

#[tokio::test]
async fn a_score_has_a_rank_and_a_rank_a_score() {
    let (_deployment, api) = race().await;
    let said = ask(
        &api,
        "best: rankOf(score: \"30.01\") tie: rankOf(score: 20) last: rankOf(score: 0)
        first: scoreFor(rank: 1) third: scoreFor(rank: 3) none: scoreFor(rank: 6)",
    )
    .await;
    // Bob and cy have 20, and an equal score that comes later ranks behind them.
    let expected = json!({
        "best": 1, "tie": 4, "last": 6, "first": "30.00", "third": "20.00", "none": null,
    });
    assert_eq!(said, expected);
    submit_durably(&api, "race", json!([{ "member": "new", "score": 20 }])).await;
    assert_eq!(ask(&api, "entry(member: \"new\") { rank }").await["entry"]["rank"], 4);
    for (fields, code, argument) in [
        ("rankOf(score: \"x\")", "BAD_USER_INPUT", "score"),
        ("rankOf(score: \"99999999\")", "SCORE_OUT_OF_RANGE", "score"),
        ("scoreFor", "BAD_USER_INPUT", "rank"),
        ("scoreFor(rank: 1, percentile: 5)", "BAD_USER_INPUT", "rank"),
        ("scoreFor(rank: 0)", "BAD_USER_INPUT", "rank"),
        ("top(minScore: 2, maxScore: 1) { totalCount }", "BAD_USER_INPUT", "minScore"),
        ("top(minScore: \"-1\") { totalCount }", "SCORE_OUT_OF_RANGE", "minScore"),
        ("top(minScore: 1, offset: 1) { totalCount }", "BAD_USER_INPUT", "offset"),
    ] {
        let text = format!("{{ board(slug: \"race\") {{ standings {{ {fields} }} }} }}");
        let answer = api.query(&text, json!({})).await;
        let error = &answer["errors"][0]["extensions"];
        assert_eq!(
            (&error["code"], &error["argument"]),
            (&json!(code), &json!(argument)),
            "{fields}"
        );
    }
}

#[tokio::test]
async fn neighbors_fill_at_the_edges_and_lead_on() {
    let (_deployment, api) = race().await;
    let around = async |member: &str, fill: bool| {
        let fields = format!(
            "neighbors(member: \"{member}\", above: 1, below: 2, fill: {fill}) {{ cursor member {{ key }} }}"
        );
        let nodes = ask(&api, &fields).await["neighbors"].as_array().unwrap().clone();
        (texts(&nodes, "/member/key"), nodes.last().map(|node| node["cursor"].clone()))
    };
    assert_eq!(around("ann", false).await.0, ["ann", "cy", "bob"]);
    assert_eq!(around("ann", true).await.0, ["ann", "cy", "bob", "dee"]);
    assert_eq!(around("cy", true).await.0, ["ann", "cy", "bob", "dee"]);
    assert_eq!(around("dee", true).await.0, ["cy", "bob", "dee", "eve"]);
    assert_eq!(around("eve", true).await.0, ["cy", "bob", "dee", "eve"]);
    assert_eq!(around("none", true).await.0, [""; 0]);
    let cursor = around("ann", true).await.1.unwrap();
    let page = format!("top(first: 5, after: {cursor}) {{ nodes {{ member {{ key }} }} }}");
    let on = ask(&api, &page).await;
    assert_eq!(texts(on["top"]["nodes"].as_array().unwrap(), "/member/key"), ["eve"]);
    let next = ask(
        &api,
        "first: entry(member: \"ann\") { next { rank } }
        bob: entry(member: \"bob\") { next { rank score member { key } } }",
    );
    let expected = json!({ "rank": 2, "score": "20.00", "member": { "key": "cy" } });
    assert_eq!(next.await, json!({ "first": { "next": null }, "bob": { "next": expected } }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_lists_its_segments_with_their_sizes() {
    for sql in Sql::all() {
        let api = Api::start(&Deployment::new(sql, Redis::Private).await).await;
        let windows = json!([{ "name": "daily" }]);
        api.create_board(json!({ "slug": "b", "segmentBy": ["region"], "windows": windows })).await;
        api.create_board(json!({ "slug": "c" })).await;
        let regions = ["us", "eu", "ap", "eu", "us", "eu"];
        let members: Vec<Value> = (0..)
            .zip(regions)
            .map(|(number, region)| json!({ "key": format!("m{number}"), "region": region }))
            .collect();
        api.upsert_members(members).await;
        let scores: Vec<Value> = (0..7)
            .map(|number| {
                let at = format!("2025-09-0{}T12:00:00Z", 1 + number % 2);
                json!({ "member": format!("m{number}"), "score": number, "at": at })
            })
            .collect();
        submit_durably(&api, "b", json!(scores)).await;
        let text = "
            query($first: Int, $after: String, $of: StandingsOf) { board(slug: \"b\") {
                segments(first: $first, after: $after, of: $of) {
                    pageInfo { hasNextPage endCursor } nodes { segment size }
                }
            } }";
        let list =
            async |variables: Value| api.data(text, variables).await["board"]["segments"].take();
        let node = |segment: &str, size: i64| json!({ "segment": segment, "size": size });
        let (ap, eu, us) = (node("region:ap", 1), node("region:eu", 3), node("region:us", 2));
        assert_eq!(list(json!({})).await["nodes"], json!([ap, eu, us]));
        let page = list(json!({ "first": 2 })).await;
        assert_eq!(
            (&page["nodes"], &page["pageInfo"]["hasNextPage"]),
            (&json!([ap, eu]), &json!(true))
        );
        let rest = list(json!({ "first": 2, "after": page["pageInfo"]["endCursor"] })).await;
        assert_eq!(
            (&rest["nodes"], &rest["pageInfo"]["hasNextPage"]),
            (&json!([us]), &json!(false))
        );
        let day = json!({ "window": "daily", "period": "2025-09-01" });
        let of_day = json!([node("region:ap", 1), node("region:eu", 0), node("region:us", 2)]);
        assert_eq!(list(json!({ "of": day })).await["nodes"], of_day);
        let none = "{ board(slug: \"c\") { segments { nodes { size } } } }";
        assert_eq!(api.data(none, json!({})).await["board"]["segments"]["nodes"], json!([]));
        let refused = api.query(text, json!({ "of": { "segment": "region:eu" } })).await;
        assert_eq!(refused["errors"][0]["extensions"]["argument"], "of.segment");
    }
}

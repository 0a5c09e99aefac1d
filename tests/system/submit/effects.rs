//! The effects that a submission tells: the member's entries before it and after it, in each
//! window, and the event that the score became.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::create_board;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::VOID_EVENT;
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::oracle::{Oracle, Row, Verdict};
use tests::servers::command_counts::{counts, reset_counts};

const SUBMIT: &str = "
    mutation($board: String!, $scores: [ScoreInput!]!, $windows: [String!]!, $ack: Durability) {
        submitScores(input: { board: $board, scores: $scores, ack: $ack }) {
            board { slug }
            results {
                status improved previous { rank score } entry { rank score member { key } }
                event { id kind score member { key } eventId voided }
                entries(windows: $windows) {
                    improved previous { rank score }
                    entry { rank score standings { window { name } period { label } } }
                }
            }
        }
    }";

async fn start(sql: Sql) -> Api {
    Api::start(&Deployment::new(sql, Redis::Own).await).await
}

/// A member's row in standings of the oracle, as an answer has it.
fn row_of(rows: Option<&Vec<Row>>, member: &str) -> Value {
    let row = rows.into_iter().flatten().find(|row| row.member == member);
    row.map_or(Value::Null, |row| json!({ "rank": row.rank, "score": row.score }))
}

/// Submits the events of a game one by one, and compares the effects of each with the oracle.
async fn check_game(api: &Api, game: Game) {
    create_board(api, &game.board).await;
    let mut windows = vec!["all".to_owned()];
    windows.extend(game.board.windows.iter().map(ToString::to_string));
    let mut oracle = Oracle::new(game.board);
    for event in &game.events {
        let before = oracle.standings();
        let verdict = oracle.submit(event);
        let after = oracle.standings();
        let scores = json!([oracle.board.score_input(event)]);
        let variables = json!({ "board": oracle.board.slug, "scores": scores, "windows": windows });
        let data = api.data(SUBMIT, variables).await;
        let result = &data["submitScores"]["results"][0];
        if verdict != Verdict::Applied {
            assert_eq!(result["event"], Value::Null, "{result}");
            assert_eq!(result["previous"], Value::Null, "{result}");
            assert_eq!(result["improved"], false, "{result}");
            assert_eq!(result["entries"], Value::Null, "{result}");
            continue;
        }
        assert_eq!(result["event"]["member"]["key"], event.member);
        assert_eq!(result["event"]["eventId"], json!(event.id));
        let entries = result["entries"].as_array().unwrap();
        assert_eq!(entries.len(), windows.len());
        for (window, change) in windows.iter().zip(entries) {
            // A score between two seasons counts in none.
            if window == "season" && change.is_null() {
                continue;
            }
            let entry = &change["entry"];
            let standings = &entry["standings"];
            assert_eq!(standings["window"]["name"], **window);
            let label = standings["period"]["label"].as_str().unwrap().to_owned();
            let key = (window.parse().unwrap(), label);
            let told = json!({ "rank": entry["rank"], "score": entry["score"] });
            let what = format!("{window} of {:?}: {event:?}", oracle.board);
            assert_eq!(told, row_of(after.get(&key), &event.member), "{what}");
            assert_eq!(change["previous"], row_of(before.get(&key), &event.member), "{what}");
            if window == "all" {
                assert_eq!(change["previous"], result["previous"]);
                assert_eq!(change["improved"], result["improved"]);
                assert_eq!(result["entry"]["rank"], entry["rank"]);
            }
            // A score that made nothing better moved no member up.
            if change["improved"] == false {
                assert!(entry["rank"].as_i64() >= change["previous"]["rank"].as_i64(), "{what}");
            } else if let Some(rank) = change["previous"]["rank"].as_i64() {
                assert!(entry["rank"].as_i64().unwrap() <= rank, "{what}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_score_tells_ranks_before_and_after_in_every_window() {
    let mut rng = seeded();
    for (sql, shards) in Sql::all_with([1, 4]) {
        let api = start(sql).await;
        for game in every_game(&mut rng, shards, Range::Narrow, 25) {
            check_game(&api, game).await;
        }
    }
}

/// The ranks of members with one score each, of which higher ones are better.
fn ranks(scores: &BTreeMap<String, i64>) -> BTreeMap<&str, i64> {
    let mut order: Vec<(&String, &i64)> = scores.iter().collect();
    order.sort_by_key(|(_, score)| std::cmp::Reverse(**score));
    order.into_iter().zip(1..).map(|((member, _), rank)| (member.as_str(), rank)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranks_are_those_at_the_instant_of_the_commit() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let (one, two) = futures::join!(Api::start(&deployment), Api::start(&deployment));
    one.create_board(json!({ "slug": "b", "policy": "BEST" })).await;
    // Each member submits twice, and no two scores are equal.
    let submit = |number: i64| {
        let api = [&one, &two][number as usize % 2];
        let (member, score) = (format!("m{}", number % 40), number * 7919 % 80);
        async move {
            let scores = json!([{ "member": member, "score": score }]);
            let variables = json!({ "board": "b", "scores": scores, "windows": ["all"] });
            let mut data = api.data(SUBMIT, variables).await;
            (member, score, data["submitScores"]["results"][0].take())
        }
    };
    let mut commits: BTreeMap<u64, Vec<(String, i64, Value)>> = BTreeMap::new();
    for (member, score, result) in join_all((0..80).map(submit)).await {
        let id = result["event"]["id"].as_str().unwrap().to_owned();
        let seq = id.split(':').nth(2).unwrap().parse().unwrap();
        commits.entry(seq).or_default().push((member, score, result));
    }
    let mut scores: BTreeMap<String, i64> = BTreeMap::new();
    for (seq, submissions) in commits {
        let before = scores.clone();
        for (member, score, _) in &submissions {
            let best = scores.entry(member.clone()).or_insert(i64::MIN);
            *best = (*best).max(*score);
        }
        let (was, now) = (ranks(&before), ranks(&scores));
        for (member, _, result) in &submissions {
            let previous = was
                .get(member.as_str())
                .map(|rank| json!({ "rank": rank, "score": before[member].to_string() }));
            assert_eq!(result["previous"], json!(previous), "commit {seq}: {result}");
            assert_eq!(result["entry"]["rank"], now[member.as_str()], "commit {seq}: {result}");
            assert_eq!(result["entry"]["score"], scores[member].to_string(), "commit {seq}");
        }
    }
}

#[tokio::test]
async fn the_event_of_a_score_can_be_voided() {
    let api = start(Sql::any()).await;
    api.create_board(json!({ "slug": "b" })).await;
    let scores = json!([
        { "member": "ann", "score": 5 }, { "member": "ann", "score": 2, "eventId": "e" },
    ]);
    let submit = async |scores: &Value| {
        let variables = json!({ "board": "b", "scores": scores, "windows": [], "ack": "DURABLE" });
        api.data(SUBMIT, variables).await["submitScores"]["results"].take()
    };
    let results = submit(&scores).await;
    let expected = json!({ "rank": 1, "score": "7", "member": { "key": "ann" } });
    for result in results.as_array().unwrap() {
        assert_eq!((&result["entry"], &result["previous"]), (&expected, &Value::Null));
    }
    let event = &results[1]["event"];
    assert_eq!((&event["kind"], &event["score"]), (&json!("SCORE"), &json!("2")));
    let again = submit(&json!([scores[1]])).await[0].take();
    assert_eq!((&again["status"], &again["improved"]), (&json!("DUPLICATE"), &json!(false)));
    assert_eq!((&again["entry"], &again["event"]), (&expected, &Value::Null));
    let data = api.data(VOID_EVENT, json!({ "id": event["id"] })).await;
    assert_eq!(data["voidEvent"]["voided"], true);
    assert_eq!(data["voidEvent"]["entry"]["score"], "5");
}

#[tokio::test]
async fn effects_that_nobody_asks_for_cost_nothing() {
    let api = start(Sql::any()).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "daily" }] })).await;
    let ranks_read = async |text: &str| {
        reset_counts(api.deployment()).await;
        let scores = json!([{ "member": "ann", "score": 5 }]);
        let variables = json!({ "board": "b", "scores": scores, "windows": ["all", "daily"] });
        api.data(text, variables).await;
        counts(api.deployment()).await.get("zrank").copied().unwrap_or(0)
    };
    assert_eq!(ranks_read(SUBMIT).await, 4, "before and after, in two windows");
    let plain = "mutation($scores: [ScoreInput!]!) {
        submitScores(input: { board: \"b\", scores: $scores }) { results { status event { id } } }
    }";
    assert_eq!(ranks_read(plain).await, 0);
    let refused = api.query(
        SUBMIT,
        json!({
            "board": "b", "scores": [{ "member": "ann", "score": 1 }], "windows": ["all", "weekly"],
        }),
    );
    let refused = refused.await;
    let error = &refused["errors"][0]["extensions"];
    assert_eq!(
        (&error["code"], &error["argument"]),
        (&json!("WINDOW_NOT_FOUND"), &json!("windows[1]"))
    );
    assert_eq!(refused["data"]["submitScores"]["results"][0]["status"], "APPLIED");
}

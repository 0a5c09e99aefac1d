//! Scores with positions in a source: each counts once for good, whatever is handed out again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::{Answer, Api};
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::SUBMIT_FROM_SOURCE;
use tests::wait::until;

/// The members of a board, in several partitions.
const MEMBERS: u64 = 23;

/// A source partition of scores without event ids: one of each member in turn.
struct Source {
    name: &'static str,
    partition: i32,
}

impl Source {
    const fn new(name: &'static str, partition: i32) -> Self {
        Self { name, partition }
    }

    fn score(&self, offset: u64) -> Value {
        let position = json!({ "partition": self.partition, "offset": offset.to_string() });
        json!({ "member": format!("m{}", offset % MEMBERS), "score": offset % 5 + 1, "position": position })
    }

    /// Submits messages by their offsets; returns the status of each.
    async fn submit(&self, api: &Api, offsets: impl IntoIterator<Item = u64>) -> Vec<String> {
        let scores = offsets.into_iter().map(|offset| self.score(offset)).collect();
        self.submit_scores(api, scores, None).await
    }

    async fn submit_scores(
        &self,
        api: &Api,
        scores: Vec<Value>,
        settled: Option<u64>,
    ) -> Vec<String> {
        let mut source = json!({ "name": self.name });
        if let Some(settled) = settled {
            source["settled"] =
                json!([{ "partition": self.partition, "offset": settled.to_string() }]);
        }
        let input = json!({ "board": "b", "scores": scores, "source": source, "ack": "DURABLE" });
        let data = api.data(SUBMIT_FROM_SOURCE, json!({ "input": input })).await;
        let results = data["submitScores"]["results"].as_array().unwrap();
        results.iter().map(|result| result["status"].as_str().unwrap().to_owned()).collect()
    }
}

const SCORES: Source = Source::new("scores", 3);

/// The sums that some messages lead to, each once.
fn sums(offsets: impl IntoIterator<Item = u64>) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for offset in offsets {
        *sums.entry(format!("m{}", offset % MEMBERS)).or_default() += (offset % 5) as i64 + 1;
    }
    sums
}

async fn told(api: &Api) -> BTreeMap<String, i64> {
    let top = "{ board(slug: \"b\") { standings { top(first: 100) { nodes { score member { key } } } } } }";
    let data = api.data(top, json!({})).await;
    let nodes = data["board"]["standings"]["top"]["nodes"].as_array().unwrap();
    let of_node = |node: &Value| {
        let member = node["member"]["key"].as_str().unwrap().to_owned();
        (member, node["score"].as_str().unwrap().parse().unwrap())
    };
    nodes.iter().map(of_node).collect()
}

async fn start(sql: Sql, redis: Redis) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, redis).await;
    let api = Api::start(&deployment).await;
    create(&api, 4).await;
    (deployment, api)
}

async fn create(api: &Api, shards: i32) {
    let board =
        json!({ "slug": "b", "policy": "SUM", "shards": shards, "windows": [{ "name": "daily" }] });
    api.create_board(board).await;
}

/// True if all have one status.
fn all(statuses: &[String], status: &str) -> bool {
    statuses.iter().all(|told| told == status)
}

#[tokio::test]
async fn what_is_handed_out_again_is_a_duplicate_without_any_id() {
    for sql in Sql::all() {
        let (deployment, api) = start(sql, Redis::Private).await;
        assert!(all(&SCORES.submit(&api, 0..100).await, "APPLIED"));
        // From the beginning, and beyond the end.
        let again = SCORES.submit(&api, 0..130).await;
        assert!(all(&again[..100], "DUPLICATE") && all(&again[100..], "APPLIED"), "{again:?}");
        assert_eq!(told(&api).await, sums(0..130));
        // Another partition, and another source, have positions of their own.
        assert!(all(&Source::new("scores", 4).submit(&api, 0..30).await, "APPLIED"));
        assert!(all(&Source::new("others", 3).submit(&api, 0..30).await, "APPLIED"));
        let expected = sums((0..130).chain(0..30).chain(0..30));
        assert_eq!(told(&api).await, expected);
        // Positions come back with the events.
        deployment.flush_redis().await;
        until("the board is loaded", async || {
            let submitted = SCORES.submit(&api, 0..130).await;
            all(&submitted, "DUPLICATE").then_some(())
        })
        .await;
        assert!(all(&SCORES.submit(&api, 130..140).await, "APPLIED"));
        api.stop().await;
        let api = Api::start(&deployment).await;
        assert!(all(&SCORES.submit(&api, 0..140).await, "DUPLICATE"));
        assert!(all(&Source::new("scores", 4).submit(&api, 0..30).await, "DUPLICATE"));
        assert_eq!(told(&api).await, sums((0..140).chain(0..30).chain(0..30)));
    }
}

#[tokio::test]
async fn zombies_of_a_lost_assignment_write_nothing_twice() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    create(&apis[0], 4).await;
    // Three consumers believe that the partition is theirs, each at a pace of its own.
    let consume = async |api: &Api, size: usize| {
        let offsets: Vec<u64> = (0..600).collect();
        for batch in offsets.chunks(size) {
            let submitted = SCORES.submit(api, batch.iter().copied()).await;
            assert!(submitted.iter().all(|status| status == "APPLIED" || status == "DUPLICATE"));
        }
    };
    tokio::join!(consume(&apis[0], 7), consume(&apis[1], 31), consume(&apis[1], 100));
    assert_eq!(told(&apis[0]).await, sums(0..600));
}

#[tokio::test]
async fn a_score_that_was_refused_is_judged_again_until_it_is_settled() {
    let (_deployment, api) = start(Sql::any(), Redis::Own).await;
    let message = |offset: u64, member: &str, score: &str, at: Option<i64>| {
        let at = at.map(|ms| jiff::Timestamp::from_millisecond(ms).unwrap().to_string());
        json!({ "member": member, "score": score, "at": at, "position": { "partition": 3, "offset": offset.to_string() } })
    };
    // Two are refused: one by the fold, and one for its time before any partition sees it.
    let soon = now_ms() + 4000;
    let scores = || {
        vec![
            message(1, "ann", "5", None),
            message(2, "ann", "-9", None),
            message(3, "ann", "2", Some(soon)),
            message(4, "ann", "7", None),
        ]
    };
    let first = SCORES.submit_scores(&api, scores(), None).await;
    assert_eq!(first, ["APPLIED", "REJECTED", "REJECTED", "APPLIED"]);
    let first = SCORES
        .submit_scores(
            &api,
            vec![message(5, "ann", "-99", None), message(6, "ann", "1", None)],
            None,
        )
        .await;
    assert_eq!(first, ["REJECTED", "APPLIED"]);
    // They come again, as their consumer died before it put them aside.
    let again = SCORES.submit_scores(&api, vec![message(5, "ann", "-99", None)], None).await;
    assert_eq!(again, ["REJECTED"]);
    until("the time has come", async || {
        let again = SCORES.submit_scores(&api, scores(), None).await;
        assert_eq!((&*again[0], &*again[3]), ("DUPLICATE", "DUPLICATE"));
        // The sum is higher now, so the one that the fold refused counts, and once.
        assert_ne!(again[1], "REJECTED");
        (again[2] == "APPLIED").then_some(())
    })
    .await;
    assert!(all(&SCORES.submit_scores(&api, scores(), None).await, "DUPLICATE"));
    // Settled ones are not judged any more, even if they would count now.
    let later = SCORES.submit_scores(&api, vec![message(7, "ann", "100", None)], Some(6)).await;
    assert_eq!(later, ["APPLIED"]);
    let again = SCORES.submit_scores(&api, vec![message(5, "ann", "-99", None)], None).await;
    assert_eq!(again, ["DUPLICATE"]);
    assert_eq!(told(&api).await["ann"], 5 - 9 + 2 + 7 + 1 + 100);
}

#[tokio::test]
async fn members_keep_their_positions_when_their_board_moves() {
    let (deployment, api) = start(Sql::any(), Redis::Private).await;
    let stores = deployment.open_stores().await;
    let no = deployment.number("SELECT no FROM board WHERE slug = 'b'").await;
    let mut end = 0;
    for (turn, shards) in [16, 2, 8, 1].into_iter().enumerate() {
        // The last messages reach some of the shards only.
        assert!(all(&SCORES.submit(&api, end..end + 61).await, "APPLIED"));
        end += 61;
        // A partition that has just been flushed is level only in a moment.
        until("the board moves", async || {
            engine::reshard::reshard(&stores, no, shards, &|_| {}).await.ok()
        })
        .await;
        if turn % 2 == 1 {
            deployment.flush_redis().await;
        }
        until("the board is there", async || {
            let again = SCORES.submit(&api, 0..end).await;
            all(&again, "DUPLICATE").then_some(())
        })
        .await;
    }
    assert_eq!(told(&api).await, sums(0..end));
}

#[tokio::test]
async fn a_board_that_is_made_anew_takes_everything_again() {
    let (deployment, api) = start(Sql::any(), Redis::Own).await;
    assert!(all(&SCORES.submit(&api, 0..50).await, "APPLIED"));
    api.delete_board("b").await;
    until("the board is purged", async || {
        let rows = deployment.number("SELECT COUNT(*) FROM source_position").await;
        (rows == 0).then_some(())
    })
    .await;
    let left = deployment.redis_contents().await;
    assert!(!left.iter().any(|(key, _)| key.contains(":positions:")), "positions are left");
    create(&api, 2).await;
    assert!(all(&SCORES.submit(&api, 0..50).await, "APPLIED"));
    assert_eq!(told(&api).await, sums(0..50));
}

#[tokio::test]
async fn a_backup_has_the_positions() {
    let (deployment, api) = start(Sql::any(), Redis::Own).await;
    assert!(all(&SCORES.submit(&api, 0..80).await, "APPLIED"));
    let path = deployment.path("backup");
    deployment.api_output(&["backup", "create", &path]).await;
    let other = Deployment::new(Sql::any(), Redis::Own).await;
    let applied = other.api(&["backup", "apply", &path]).output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let api = Api::start(&other).await;
    assert!(all(&SCORES.submit(&api, 0..80).await, "DUPLICATE"));
    assert!(all(&SCORES.submit(&api, 80..90).await, "APPLIED"));
    assert_eq!(told(&api).await, sums(0..90));
}

#[tokio::test]
async fn a_score_without_a_position_costs_what_it_did() {
    let (deployment, api) = start(Sql::any(), Redis::Own).await;
    let logs = async || {
        let mut logs = String::new();
        for (key, _) in deployment.redis_contents().await {
            if key.ends_with(":log") {
                let entries: redis::Value = deployment.ask_redis(&["XRANGE", &key, "-", "+"]).await;
                logs += &format!("{entries:?}");
            }
        }
        logs
    };
    let scores = json!([{ "member": "ann", "score": 1, "eventId": "e" }]);
    let input = json!({ "board": "b", "scores": scores, "ack": "DURABLE" });
    api.data(SUBMIT_FROM_SOURCE, json!({ "input": input })).await;
    let keys = deployment.redis_contents().await;
    assert!(!keys.iter().any(|(key, _)| key.contains(":positions:")));
    let log = logs().await;
    assert!(log.contains(r#"\"v\":2,"#) && !log.contains(r#"\"p\":"#), "{log}");
    assert_eq!(deployment.number("SELECT MAX(version) FROM \"commit\"").await, 1);
    SCORES.submit(&api, [7]).await;
    let log = logs().await;
    assert!(log.contains(r#"\"p\":[[1,1,\"scores\",3,\"7.0\"]]"#), "{log}");
    assert_eq!(deployment.number("SELECT MAX(version) FROM \"commit\"").await, 2);
    let position: Vec<String> = deployment.column("SELECT position FROM source_position").await;
    assert_eq!(position, ["7.0"]);
}

#[tokio::test]
async fn a_place_that_is_none_is_refused() {
    let (deployment, api) = start(Sql::any(), Redis::Own).await;
    let ask = async |source: Value, positions: &[Value]| -> Answer {
        let score = |position: &Value| json!({ "member": "ann", "score": 1, "position": position });
        let scores: Vec<Value> = positions.iter().map(score).collect();
        let mut input = json!({ "board": "b", "scores": scores });
        if !source.is_null() {
            input["source"] = source;
        }
        api.ask(Some(api.token()), SUBMIT_FROM_SOURCE, json!({ "input": input })).await
    };
    let at = |offset: &str| json!({ "offset": offset });
    let scores = json!({ "name": "scores" });
    let most = "9223372036854775808";
    for (source, positions, code, said) in [
        (Value::Null, vec![at("1")], "BAD_USER_INPUT", "a position of no source"),
        (scores.clone(), vec![at("2"), at("2")], "BAD_USER_INPUT", "after those of the scores"),
        (scores.clone(), vec![at("2"), at("1")], "BAD_USER_INPUT", "after those of the scores"),
        (scores.clone(), vec![at("-1")], "BAD_USER_INPUT", "invalid offset"),
        (scores.clone(), vec![at(most)], "BAD_USER_INPUT", "invalid offset"),
        (
            scores.clone(),
            vec![json!({ "offset": "1", "partition": -1 })],
            "BAD_USER_INPUT",
            "invalid partition",
        ),
        (
            scores.clone(),
            vec![json!({ "offset": "1", "index": -1 })],
            "BAD_USER_INPUT",
            "invalid index",
        ),
        (json!({ "name": "" }), vec![at("1")], "BAD_USER_INPUT", "invalid source"),
        (json!({ "name": "x".repeat(65) }), vec![at("1")], "BAD_USER_INPUT", "invalid source"),
        (
            json!({ "name": "s", "settled": vec![at("1"); 1001] }),
            vec![at("1")],
            "LIMIT_EXCEEDED",
            "1001 partitions",
        ),
    ] {
        let answer = ask(source, &positions).await;
        assert_eq!(answer.codes(), [code], "{:?}", answer.body);
        assert!(answer.message().contains(said), "{}", answer.message());
    }
    let two = [json!({ "offset": 1, "index": 0 }), json!({ "offset": 1, "index": 1 })];
    let answer = ask(scores.clone(), &two).await;
    assert_eq!(answer.body["data"]["submitScores"]["results"][1]["status"], "APPLIED");
    // A member could move the position past the scores of all others.
    api.update_board(json!({ "slug": "b", "selfSubmit": true })).await;
    let token = deployment.new_token(&["--scope", "submit", "--member", "ann"]).await;
    let mut input = json!({ "board": "b", "scores": [{ "member": "ann", "score": 1 }] });
    let answer = api.ask(Some(&token), SUBMIT_FROM_SOURCE, json!({ "input": input.clone() })).await;
    assert_eq!(answer.body["data"]["submitScores"]["results"][0]["status"], "APPLIED");
    input["source"] = scores;
    let answer = api.ask(Some(&token), SUBMIT_FROM_SOURCE, json!({ "input": input })).await;
    assert_eq!(answer.codes(), ["FORBIDDEN"], "{:?}", answer.body);
}

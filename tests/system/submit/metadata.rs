//! The metadata of scores: kept with the event, and shown by the entry that the event made.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, remove, void};
use tests::api::refusal;
use tests::api::submission::{submit, submit_durably};
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::CREATE_BOARD;
use tests::jobs::analytics::{figures, run};
use tests::jobs::archive::{age, archive};
use tests::jobs::diff::{check_diff, finding_set, findings};
use tests::jobs::seal::wait_until_dropped;
use tests::wait::until;

const ENTRY: &str = "
    query($board: String!, $window: String!, $at: DateTime, $segment: String, $member: String!) {
        board(slug: $board) { standings(of: { window: $window, at: $at, segment: $segment }) {
            source entry(member: $member) { score metadata }
        } }
    }";

/// A score with metadata, earned so many milliseconds after an instant of 2025.
fn score(member: &str, score: i64, ms: i64, metadata: Value) -> Value {
    let at = jiff::Timestamp::from_millisecond(1_756_900_800_000 + ms).unwrap().to_string();
    json!({ "member": member, "score": score, "at": at, "metadata": metadata })
}

async fn board(api: &Api, slug: &str, policy: &str, more: Value) {
    let mut input = json!({ "slug": slug, "policy": policy, "metadata": true });
    let all = input.as_object_mut().unwrap();
    all.extend(more.as_object().cloned().unwrap_or_default());
    api.create_board(input).await;
}

/// The standings and the entry of a member, in the period of 2025 or the present one.
async fn standings(api: &Api, board: &str, window: &str, at: Value, member: &str) -> Value {
    let variables = json!({ "board": board, "window": window, "at": at, "member": member });
    api.data(ENTRY, variables).await["board"]["standings"].take()
}

async fn shown(api: &Api, board: &str, window: &str, member: &str) -> Value {
    let at = match window {
        "all" | "decay:7d" => Value::Null,
        _ => json!("2025-09-03T12:00:00Z"),
    };
    standings(api, board, window, at, member).await["entry"]["metadata"].take()
}

#[tokio::test]
async fn an_entry_shows_the_metadata_of_the_score_that_made_it_at_once() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    Api::start(&deployment).await.stop().await;
    // SQL gets nothing: the log alone has the events.
    let api = Api::start_with(&deployment, &["--no-workers"]).await;
    let windows =
        json!({ "windows": [{ "name": "daily" }, { "name": "7d" }, { "name": "decay:7d" }] });
    let timed = json!({ "windows": [{ "name": "daily" }, { "name": "7d" }] });
    for (policy, windows, expected) in [
        ("SUM", &windows, ["a", "b", "c", "c", "e"]),
        ("BEST", &timed, ["a", "a", "c", "c", "c"]),
        ("LATEST", &timed, ["a", "b", "c", "c", "e"]),
    ] {
        let slug = policy.to_lowercase();
        board(&api, &slug, policy, windows.clone()).await;
        let scores = [
            score("ann", 5, 0, json!({ "r": "a" })),
            score("ann", 3, 60_000, json!({ "r": "b" })),
            score("ann", 7, 120_000, json!({ "r": "c" })),
            // It came late.
            score("ann", 1, 30_000, json!({ "r": "d" })),
            score("ann", 7, 180_000, json!({ "r": "e" })),
        ];
        for (score, expected) in scores.into_iter().zip(expected) {
            let told = submit(&api, &slug, json!([score])).await;
            assert_eq!(told["accepted"], 1, "{told}");
            for window in ["all", "daily", "7d", "decay:7d"] {
                if window == "decay:7d" && policy != "SUM" {
                    continue;
                }
                let found = shown(&api, &slug, window, "ann").await;
                assert_eq!(found, json!({ "r": expected }), "{policy} {window}");
            }
        }
        // An event without metadata makes an entry without.
        submit(&api, &slug, json!([score("ann", 9, 240_000, Value::Null)])).await;
        assert_eq!(shown(&api, &slug, "all", "ann").await, Value::Null, "{policy}");
    }
    assert_eq!(deployment.number("SELECT COUNT(*) FROM score_event").await, 0);
}

#[tokio::test]
async fn metadata_is_a_small_object_of_a_board_that_keeps_it() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    board(&api, "with", "BEST", json!({})).await;
    api.create_board(json!({ "slug": "without" })).await;
    let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({ "a": inner }));
    let long = |bytes: usize| json!({ "a": "x".repeat(bytes - 8) });
    for (slug, metadata, says) in [
        ("without", json!({}), "this board keeps none"),
        ("with", json!([1]), "expected a JSON object"),
        ("with", json!("x".repeat(900)), "expected a JSON object"),
        ("with", long(1025), "expected at most 1024"),
        ("with", json!({ ("x".repeat(2000)): 1 }), "expected at most 1024"),
        ("with", nested(9), "expected at most 8"),
    ] {
        let told = submit(&api, slug, json!([score("ann", 1, 0, metadata)])).await;
        let error = &told["results"][0]["error"];
        assert_eq!(error["code"], "BAD_USER_INPUT", "{told}");
        assert_eq!(error["argument"], "input.scores[0].metadata", "{told}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(says) && message.len() < 300, "{message}");
    }
    for (number, metadata) in
        [long(1024), nested(8), json!({}), json!({ "b": 1.5, "a": [null, true] })]
            .into_iter()
            .enumerate()
    {
        let told =
            submit(&api, "with", json!([score("ann", number as i64, 0, metadata.clone())])).await;
        assert_eq!(told["accepted"], 1, "{told}");
        assert_eq!(shown(&api, "with", "all", "ann").await, metadata);
    }
    // A literal in the document, and a submission on a board without.
    let literal = "mutation { submitScores(input: { board: \"with\", scores: [
        { member: \"bob\", score: 1, metadata: { replay: \"r1\", tags: [1, 2] } }] }) {
        results { event { metadata } entry { metadata } } } }";
    let data = api.data(literal, json!({})).await;
    let expected = json!({ "replay": "r1", "tags": [1, 2] });
    let result = &data["submitScores"]["results"][0];
    assert_eq!(result["event"]["metadata"], expected, "{data}");
    assert_eq!(result["entry"]["metadata"], expected, "{data}");
    let input = json!({ "input": { "slug": "m", "tieBreak": "MEMBER", "metadata": true } });
    refusal::check(&api, CREATE_BOARD, input, "BAD_USER_INPUT", "expected EARLIEST or LATEST")
        .await;
}

#[tokio::test]
async fn an_event_id_has_one_metadata() {
    for redis in [Redis::Private, Redis::Own] {
        let deployment = Deployment::new(Sql::any(), redis).await;
        let api = Api::start(&deployment).await;
        board(&api, "b", "SUM", json!({})).await;
        let event = |metadata: Value| {
            let mut event = score("ann", 1, 0, metadata);
            event["eventId"] = json!("e1");
            json!([event])
        };
        let told = submit_durably(&api, "b", event(json!({ "a": 1, "b": 2 }))).await;
        assert_eq!(told["accepted"], 1);
        if redis == Redis::Own {
            // The id comes back from SQL.
            deployment.flush_redis().await;
        }
        // The order of keys is none of the content.
        let told = submit(&api, "b", event(json!({ "b": 2, "a": 1 }))).await;
        assert_eq!(told["duplicates"], 1, "{told}");
        for other in [json!({ "a": 1 }), Value::Null] {
            let told = submit(&api, "b", event(other)).await;
            assert_eq!(told["results"][0]["error"]["code"], "EVENT_ID_CONFLICT", "{told}");
        }
    }
}

#[tokio::test]
async fn what_is_taken_back_shows_no_metadata() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        let segments = json!({ "segmentBy": ["region"], "windows": [{ "name": "daily" }] });
        api.upsert_members(vec![json!({ "key": "ann", "region": "eu" })]).await;
        for policy in ["SUM", "BEST", "LATEST"] {
            let slug = policy.to_lowercase();
            board(&api, &slug, policy, segments.clone()).await;
            let scores = ["a", "b", "c"].into_iter().zip([0, 1000, 2000]);
            let scores: Vec<Value> = scores
                .map(|(name, ms)| score("ann", 1 + ms / 1000, ms, json!({ "r": name })))
                .collect();
            submit_durably(&api, &slug, json!(scores)).await;
            let last = events(&api, &slug, "ann").await.swap_remove(0);
            assert_eq!(last["metadata"], json!({ "r": "c" }));
            void(&api, last["id"].as_str().unwrap()).await;
            for window in ["all", "daily"] {
                assert_eq!(
                    shown(&api, &slug, window, "ann").await,
                    json!({ "r": "b" }),
                    "{policy}"
                );
            }
            let in_segment = json!({
                "board": slug, "window": "all", "member": "ann", "segment": "region:eu",
            });
            let found = &api.data(ENTRY, in_segment).await["board"]["standings"]["entry"];
            assert_eq!(found["metadata"], json!({ "r": "b" }), "{policy}");
            // The same score at the same time, after the removal.
            remove(&api, &slug, "ann").await;
            submit_durably(&api, &slug, json!([score("ann", 2, 1000, Value::Null)])).await;
            assert_eq!(shown(&api, &slug, "all", "ann").await, Value::Null, "{policy}");
            let again = json!([score("ann", 2, 1000, json!({ "r": "z" }))]);
            submit_durably(&api, &slug, again).await;
            assert_eq!(shown(&api, &slug, "all", "ann").await, json!({ "r": "z" }), "{policy}");
        }
        deployment.flush_redis().await;
        for slug in ["sum", "best", "latest"] {
            assert_eq!(shown(&api, slug, "all", "ann").await, json!({ "r": "z" }), "{slug}");
            figures(&deployment, &["rebuild", "--board", slug]);
            // Each partition that takes part is level by then.
            let arguments = ["rebuild", "--board", slug, "--shards", "4"];
            until("the board moves", async || (run(&deployment, &arguments).0 == 0).then_some(()))
                .await;
            until("the board has moved", async || {
                let found = shown(&api, slug, "daily", "ann").await;
                (found == json!({ "r": "z" })).then_some(())
            })
            .await;
        }
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn an_archived_event_still_shows_its_metadata() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        let windows = json!({ "shards": 2, "windows": [{ "name": "daily", "retain": 1 }] });
        board(&api, "b", "BEST", windows).await;
        let scores = json!([
            score("ann", 5, 0, json!({ "r": "a" })),
            score("bob", 5, 0, json!({ "r": "gone" })),
            score("cid", 4, 0, json!({ "r": "c" })),
        ]);
        submit_durably(&api, "b", scores).await;
        remove(&api, "b", "bob").await;
        submit_durably(&api, "b", json!([score("bob", 5, 0, Value::Null)])).await;
        wait_until_dropped(&api, "b").await;
        age(&deployment, 100).await;
        let check = async || {
            for window in ["all", "daily"] {
                for (member, expected) in [
                    ("ann", json!({ "r": "a" })),
                    ("bob", Value::Null),
                    ("cid", json!({ "r": "c" })),
                ] {
                    let found = shown(&api, "b", window, member).await;
                    assert_eq!(found, expected, "{window} {member}");
                }
            }
        };
        check().await;
        assert_eq!(archive(&deployment, &[])["events"], 5);
        assert_eq!(deployment.number("SELECT COUNT(*) FROM score_event").await, 0);
        check().await;
        check_diff(&deployment);
        // A late score that ties, and one that is better.
        submit_durably(&api, "b", json!([score("cid", 4, 1, json!({ "r": "0" }))])).await;
        assert_eq!(shown(&api, "b", "daily", "cid").await, json!({ "r": "c" }));
        submit_durably(&api, "b", json!([score("cid", 6, 1, json!({ "r": "d" }))])).await;
        for window in ["all", "daily"] {
            assert_eq!(shown(&api, "b", window, "cid").await, json!({ "r": "d" }), "{window}");
        }
        deployment.flush_redis().await;
        assert_eq!(shown(&api, "b", "all", "ann").await, json!({ "r": "a" }));
        // A row that SQL keeps is changed, one is lost, and one is added.
        let db = deployment.sql().await;
        for statement in [
            "UPDATE archived_metadata SET metadata = '{\"r\":\"x\"}' WHERE member = 'ann'",
            "DELETE FROM archived_metadata WHERE member = 'cid'",
        ] {
            use sea_orm::{ConnectionTrait, Statement};
            let statement = Statement::from_string(db.get_database_backend(), statement);
            db.execute_raw(statement).await.unwrap();
        }
        db.close().await.unwrap();
        let (code, found, error) = run(&deployment, &["diff", "--repair"]);
        let expected = finding_set(&[("ALTERED", "EVENT", "ann"), ("MISSING", "EVENT", "cid")]);
        assert_eq!((code, findings(&found)), (0, expected), "{found}{error}");
        check_diff(&deployment);
        assert_eq!(shown(&api, "b", "all", "ann").await, json!({ "r": "a" }));
        api.delete_board("b").await;
        until("the board is purged", async || {
            let left = deployment.number("SELECT COUNT(*) FROM archived_metadata").await;
            (left == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn altered_metadata_is_named() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        board(&api, "b", "BEST", json!({})).await;
        let scores = ["ann", "bob"].map(|member| score(member, 1, 0, json!({ "r": "r1" })));
        submit_durably(&api, "b", json!(scores)).await;
        check_diff(&deployment);
        let db = deployment.sql().await;
        for (member, value) in [("ann", "'{\"r\":\"r2\"}'"), ("bob", "NULL")] {
            use sea_orm::{ConnectionTrait, Statement};
            let sql =
                format!("UPDATE score_event SET metadata = {value} WHERE member = '{member}'");
            db.execute_raw(Statement::from_string(db.get_database_backend(), sql)).await.unwrap();
        }
        db.close().await.unwrap();
        let expected = finding_set(&[("ALTERED", "EVENT", "ann"), ("ALTERED", "EVENT", "bob")]);
        // Without --full, too.
        let (code, found, error) = run(&deployment, &["diff"]);
        assert_eq!((code, findings(&found)), (3, expected), "{found}{error}");
    }
}

#[tokio::test]
async fn metadata_goes_in_and_out_by_files() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    board(&api, "b", "BEST", json!({})).await;
    api.create_board(json!({ "slug": "without" })).await;
    let path = |name: &str| deployment.path(name);
    let at = (now_ms() - DAY_MS) / 1000;
    let lines = [
        format!(r#"{{"member":"ann","score":3,"at":{at},"event_id":"1","metadata":{{"r":"a"}}}}"#),
        format!(
            r#"{{"member":"bob","score":2,"at":{at},"event_id":"2","metadata":"{{\"r\":\"b\"}}"}}"#
        ),
        format!(r#"{{"member":"cid","score":1,"at":{at},"event_id":"3"}}"#),
    ];
    std::fs::write(path("in.ndjson"), lines.join("\n")).unwrap();
    let imported = figures(&deployment, &["import", "--board", "b", &path("in.ndjson")]);
    assert_eq!(imported["accepted"], 3);
    let csv = format!(
        "member,score,at,event_id,metadata\ndan,0,{at},4,\"{{\"\"r\"\":\"\"d\"\"}}\"\nann,3,{at},1,\"{{\"\"r\"\": \"\"a\"\"}}\"\n"
    );
    std::fs::write(path("in.csv"), csv).unwrap();
    let imported = figures(&deployment, &["import", "--board", "b", &path("in.csv")]);
    assert_eq!((&imported["accepted"], &imported["known"]), (&json!(1), &json!(1)));
    for (member, expected) in [
        ("ann", json!({ "r": "a" })),
        ("bob", json!({ "r": "b" })),
        ("cid", Value::Null),
        ("dan", json!({ "r": "d" })),
    ] {
        assert_eq!(shown(&api, "b", "all", member).await, expected, "{member}");
    }
    for (slug, line, says) in [
        ("without", lines[0].clone(), "keeps none"),
        ("b", lines[0].replace(r#""a""#, r#""z""#), "another score, time or metadata"),
        ("b", lines[0].replace(r#"{"r":"a"}"#, "[1]"), "expected a JSON object"),
    ] {
        std::fs::write(path("bad.ndjson"), line).unwrap();
        let (code, _, error) = run(&deployment, &["import", "--board", slug, &path("bad.ndjson")]);
        assert!(code != 0 && error.contains(says), "{error}");
    }
    figures(&deployment, &["export", "--board", "b", "--out", &path("out.ndjson")]);
    let said = std::fs::read_to_string(path("out.ndjson")).unwrap();
    let rows: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts: Vec<&Value> = rows.iter().map(|row| &row["metadata"]).collect();
    assert_eq!(
        texts,
        [&json!(r#"{"r":"a"}"#), &json!(r#"{"r":"b"}"#), &Value::Null, &json!(r#"{"r":"d"}"#)]
    );
    for out in ["out.csv", "out.parquet"] {
        figures(&deployment, &["export", "--board", "b", "--out", &path(out)]);
    }
    let said = std::fs::read_to_string(path("out.csv")).unwrap();
    assert!(said.contains(r#""{""r"":""a""}""#), "{said}");
    figures(&deployment, &["export", "--board", "without", "--out", &path("out.csv")]);
    assert!(!std::fs::read_to_string(path("out.csv")).unwrap().contains("metadata"));
}

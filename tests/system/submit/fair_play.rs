//! The limits of fair play: exact in a batch, in a minute, and across processes.

use ranking::board::Board;
use ranking::board::fair_play::{Excess, FairPlay, Suspicion};
use ranking::submission::Verdict;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::moderation::{
    numbers, outcomes, quarantine, release, statuses, try_release, void_quarantined,
};
use tests::api::submission::{submit, submit_durably};
use tests::boards::in_process::{point, submit_at, summing_board};
use tests::boards::rolling::stores;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{CREATE_BOARD, UPDATE_BOARD};
use tests::jobs::diff::check_diff;
use tests::wait::until;

const FAIR_PLAY: &str =
    "query { board(slug: \"b\") { fairPlay { perMinuteMax deltaMax excess } } }";

/// An instant at which a minute begins, in Unix milliseconds.
const MINUTE: i64 = 1_790_000_040_000;

#[tokio::test]
async fn so_many_scores_of_a_member_are_ranked_in_a_minute() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let board = summing_board(&stores, "b", &[]).await;
    let fair_play = FairPlay { per_minute_max: Some(3), ..FairPlay::default() };
    let limited = Board { fair_play, ..board.clone() };
    let ranked = async |members: &[&str], now_ms: i64| {
        let points = members.iter().map(|member| point(&limited, member, None)).collect();
        let verdicts = submit_at(&stores, points, now_ms).await.unwrap();
        let is_ranked = |verdict: &Verdict| match verdict {
            Verdict::Accepted { .. } => true,
            Verdict::Quarantined { suspicion: Suspicion::PerMinuteMax, .. } => false,
            other => panic!("{other:?}"),
        };
        verdicts.iter().map(is_ranked).collect::<Vec<bool>>()
    };
    assert_eq!(ranked(&["ann", "ann"], MINUTE).await, [true, true]);
    let told = ranked(&["ann", "bob", "ann", "bob"], MINUTE + 59_999).await;
    assert_eq!(told, [true, true, false, true]);
    assert_eq!(ranked(&["ann", "bob", "bob"], MINUTE + 30_000).await, [false, true, false]);
    // Another minute, and a process whose clock is behind.
    assert_eq!(ranked(&["ann"; 4], MINUTE + 60_000).await, [true, true, true, false]);
    assert_eq!(ranked(&["ann"], MINUTE).await, [false]);
    // An id that is known is no score more.
    let again = |id: &str| point(&limited, "cid", Some(id));
    let told = submit_at(&stores, ["x", "x", "y", "z"].map(again).into(), MINUTE).await.unwrap();
    assert!(
        matches!(told[1], Verdict::Duplicate { .. }) && matches!(told[3], Verdict::Accepted { .. })
    );
    // A board that refuses.
    let fair_play = FairPlay { excess: Excess::Refuse, ..fair_play };
    let refusing = Board { fair_play, ..board.clone() };
    let told = submit_at(&stores, vec![point(&refusing, "ann", None)], MINUTE).await.unwrap();
    let is_refused = |verdict: &Verdict| {
        let Verdict::Rejected(ranking::Error::Suspicious(suspicion, message)) = verdict else {
            return false;
        };
        *suspicion == Suspicion::PerMinuteMax && message.contains("perMinuteMax 3")
    };
    assert!(is_refused(&told[0]), "{told:?}");
    // A board without limits keeps no numbers.
    submit_at(&stores, vec![point(&board, "ann", None)], MINUTE).await.unwrap();
    let mut redis = deployment.redis().await;
    let keys: Vec<String> =
        redis::cmd("KEYS").arg("*:pace:*").query_async(&mut redis).await.unwrap();
    assert_eq!(keys.len(), 2, "{keys:?}");
    for key in keys {
        let lives_ms: i64 = redis::cmd("PTTL").arg(&key).query_async(&mut redis).await.unwrap();
        assert!((1..=120_000).contains(&lives_ms), "{key} lives {lives_ms} ms");
    }
    stores.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_score_that_changes_too_much_is_refused_or_quarantined() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let create = |slug: &str, policy: &str, excess: &str| {
        let fair_play = json!({ "deltaMax": "5.0", "excess": excess });
        json!({ "slug": slug, "policy": policy, "decimals": 1, "maxScore": "1000", "fairPlay": fair_play })
    };
    let scores = |all: &[&str]| -> Value {
        let score = |(second, score): (usize, &&str)| {
            let at = format!("2026-01-01T00:00:0{second}Z");
            json!({ "member": "ann", "score": score, "at": at })
        };
        all.iter().enumerate().map(score).collect()
    };
    for (policy, sent, kept) in [
        ("SUM", ["5.0", "5.1", "4", "-5"], [true, false, true, true]),
        ("BEST", ["90", "95.1", "95", "1"], [true, false, true, true]),
        ("LATEST", ["90", "95.1", "85", "79.9"], [true, false, true, false]),
    ] {
        for (excess, status) in [("REFUSE", "REJECTED"), ("QUARANTINE", "QUARANTINED")] {
            let slug = format!("{policy}-{excess}").to_lowercase();
            api.create_board(create(&slug, policy, excess)).await;
            let told = submit(&api, &slug, scores(&sent)).await;
            let expected = kept.map(|is_kept| match is_kept {
                true => ("APPLIED", ""),
                false => (status, "DELTA_EXCEEDED"),
            });
            assert_eq!(statuses(&told), expected, "{slug}: {told}");
            let held = quarantine(&api, &slug, &["HELD"], None).await;
            let suspects = kept.iter().filter(|is_kept| !**is_kept).count();
            assert_eq!(held.len(), if excess == "REFUSE" { 0 } else { suspects }, "{slug}");
        }
    }
    // Without a score a range is no change; what is out of range is rejected and not kept.
    let told = submit(&api, "sum-quarantine", scores(&["-100"])).await;
    assert_eq!(statuses(&told), [("REJECTED", "SCORE_OUT_OF_RANGE")]);
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_checked_shown_and_changed() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    for (given, code, argument) in [
        (json!({ "perMinuteMax": 0 }), "BAD_USER_INPUT", "input.fairPlay.perMinuteMax"),
        (json!({ "perMinuteMax": -1 }), "BAD_USER_INPUT", "input.fairPlay.perMinuteMax"),
        (json!({ "perMinuteMax": 1_000_001 }), "LIMIT_EXCEEDED", "input.fairPlay.perMinuteMax"),
        (json!({ "deltaMax": 0 }), "BAD_USER_INPUT", "input.fairPlay.deltaMax"),
        (json!({ "deltaMax": "1.5" }), "BAD_USER_INPUT", "input.fairPlay.deltaMax"),
    ] {
        let input = json!({ "input": { "slug": "b", "fairPlay": given } });
        let answer = api.ask(Some(api.token()), CREATE_BOARD, input).await;
        assert_eq!(answer.codes(), [code], "{given}");
        let error = &answer.body["errors"][0]["extensions"];
        assert_eq!(error["argument"], argument, "{given}: {error}");
    }
    api.create_board(json!({ "slug": "b" })).await;
    let shown = async || api.data(FAIR_PLAY, json!({})).await["board"]["fairPlay"].take();
    assert_eq!(shown().await, Value::Null);
    let update = async |fair_play: Value| {
        let input = json!({ "slug": "b", "fairPlay": fair_play });
        api.data(UPDATE_BOARD, json!({ "input": input })).await;
    };
    update(json!({ "deltaMax": 7 })).await;
    let expected = json!({ "perMinuteMax": null, "deltaMax": "7", "excess": "QUARANTINE" });
    assert_eq!(shown().await, expected);
    let input = json!({ "slug": "b", "title": "B" });
    api.data(UPDATE_BOARD, json!({ "input": input })).await;
    assert_eq!(shown().await, expected);
    update(json!({ "perMinuteMax": 2, "excess": "REFUSE" })).await;
    let told = submit(&api, "b", json!([{ "member": "a", "score": 9 }, { "member": "a", "score": 1 }, { "member": "a", "score": 1 }])).await;
    assert_eq!(statuses(&told)[..2], [("APPLIED", ""), ("APPLIED", "")], "{told}");
    // The minute may have ended.
    let is_known =
        [("REJECTED", "PER_MINUTE_EXCEEDED"), ("APPLIED", "")].contains(&statuses(&told)[2]);
    assert!(is_known, "{told}");
    update(Value::Null).await;
    until("the board has no limits", async || (shown().await == Value::Null).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quarantined_score_is_kept_once_and_decided_once() {
    for sql in Sql::all() {
        check_quarantine(sql).await;
    }
}

async fn check_quarantine(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let board = json!({ "slug": "b", "fairPlay": { "deltaMax": 10 }, "metadata": true });
    apis[0].create_board(board).await;
    let score = |score: i64, id: &str| {
        json!({
            "member": "ann", "score": score, "eventId": id, "at": "2026-01-02T03:04:05Z",
            "metadata": { "replay": id },
        })
    };
    let suspect = [("QUARANTINED", "DELTA_EXCEEDED")];
    for api in &apis {
        let told = submit_durably(api, "b", json!([score(50, "x")])).await;
        assert_eq!(statuses(&told), suspect);
        assert_eq!(told["results"][0]["error"]["argument"], "input.scores[0].score");
    }
    let told = submit(&apis[0], "b", json!([score(51, "x")])).await;
    assert_eq!(statuses(&told), [("REJECTED", "EVENT_ID_CONFLICT")]);
    submit(&apis[0], "b", json!([score(60, "y"), score(70, "z")])).await;
    let held = quarantine(&apis[1], "b", &["HELD"], None).await;
    let seen: Vec<&str> = held.iter().map(|node| node["eventId"].as_str().unwrap()).collect();
    assert_eq!(seen, ["x", "y", "z"]);
    let held = numbers(&held);
    let node = "query($id: ID!) { node(id: $id) { ... on QuarantinedScore { id eventId } } }";
    let id = json!(format!("quarantined:{}", held[0].as_str().unwrap()));
    let found = &apis[0].data(node, json!({ "id": id })).await["node"];
    assert_eq!(*found, json!({ "id": id, "eventId": "x" }));
    let answer = apis[0].ask(None, node, json!({ "id": id })).await;
    assert_eq!(answer.codes(), ["UNAUTHENTICATED"]);
    let told = release(&apis[1], &held[..1]).await;
    assert_eq!((outcomes(&told), &told["released"]), (vec!["RELEASED"], &json!(1)));
    let told = void_quarantined(&apis[0], &held[..2]).await;
    assert_eq!(outcomes(&told), ["COUNTED", "VOIDED"]);
    let told = release(&apis[0], &[held[1].clone(), json!("999999"), json!("x")]).await;
    assert_eq!(outcomes(&told), ["VOIDED", "NOT_FOUND", "NOT_FOUND"]);
    // The released score has its id, its time and its metadata.
    deployment.settle().await;
    let event = tests::api::amendment::events(&apis[0], "b", "ann").await.remove(0);
    assert_eq!(event["eventId"], "x", "{event}");
    assert_eq!(event["at"], "2026-01-02T03:04:05.000Z", "{event}");
    let told = submit(&apis[0], "b", json!([score(50, "x")])).await;
    assert_eq!(statuses(&told), [("DUPLICATE", "")]);
    // A voided one that is sent again is judged again, and one whose id was accepted counts once.
    let told = submit(&apis[0], "b", json!([score(60, "y")])).await;
    assert_eq!(statuses(&told), suspect);
    let open = quarantine(&apis[0], "b", &["HELD"], None).await;
    assert_eq!(numbers(&open), held[1..], "{open:?}");
    let update = json!({ "input": { "slug": "b", "fairPlay": null } });
    apis[0].data(UPDATE_BOARD, update).await;
    let told = submit_durably(&apis[0], "b", json!([score(60, "y")])).await;
    assert_eq!(statuses(&told), [("APPLIED", "")]);
    let told = release(&apis[1], &held[1..]).await;
    assert_eq!(outcomes(&told), ["COUNTED", "RELEASED"]);
    let variables = json!({ "board": "b", "member": "ann" });
    let shown = apis[0].data(tests::documents::SCORE, variables).await;
    assert_eq!(shown["board"]["standings"]["entry"]["score"], "180");
    let too_many: Vec<Value> = (0..1001).map(|number| json!(number.to_string())).collect();
    for (given, code) in [(vec![], "BAD_USER_INPUT"), (too_many, "LIMIT_EXCEEDED")] {
        assert_eq!(try_release(&apis[0], &given).await.codes(), [code]);
    }
    check_diff(&deployment);
}

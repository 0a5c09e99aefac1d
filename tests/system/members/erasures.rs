//! Erasures: afterwards nothing names the member, everybody else's standings are as before, and
//! the history is still proven.

use std::sync::Arc;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::merge;
use tests::api::friends::change_friends;
use tests::api::moderation::ban;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{ADD_FRIEND, ERASE_MEMBER};
use tests::jobs::analytics::run;
use tests::jobs::erasure::{erase, erase_with, starred, traces};

/// The key, which no other text contains.
const MEMBER: &str = "zoe-7f3a";

/// Every step after which an erasure can be killed.
const STEPS: [&str; 9] = [
    "erasure-recorded",
    "erasure-held",
    "erasure-decided",
    "erasure-removed",
    "erasure-forgotten",
    "erasure-events:2",
    "erasure-deleted",
    "erasure-told",
    "erasure-trimmed",
];

const TOP: &str = "query($slug: String!, $window: String!) { board(slug: $slug) {
    standings(of: { window: $window }) { top(first: 100) { nodes { rank score member { key } } } }
} }";

const REPORT: &str = "mutation($reporter: String!, $member: String!) {
    reportMember(input: { board: \"b\", member: $member, reporter: $reporter, reason: CHEATING }) {
        __typename
    }
}";

const RECEIPTS: &str = "query { erasureReceipts(first: 1) { nodes { id step counts } } }";

/// A deployment with boards and other members.
async fn start(sql: Sql) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "daily" }, { "name": "7d" }]);
    let input = json!({ "slug": "b", "shards": 2, "windows": windows, "segmentBy": ["region"] });
    api.create_board(input).await;
    api.create_board(json!({ "slug": "d" })).await;
    let others = ["ann", "bob", "cid"].map(|key| json!({ "key": key, "region": "eu" }));
    api.upsert_members(others.to_vec()).await;
    submit_durably(&api, "b", scores(&["ann", "bob"])).await;
    submit_durably(&api, "d", scores(&["cid"])).await;
    (deployment, api)
}

/// Two scores of each member.
fn scores(members: &[&str]) -> Value {
    let of = |(member, score): (&&str, i64)| json!({ "member": member, "score": score, "eventId": format!("{member}-{score}") });
    members.iter().flat_map(|member| [5, 7].map(|score| of((member, score)))).collect()
}

/// Gives the member something of every kind.
async fn play(deployment: &Arc<Deployment>, api: &Api) {
    let member = json!({ "key": MEMBER, "name": "Zoe", "region": "eu", "visibility": "FRIENDS" });
    api.upsert_members(vec![member]).await;
    for board in ["b", "d"] {
        // Event ids of a member that was erased are new.
        assert_eq!(submit_durably(api, board, scores(&[MEMBER])).await["accepted"], 2);
    }
    change_friends(api, ADD_FRIEND, (MEMBER, "ann")).await;
    for (reporter, member) in [(MEMBER, "ann"), ("ann", MEMBER)] {
        api.data(REPORT, json!({ "reporter": reporter, "member": member })).await;
    }
    deployment.new_token(&["--scope", "submit", "--member", MEMBER, "--name", "zoe"]).await;
    ban(api, MEMBER, Some("d")).await;
    submit_durably(api, "d", json!([{ "member": MEMBER, "score": 9, "eventId": "q" }])).await;
    deployment.settle().await;
}

/// The standings, without the member.
async fn others(api: &Api) -> Vec<Value> {
    let mut all = vec![];
    for (slug, window) in [("b", "all"), ("b", "daily"), ("b", "7d"), ("d", "all")] {
        let data = api.data(TOP, json!({ "slug": slug, "window": window })).await;
        let nodes = data["board"]["standings"]["top"]["nodes"].as_array().unwrap();
        let other = nodes.iter().filter(|node| node["member"]["key"] != MEMBER);
        all.extend(other.map(|node| json!([slug, window, node["score"], node["member"]["key"]])));
    }
    all
}

/// Checks that nothing of the member is left, and everything else is.
async fn check_erased(deployment: &Arc<Deployment>, api: &Api, before: &[Value], when: &str) {
    assert_eq!(traces(deployment, MEMBER).await, Vec::<String>::new(), "{when}");
    assert_eq!(others(api).await, before, "{when}");
    let receipts = deployment.api_output(&["erase", "receipts"]).await;
    let newest: Value = serde_json::from_str(receipts.lines().next().unwrap()).unwrap();
    let counts = &newest["counts"];
    // Two scores and a removal on each of two boards.
    assert_eq!((&newest["done"], &counts["score_event"]), (&json!(true), &json!(6)), "{newest}");
    for table in ["member", "friendship", "quarantined_score", "member_ban", "access_token"] {
        assert_eq!(counts[table], 1, "{table}: {newest}");
    }
    assert_eq!((&counts["member_visibility"], &counts["member_report"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn an_erased_member_leaves_no_trace_whenever_the_erasure_is_killed() {
    let all = Sql::all();
    for (turn, &sql) in all.iter().enumerate() {
        let (deployment, api) = start(sql).await;
        let before = others(&api).await;
        let steps = STEPS.iter().skip(turn).step_by(all.len());
        for step in std::iter::once(None).chain(steps.map(Some)) {
            play(&deployment, &api).await;
            assert!(!traces(&deployment, MEMBER).await.is_empty());
            if let Some(step) = step {
                let killed = erase(&deployment, MEMBER, Some(step)).await;
                assert_eq!(killed.status.code(), None, "{step}: {killed:?}");
            }
            let output = erase(&deployment, MEMBER, None).await;
            let error = String::from_utf8_lossy(&output.stderr);
            // The background work may have been first.
            let is_over = step.is_some() && error.contains("no such member");
            assert!(output.status.success() || is_over, "{step:?}: {error}");
            check_erased(&deployment, &api, &before, &format!("{sql:?} {step:?}")).await;
        }
        let (code, found, error) = run(&deployment, &["diff", "--full"]);
        assert_eq!(code, 0, "{found} {error}");
    }
}

#[tokio::test]
async fn a_member_that_others_were_merged_into_is_refused_and_stays() {
    let (deployment, api) = start(Sql::any()).await;
    let refused = async |member: &str, why: &str| {
        let output = erase(&deployment, member, None).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(why), "{error}");
    };
    api.create_board(json!({ "slug": "c" })).await;
    submit_durably(&api, "c", json!([{ "member": "guest", "score": 2 }])).await;
    merge(&api, "guest", "host").await;
    refused("host", "erased before").await;
    refused("nobody", "no such member").await;
    // All of them play on.
    assert_eq!(
        submit_durably(&api, "c", json!([{ "member": "host", "score": 1 }])).await["accepted"],
        1
    );
}

#[tokio::test]
async fn an_administrator_erases_a_member_and_reads_the_receipt() {
    let (deployment, api) = start(Sql::any()).await;
    let before = others(&api).await;
    play(&deployment, &api).await;
    let erased = api.data(ERASE_MEMBER, json!({ "member": MEMBER })).await["eraseMember"].take();
    assert_eq!(
        json!([erased["erased"], erased["waitsForFiles"]]),
        json!([true, false]),
        "{erased}"
    );
    check_erased(&deployment, &api, &before, "by eraseMember").await;
    let receipts = api.data(RECEIPTS, json!({})).await["erasureReceipts"]["nodes"].take();
    let (step, id) = (&receipts[0]["step"], &receipts[0]["id"]);
    assert_eq!((step, id), (&json!("DONE"), &erased["receipt"]["id"]));
    let again = api.ask(Some(api.token()), ERASE_MEMBER, json!({ "member": MEMBER })).await;
    assert_eq!(again.codes(), ["NOT_FOUND"]);
}

/// Steps after which an erasure that keeps the scores can be killed, beside [`STEPS`].
const STEPS_OF_ANONYMOUS: [&str; 6] =
    ["held", "copied:2", "source-removed", "told", "erasure-anonymized", "erasure-events:2"];

/// All ranks and scores, with a star for the member and for those that were anonymized.
async fn ranks(api: &Api) -> Vec<Value> {
    let mut all = vec![];
    for (slug, window) in [("b", "all"), ("b", "daily"), ("b", "7d"), ("d", "all")] {
        let data = api.data(TOP, json!({ "slug": slug, "window": window })).await;
        let nodes = data["board"]["standings"]["top"]["nodes"].as_array().unwrap();
        all.extend(nodes.iter().map(|node| {
            let key = starred(node["member"]["key"].as_str().unwrap(), MEMBER);
            json!([slug, window, node["rank"], node["score"], key])
        }));
    }
    all
}

#[tokio::test]
async fn an_anonymized_member_keeps_its_ranks_under_a_random_key_whenever_that_is_killed() {
    let all = Sql::all();
    for (turn, &sql) in all.iter().enumerate() {
        let (deployment, api) = start(sql).await;
        let steps = STEPS_OF_ANONYMOUS.iter().skip(turn).step_by(all.len());
        for (played, step) in std::iter::once(None).chain(steps.map(Some)).enumerate() {
            let member = json!({ "key": MEMBER, "name": "Zoe", "region": "eu" });
            api.upsert_members(vec![member]).await;
            for board in ["b", "d"] {
                let own = [1, 100].map(|score| {
                    json!({ "member": MEMBER, "score": score + played, "eventId": format!("{MEMBER}-{score}") })
                });
                assert_eq!(submit_durably(&api, board, json!(own)).await["accepted"], 2);
            }
            change_friends(&api, ADD_FRIEND, (MEMBER, "ann")).await;
            let before = ranks(&api).await;
            let arguments = [MEMBER, "--anonymize"];
            if let Some(step) = step {
                let killed = erase_with(&deployment, &arguments, Some(step)).await;
                assert_eq!(killed.status.code(), None, "{step}: {killed:?}");
            }
            let output = erase_with(&deployment, &arguments, None).await;
            let error = String::from_utf8_lossy(&output.stderr);
            let is_over = step.is_some() && error.contains("no such member");
            assert!(output.status.success() || is_over, "{step:?}: {error}");
            assert_eq!(traces(&deployment, MEMBER).await, Vec::<String>::new(), "{step:?}");
            assert_eq!(ranks(&api).await, before, "{sql:?} {step:?}");
        }
        let (code, found, error) = run(&deployment, &["diff", "--full"]);
        assert_eq!(code, 0, "{found} {error}");
        // A banned member is refused, and stays.
        submit_durably(&api, "d", json!([{ "member": MEMBER, "score": 1 }])).await;
        ban(&api, MEMBER, Some("d")).await;
        let output = erase_with(&deployment, &[MEMBER, "--anonymize"], None).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains("is banned"), "{error}");
        assert_eq!(erase(&deployment, MEMBER, None).await.status.code(), Some(0));
    }
}

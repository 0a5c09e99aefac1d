//! Erasures: afterwards nothing names the member, everybody else's standings are as before, and
//! the history is still proven.

use std::process::Output;
use std::sync::Arc;

use sea_orm::{ConnectionTrait, DbBackend, Statement};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::merge;
use tests::api::friends::change_friends;
use tests::api::moderation::ban;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::ADD_FRIEND;
use tests::jobs::analytics::run;
use tests::jobs::archive::{archive, old};

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

/// The tables and the keys of Redis that have the member's key somewhere.
async fn traces(deployment: &Deployment) -> Vec<String> {
    let (db, mut found) = (deployment.sql().await, vec![]);
    let backend = db.get_database_backend();
    let columns = match backend {
        DbBackend::Sqlite => {
            "SELECT m.name, p.name FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type = 'table'"
        }
        DbBackend::MySql => {
            "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR) FROM information_schema.columns WHERE table_schema = DATABASE()"
        }
        _ => {
            "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) FROM information_schema.columns WHERE table_schema = current_schema()"
        }
    };
    let columns = db.query_all_raw(Statement::from_string(backend, columns)).await.unwrap();
    for row in columns {
        let table: String = row.try_get_by_index(0).unwrap();
        let column: String = row.try_get_by_index(1).unwrap();
        let text = if backend == DbBackend::MySql { "CHAR" } else { "TEXT" };
        let count = format!(
            r#"SELECT COUNT(*) FROM "{table}" WHERE CAST("{column}" AS {text}) LIKE '%{MEMBER}%'"#
        );
        let row = db.query_one_raw(Statement::from_string(backend, count)).await.unwrap().unwrap();
        if row.try_get_by_index::<i64>(0).unwrap() > 0 {
            found.push(format!("{table}.{column}"));
        }
    }
    db.close().await.unwrap();
    let has = |bytes: &[u8]| bytes.windows(MEMBER.len()).any(|part| part == MEMBER.as_bytes());
    for (key, _) in deployment.redis_contents().await {
        // The counts of a minute expire.
        if key.contains(":pace:") {
            continue;
        }
        let text: String = match &*deployment.ask_redis::<String>(&["TYPE", &key]).await {
            "zset" => {
                deployment.ask_redis::<Vec<String>>(&["ZRANGE", &key, "0", "-1"]).await.join(" ")
            }
            "hash" => deployment.ask_redis::<Vec<String>>(&["HGETALL", &key]).await.join(" "),
            "stream" => format!(
                "{:?}",
                deployment.ask_redis::<redis::Value>(&["XRANGE", &key, "-", "+"]).await
            ),
            "list" => {
                deployment.ask_redis::<Vec<String>>(&["LRANGE", &key, "0", "-1"]).await.join(" ")
            }
            _ => deployment.ask_redis::<Option<String>>(&["GET", &key]).await.unwrap_or_default(),
        };
        if has(key.as_bytes()) || has(text.as_bytes()) {
            found.push(key);
        }
    }
    found
}

async fn erase(deployment: &Arc<Deployment>, crash_at: Option<&str>) -> Output {
    let mut command = deployment.api(&["erase", "member", MEMBER, "--yes"]);
    if let Some(step) = crash_at {
        command.env("CRASH_AT", step);
    }
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Checks that nothing of the member is left, and everything else is.
async fn check_erased(deployment: &Arc<Deployment>, api: &Api, before: &[Value], when: &str) {
    assert_eq!(traces(deployment).await, Vec::<String>::new(), "{when}");
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
            assert!(!traces(&deployment).await.is_empty());
            if let Some(step) = step {
                let killed = erase(&deployment, Some(step)).await;
                assert_eq!(killed.status.code(), None, "{step}: {killed:?}");
            }
            let output = erase(&deployment, None).await;
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
async fn a_member_with_archived_events_or_merged_into_is_refused_and_stays() {
    let (deployment, api) = old(Sql::Sqlite).await;
    archive(&deployment, &[]);
    let refused = async |member: &str, why: &str| {
        let mut command = deployment.api(&["erase", "member", member, "--yes"]);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(why), "{error}");
    };
    refused("m1", "archived").await;
    api.create_board(json!({ "slug": "c" })).await;
    submit_durably(&api, "c", json!([{ "member": "guest", "score": 2 }])).await;
    merge(&api, "guest", "host").await;
    refused("host", "erased before").await;
    refused("nobody", "no such member").await;
    // All of them play on.
    let again = json!([{ "member": "m1", "score": 1 }, { "member": "host", "score": 1 }]);
    assert_eq!(submit_durably(&api, "c", again).await["accepted"], 2);
}

//! The office at `/admin`: in a browser, and as the server sends it.

use reqwest::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::audit::{acts, try_report};
use tests::api::submission::submit_durably;
use tests::boards::race::{race, race_with_settings};
use tests::deployment::Deployment;
use tests::jobs::analytics::run;
use tests::servers::built;
use tests::servers::node::{self, chromium};

/// The most bytes of the office's files, compressed.
const OFFICE_BYTES_MAX: u64 = 60 << 10;

const CREATE_TOKEN: &str = "mutation($input: CreateAccessTokenInput!) {
    createAccessToken(input: $input) { token } }";

const STATE: &str = "{
    race: board(slug: \"race\") {
        reports(states: [UPHELD]) { nodes { member { key } } }
        standings { top { nodes { member { key } } } }
    }
    duel: board(slug: \"duel\") { slug }
    cup: board(slug: \"cup\") {
        title description tags windows { name } seasons { name startsAt endsAt }
    }
    bob: member(key: \"bob\") { bans { reason } }
    dee: member(key: \"dee\") { mergedInto { key } }
    eve: searchMembers(prefix: \"eve\") { nodes { key } }
    erasureReceipts { nodes { mode step } }
    accessTokens(first: 100) { nodes { name scopes revokedAt expiresAt } }
}";

async fn token(api: &Api, name: &str, scopes: &[&str]) -> String {
    let variables = json!({ "input": { "name": name, "scopes": scopes } });
    let made = api.data(CREATE_TOKEN, variables).await;
    made["createAccessToken"]["token"].as_str().unwrap().to_owned()
}

/// A report of bob, the board duel with two scores in quarantine, and a diff that found an entry
/// missing in Redis.
async fn trouble(deployment: &Deployment, api: &Api) {
    let report = json!({
        "board": "race", "member": "bob", "reporter": "ann", "reason": "CHEATING",
        "text": "never <i>misses</i>",
    });
    assert_eq!(try_report(api, api.token(), report).await.body["errors"], Value::Null);
    let excess = json!({ "slug": "duel", "fairPlay": { "deltaMax": 500 } });
    api.create_board(excess).await;
    let scores = json!([{ "member": "x", "score": 99000 }, { "member": "y", "score": 98000 }]);
    submit_durably(api, "duel", scores).await;
    let mut redis = deployment.redis().await;
    let keys: Vec<String> =
        redis::cmd("KEYS").arg("laurel:*:z:1.1::all:*").query_async(&mut redis).await.unwrap();
    let mut lost = 0;
    for key in keys {
        let mut command = redis::cmd("ZREM");
        lost += command.arg(key).arg("ann").query_async::<i64>(&mut redis).await.unwrap();
    }
    assert_eq!(lost, 1);
    assert_eq!(run(deployment, &["diff"]).0, 3, "the diff has a finding");
    assert_eq!(run(deployment, &["rebuild", "--board", "race"]).0, 0);
}

#[tokio::test]
async fn a_moderator_and_an_operator_use_the_office() {
    let (deployment, api) = race().await;
    trouble(&deployment, &api).await;
    let reader = token(&api, "reader", &["READ"]).await;
    let moderator = token(&api, "moderator", &["MODERATE"]).await;
    let browser = chromium();
    let arguments = [browser.to_str().unwrap(), api.url(), &reader, &moderator, api.token()];
    let seen = node::run("office.js", &arguments).await;
    assert_eq!(seen["complaints"], json!([]), "{:#}", seen["requests"]);
    for url in seen["requests"].as_array().unwrap() {
        let url = url.as_str().unwrap();
        assert!(url.starts_with(api.url()) || url.starts_with("data:"), "it asked for {url}");
    }
    assert_eq!(seen["violations"], json!([]), "by axe-core");
    assert_eq!(seen["wide"], json!([]), "pages that are wider than their screen");
    assert_eq!(seen["direction"], json!(["rtl", "ar"]));
    check_shown(&seen);
    // The token is hidden, and kept for the tab only.
    assert_eq!(seen["field"], "password");
    assert_eq!(seen["kept"][0], json!({ "laurel:access-token": moderator }));
    assert!(!seen["kept"][1].to_string().contains(&moderator));
    check_state(&api, &moderator).await;
    // The new token worked until the end, and the log has it all but its secret.
    let secret = seen["secret"].as_str().unwrap();
    let viewer = api.ask(Some(secret), "{ viewer { scopes } }", json!({})).await;
    assert_eq!(viewer.body["data"]["viewer"]["scopes"], json!(["READ", "SUBMIT"]));
    let done = acts(&api, json!({})).await;
    assert!(!json!(done).to_string().contains(secret));
    let ban = done.iter().find(|act| act["act"] == "banMember").unwrap();
    assert_eq!([&ban["actorName"], &ban["outcome"]], ["moderator", "DONE"]);
}

/// The words that both have seen.
fn check_shown(seen: &Value) {
    let shown = |name: &str| seen["shown"][name].as_str().unwrap_or_else(|| panic!("no {name}"));
    assert!(shown("wrong").contains("unknown or revoked"), "{}", shown("wrong"));
    assert!(shown("small").contains("read") && shown("small").contains("moderate or admin"));
    for (section, is_there) in
        [("Boards", true), ("Waiting", true), ("Members", true), ("Audit log", false)]
    {
        assert_eq!(shown("sections").contains(section), is_there, "{}", shown("sections"));
    }
    assert!(shown("denied").contains("scope admin"), "{}", shown("denied"));
    assert!(shown("report").contains("never <i>misses</i>"), "{}", shown("report"));
    assert!(shown("ban").contains("a script"), "{}", shown("ban"));
    assert_eq!(seen["focus"], "Ban", "after Escape");
    assert!(shown("voided").contains("voided"), "{}", shown("voided"));
    assert!(shown("windows").contains("7d") && !shown("windows").contains("weekly"));
    assert!(shown("refused").contains("endsAt"), "{}", shown("refused"));
    assert!(shown("merged").contains("dora"), "{}", shown("merged"));
    assert!(shown("receipt").contains("Hash"), "{}", shown("receipt"));
    assert!(shown("check").contains("1 difference"), "{}", shown("check"));
    for part in ["Missing", "race", "ann", "30.00"] {
        assert!(shown("findings").contains(part), "{part}: {}", shown("findings"));
    }
    assert!(shown("jobs").contains("done"), "{}", shown("jobs"));
    assert!(shown("partitions").contains("level"), "{}", shown("partitions"));
    assert!(shown("audit").contains("moderator"), "{}", shown("audit"));
}

/// The state that both have left.
async fn check_state(api: &Api, moderator: &str) {
    let state = api.data(STATE, json!({})).await;
    let cup = json!({
        "title": "Cup of <b>friends</b>", "description": "Every week <i>anew</i>", "tags": ["cup"],
        "windows": [
            { "name": "all" }, { "name": "season" }, { "name": "7d" }, { "name": "daily" },
        ],
        "seasons": [{
            "name": "spring", "startsAt": "2031-03-01T00:00:00.000Z",
            "endsAt": "2031-04-01T00:00:00.000Z",
        }],
    });
    assert_eq!(state["cup"]["title"], cup["title"]);
    for part in ["description", "tags", "seasons"] {
        assert_eq!(state["cup"][part], cup[part]);
    }
    let names = |windows: &Value| {
        let windows = windows.as_array().unwrap().iter();
        let mut names: Vec<String> = windows.map(|window| window["name"].to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&state["cup"]["windows"]), names(&cup["windows"]));
    assert_eq!(state["race"]["reports"], json!({ "nodes": [{ "member": { "key": "bob" } }] }));
    // Void of cy's score, merge of dee, lift of bob's ban and erasure of eve.
    let left: Vec<&str> = state["race"]["standings"]["top"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["member"]["key"].as_str().unwrap())
        .collect();
    assert_eq!(left, ["ann", "bob", "dora"]);
    assert_eq!(state["duel"], Value::Null);
    assert_eq!(state["bob"]["bans"], json!([]));
    assert_eq!(state["dee"]["mergedInto"]["key"], "dora");
    assert_eq!(state["eve"]["nodes"], json!([]));
    let receipt = json!({ "mode": "DELETE", "step": "DONE" });
    assert_eq!(state["erasureReceipts"]["nodes"], json!([receipt]));
    let tokens = state["accessTokens"]["nodes"].as_array().unwrap();
    let named = |name: &str| tokens.iter().find(|token| token["name"] == name).unwrap();
    assert_ne!(named("moderator")["revokedAt"], Value::Null);
    assert_eq!(named("game server")["revokedAt"], Value::Null);
    assert_ne!(named("game server")["expiresAt"], Value::Null);
    let answer = api.ask(Some(moderator), "{ viewer { scopes } }", json!({})).await;
    assert_eq!(answer.codes(), ["UNAUTHENTICATED"]);
    let decided = |act: &str| json!({ "act": act });
    for act in ["releaseQuarantined", "voidQuarantined", "resolveReport", "voidEvent"] {
        let done = acts(api, decided(act)).await;
        assert_eq!(done.len(), 1, "{act}");
        assert_eq!(done[0]["outcome"], "DONE", "{act}");
    }
}

#[tokio::test]
async fn the_office_is_never_framed_and_a_setting_switches_it_off() {
    let (_deployment, api) = race().await;
    let client = Client::new();
    for path in ["/admin", "/admin/members", "/admin/boards/race"] {
        let answer = client.get(format!("{}{path}", api.url())).send().await.unwrap();
        let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.ends_with("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(policy.contains("script-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers()[CACHE_CONTROL], "no-cache", "{path}");
    }
    drop(api);
    let (_deployment, api) = race_with_settings(&[
        ("LAUREL_ADMIN_PAGE", "off"),
        ("LAUREL_EMBED_ORIGINS", "https://game.example"),
    ])
    .await;
    let assets = built::compressed_assets(built::OFFICE);
    let asset = assets[0].file_name().unwrap().to_str().unwrap().strip_suffix(".gz").unwrap();
    for path in ["/admin", "/admin/members", &format!("/admin/assets/{asset}")] {
        let answer = client.get(format!("{}{path}", api.url())).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
    }
}

#[test]
fn the_office_is_small_in_all_its_languages() {
    let files = built::compressed_assets(built::OFFICE);
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes <= OFFICE_BYTES_MAX, "{bytes} bytes, of at most {OFFICE_BYTES_MAX}");
}

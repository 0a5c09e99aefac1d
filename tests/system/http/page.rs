//! The page for people at `/`: in a browser, and as the server sends it.

use reqwest::Client;
use reqwest::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use serde_json::json;

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::boards::race::race_with_settings;
use tests::servers::built;
use tests::servers::node::{self, chromium};

/// The most bytes of the page's files, compressed.
const PAGE_BYTES_MAX: u64 = 60 << 10;

const SETTINGS: [(&str, &str); 2] =
    [("LAUREL_EMBED_ORIGINS", "https://game.example"), ("LAUREL_IMAGE_HOSTS", "img.example")];

/// Members with names, pictures and a friend.
async fn befriend(api: &Api) {
    let members = json!([
        { "key": "ann", "name": "Ann <b>Ångström</b>", "avatarUrl": "https://img.example/ann.png" },
        { "key": "bob", "name": "Bob", "avatarUrl": "https://elsewhere.example/bob.png", "region": "eu" },
    ]);
    api.upsert_members(members).await;
    let befriend = "mutation { addFriend(input: { member: \"dee\", friend: \"ann\" }) { state } }";
    api.data(befriend, json!({})).await;
}

/// A board of times with segments, metadata and a season that is over.
async fn lap(api: &Api) {
    let input = json!({
        "slug": "lap", "direction": "LOW_FIRST", "policy": "BEST", "scoreFormat": { "style": "MILLISECONDS" },
        "segmentBy": ["region"], "metadata": true, "windows": [{ "name": "7d" }, { "name": "season" }],
    });
    api.create_board(input).await;
    let season = "mutation { addSeason(input: { board: \"lap\", name: \"autumn\", \
        startsAt: \"2025-09-01T00:00:00Z\", endsAt: \"2025-10-01T00:00:00Z\" }) { season { name } } }";
    api.data(season, json!({})).await;
    let score = |member: &str, score: &str| {
        let at = "2025-09-03T10:00:00Z";
        json!({ "member": member, "score": score, "at": at, "metadata": { "car": "red <i>9</i>" } })
    };
    let scores = json!([score("ann", "3681999"), score("bob", "3683500")]);
    submit_durably(api, "lap", scores).await;
}

#[tokio::test]
async fn a_player_uses_the_page_and_sees_an_overtaking_in_two_browsers() {
    let (_deployment, api) = race_with_settings(&SETTINGS).await;
    befriend(&api).await;
    lap(&api).await;
    let browser = chromium();
    let seen = node::run("page.js", &[browser.to_str().unwrap(), api.url(), api.token()]).await;
    assert_eq!(seen["complaints"], json!([]), "{:#}", seen["requests"]);
    for url in seen["requests"].as_array().unwrap() {
        let url = url.as_str().unwrap();
        let is_picture = url == "https://img.example/ann.png";
        let is_own = url.starts_with(api.url()) || url.starts_with("data:");
        assert!(is_own || is_picture, "it asked for {url}");
    }
    assert_eq!(seen["violations"], json!([]), "by axe-core");
    assert_eq!(seen["wide"], json!([]), "pages that are wider than their screen");
    let shown = |name: &str| seen["shown"][name].as_str().unwrap_or_else(|| panic!("no {name}"));
    assert!(shown("boards").contains("30.00") && shown("boards").contains("Ann <b>"));
    assert!(shown("list").starts_with("1"), "{}", shown("list"));
    for part in ["#4", "of 5 members", "25%", "10.00 behind Bob"] {
        assert!(shown("place").contains(part), "{part}: {}", shown("place"));
    }
    assert!(shown("friends without a token").contains("enter the access token"));
    assert!(shown("friends").contains("Ann <b>"), "{}", shown("friends"));
    assert!(shown("search without a token").contains("only the exact id"));
    assert!(shown("search").contains("Bob") && shown("search").contains("eu"));
    assert!(shown("wrong token").contains("not accepted"), "{}", shown("wrong token"));
    assert!(shown("history").contains("15.00") && shown("history").contains("10.00"));
    assert!(shown("empty").contains("No scores yet"), "{}", shown("empty"));
    assert!(shown("offline").contains("No connection"), "{}", shown("offline"));
    assert!(shown("missing").contains("nothing by this name"), "{}", shown("missing"));
    assert!(shown("lap").contains("0:01.501 behind Ann"), "{}", shown("lap"));
    assert!(shown("metadata").contains("red <i>9</i>"), "{}", shown("metadata"));
    assert!(shown("between seasons").contains("No season is open"));
    assert!(shown("season").contains("1:01:23.500"), "{}", shown("season"));
    assert!(shown("embed").contains("30.00"), "{}", shown("embed"));
    assert_eq!(seen["direction"], json!(["rtl", "ar"]));
    // Both browsers saw it without a load, a step of the page, or another height.
    assert_eq!(seen["overtaking"], json!([["dee", true], ["dee", true]]));
    assert_eq!(seen["by_events"], "dee", "where no WebSocket comes through");
    assert_eq!(seen["keyboard"], json!({ "first": "Skip to the content", "closed": true }));
    // The token is kept for the tab only.
    let [session, local] = seen["kept"].as_array().unwrap().as_slice() else {
        panic!("{}", seen["kept"])
    };
    assert_eq!(session["laurel:access-token"], api.token());
    assert!(!local.to_string().contains(api.token()));
}

#[tokio::test]
async fn only_lists_are_framed_and_previews_tell_public_things() {
    let (_deployment, api) = race_with_settings(&SETTINGS).await;
    befriend(&api).await;
    let input = json!({ "slug": "secret", "title": "Covert race", "visibility": "PRIVATE" });
    api.create_board(input).await;
    let hide = "mutation { setVisibility(input: { member: \"eve\", visibility: HIDDEN }) { member { key } } }";
    api.data(hide, json!({})).await;
    let client = Client::new();
    let get = async |path: &str| {
        let answer = client.get(format!("{}{path}", api.url())).send().await.unwrap();
        let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert_eq!(answer.headers()[CACHE_CONTROL], "no-cache", "{path}");
        (policy, answer.text().await.unwrap())
    };
    for path in ["/", "/members", "/members/ann", "/boards/race", "/boards/none", "/embed/race"] {
        let (policy, page) = get(path).await;
        let ancestors = match path {
            "/embed/race" => "frame-ancestors https://game.example",
            _ => "frame-ancestors 'none'",
        };
        assert!(policy.ends_with(ancestors), "{path}: {policy}");
        assert!(policy.contains("script-src 'self';") && policy.contains("data: img.example;"));
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(page.contains("content=\"img.example\""), "{path}: {page}");
        assert!(!page.contains("<b>"), "{path}: {page}");
    }
    let board = get("/boards/race").await.1;
    assert!(board.contains("<title>race – Laurel</title>"), "{board}");
    assert!(board.contains("1. Ann &lt;b&gt;Ångström&lt;/b&gt; 30.00 · 2. cy 20.00"), "{board}");
    assert!(!get("/boards/race?window=daily").await.1.contains("30.00"));
    let member = get("/members/ann").await.1;
    assert!(member.contains("og:image\" content=\"https://img.example/ann.png\""), "{member}");
    assert!(!get("/members/bob").await.1.contains("elsewhere.example"));
    let plain = get("/members/nobody").await.1;
    assert_eq!(get("/members/eve").await.1, plain, "a member who hides");
    assert_eq!(get("/boards/secret").await.1, plain, "a private board");
}

#[test]
fn the_page_is_small_in_all_its_languages() {
    let files = built::compressed_assets(built::PAGE);
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes <= PAGE_BYTES_MAX, "{bytes} bytes, of at most {PAGE_BYTES_MAX}");
    let first_script = |name: &&std::path::PathBuf| name.to_string_lossy().contains("/index-");
    assert_eq!(files.iter().filter(first_script).count(), 2, "a script and a style: {files:?}");
}

//! A board from its creation to its ranks: every field that answers who is where.

use std::sync::Arc;

use engine::deployment::Settings;
use entity::board;
use futures::future::join_all;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use crate::api::Api;
use crate::deployment::{Deployment, Redis, Sql};
use crate::load::{submit, submit_durably};
use crate::wait::until;

/// A deployment with a board: ann 30.00, bob and cy 20.00 (cy first), dee 10.00, eve 5.50.
pub(crate) async fn race() -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start(&deployment).await;
    let create = "mutation { createBoard(input: { slug: \"race\", decimals: 2, maxScore: \"9999999.99\", windows: [{ name: \"daily\" }], shards: 2 }) { board { id } } }";
    let data = api.data(create, json!({})).await;
    assert_eq!(data, json!({ "createBoard": { "board": { "id": "board:race" } } }));
    let score = |member: &str, score: &str, minute: u32| json!({ "member": member, "score": score, "at": format!("2025-09-03T10:{minute:02}:00Z"), "eventId": member });
    let scores = json!([
        score("ann", "30", 3),
        score("bob", "20.00", 2),
        score("cy", "20", 1),
        score("dee", "10", 4),
        score("eve", "5.5", 5),
    ]);
    let payload = submit_durably(&api, "race", scores).await;
    assert_eq!(
        (&payload["accepted"], &payload["duplicates"], &payload["rejected"]),
        (&json!(5), &json!(0), &json!(0))
    );
    (deployment, api)
}

#[tokio::test]
async fn a_first_start_prints_an_admin_token_once() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::spawn(&deployment, &[], String::new()).await;
    api.wait_until_ready().await;
    let printed = api.printed();
    let token = printed.lines().find_map(|line| line.split_once("shown this once: "));
    let token = token.unwrap().1.to_owned();
    let viewer = api.ask(Some(&token), "{ viewer { scopes member { key } } }", json!({})).await;
    assert_eq!(
        viewer.body["data"]["viewer"],
        json!({ "scopes": ["read", "submit", "admin"], "member": null })
    );
    drop(api);
    let api = Api::spawn(&deployment, &[], token).await;
    assert!(!api.printed().contains("laurel_"), "{}", api.printed());
    api.wait_until_ready().await;
    assert_eq!(api.data("{ viewer { scopes } }", json!({})).await["viewer"]["scopes"][2], "admin");
    assert_eq!(
        api.ask(None, "{ viewer { scopes } }", json!({})).await.body["data"]["viewer"],
        Value::Null
    );
}

#[tokio::test]
async fn processes_that_start_at_once_on_nothing_all_serve() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let start = async || Api::spawn(&deployment, &[], String::new()).await;
    let apis: [Api; 3] = futures::join!(start(), start(), start()).into();
    for api in &apis {
        api.wait_until_ready().await;
        let answer = api.ask(None, "{ boards { totalCount } }", json!({})).await;
        assert_eq!(answer.body, json!({ "data": { "boards": { "totalCount": 0 } } }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_comes_upon_a_database_that_is_being_made_waits_for_it() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    for _ in 0..25 {
        let settings = Settings {
            data_dir: deployment.new_file("data"),
            database_url: None,
            ..deployment.settings()
        };
        check_opened_at_once(&settings).await;
    }
    for _ in 0..5 {
        let deployment = Deployment::new(Sql::Postgres, Redis::Own).await;
        check_opened_at_once(&deployment.settings()).await;
    }
}

async fn check_opened_at_once(settings: &Settings) {
    let opening = (0..16).map(|_| {
        let settings = settings.clone();
        tokio::spawn(async move { settings.connect_sql().await.unwrap() })
    });
    for opened in join_all(opening).await {
        let db = opened.unwrap();
        assert_eq!(board::Entity::find().count(&db).await.unwrap(), 0);
        db.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_board_has_the_rules_it_was_created_with() {
    let (_deployment, api) = race().await;
    let text = "{ board(slug: \"race\") { id slug title direction policy tieBreak tieBreakResolutionMs decimals minScore maxScore timeZone
        shards segmentBy visibility selfSubmit windows { name kind current { label start end sealed } } } }";
    let board = api.data(text, json!({})).await["board"].take();
    let mut expected = json!({
        "id": "board:race", "slug": "race", "title": "race", "direction": "HIGH_FIRST", "policy": "SUM", "tieBreak": "EARLIEST",
        "decimals": 2, "minScore": "0.00", "maxScore": "9999999.99", "timeZone": "UTC", "shards": 2, "segmentBy": [],
        "visibility": "PUBLIC", "selfSubmit": false,
        "windows": [{ "name": "all", "kind": "ALL_TIME", "current": { "label": "all", "start": null, "end": null, "sealed": false } }],
    });
    let resolution = board["tieBreakResolutionMs"].as_i64().unwrap();
    assert!([1, 10, 100, 1000].contains(&resolution), "{resolution}");
    expected["tieBreakResolutionMs"] = resolution.into();
    let daily = board["windows"][1].clone();
    assert_eq!((&daily["name"], &daily["kind"]), (&json!("daily"), &json!("DAILY")));
    assert_eq!(
        daily["current"]["start"],
        format!("{}T00:00:00.000Z", daily["current"]["label"].as_str().unwrap())
    );
    expected["windows"].as_array_mut().unwrap().push(daily);
    assert_eq!(board, expected);
}

#[tokio::test]
async fn an_entry_has_rank_score_time_and_percentile() {
    let (_deployment, api) = race().await;
    let text = "{ board(slug: \"race\") { standings { id size segment source
        bob: rank(member: \"bob\") { id rank competition: rank(method: COMPETITION) score value reachedAt percentile member { key } standings { size } }
        eve: rank(member: \"eve\") { rank percentile score value }
        nobody: rank(member: \"nobody\") { rank }
        ranks(members: [\"dee\", \"nobody\", \"ann\", \"dee\"]) { rank member { key } } } } }";
    let standings = api.data(text, json!({})).await["board"]["standings"].take();
    let expected = json!({
        "id": "standings:race:all:all:", "size": 5, "segment": null, "source": "LIVE",
        "bob": {
            "id": "entry:race:all:all::bob", "rank": 3, "competition": 2, "score": "20.00", "value": 20.0,
            "reachedAt": "2025-09-03T10:02:00.000Z", "percentile": 50.0, "member": { "key": "bob" }, "standings": { "size": 5 },
        },
        "eve": { "rank": 5, "percentile": 0.0, "score": "5.50", "value": 5.5 },
        "nobody": null,
        "ranks": [{ "rank": 4, "member": { "key": "dee" } }, null, { "rank": 1, "member": { "key": "ann" } }, { "rank": 4, "member": { "key": "dee" } }],
    });
    assert_eq!(standings, expected);
}

#[tokio::test]
async fn earlier_submission_wins_a_tie() {
    let (_deployment, api) = race().await;
    let text = "{ board(slug: \"race\") { standings { ranks(members: [\"cy\", \"bob\"]) { rank competition: rank(method: COMPETITION) } } } }";
    let ranks = api.data(text, json!({})).await["board"]["standings"]["ranks"].take();
    assert_eq!(ranks, json!([{ "rank": 2, "competition": 2 }, { "rank": 3, "competition": 2 }]));
}

#[tokio::test]
async fn whoever_is_alone_has_percentile_100() {
    let (_deployment, api) = race().await;
    submit(&api, "race", json!([{ "member": "ann", "score": 1 }])).await;
    let text = "{ board(slug: \"race\") { standings(window: \"daily\") { size rank(member: \"ann\") { rank percentile score } } } }";
    let standings = api.data(text, json!({})).await["board"]["standings"].take();
    assert_eq!(
        standings,
        json!({ "size": 1, "rank": { "rank": 1, "percentile": 100.0, "score": "1.00" } })
    );
}

#[tokio::test]
async fn an_answer_to_a_submission_shows_where_the_member_is_now() {
    let (_deployment, api) = race().await;
    let text = "mutation { submitScores(input: { board: \"race\", scores: [{ member: \"dee\", score: \"25.25\" }, { member: \"eve\", score: \"-6\" }] }) {
        accepted rejected results { member status entry { rank score } error { code } } } }";
    let payload = api.data(text, json!({})).await["submitScores"].take();
    let expected = json!({
        "accepted": 1, "rejected": 1,
        "results": [
            { "member": "dee", "status": "APPLIED", "entry": { "rank": 1, "score": "35.25" }, "error": null },
            { "member": "eve", "status": "REJECTED", "entry": null, "error": { "code": "SCORE_OUT_OF_RANGE" } },
        ],
    });
    assert_eq!(payload, expected);
}

#[tokio::test]
async fn a_member_comes_into_being_with_its_first_score() {
    let (_deployment, api) = race().await;
    let text = "query($key: String!) { member(key: $key) { id key name region createdAt rank(board: \"race\") { rank } ranks(boards: [\"race\", \"none\"]) { rank }
        none: rank(board: \"none\") { rank } } }";
    assert_eq!(api.data(text, json!({ "key": "zoe" })).await, json!({ "member": null }));
    submit(&api, "race", json!([{ "member": "zoe", "score": 1 }])).await;
    let mut member = api.data(text, json!({ "key": "zoe" })).await["member"].take();
    member["createdAt"] = Value::Null;
    let expected = json!({
        "id": "member:zoe", "key": "zoe", "name": "zoe", "region": null, "createdAt": null,
        "rank": { "rank": 6 }, "ranks": [{ "rank": 6 }, null], "none": null,
    });
    assert_eq!(member, expected);
    until("the member is in SQL", async || {
        let member = api.data(text, json!({ "key": "zoe" })).await;
        member["member"]["createdAt"].as_str().map(str::to_owned)
    })
    .await;
}

#[tokio::test]
async fn a_member_has_the_name_it_was_told() {
    let (_deployment, api) = race().await;
    let upsert = "mutation($input: [MemberInput!]!) { upsertMembers(input: $input) { members { key name region } } }";
    let name = async |input: Value| {
        api.data(upsert, json!({ "input": input })).await["upsertMembers"]["members"].take()
    };
    let told =
        name(json!([{ "key": "ann", "name": "Ann B.", "region": "eu" }, { "key": "new" }])).await;
    assert_eq!(
        told,
        json!([{ "key": "ann", "name": "Ann B.", "region": "eu" }, { "key": "new", "name": "new", "region": null }])
    );
    let told = name(json!([{ "key": "ann", "region": null }])).await;
    assert_eq!(told, json!([{ "key": "ann", "name": "Ann B.", "region": null }]));
    let text =
        "{ members(keys: [\"ann\", \"who\", \"new\"]) { name rank(board: \"race\") { rank } } }";
    let members = api.data(text, json!({})).await;
    assert_eq!(
        members["members"],
        json!([{ "name": "Ann B.", "rank": { "rank": 1 } }, null, { "name": "new", "rank": null }])
    );
}

#[tokio::test]
async fn a_node_is_what_its_id_names() {
    let (_deployment, api) = race().await;
    let text = "query($id: ID!) { node(id: $id) { __typename id ... on Entry { rank } ... on Standings { size } } }";
    for (id, node) in [
        ("board:race", json!({ "__typename": "Board", "id": "board:race" })),
        ("member:ann", json!({ "__typename": "Member", "id": "member:ann" })),
        (
            "standings:race:daily:2025-09-03:",
            json!({ "__typename": "Standings", "id": "standings:race:daily:2025-09-03:", "size": 5 }),
        ),
        (
            "entry:race:all:all::cy",
            json!({ "__typename": "Entry", "id": "entry:race:all:all::cy", "rank": 2 }),
        ),
        ("board:none", Value::Null),
        ("member:nobody", Value::Null),
        ("standings:none:all:all:", Value::Null),
        ("entry:race:all:all::nobody", Value::Null),
    ] {
        assert_eq!(api.data(text, json!({ "id": id })).await["node"], node, "{id}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_null_and_no_error() {
    let (_deployment, api) = race().await;
    let text = "{ board(slug: \"none\") { id } odd: board(slug: \"No Slug\") { id } member(key: \"nobody\") { id } }";
    assert_eq!(
        api.data(text, json!({})).await,
        json!({ "board": null, "odd": null, "member": null })
    );
}

#[tokio::test]
async fn boards_are_listed_by_slug_and_private_ones_to_token_holders() {
    let (_deployment, api) = race().await;
    let create = "mutation($slug: String!) { createBoard(input: { slug: $slug, visibility: PRIVATE }) { board { slug } } }";
    for slug in ["zeta", "alpha"] {
        api.data(create, json!({ "slug": slug })).await;
    }
    let text = "query($first: Int, $after: String) { boards(first: $first, after: $after) { totalCount nodes { slug } pageInfo { hasNextPage endCursor } } board(slug: \"zeta\") { slug } }";
    let seen = api.data(text, json!({ "first": 2 })).await;
    assert_eq!(seen["boards"]["nodes"], json!([{ "slug": "alpha" }, { "slug": "race" }]));
    assert_eq!(
        (&seen["boards"]["totalCount"], &seen["boards"]["pageInfo"]["hasNextPage"]),
        (&json!(3), &json!(true))
    );
    let cursor = &seen["boards"]["pageInfo"]["endCursor"];
    let rest = api.data(text, json!({ "first": 2, "after": cursor })).await;
    assert_eq!(rest["boards"]["nodes"], json!([{ "slug": "zeta" }]));
    let public = api.ask(None, text, json!({})).await.body["data"].take();
    assert_eq!(
        (&public["boards"]["nodes"], &public["board"]),
        (&json!([{ "slug": "race" }]), &Value::Null)
    );
}

//! Members who were overtaken: within the circle of a webhook, and by those alone who rose.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, merge, remove, void};
use tests::api::moderation::{ban, lift};
use tests::clock::seconds_to_minute_ten;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::ERASE_MEMBER;
use tests::jobs::erasure::traces;
use tests::receiver::{Manner, Receiver, SETTINGS, change};
use tests::trial::fake_clock::FakeClock;

use super::circle::{KIND, order, submit, wait_for_order, wait_for_passes};

const CREATE: &str = "
    mutation($input: CreateWebhookInput!) { createWebhook(input: $input) { webhook { id } } }";

const UPDATE: &str = "
    mutation($input: UpdateWebhookInput!) { updateWebhook(input: $input) {
        webhook { name overtaken { window segment top members } }
    } }";

const ANONYMIZE: &str = "
    mutation($member: String!) {
        eraseMember(input: { member: $member, mode: ANONYMIZE }) { erased }
    }";

async fn start(sql: Sql, board: Value) -> Api {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start_with_settings(&deployment, &SETTINGS).await;
    api.create_board(board).await;
    api
}

async fn check_passes(sql: Sql) {
    let api = start(sql, json!({ "slug": "b", "policy": "BEST", "shards": 2 })).await;
    let deployment = api.deployment();
    submit(&api, &[("ann", 40), ("bob", 30), ("cid", 20), ("dan", 10)]).await;
    let of_top = Receiver::start(Manner::FailsHalf).await;
    let top = of_top.subscribe_circle(&api, json!({ "top": 3 })).await;
    let of_group = Receiver::start(Manner::FailsHalf).await;
    let group = json!({ "members": ["dan", "cid", "eve", "none"] });
    let group = of_group.subscribe_circle(&api, group).await;
    wait_for_order(deployment, &top, &["ann", "bob", "cid"]).await;
    wait_for_order(deployment, &group, &["cid", "dan"]).await;
    // A newcomer passes two of the first three, and one of them leaves the circle.
    submit(&api, &[("eve", 35)]).await;
    wait_for_order(deployment, &top, &["ann", "eve", "bob"]).await;
    wait_for_order(deployment, &group, &["eve", "cid", "dan"]).await;
    wait_for_passes(&of_top, &[("bob", &["eve"]), ("cid", &["eve"])]).await;
    wait_for_passes(&of_group, &[("cid", &["eve"]), ("dan", &["eve"])]).await;
    let told = of_top.data(KIND);
    let eve = json!({ "member": "eve", "score": "35", "rank": 2, "formerRank": null });
    let expected = json!({
        "board": "b", "window": "all", "segment": null,
        "period": { "label": "all", "startsAt": null, "endsAt": null },
        "member": "cid", "score": "20", "rank": 4, "formerRank": 3, "by": [eve], "byCount": 1,
    });
    assert_eq!(told[1], expected);
    let told = &of_group.data(KIND)[1];
    assert_eq!((&told["rank"], &told["formerRank"]), (&json!(5), &json!(4)), "{told}");
    // Those outside the circle pass each other; a better score without a pass is none.
    submit(&api, &[("dan", 25), ("ann", 50)]).await;
    wait_for_order(deployment, &group, &["eve", "dan", "cid"]).await;
    wait_for_passes(&of_group, &[("cid", &["eve"]), ("dan", &["eve"]), ("cid", &["dan"])]).await;
    submit(&api, &[("cid", 60), ("dan", 45)]).await;
    wait_for_order(deployment, &top, &["cid", "ann", "dan"]).await;
    let told = [
        ("bob", &["eve"][..]),
        ("cid", &["eve"]),
        ("ann", &["cid"]),
        ("eve", &["dan", "cid"]),
        ("bob", &["dan", "cid"]),
    ];
    wait_for_passes(&of_top, &told).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_are_overtaken_in_a_circle_are_told_on_sqlite() {
    check_passes(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_are_overtaken_in_a_circle_are_told_on_postgres() {
    check_passes(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_are_overtaken_in_a_circle_are_told_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_passes(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_score_that_is_taken_away_overtakes_anyone() {
    let api = start(Sql::any(), json!({ "slug": "b", "policy": "BEST" })).await;
    let deployment = api.deployment();
    submit(&api, &[("ann", 10), ("bob", 40), ("cid", 30), ("dan", 20), ("eve", 5)]).await;
    let receiver = Receiver::start(Manner::Takes).await;
    let id = receiver.subscribe_circle(&api, json!({ "top": 5 })).await;
    wait_for_order(deployment, &id, &["bob", "cid", "dan", "ann", "eve"]).await;
    // A void lets the best one fall to the last place but one.
    submit(&api, &[("ann", 50)]).await;
    wait_for_order(deployment, &id, &["ann", "bob", "cid", "dan", "eve"]).await;
    let newest = events(&api, "b", "ann").await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(void(&api, &newest).await.body.get("errors"), None);
    wait_for_order(deployment, &id, &["bob", "cid", "dan", "ann", "eve"]).await;
    remove(&api, "b", "bob").await;
    wait_for_order(deployment, &id, &["cid", "dan", "ann", "eve"]).await;
    ban(&api, "cid", None).await;
    wait_for_order(deployment, &id, &["dan", "ann", "eve"]).await;
    // The entry is another member's, at the same place.
    merge(&api, "dan", "fay").await;
    wait_for_order(deployment, &id, &["fay", "ann", "eve"]).await;
    api.data(ANONYMIZE, json!({ "member": "ann" })).await;
    let anonymous = tests::wait::until("ann has another key", async || {
        let order = order(deployment, &id).await;
        (order.len() == 3 && order[1].starts_with("erased-")).then(|| order[1].clone())
    })
    .await;
    submit(&api, &[("eve", 12)]).await;
    wait_for_order(deployment, &id, &["fay", "eve", &anonymous]).await;
    let first: &[&str] = &["ann"];
    // The erased member is named no more where it waits; all of these were taken before.
    let told = [("bob", first), ("cid", first), ("dan", first), (&anonymous[..], &["eve"][..])];
    wait_for_passes(&receiver, &told).await;
    lift(&api, "cid", None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_period_begins_with_an_empty_circle() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let clock = FakeClock::new(std::path::Path::new(&deployment.path("")), "server");
    // An hour does not end by itself while the test goes on.
    let ahead = seconds_to_minute_ten();
    clock.set(ahead);
    let mut command = deployment.api(&["serve"]);
    command.envs(SETTINGS).envs(clock.variables());
    let api = Api::start_command(&deployment, command).await;
    let windows = json!([{ "name": "hourly", "retain": 48 }]);
    let regions = json!(["region"]);
    let board = json!({ "slug": "b", "policy": "BEST", "windows": windows, "segmentBy": regions });
    api.create_board(board).await;
    let of_region = |key: &str| json!({ "key": key, "region": "eu" });
    api.upsert_members(json!(["ann", "bob"].map(of_region))).await;
    let receiver = Receiver::start(Manner::Takes).await;
    receiver.pass_over_times();
    let circle = json!({ "window": "hourly", "segment": "region:eu", "top": 10 });
    let id = receiver.subscribe_circle(&api, circle).await;
    submit(&api, &[("ann", 30), ("bob", 20), ("cid", 90)]).await;
    wait_for_order(&deployment, &id, &["ann", "bob"]).await;
    clock.set(ahead + 3600);
    wait_for_order(&deployment, &id, &[]).await;
    submit(&api, &[("ann", 10), ("bob", 50)]).await;
    wait_for_order(&deployment, &id, &["bob", "ann"]).await;
    submit(&api, &[("ann", 60)]).await;
    wait_for_passes(&receiver, &[("bob", &["ann"])]).await;
    let told = &receiver.data(KIND)[0];
    assert_eq!((&told["segment"], &told["window"]), (&json!("region:eu"), &json!("hourly")));
    assert!(told["period"]["endsAt"].is_string(), "{told}");
}

async fn check_erasure(sql: Sql) {
    let api = start(sql, json!({ "slug": "b", "policy": "BEST" })).await;
    let deployment = api.deployment();
    let receiver = Receiver::start(Manner::Takes).await;
    let top = receiver.subscribe_circle(&api, json!({ "top": 2 })).await;
    let group = json!({ "members": ["secret-ann", "bob", "cid"] });
    let group = receiver.subscribe_circle(&api, group).await;
    for id in [&top, &group] {
        change(&api, "pauseWebhook", id).await;
    }
    submit(&api, &[("secret-ann", 20), ("bob", 10)]).await;
    for id in [&top, &group] {
        wait_for_order(deployment, id, &["secret-ann", "bob"]).await;
    }
    submit(&api, &[("bob", 30)]).await;
    for id in [&top, &group] {
        wait_for_order(deployment, id, &["bob", "secret-ann"]).await;
    }
    submit(&api, &[("secret-ann", 40)]).await;
    for id in [&top, &group] {
        wait_for_order(deployment, id, &["secret-ann", "bob"]).await;
    }
    let erased = api.data(ERASE_MEMBER, json!({ "member": "secret-ann" })).await;
    assert_eq!(erased["eraseMember"]["erased"], true);
    wait_for_order(deployment, &top, &["bob"]).await;
    assert_eq!(traces(deployment, "secret-ann").await, [""; 0]);
    for id in [&top, &group] {
        change(&api, "resumeWebhook", id).await;
    }
    // The events about the member are gone, and the others name it no more.
    wait_for_passes(&receiver, &[("bob", &["none"]), ("bob", &["none"])]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erased_member_is_in_no_circle_on_sqlite() {
    check_erasure(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erased_member_is_in_no_circle_on_postgres() {
    check_erasure(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circle_is_asked_for_with_its_event_and_its_board() {
    let api = start(Sql::any(), json!({ "slug": "b", "windows": [{ "name": "daily" }] })).await;
    let refused = async |change: Value| {
        let mut input = json!({
            "name": "x", "url": "https://1.1.1.1/", "board": "b", "events": ["OVERTAKEN"],
        });
        input.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let body = api.query(CREATE, json!({ "input": input })).await;
        body["errors"][0]["extensions"]["argument"].as_str().unwrap_or("taken").to_owned()
    };
    let many: Vec<String> = (0..1001).map(|no| no.to_string()).collect();
    for (change, argument) in [
        (json!({}), "input.overtaken"),
        (json!({ "overtaken": {} }), "input.overtaken"),
        (json!({ "overtaken": { "top": 3, "members": ["a", "b"] } }), "input.overtaken"),
        (json!({ "overtaken": { "top": 3 }, "board": null }), "input.board"),
        (json!({ "overtaken": { "top": 3 }, "events": ["SCORE"] }), "input.events"),
        (json!({ "overtaken": { "top": 0 } }), "input.overtaken.top"),
        (json!({ "overtaken": { "top": 101 } }), "input.overtaken.top"),
        (json!({ "overtaken": { "members": ["a", "a"] } }), "input.overtaken.members"),
        (json!({ "overtaken": { "members": many } }), "input.overtaken.members"),
        (json!({ "overtaken": { "members": ["a", ""] } }), "input.overtaken.members[1]"),
        (json!({ "overtaken": { "top": 3, "window": "weekly" } }), "input.overtaken.window"),
        (json!({ "overtaken": { "top": 3, "window": "x" } }), "input.overtaken.window"),
        (json!({ "overtaken": { "top": 3, "segment": "a:b" } }), "input.overtaken.segment"),
        (json!({ "overtaken": { "top": 100, "window": "daily" } }), "taken"),
    ] {
        assert_eq!(refused(change.clone()).await, argument, "{change}");
    }
    let receiver = Receiver::start(Manner::Takes).await;
    let id = receiver.subscribe_circle(&api, json!({ "members": ["b", "a", "b"] })).await;
    let update = async |mut input: Value| {
        input["id"] = json!(id);
        let data = api.data(UPDATE, json!({ "input": input })).await;
        data["updateWebhook"]["webhook"].clone()
    };
    let all = json!({ "window": "all", "segment": null, "top": null, "members": ["a", "b"] });
    let told = update(json!({ "name": "new" })).await;
    assert_eq!((&told["name"], &told["overtaken"]), (&json!("new"), &all));
    let told = update(json!({ "overtaken": { "top": 7, "window": "daily" } })).await;
    assert_eq!(
        (&told["overtaken"]["top"], &told["overtaken"]["members"]),
        (&json!(7), &json!(null))
    );
    assert_eq!(update(json!({ "events": ["SCORE"] })).await["overtaken"], json!(null));
    let count = "SELECT CAST(COUNT(*) AS BIGINT) FROM webhook_circle";
    assert_eq!(api.deployment().number(count).await, 1, "the one that was taken");
    // A deleted board takes its circles along.
    api.delete_board("b").await;
    tests::wait::until("no circle is left", async || {
        (api.deployment().number(count).await == 0).then_some(())
    })
    .await;
}

//! Webhooks as an administrator makes, changes and deletes them.

use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::receiver::{Manner, Receiver, SETTINGS, change, webhook};
use tests::wait::until;

const CREATE: &str = "
    mutation($input: CreateWebhookInput!) { createWebhook(input: $input) { webhook { id } } }";

const UPDATE: &str = "
    mutation($input: UpdateWebhookInput!) { updateWebhook(input: $input) {
        webhook { name url events board { slug } }
    } }";

const ROTATE: &str = "
    mutation($input: RotateWebhookSecretInput!) { rotateWebhookSecret(input: $input) {
        secret webhook { formerSecretUntil }
    } }";

const LIST: &str = "
    query($first: Int!, $after: String) { webhooks(first: $first, after: $after) {
        nodes { id } pageInfo { hasNextPage endCursor }
    } }";

async fn start() -> Api {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start_with_settings(&deployment, &SETTINGS).await;
    api.create_board(json!({ "slug": "b" })).await;
    api
}

/// Creates a webhook; the code and the argument of the error, if it is refused.
async fn refusal(api: &Api, input: Value) -> Option<(Value, Value)> {
    let body = api.query(CREATE, json!({ "input": input })).await;
    let extensions = &body["errors"][0]["extensions"];
    let code = extensions["code"].clone();
    (!code.is_null()).then(|| (code, extensions["argument"].clone()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_would_reach_another_network_is_refused() {
    let api = start().await;
    let input = |url: &str, events: Value| json!({ "name": "x", "url": url, "events": events });
    for url in [
        "http://1.1.1.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "https://[::ffff:192.168.0.1]/",
        "https://100.64.1.1/",
        "https://224.0.0.1/",
        "ftp://1.1.1.1",
        "https://ann:secret@1.1.1.1/",
        "no address",
    ] {
        let refused = refusal(&api, input(url, json!(["SCORE"]))).await;
        assert_eq!(refused, Some((json!("BAD_USER_INPUT"), json!("input.url"))), "{url}");
    }
    let refused = refusal(&api, input("https://1.1.1.1/", json!([]))).await;
    assert_eq!(refused, Some((json!("BAD_USER_INPUT"), json!("input.events"))));
    let of_no_board = json!({
        "name": "x", "url": "https://1.1.1.1/", "events": ["SCORE"], "board": "none",
    });
    let refused = refusal(&api, of_no_board).await;
    assert_eq!(refused, Some((json!("NOT_FOUND"), json!("input.board"))));
    assert!(api.log().find("secret@").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_at_most_sixteen_webhooks_and_their_list_has_pages() {
    let api = start().await;
    let input = json!({ "name": "x", "url": "https://1.1.1.1/", "events": ["BOARD"] });
    for _ in 0..16 {
        assert_eq!(refusal(&api, input.clone()).await, None);
    }
    let refused = refusal(&api, input).await;
    assert_eq!(refused.map(|(code, _)| code), Some(json!("LIMIT_EXCEEDED")));
    let (mut ids, mut after) = (vec![], Value::Null);
    loop {
        let variables = json!({ "first": 7, "after": after });
        let mut page = api.data(LIST, variables).await["webhooks"].take();
        ids.extend(page["nodes"].as_array().unwrap().iter().map(|node| node["id"].to_string()));
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
        after = page["pageInfo"]["endCursor"].take();
    }
    assert_eq!(ids.len(), 16);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 16);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_secrets_sign_until_the_former_ones_end() {
    let api = start().await;
    let receiver = Receiver::start(Manner::Takes).await;
    let id = receiver.subscribe(&api, &["SCORE"], None).await;
    change(&api, "sendTestEvent", &id).await;
    receiver.wait_for(1).await;
    let rotate = async |seconds: i64| {
        let input = json!({ "id": id, "overlapSeconds": seconds });
        api.data(ROTATE, json!({ "input": input })).await["rotateWebhookSecret"].take()
    };
    let rotated = rotate(3600).await;
    assert!(rotated["webhook"]["formerSecretUntil"].is_string());
    // The answer may have been lost: to ask again takes no secret from the receiver.
    let rotated = rotate(1).await;
    let before = receiver.taken().len();
    // The receiver still knows the first secret alone.
    until("all three sign", async || {
        change(&api, "sendTestEvent", &id).await;
        let requests = receiver.requests();
        requests.iter().any(|request| request.signatures == 3).then_some(())
    })
    .await;
    receiver.wait_for(before + 1).await;
    receiver.know(rotated["secret"].as_str().unwrap());
    let before = receiver.taken().len();
    change(&api, "sendTestEvent", &id).await;
    receiver.wait_for(before + 1).await;
    let rotated = rotate(0).await;
    assert_eq!(rotated["webhook"]["formerSecretUntil"], Value::Null);
    receiver.learn(rotated["secret"].as_str().unwrap());
    until("the new one alone signs", async || {
        change(&api, "sendTestEvent", &id).await;
        receiver.requests().last().is_some_and(|request| request.signatures == 1).then_some(())
    })
    .await;
    let told = webhook(&api, &id).await;
    assert!(!told.to_string().contains("whsec_") && !api.log().contains("whsec_"));
    let acts: Vec<String> = api.deployment().column(
        "SELECT CONCAT(COALESCE(\"before\", ''), COALESCE(\"after\", '')) FROM audit_log WHERE act LIKE '%ebhook%'",
    ).await;
    assert_eq!(acts.len(), 4);
    assert!(acts.iter().all(|act| act.contains("laurel.score.v1") && !act.contains("whsec_")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_webhook_begins_anew_where_it_asks_for_more_and_a_deleted_one_is_gone() {
    let api = start().await;
    let receiver = Receiver::start(Manner::Takes).await;
    let id = receiver.subscribe(&api, &["BOARD"], None).await;
    let submit = async |score: i64| {
        let scores = json!([{ "member": "ann", "score": score }]);
        tests::api::submission::submit_durably(&api, "b", scores).await;
    };
    submit(1).await;
    change(&api, "pauseWebhook", &id).await;
    let input = json!({ "id": id, "name": "new", "events": ["SCORE"], "board": "b" });
    let data = api.data(UPDATE, json!({ "input": input })).await;
    let expected = json!({
        "name": "new", "url": receiver.url, "events": ["SCORE"], "board": { "slug": "b" },
    });
    assert_eq!(data["updateWebhook"]["webhook"], expected);
    submit(2).await;
    api.create_board(json!({ "slug": "later" })).await;
    assert_eq!(receiver.requests().len(), 0, "a paused webhook is sent nothing");
    change(&api, "resumeWebhook", &id).await;
    receiver.wait_for(1).await;
    change(&api, "sendTestEvent", &id).await;
    receiver.wait_for(2).await;
    let scores = receiver.data("laurel.score.v1");
    assert_eq!(scores.len(), 1);
    assert_eq!(scores[0]["score"], "2");
    assert_eq!(receiver.data("laurel.board.v1"), [] as [Value; 0]);
    let deleted = change(&api, "deleteWebhook", &id).await;
    assert_eq!(deleted["deletedWebhookId"], id);
    assert_eq!(webhook(&api, &id).await, Value::Null);
    for table in ["webhook", "webhook_lane", "outbox"] {
        let count = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM {table}");
        assert_eq!(api.deployment().number(&count).await, 0, "{table}");
    }
}

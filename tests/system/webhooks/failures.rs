//! Receivers that fail: for long, for good, by silence, by a redirect.

use axum::http::StatusCode;
use serde_json::json;
use tokio::net::TcpListener;

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::receiver::{Manner, Receiver, SETTINGS, change, webhook};
use tests::wait::until;

async fn start(more: &[(&str, &str)]) -> Api {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start_with_settings(&deployment, &[&SETTINGS[..], more].concat()).await;
    api.create_board(json!({ "slug": "b" })).await;
    api
}

async fn submit(api: &Api, scores: std::ops::Range<i64>) {
    for score in scores {
        let told = submit_durably(api, "b", json!([{ "member": "ann", "score": score }])).await;
        assert_eq!(told["accepted"], 1);
    }
}

async fn wait_until_failed(api: &Api, id: &str) -> String {
    until("the webhook failed", async || {
        let told = webhook(api, id).await;
        (told["state"] == "FAILED").then(|| told["reason"].as_str().unwrap().to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_fails_for_too_long_is_left_alone_and_resumed_where_it_was() {
    let api = start(&[("LAUREL_WEBHOOK_FAIL_SECONDS", "1")]).await;
    let receiver = Receiver::start(Manner::Answers(StatusCode::INTERNAL_SERVER_ERROR)).await;
    let id = receiver.subscribe(&api, &["SCORE", "BOARD"], None).await;
    submit(&api, 0..2).await;
    let reason = wait_until_failed(&api, &id).await;
    assert!(reason.contains("500 Internal Server Error"), "{reason}");
    assert!(api.log().contains("a webhook failed"), "{}", api.log());
    until("a metric tells it", async || {
        (metrics_of(&api).await["laurel_webhooks_failed"] == 1.0).then_some(())
    })
    .await;
    let told = webhook(&api, &id).await;
    assert!(told["failingSince"].is_string() && told["lastError"].is_string(), "{told}");
    let asked = receiver.requests().len();
    submit(&api, 2..4).await;
    api.create_board(json!({ "slug": "later" })).await;
    receiver.behave(Manner::Takes);
    assert_eq!(webhook(&api, &id).await["eventsWaiting"], 1);
    assert_eq!(receiver.requests().len(), asked, "a failed webhook is asked no more");
    assert_eq!(change(&api, "resumeWebhook", &id).await["webhook"]["state"], "ACTIVE");
    receiver.wait_for(5).await;
    let scores: Vec<_> = receiver.data("laurel.score.v1");
    let scores: Vec<_> = scores.iter().map(|data| &data["score"]).collect();
    assert_eq!(json!(scores), json!(["0", "1", "2", "3"]));
    let told = webhook(&api, &id).await;
    assert_eq!((&told["reason"], &told["failingSince"]), (&json!(null), &json!(null)));
    let metrics = metrics_of(&api).await;
    assert_eq!(metrics["laurel_webhook_deliveries_total{outcome=\"taken\"}"], 5.0);
    assert!(metrics["laurel_webhook_deliveries_total{outcome=\"failed\"}"] >= 2.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_gone_fails_at_once() {
    let api = start(&[]).await;
    let receiver = Receiver::start(Manner::Answers(StatusCode::GONE)).await;
    let id = receiver.subscribe(&api, &["SCORE"], None).await;
    submit(&api, 0..1).await;
    assert!(wait_until_failed(&api, &id).await.contains("410 Gone"));
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_not_followed() {
    let api = start(&[]).await;
    let receiver = Receiver::start(Manner::Redirects).await;
    let id = receiver.subscribe(&api, &["SCORE"], None).await;
    submit(&api, 0..1).await;
    until("the attempt failed", async || {
        let error = webhook(&api, &id).await["lastError"].take();
        error.as_str().is_some_and(|error| error.contains("307")).then_some(())
    })
    .await;
    receiver.behave(Manner::Takes);
    receiver.wait_for(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_hangs_or_closes_holds_up_no_other() {
    let api = start(&[]).await;
    let hangs = Receiver::start(Manner::Hangs).await;
    let hanging = hangs.subscribe(&api, &["SCORE"], None).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let closing = tokio::spawn(async move {
        loop {
            drop(listener.accept().await.unwrap())
        }
    });
    let mut closes = Receiver::start(Manner::Takes).await;
    closes.url = url;
    let closed = closes.subscribe(&api, &["SCORE"], None).await;
    let takes = Receiver::start(Manner::Takes).await;
    takes.subscribe(&api, &["SCORE"], None).await;
    submit(&api, 0..3).await;
    takes.wait_for(3).await;
    for id in [&hanging, &closed] {
        until("the attempt failed", async || {
            let told = webhook(&api, id).await;
            (told["lastError"].is_string() && told["state"] == "ACTIVE").then_some(())
        })
        .await;
    }
    hangs.behave(Manner::Takes);
    hangs.wait_for(3).await;
    closing.abort();
}

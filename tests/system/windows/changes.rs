//! Windows of a board, added and dropped beside players.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use ranking::window::Window;
use serde_json::json;

use tests::api::Api;
use tests::api::listing::check_board;
use tests::api::submission::{create_board, submit, submit_events};
use tests::api::window::{set_windows, wait_until_ready};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;
use tests::model::game::{Range, batches, every_game, seeded};
use tests::model::oracle::Oracle;
use tests::wait::until;

/// The keys in Redis of a window's standings and lists of periods.
async fn keys_of(deployment: &Arc<Deployment>, window: Window) -> Vec<String> {
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("laurel:*")
        .query_async(&mut deployment.redis().await)
        .await
        .unwrap();
    let of_window = format!(":{window}");
    let mut keys = keys;
    keys.retain(|key| key.contains(&of_window) && !key.contains(":stage:"));
    keys
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_added_under_load_has_all_events_from_before_and_since() {
    for (sql, shards) in Sql::all_with([4, 1]) {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let apis = futures::join!(Api::start(&deployment), Api::start(&deployment));
        let apis = [apis.0, apis.1];
        let mut rng = seeded();
        let games = every_game(&mut rng, shards, Range::Wide, 400);
        for mut game in games.into_iter().step_by(5) {
            let slug = game.board.slug.clone();
            game.board.windows = vec![Window::Weekly];
            create_board(&apis[0], &game.board).await;
            let batches = batches(&mut rng, &game.events);
            let (before, meanwhile) = batches.split_at(batches.len() / 2);
            for batch in before {
                submit_events(&apis[0], &game.board, batch).await;
            }
            let after = [Window::Hourly, Window::Daily, Window::Monthly];
            let names = ["hourly", "daily", "monthly"];
            let board = &game.board;
            let playing = stream::iter(meanwhile.iter().enumerate()).for_each_concurrent(
                4,
                |(number, batch)| {
                    let api = &apis[number % 2];
                    async move {
                        submit_events(api, board, batch).await;
                    }
                },
            );
            futures::join!(playing, set_windows(&apis[1], &slug, &names));
            wait_until_ready(&apis[0], &slug, &names).await;
            wait_until_ready(&apis[1], &slug, &names).await;
            game.board.windows = after.to_vec();
            let mut oracle = Oracle::new(game.board.clone());
            for event in &game.events {
                oracle.submit(event);
            }
            check_board(&apis[0], &oracle).await;
            check_board(&apis[1], &oracle).await;
        }
        assert_eq!(keys_of(&deployment, Window::Weekly).await, [""; 0]);
        check_diff(&deployment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_dropped_and_added_again_is_whole() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "daily" }] })).await;
    let at = "2026-01-02T03:04:05Z";
    let score = |member: &str, score: i64| json!([{ "member": member, "score": score, "at": at }]);
    submit(&api, "b", score("ann", 5)).await;
    set_windows(&api, "b", &[]).await;
    let ask = r#"{ board(slug: "b") { standings(of: { window: "daily", period: "2026-01-02" }) { size } } }"#;
    assert_eq!(api.ask(None, ask, json!({})).await.codes(), ["WINDOW_NOT_FOUND"]);
    until("its keys are gone", async || {
        keys_of(&deployment, Window::Daily).await.is_empty().then_some(())
    })
    .await;
    submit(&api, "b", score("bob", 7)).await;
    set_windows(&api, "b", &["daily"]).await;
    wait_until_ready(&api, "b", &["daily"]).await;
    submit(&api, "b", score("ann", 1)).await;
    let data = api
        .data(
            r#"
            { board(slug: "b") {
                periods(window: "daily") { nodes { label } }
                standings(of: { window: "daily", period: "2026-01-02" }) { top { nodes {
                    score member { key }
                } } }
            } }"#,
            json!({}),
        )
        .await;
    assert_eq!(
        data["board"]["standings"]["top"]["nodes"],
        json!([
            { "score": "7", "member": { "key": "bob" } },
            { "score": "6", "member": { "key": "ann" } },
        ])
    );
    assert_eq!(data["board"]["periods"]["nodes"], json!([{ "label": "2026-01-02" }]));
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_that_the_history_does_not_fit_into_is_dropped_again() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "maxScore": 10 })).await;
    // Up on one day and down on another, again and again: the one day's total exceeds the range.
    for (day, score) in [(1, 10), (2, -10), (1, 10), (2, -10)] {
        let at = format!("2026-01-0{day}T00:00:00Z");
        submit(&api, "b", json!([{ "member": "ann", "score": score, "at": at }])).await;
    }
    set_windows(&api, "b", &["daily"]).await;
    wait_until_ready(&api, "b", &[]).await;
    until("its keys are gone", async || {
        keys_of(&deployment, Window::Daily).await.is_empty().then_some(())
    })
    .await;
    let failed = "SELECT CAST(COUNT(*) AS BIGINT) FROM job WHERE state = 'FAILED'";
    assert_eq!(deployment.number(failed).await, 1);
    check_diff(&deployment);
}

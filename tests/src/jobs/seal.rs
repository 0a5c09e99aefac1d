//! Seals: how many periods a board retains, and when the others are sealed.

use ranking::window::Window;
use serde_json::{Value, json};

use crate::api::Api;
use crate::deployment::Deployment;
use crate::model::oracle::Board;
use crate::wait::until;

/// Sets the number of past periods that each window of a board retains, and changes nothing else.
pub async fn retain(api: &Api, board: &Board, retain: u32) {
    let window = |window: &Window| json!({ "name": window.to_string(), "retain": retain });
    let windows: Vec<Value> = board.windows.iter().map(window).collect();
    let told = api.update_board(json!({ "slug": board.slug, "windows": windows })).await;
    for window in told["windows"].as_array().unwrap() {
        assert_eq!(window["ready"], true);
        if window["name"] != "all" {
            assert_eq!(window["retain"], retain, "{told}");
        }
    }
}

/// Waits until every window of a board has sealed periods, and their keys are dropped.
pub async fn wait_until_dropped(api: &Api, slug: &str) {
    let select = format!("SELECT windows FROM board WHERE slug = '{slug}'");
    until("the board is sealed", async || {
        let rows: Vec<String> = api.deployment().column(&select).await;
        let windows: Value = serde_json::from_str(&rows[0]).unwrap();
        let mut windows = windows.as_array().unwrap().iter();
        let is_sealed = |window: &Value| {
            let before = |name: &str| window[name].as_i64();
            before("dropped_before_ms").is_some()
                && before("dropped_before_ms") == before("sealing_before_ms")
        };
        windows.all(is_sealed).then_some(())
    })
    .await;
}

/// Waits until every window of a board is sealed up to the present, and the process knows it.
pub async fn wait_until_sealed(api: &Api, board: &Board) {
    wait_until_dropped(api, &board.slug).await;
    // The process reads boards from SQL again after a moment.
    for window in &board.windows {
        until("the board is known to be sealed", async || {
            let label = match board.seasons.iter().min_by_key(|(_, start_ms, _)| start_ms) {
                Some((name, ..)) if *window == Window::Season => (*name).to_owned(),
                _ => window.period_at(400_000_000_000, &board.calendar()).unwrap().label,
            };
            let asked = json!({ "slug": board.slug, "window": window.to_string(), "period": label });
            let text = "
                query($slug: String!, $window: String!, $period: String!) {
                    board(slug: $slug) { standings(of: { window: $window, period: $period }) { source } }
                }";
            let data = api.data(text, asked).await;
            (data["board"]["standings"]["source"] == "ARCHIVE").then_some(())
        })
        .await;
    }
}

/// Has everything of a board sealed up to the present.
pub async fn seal(api: &Api, board: &Board) {
    if !board.windows.is_empty() {
        retain(api, board, 0).await;
        wait_until_sealed(api, board).await;
    }
}

/// Checks that the sizes that SQL keeps of sealed standings are the numbers of their entries.
pub async fn check_sizes(deployment: &Deployment) {
    let wrong = "SELECT CAST(COUNT(*) AS BIGINT) FROM sealed_period WHERE size <>
        (SELECT COUNT(*) FROM sealed_entry WHERE standings_no = sealed_period.no)";
    assert_eq!(deployment.number(wrong).await, 0);
}

/// The keys in Redis of standings and lists of periods of all windows except `all`.
pub async fn keys_left(deployment: &Deployment) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS")
        .arg("laurel:*")
        .query_async(&mut deployment.redis().await)
        .await
        .unwrap();
    keys.retain(|key| {
        (key.contains("}:z:") && !key.contains(":all:")) || key.contains("}:periods:")
    });
    keys
}

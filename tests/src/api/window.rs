//! A board's windows, set and waited for.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::Api;
use crate::wait::until;

const WINDOWS: &str = "query($slug: String!) { board(slug: $slug) { windows { name ready } } }";

/// Sets the windows of a board besides "all".
pub async fn set_windows(api: &Api, slug: &str, windows: &[&str]) {
    let windows: Vec<Value> = windows.iter().map(|name| json!({ "name": name })).collect();
    api.update_board(json!({ "slug": slug, "windows": windows })).await;
}

/// Waits until a board has just these windows besides "all", all of them ready.
pub async fn wait_until_ready(api: &Api, slug: &str, windows: &[&str]) {
    let expected: BTreeSet<&str> = windows.iter().copied().chain(["all"]).collect();
    until("the windows are ready", async || {
        let data = api.data(WINDOWS, json!({ "slug": slug })).await;
        let windows = data["board"]["windows"].as_array().unwrap();
        let names: BTreeSet<&str> =
            windows.iter().map(|window| window["name"].as_str().unwrap()).collect();
        (names == expected && windows.iter().all(|window| window["ready"] == true)).then_some(())
    })
    .await;
}

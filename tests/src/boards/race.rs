//! A board of five members.

use std::sync::Arc;

use serde_json::json;

use crate::api::Api;
use crate::api::submission::submit_durably;
use crate::deployment::{Deployment, Redis, Sql};

/// A deployment with the board `race`: ann 30.00, bob and cy 20.00 (cy first), dee 10.00, eve 5.50.
pub async fn race() -> (Arc<Deployment>, Api) {
    race_with_settings(&[]).await
}

/// As [`race`], on a server with settings.
pub async fn race_with_settings(settings: &[(&str, &str)]) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let api = Api::start_with_settings(&deployment, settings).await;
    let windows = json!([{ "name": "daily" }]);
    let input = json!({
        "slug": "race", "decimals": 2, "maxScore": "9999999.99", "windows": windows, "shards": 2,
    });
    assert_eq!(api.create_board(input).await["id"], "board:race.1");
    let score = |member: &str, score: &str, minute: u32| {
        json!({
            "member": member, "score": score, "at": format!("2025-09-03T10:{minute:02}:00Z"),
            "eventId": member,
        })
    };
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

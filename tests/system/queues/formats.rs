//! Messages in every format, over real brokers.

use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::queue::{Queue, Sent};

use super::game::{kinds, run_once};

#[tokio::test]
async fn a_score_is_the_same_event_in_each_format() {
    for kind in kinds() {
        let deployment = Deployment::new(Sql::any(), Redis::Private).await;
        let api = Api::start(&deployment).await;
        api.create_board(json!({ "slug": "b", "policy": "SUM", "windows": [] })).await;
        let queue = Queue::start(kind, &deployment).await;
        let (at, json_type) = ("2026-01-02T03:04:05.000Z", "application/cloudevents+json");
        let item = |fields: Value| {
            let mut item = json!({ "member": "ann", "score": "12" });
            let all = item.as_object_mut().unwrap();
            all.extend(fields.as_object().unwrap().clone());
            item
        };
        let event = |data: Value| {
            json!({
                "specversion": "1.0", "type": "score", "source": "/games", "id": "1", "time": at,
                "data": data,
            })
        };
        let attributes = ["specversion=1.0", "type=score", "source=/games", "id=2"];
        let mut attributes: Vec<(&str, String)> = attributes
            .iter()
            .map(|pair| pair.split_once('=').map(|(name, value)| (name, value.to_owned())).unwrap())
            .collect();
        attributes.push(("time", at.to_owned()));
        let plain = item(json!({ "board": "b", "at": at, "eventId": "o" }));
        let messages = [
            Sent::from(plain.to_string()),
            Sent::from(json!([item(json!({ "at": at, "eventId": "a", "score": 12 }))]).to_string()),
            Sent {
                payload: event(item(json!({}))).to_string(),
                content_type: Some(json_type),
                ..Sent::default()
            },
            Sent {
                payload: item(json!({})).to_string(),
                content_type: Some("application/json"),
                attributes,
            },
        ];
        queue.publish(&messages).await;
        // Sent twice, each counts once.
        queue.publish(&messages).await;
        let mut command = queue.ingest(&deployment, api.url(), api.token());
        command.args(["--board", "b"]);
        let told = run_once(&deployment, command).await;
        assert!(told.contains("settled 8 messages with 4 scores applied, 4 duplicate"), "{told}");
        assert_eq!(queue.letters().await, []);
        let select = "SELECT event_id FROM score_event WHERE score = 12 AND at_ms = 1767323045000 ORDER BY event_id";
        let ids: Vec<String> = deployment.column(select).await;
        assert_eq!(ids, ["/games 1", "/games 2", "a", "o"]);
    }
}

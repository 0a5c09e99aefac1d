//! Amendments of members with long histories and many entries: a step holds few of them at a time.

use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use tests::api::submission::submit_durably;
use tests::attack::Attacked;
use tests::documents::{RESET_BOARD, RESET_PERIOD};

/// Members, and the events of each of them, 43 minutes apart.
const MEMBERS: usize = 6;
const EVENTS: usize = 5000;

/// The most steps of an amendment.
const STEPS_MAX: usize = 10;

/// A board with an event of each member, and many more events of theirs in SQL.
async fn build(server: &Attacked) {
    let windows = ["daily", "hourly", "weekly"].map(|name| json!({ "name": name }));
    server.api.create_board(json!({ "slug": "b", "windows": windows })).await;
    let at = "2024-01-01T00:00:00Z";
    let score = |no| json!({ "member": format!("m{no}"), "score": 1, "at": at });
    let told = submit_durably(&server.api, "b", (0..MEMBERS).map(score).collect()).await;
    assert_eq!(told["accepted"], MEMBERS);
    let insert = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {EVENTS}) \
            INSERT INTO score_event (partition, seq, event_index, board_no, generation, member, kind, score, at_ms, at_sent, segments, salt) \
            SELECT partition, seq, event_index + 100 * i, board_no, generation, member, kind, i, at_ms + 2592000 * i, at_sent, segments, salt \
            FROM score_event, n"
    );
    let db = server.api.deployment().sql().await;
    let insert = Statement::from_string(db.get_database_backend(), insert);
    db.execute_raw(insert).await.unwrap();
    db.close().await.unwrap();
}

/// Sends the steps of an amendment, each within the limits; returns the sum of what they count.
async fn steps(server: &Attacked, document: &str, mut input: Value, counted: &str) -> u64 {
    let mut count = 0;
    for step in 0..STEPS_MAX {
        let asking = server.api.data(document, json!({ "input": input }));
        let (mut data, spent) = server.measure(asking).await;
        let told = data.as_object_mut().unwrap().values_mut().next().unwrap().take();
        server.check(&format!("step {step} that counts what is {counted}"), spent);
        count += told[counted].as_u64().unwrap();
        if told["hasMore"] == false {
            return count;
        }
        input["after"] = told["endCursor"].clone();
    }
    panic!("{STEPS_MAX} steps did not end: {count}");
}

#[tokio::test]
async fn amendments_hold_few_long_histories_at_a_time() {
    let server = Attacked::start().await;
    build(&server).await;
    let day = json!({ "board": "b", "of": { "window": "daily", "period": "2024-03-01" } });
    let of_day = format!(
        "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event WHERE at_ms >= {0} AND at_ms < {0} + 86400000",
        1_709_251_200_000_i64
    );
    let of_day = server.api.deployment().number(&of_day).await as u64;
    assert!(of_day > 100, "{of_day}");
    assert_eq!(steps(&server, RESET_PERIOD, day.clone(), "voided").await, of_day);
    assert_eq!(steps(&server, RESET_PERIOD, day, "voided").await, 0);
    let board = json!({ "board": "b" });
    assert_eq!(steps(&server, RESET_BOARD, board, "removed").await, MEMBERS as u64);
}

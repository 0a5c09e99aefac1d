//! Late events of members who submit themselves: one of them may change many standings.

use serde_json::json;

use tests::attack::Attacked;
use tests::attack::late_events::{SUBMIT, late, months, years};

/// The late scores of a request that write as many standings as it may: each writes 2,594.
const MOST: usize = 6;

#[tokio::test]
async fn a_members_late_events_cost_little() {
    let server = Attacked::start_with(&[]).await;
    let api = &server.api;
    // A board whose owner allows any delay.
    let mut any = years("any");
    any["maxLatenessSeconds"] = json!(2_000_000_000);
    for input in [months("roll"), years("year"), any] {
        api.create_board(input).await;
    }
    let token = api.deployment().new_token(&["--scope", "submit", "--member", "ann"]).await;
    for (board, events) in
        [("roll", 300), ("year", 50), ("any", MOST), ("any", MOST + 1), ("any", 1000)]
    {
        let submitting = api.ask(Some(&token), SUBMIT, late(board, events));
        let (answer, spent) = server.measure(submitting).await;
        let what = format!("{events} late events on {board}");
        server.check(&what, spent);
        let told = &answer.body["data"]["submitScores"];
        match board {
            "any" if events == MOST => assert_eq!(told["accepted"], events, "{:?}", answer.body),
            "any" => assert_eq!(answer.codes(), ["LIMIT_EXCEEDED"], "{:?}", answer.body),
            _ => assert_eq!(told["rejected"], events, "{what}: by default they are too late"),
        }
    }
    // Some at once are written one after the other, and all count.
    let at_once = (0..4).map(|_| api.ask(Some(&token), SUBMIT, late("any", MOST)));
    let (answers, spent) = server.measure(futures::future::join_all(at_once)).await;
    server.check("late events of several requests", spent);
    for answer in answers {
        assert_eq!(answer.body["data"]["submitScores"]["accepted"], MOST, "{:?}", answer.body);
    }
    // A score of now counts, also on a board of many windows.
    let now = json!({ "i": { "board": "year", "scores": [{ "member": "ann", "score": 1 }] } });
    let answer = api.ask(Some(&token), SUBMIT, now).await;
    assert_eq!(answer.body["data"]["submitScores"]["accepted"], 1, "{:?}", answer.body);
}

//! Late events of members who submit themselves: one of them may change many standings.

use entity::sql::begin;
use futures::future::join;
use serde_json::json;

use tests::attack::Attacked;
use tests::attack::late_events::{MOST, SUBMIT, late, lenient, months, years};
use tests::wait::until;

#[tokio::test]
async fn a_members_late_events_cost_little() {
    let server = Attacked::start_with(&[]).await;
    let api = &server.api;
    for input in [months("roll"), years("year"), lenient("any")] {
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

#[tokio::test]
async fn late_scores_wait_for_no_other_ones_that_wait_for_sql() {
    let server = Attacked::start_with(&[]).await;
    let api = &server.api;
    api.create_board(lenient("any")).await;
    let db = api.deployment().sql().await;
    let locked = begin(&db).await.unwrap();
    let mut durable = late("any", MOST);
    durable["i"]["ack"] = json!("DURABLE");
    let first = api.ask(Some(api.token()), SUBMIT, durable);
    let second = async {
        until("the first ones are ranked", async || {
            let text = "{ board(slug: \"any\") { standings { size } } }";
            let answer = api.ask(None, text, json!({})).await;
            (answer.body["data"]["board"]["standings"]["size"] == 1).then_some(())
        })
        .await;
        let answer = api.ask(Some(api.token()), SUBMIT, late("any", MOST)).await;
        locked.rollback().await.unwrap();
        answer
    };
    let (first, second) = join(first, second).await;
    for answer in [first, second] {
        assert_eq!(answer.body["data"]["submitScores"]["accepted"], MOST, "{:?}", answer.body);
    }
    db.close().await.unwrap();
}

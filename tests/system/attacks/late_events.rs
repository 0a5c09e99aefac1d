//! Late events of members who submit themselves: one of them may change many standings.

use serde_json::{Value, json};

use tests::attack::Attacked;

const SUBMIT: &str = "mutation($i:SubmitScoresInput!){submitScores(input:$i){accepted rejected results{error{code}}}}";

/// Windows of about a year, each of which an event stays in for all of its periods.
const YEAR_LONG: [&str; 8] = ["360d", "361d", "362d", "363d", "364d", "365d", "366d", "52w"];

/// The late scores of a request that write as many standings as it may: each writes 2,594.
const MOST: usize = 6;

/// Scores of one member on so many days from 1971 on.
fn late(board: &str, events: usize) -> Value {
    let score = |day: usize| {
        let at =
            format!("{}-{:02}-{:02}T00:00:00Z", 1971 + day / 336, 1 + day / 28 % 12, 1 + day % 28);
        json!({ "member": "ann", "score": 1, "at": at })
    };
    json!({ "i": { "board": board, "scores": (0..events).map(score).collect::<Vec<_>>() } })
}

#[tokio::test]
async fn a_members_late_events_cost_little() {
    let server = Attacked::start_with(&[]).await;
    let api = &server.api;
    let windows =
        |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
    let (some, year) = (windows(&["daily", "7d", "30d", "90d"]), windows(&YEAR_LONG));
    for input in [
        json!({ "slug": "roll", "selfSubmit": true, "windows": some, "tieBreak": "MEMBER" }),
        json!({ "slug": "year", "selfSubmit": true, "windows": year, "tieBreak": "MEMBER" }),
        // A board whose owner allows any delay.
        json!({ "slug": "any", "selfSubmit": true, "windows": year, "tieBreak": "MEMBER", "maxLatenessSeconds": 2_000_000_000 }),
    ] {
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
    // A score of now counts, also on a board of many windows.
    let now = json!({ "i": { "board": "year", "scores": [{ "member": "ann", "score": 1 }] } });
    let answer = api.ask(Some(&token), SUBMIT, now).await;
    assert_eq!(answer.body["data"]["submitScores"]["accepted"], 1, "{:?}", answer.body);
}

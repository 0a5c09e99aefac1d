//! Late scores on boards with rolling windows: each counts in as many periods as a window is long.

use serde_json::{Value, json};

use crate::attack::request::Attack;

/// A submission that says which of its scores are refused.
pub const SUBMIT: &str = "mutation($i:SubmitScoresInput!){submitScores(input:$i){accepted rejected results{error{code}}}}";

/// The member whose scores they are.
pub const LATE_MEMBER: &str = "ann";

/// The late scores of a request that write as many standings as it may on a board of [`years`]:
/// each writes 2,594.
pub const MOST: usize = 6;

/// Windows of about a year, each of which an event stays in for all of its periods.
const YEAR_LONG: [&str; 8] = ["360d", "361d", "362d", "363d", "364d", "365d", "366d", "52w"];

/// A board where members submit themselves, with windows of up to three months.
pub fn months(slug: &str) -> Value {
    board(slug, &["daily", "7d", "30d", "90d"])
}

/// One with eight windows of about a year.
pub fn years(slug: &str) -> Value {
    board(slug, &YEAR_LONG)
}

/// The same, whose owner allows any delay.
pub fn lenient(slug: &str) -> Value {
    let mut board = years(slug);
    board["maxLatenessSeconds"] = json!(2_000_000_000);
    board
}

fn board(slug: &str, windows: &[&str]) -> Value {
    let windows: Vec<Value> = windows.iter().map(|name| json!({ "name": name })).collect();
    json!({ "slug": slug, "selfSubmit": true, "windows": windows, "tieBreak": "MEMBER" })
}

/// The variables of a submission: scores of one member on so many days from 1971 on.
pub fn late(board: &str, events: usize) -> Value {
    let score = |day: usize| {
        let at =
            format!("{}-{:02}-{:02}T00:00:00Z", 1971 + day / 336, 1 + day / 28 % 12, 1 + day % 28);
        json!({ "member": LATE_MEMBER, "score": 1, "at": at })
    };
    json!({ "i": { "board": board, "scores": (0..events).map(score).collect::<Vec<_>>() } })
}

/// The submissions of the report, on boards `roll` and `year`, and one on `lenient` that writes as
/// many standings as it may.
pub fn submissions() -> Vec<Attack> {
    let attack = |(board, events): (&str, usize)| {
        Attack::new(&format!("{events} late events on {board}"), SUBMIT, late(board, events))
            .answered()
            .as_admin()
    };
    [("roll", 300), ("year", 50), ("lenient", MOST)].map(attack).into()
}

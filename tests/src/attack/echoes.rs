//! Input that errors or answers repeat: short questions with long answers.

use serde_json::{Value, json};

use crate::attack::request::Attack;
use crate::model::schema::{Hole, Schema};

/// A text of one letter this long must not come back from an argument: errors show its beginning.
pub const SHOWN_MAX: usize = 200;

/// A field under so many aliases.
fn aliases(count: usize, field: &str) -> String {
    (0..count).map(|number| format!("a{number}:{field} ")).collect()
}

/// Each scalar in an argument of the schema, given a text of this length.
pub fn texts(schema: &Schema, length: usize) -> Vec<Attack> {
    let text = json!("x".repeat(length));
    let given = |hole: &Hole| given(hole, &format!("{length} B"), &text);
    holes(schema).iter().map(given).collect()
}

/// Each scalar in an argument of the schema, given what is long in other ways.
pub fn oddities(schema: &Schema) -> Vec<Attack> {
    let long = "x".repeat(2000);
    let mut attacks = vec![];
    for hole in holes(schema) {
        for (what, value) in [
            ("text that grows", json!("\u{7f}".repeat(2000))),
            ("a list", json!(vec![0; 1000])),
            ("an object", json!({ (long.clone()): long })),
        ] {
            attacks.push(given(&hole, what, &value));
        }
        // No value of JSON's has so many digits.
        let body = format!(
            "{{\"query\":{},\"variables\":{{\"v\":{}}}}}",
            json!(hole.document),
            "9".repeat(2000)
        );
        attacks
            .push(Attack::raw(&format!("{}: 2,000 digits", hole.what), body).bounded().as_admin());
        let (_, fields) = hole.document.split_once("){").unwrap();
        let operation = if hole.document.starts_with("mutation") { "mutation{" } else { "query{" };
        let query = format!("{operation}{}", fields.replace("$v", &format!("\"{long}\"")));
        let what = format!("{}: 2,000 B in the query", hole.what);
        attacks.push(Attack::query(&what, &query).bounded().as_admin());
    }
    attacks
}

fn holes(schema: &Schema) -> Vec<Hole> {
    let holes = schema.holes();
    assert!(holes.len() > 80, "only {} holes: has the schema shrunk?", holes.len());
    holes
}

fn given(hole: &Hole, what: &str, value: &Value) -> Attack {
    let what = format!("{}: {what}", hole.what);
    Attack::new(&what, &hole.document, json!({ "v": value })).bounded().as_admin()
}

/// The rows of the report, on the board `big`, whose windows are "all" and "daily".
pub fn repeated() -> Vec<Attack> {
    let mut attacks = vec![];
    let standings = |arguments: &str, field: &str| {
        format!("board(slug:\"big\"){{standings({arguments}){{{field}}}}}")
    };
    for length in [1_500_000, 400_000, 2000, 1000] {
        let text = "x".repeat(length);
        for (count, letter) in [(1000, "x"), (100, "x"), (20, "\u{7f}")] {
            let field = standings("window:\"daily\",period:$p", "size");
            attacks.push(Attack::new(
                &format!("a period of {length} B, {count} times"),
                &format!("query($p:String){{{}}}", aliases(count, &field)),
                json!({ "p": letter.repeat(length) }),
            ));
        }
        for count in [10_000, 100] {
            let field = aliases(count, "rank(method:$m)");
            let rank = standings("window:\"all\"", &format!("rank(member:\"m00000\"){{{field}}}"));
            attacks.push(Attack::new(
                &format!("an enum of {length} B, {count} times"),
                &format!("query($m:RankMethod){{{rank}}}"),
                json!({ "m": text }),
            ));
            let field = aliases(count, "segment");
            attacks.push(
                Attack::new(
                    &format!("a segment of {length} B, {count} times"),
                    &format!("query($s:String){{{}}}", standings("segment:$s", &field)),
                    json!({ "s": format!("region:{text}") }),
                )
                .answered(),
            );
            let field = aliases(count, "member");
            attacks.push(
                Attack::new(
                    &format!("a rejected member of {length} B, {count} times"),
                    &format!(
                        "mutation($i:SubmitScoresInput!){{submitScores(input:$i){{results{{{field}}}}}}}"
                    ),
                    json!({ "i": { "board": "big", "scores": [{ "member": text, "score": 1 }] } }),
                )
                .bounded()
                .as_admin(),
            );
        }
        attacks.push(Attack::new(
            &format!("a list for a time, {length} B"),
            &format!("query($m:DateTime){{{}}}", aliases(100, &standings("at:$m", "size"))),
            json!({ "m": vec![0; length / 2] }),
        ));
        attacks.push(Attack::new(
            &format!("{length} B for a percentile"),
            &format!(
                "query($p:Float!){{{}}}",
                standings("window:\"all\"", &aliases(100, "scoreFor(percentile:$p)"))
            ),
            json!({ "p": text }),
        ));
    }
    for percentile in ["1e300", "-1e300", "1.7976931348623157e308"] {
        let field = aliases(100, &format!("scoreFor(percentile:{percentile})"));
        let query = format!("{{{}}}", standings("window:\"all\"", &field));
        attacks.push(Attack::query(&format!("the percentile {percentile}"), &query));
    }
    // Two hundred scores, each of them rejected.
    let scores = |member: &str, score: &str| {
        let score = json!({ "member": member, "score": score, "eventId": member });
        json!({ "i": { "board": "big", "scores": vec![score; 200] } })
    };
    let rejected =
        "mutation($i:SubmitScoresInput!){submitScores(input:$i){results{member error{message}}}}";
    for (what, variables) in [
        ("200 members of 1,000 B are rejected", scores(&"x".repeat(1000), "1")),
        ("200 scores of 1,000 digits are rejected", scores("m00000", &"9".repeat(1000))),
    ] {
        attacks.push(Attack::new(what, rejected, variables).answered().as_admin());
    }
    attacks
}

/// True if a text that was sent came back at a length that no error needs.
pub fn is_repeated(answer: &[u8]) -> bool {
    answer.chunk_by(|a, b| a == b).any(|run| run[0] == b'x' && run.len() > SHOWN_MAX)
}

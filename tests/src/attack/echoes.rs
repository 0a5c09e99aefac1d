//! Input that errors or answers repeat: short questions with long answers.

use serde_json::{Value, json};

use crate::attack::request::{Attack, aliases};
use crate::model::schema::{Hole, Schema};

/// A text of one letter this long must not come back from an argument: errors show its beginning.
pub const SHOWN_MAX: usize = 200;

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
        let digits = hole.variables(&json!("DIGITS")).to_string();
        let body = format!(
            "{{\"query\":{},\"variables\":{}}}",
            json!(hole.document),
            digits.replace("\"DIGITS\"", &"9".repeat(2000))
        );
        attacks
            .push(Attack::raw(&format!("{}: 2,000 digits", hole.what), body).bounded().as_admin());
        let (begin, fields) = hole.document.split_once("){").unwrap();
        let (operation, _) = begin.split_once('(').unwrap();
        let query = format!("{operation}{{{}", fields.replace("$v", &format!("\"{long}\"")));
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
    Attack::new(&what, &hole.document, hole.variables(value)).bounded().as_admin()
}

/// Fields of the all-time standings of the board `big`, or of those that a choice names.
fn standings(of: &str, fields: &str) -> String {
    format!("board(slug:\"big\"){{standings(of:{{{of}}}){{{fields}}}}}")
}

/// The rows of the report, on the board `big`, whose windows are "all" and "daily".
pub fn repeated() -> Vec<Attack> {
    let mut attacks = vec![];
    for length in [1_500_000, 400_000, 2000, 1000] {
        for count in [10_000, 100] {
            attacks.extend(texts_under_aliases(length, count));
        }
        let grows = "\u{7f}".repeat(length);
        let field = aliases(20, &standings("window:\"daily\",period:$p", "size"));
        attacks.push(Attack::new(
            &format!("a period of {length} signs that grow, 20 times"),
            &format!("query($p:String){{{field}}}"),
            json!({ "p": grows }),
        ));
        attacks.push(Attack::new(
            &format!("a list for a time, {length} B"),
            &format!("query($m:DateTime){{{}}}", aliases(100, &standings("at:$m", "size"))),
            json!({ "m": vec![0; length / 2] }),
        ));
    }
    for percentile in ["1e300", "-1e300", "1.7976931348623157e308"] {
        let field = aliases(100, &format!("scoreFor(percentile:{percentile})"));
        let query = format!("{{{}}}", standings("window:\"all\"", &field));
        attacks.push(Attack::query(&format!("the percentile {percentile}"), &query));
    }
    attacks.extend(rejected());
    attacks
}

/// A text in each place that repeats it, under so many aliases.
fn texts_under_aliases(length: usize, count: usize) -> Vec<Attack> {
    let text = "x".repeat(length);
    let of_text = format!("of {length} B, {count} times");
    let of_all = |field: &str| standings("window:\"all\"", &aliases(count, field));
    let period = aliases(count, &standings("window:\"daily\",period:$p", "size"));
    let methods = aliases(count, "rank(method:$m)");
    let rank = standings("window:\"all\"", &format!("entry(member:\"m00000\"){{{methods}}}"));
    let segments = standings("segment:$s", &aliases(count, "segment"));
    let members = aliases(count, "member");
    let score = json!({ "board": "big", "scores": [{ "member": text, "score": 1 }] });
    vec![
        Attack::new(
            &format!("a period {of_text}"),
            &format!("query($p:String){{{period}}}"),
            json!({ "p": text }),
        ),
        Attack::new(
            &format!("an enum {of_text}"),
            &format!("query($m:RankMethod){{{rank}}}"),
            json!({ "m": text }),
        ),
        Attack::new(
            &format!("a percentile {of_text}"),
            &format!("query($p:Float!){{{}}}", of_all("scoreFor(percentile:$p)")),
            json!({ "p": text }),
        ),
        Attack::new(
            &format!("a segment {of_text}"),
            &format!("query($s:String){{{segments}}}"),
            json!({ "s": format!("region:{text}") }),
        )
        .answered(),
        Attack::new(
            &format!("a rejected member {of_text}"),
            &format!(
                "mutation($i:SubmitScoresInput!){{submitScores(input:$i){{results{{{members}}}}}}}"
            ),
            json!({ "i": score }),
        )
        .bounded()
        .as_admin(),
    ]
}

/// Two hundred scores, each of them rejected.
fn rejected() -> [Attack; 2] {
    let text =
        "mutation($i:SubmitScoresInput!){submitScores(input:$i){results{member error{message}}}}";
    let attack = |what: &str, member: &str, score: &str| {
        let score = json!({ "member": member, "score": score, "eventId": member });
        let input = json!({ "board": "big", "scores": vec![score; 200] });
        Attack::new(what, text, json!({ "i": input })).answered().as_admin()
    };
    [
        attack("200 members of 1,000 B are rejected", &"x".repeat(1000), "1"),
        attack("200 scores of 1,000 digits are rejected", "m00000", &"9".repeat(1000)),
    ]
}

/// True if a text that was sent came back at a length that no error needs.
pub fn is_repeated(answer: &[u8]) -> bool {
    answer.chunk_by(|a, b| a == b).any(|run| run[0] == b'x' && run.len() > SHOWN_MAX)
}

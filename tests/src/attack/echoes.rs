//! Input that errors or answers repeat: short questions with long answers.

use serde_json::{Value, json};

use crate::attack::request::Attack;
use crate::model::schema::Schema;

/// Lengths of texts: beyond a body, within a body, and within a string.
const LENGTHS: [usize; 3] = [1_000_000, 400_000, 2000];

/// A text of one letter this long must not come back from an argument: errors show its beginning.
pub const SHOWN_MAX: usize = 200;

/// A field under so many aliases.
fn aliases(count: usize, field: &str) -> String {
    (0..count).map(|number| format!("a{number}:{field} ")).collect()
}

/// Each scalar in an argument of the schema, given a long text, a list, and a long number.
pub fn arguments(schema: &Schema) -> Vec<Attack> {
    let mut attacks = vec![];
    let holes = schema.holes();
    assert!(holes.len() > 80, "only {} holes: has the schema shrunk?", holes.len());
    for hole in holes {
        for length in LENGTHS {
            attacks.push(given(&hole.what, &hole.document, json!("x".repeat(length))));
        }
        for value in [
            json!("\u{7f}".repeat(2000)),
            json!(vec![0; 1000]),
            json!({ ("x".repeat(2000)): "x".repeat(2000) }),
        ] {
            attacks.push(given(&hole.what, &hole.document, value));
        }
        let digits = format!("{{\"v\":{}}}", "9".repeat(2000));
        let query = json!(hole.document);
        let body = format!("{{\"query\":{query},\"variables\":{digits}}}");
        attacks.push(Attack::raw(&format!("{}: 2000 digits", hole.what), body).bounded());
        // A long text that stands in the document itself.
        let (_, fields) = hole.document.split_once("){").unwrap();
        let operation = if hole.document.starts_with("mutation") { "mutation{" } else { "query{" };
        let text = format!("\"{}\"", "x".repeat(2000));
        let query = format!("{operation}{}", fields.replace("$v", &text));
        attacks
            .push(Attack::query(&format!("{}: 2000 B in the query", hole.what), &query).bounded());
    }
    attacks.into_iter().map(Attack::as_admin).collect()
}

fn given(what: &str, document: &str, value: Value) -> Attack {
    let shown: String = value.to_string().chars().take(12).collect();
    let attack = Attack::new(&format!("{what}: {shown}…"), document, json!({ "v": value }));
    // Beyond all limits it must be refused; a shorter text may be an odd title.
    if attack.is_long() { attack } else { attack.bounded() }
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

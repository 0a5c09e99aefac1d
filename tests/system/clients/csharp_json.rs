//! The reader and the writer of JSON of the C# client, against serde_json.

use serde_json::Value;

use tests::servers::mono::{Program, compile};

/// Texts that are JSON.
const ACCEPTED: [&str; 14] = [
    "null",
    " [ true , false ,\t{ } , [ ] ] ",
    "0",
    "-0.5",
    "[1, -7, 2147483648, 9007199254740993, -9223372036854775808]",
    "[1e300, 1E+21, 1.5e-3, 0.25e1, 33.333333333333336]",
    r#""""#,
    r#""a\"\\\/\b\f\n\r\t\u0041\u00e4\u20AC""#,
    r#""ä € 中 🏆""#,
    r#""\ud83c\udfc6""#,
    r#""\u0000\u001f\u007f\u2028""#,
    r#"{"a":{"b":[{"c":null}]},"":1}"#,
    r#"{"data":{"board":{"standings":{"top":{"nodes":[{"rank":1,"score":"4.20"}]}}}}}"#,
    r#"{"A":1,"a":2}"#,
];

/// Texts that are not.
const REFUSED: [&str; 35] = [
    "",
    " ",
    "nul",
    "nulll",
    "True",
    "'a'",
    "a",
    "[1,]",
    "[,1]",
    "[1",
    "1]",
    "[1 2]",
    "{",
    "{a:1}",
    r#"{"a"}"#,
    r#"{"a":}"#,
    r#"{"a":1,}"#,
    r#"{"a":1 "b":2}"#,
    "01",
    "-",
    "+1",
    "1.",
    ".5",
    "1e",
    "0x1",
    "NaN",
    "Infinity",
    r#"""#,
    r#""\"#,
    r#""\x""#,
    r#""\u12"#,
    r#""\u12g4""#,
    "\"\t\"",
    "1 // one",
    "[1]x",
];

#[tokio::test]
async fn json_is_read_as_serde_json_reads_it() {
    let dir = tempfile::Builder::new().prefix("laurel-csharp-").tempdir().unwrap();
    let program = dir.path().join("JsonLines.exe");
    compile(&["Laurel", "Tests"], &[], &program);
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let (deep, deeper) = (deep(64), deep(65));
    let accepted: Vec<&str> = ACCEPTED.into_iter().chain([&deep[..]]).collect();
    // serde_json takes the last of two fields of one name, and nests deeper.
    let refused = REFUSED.into_iter().inspect(|text| {
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
    });
    let refused: Vec<&str> = refused.chain([&deeper[..], r#"{"a":1,"a":2}"#]).collect();
    let mut reader = Program::start(&program, &[], "");
    reader.write(&accepted).await;
    reader.write(&refused).await;
    let lines = reader.end().await;
    assert_eq!(lines.len(), accepted.len() + refused.len(), "{lines:#?}");
    for (text, line) in accepted.iter().zip(&lines) {
        let [read, expected] = [line, &(*text).to_owned()]
            .map(|text| serde_json::from_str::<Value>(text).map_err(|error| format!("{error}")));
        assert_eq!(read, expected, "{text}: {line}");
    }
    for (text, line) in refused.iter().zip(&lines[accepted.len()..]) {
        assert!(line.starts_with("refused: "), "{text}: {line}");
    }
}

//! Documents are valid where graphql-js, the reference implementation, has them so.

use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::{node, program};

/// Documents of one kind each, valid ones and others. Variables have no values, so that those that
/// need one are not executed.
const DOCUMENTS: &[&str] = &[
    // Values of the arguments' types.
    "{ board(slug: \"b\") { id } }",
    "{ board(slug: 1) { id } }",
    "{ board(slug: b) { id } }",
    "{ board(slug: true) { id } }",
    "{ board(slug: null) { id } }",
    "{ board(slug: [\"b\"]) { id } }",
    "{ board(slug: { a: 1 }) { id } }",
    "{ board { id } }",
    "{ board(slug: \"b\", slug: \"c\") { id } }",
    "{ board(slug: \"b\", none: 1) { id } }",
    "{ node(id: \"board:b.1\") { id } }",
    "{ node(id: 1) { id } }",
    "{ node(id: 1.5) { id } }",
    "{ node(id: board) { id } }",
    "{ boards(first: 1) { totalCount } }",
    "{ boards(first: null) { totalCount } }",
    "{ boards(first: 2147483647) { totalCount } }",
    "{ boards(first: 2147483648) { totalCount } }",
    "{ boards(first: -2147483649) { totalCount } }",
    "{ boards(first: 99999999999) { totalCount } }",
    "{ boards(first: 1.0) { totalCount } }",
    "{ boards(first: \"1\") { totalCount } }",
    "{ member(key: \"m\") { entries(boards: \"b\") { rank } } }",
    "{ member(key: \"m\") { entries(boards: [\"b\", \"c\"]) { rank } } }",
    "{ member(key: \"m\") { entries(boards: [\"b\", null]) { rank } } }",
    "{ member(key: \"m\") { entries(boards: [\"b\", 1]) { rank } } }",
    "{ member(key: \"m\") { entries(boards: [[\"b\"]]) { rank } } }",
    "{ jobs(kind: REBUILD) { totalCount } }",
    "{ member(key: \"m\") { entry(board: \"b\") { rank(method: DENSE) } } }",
    "{ member(key: \"m\") { entry(board: \"b\") { rank(method: \"DENSE\") } } }",
    "{ member(key: \"m\") { entry(board: \"b\") { rank(method: dense) } } }",
    "{ member(key: \"m\") { entry(board: \"b\") { rank(method: 1) } } }",
    // Input objects.
    "mutation { createBoard(input: { slug: \"B\" }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", slug: \"C\" }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", none: 1 }) { board { id } } }",
    "mutation { createBoard(input: { title: \"B\" }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", decimals: null }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", decimals: 3000000000 }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", selfSubmit: \"true\" }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", policy: BEST, direction: LOW_FIRST }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", policy: \"BEST\" }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", windows: { name: \"daily\" } }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", windows: [{ name: \"daily\" }, { name: \"7d\" }] }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", windows: [{ name: \"daily\", name: \"7d\" }] }) { board { id } } }",
    "mutation { createBoard(input: { slug: \"B\", windows: \"daily\" }) { board { id } } }",
    "mutation { createBoard(input: \"B\") { board { id } } }",
    "mutation { createBoard(input: [{ slug: \"B\" }]) { board { id } } }",
    // Variables in their places.
    "query($s: String!) { board(slug: $s) { id } }",
    "query($s: String) { board(slug: $s) { id } }",
    "query($s: String = \"b\") { board(slug: $s) { id } }",
    "query($s: String = null) { board(slug: $s) { id } }",
    "query($s: ID!) { board(slug: $s) { id } }",
    "query($s: [String!]!) { board(slug: $s) { id } }",
    "query($n: Int) { boards(first: $n) { totalCount } }",
    "query($n: Int!) { boards(first: $n) { totalCount } }",
    "query($n: Float) { boards(first: $n) { totalCount } }",
    "query($n: Int = 1.5) { boards(first: $n) { totalCount } }",
    "query($n: Int = \"1\") { boards(first: $n) { totalCount } }",
    "query($n: Int = 99999999999) { boards(first: $n) { totalCount } }",
    "query($k: [String!]!) { member(key: \"m\") { entries(boards: $k) { rank } } }",
    "query($k: [String!]) { member(key: \"m\") { entries(boards: $k) { rank } } }",
    "query($k: [String]!) { member(key: \"m\") { entries(boards: $k) { rank } } }",
    "query($k: String!) { member(key: \"m\") { entries(boards: $k) { rank } } }",
    "query($k: String!) { member(key: \"m\") { entries(boards: [$k]) { rank } } }",
    "query($k: String) { member(key: \"m\") { entries(boards: [$k]) { rank } } }",
    "query($m: RankMethod = DENSE) { member(key: \"m\") { entry(board: \"b\") { rank(method: $m) } } }",
    "query($m: RankMethod = \"DENSE\") { member(key: \"m\") { entry(board: \"b\") { rank(method: $m) } } }",
    "query($m: RankMethod = NONE) { member(key: \"m\") { entry(board: \"b\") { rank(method: $m) } } }",
    "query($m: String!) { member(key: \"m\") { entry(board: \"b\") { rank(method: $m) } } }",
    "query($w: String) { member(key: \"m\") { entry(board: \"b\", of: { window: $w }) { rank } } }",
    "mutation($s: String) { createBoard(input: { slug: $s }) { board { id } } }",
    "mutation($s: String!) { createBoard(input: { slug: $s }) { board { id } } }",
    "mutation($n: Int) { createBoard(input: { slug: \"B\", decimals: $n }) { board { id } } }",
    "mutation($i: CreateBoardInput!) { createBoard(input: $i) { board { id } } }",
    "mutation($i: CreateBoardInput) { createBoard(input: $i) { board { id } } }",
    "mutation($i: CreateBoardInput = { slug: \"B\" }) { createBoard(input: $i) { board { id } } }",
    "mutation($i: CreateBoardInput = { slug: \"B\", slug: \"C\" }) { createBoard(input: $i) { board { id } } }",
    "mutation($i: UpdateBoardInput!) { createBoard(input: $i) { board { id } } }",
    "query($b: Boolean!) { boards { totalCount @skip(if: $b) } }",
    "query($b: Boolean) { boards { totalCount @skip(if: $b) } }",
    "query($b: Boolean = true) { boards { totalCount @include(if: $b) } }",
    "query($b: Boolean) { boards { ... @include(if: $b) { totalCount } } }",
    "{ boards { totalCount @skip(if: \"true\") } }",
    "{ boards { totalCount @skip } }",
    "query($i: CreateBoardPayload) { boards { totalCount } }",
    "query($a: Int, $a: Int) { boards(first: $a) { totalCount } }",
    "query($a: Int) { boards { totalCount } }",
    "{ boards(first: $a) { totalCount } }",
    // Variables within fragments, by the operations that spread them.
    "query($s: String!) { ...f } fragment f on Query { board(slug: $s) { id } }",
    "query($s: String) { ...f } fragment f on Query { board(slug: $s) { id } }",
    "query($s: String) { ...f } fragment f on Query { ...g } fragment g on Query { board(slug: $s) { id } }",
    "query A($s: String!) { ...f } query B($s: String) { ...f } fragment f on Query { board(slug: $s) { id } }",
    "query($m: RankMethod) { node(id: \"b\") { ... on Entry { rank(method: $m) } } }",
    "query($m: String) { node(id: \"b\") { ... on Entry { rank(method: $m) } } }",
    // Selections.
    "{ boards { none } }",
    "{ boards }",
    "{ boards { totalCount { a } } }",
    "{ ...f } fragment f on None { a }",
    "{ ... on Board { id } }",
    "{ boards { ... on BoardConnection { totalCount } } }",
    "{ a: boards { totalCount } a: jobs { totalCount } }",
    "{ boards { totalCount } boards(first: 1) { totalCount } }",
    "{ __type(name: \"Board\") { name } }",
];

#[tokio::test]
async fn documents_are_valid_where_graphql_js_has_them_so() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let path = deployment.path("documents.json");
    std::fs::write(&path, json!(DOCUMENTS).to_string()).unwrap();
    let schema = program::root().join("schema.graphql");
    let judged = node::run("validate.js", &[schema.to_str().unwrap(), &path]).await;
    let mut differ = vec![];
    for (document, expected) in DOCUMENTS.iter().zip(judged.as_array().unwrap()) {
        let answer = api.query(document, json!({})).await;
        // A variable without a value is found out after validation.
        let message = answer["errors"][0]["message"].as_str().unwrap_or_default();
        let is_valid = answer.get("data").is_some() || message.starts_with("missing variable");
        if is_valid != expected.is_null() {
            differ.push(format!("{document}\n  graphql-js: {expected}\n  Laurel: {answer}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert_eq!(judged.as_array().unwrap().len(), DOCUMENTS.len());
}

/// Documents with variables, each with values that it takes, and with some that it does not.
const VARIABLES: &[(&str, &str, &[&str])] = &[
    (
        "mutation($i: SubmitScoresInput!) { submitScores(input: $i) { accepted } }",
        r#"{ "i": { "board": "b", "scores": [{ "member": "m", "score": 1 }] } }"#,
        &[
            r#"{ "i": { "board": "b", "scores": [{ "member": "m", "score": 1, "none": 1 }] } }"#,
            r#"{ "i": { "board": "b", "scores": [], "none": { "a": 1 } } }"#,
            r#"{ "i": { "board": "b", "scores": [{ "member": 1, "score": 1 }] } }"#,
            r#"{ "i": { "board": "b", "scores": [{ "member": "m", "score": {} }] } }"#,
            r#"{ "i": { "board": "b", "scores": [null] } }"#,
            r#"{ "i": { "board": "b" } }"#,
            r#"{ "i": [] }"#,
            "{}",
        ],
    ),
    (
        "mutation($s: [ScoreInput!]!, $b: String!) { submitScores(input: { board: $b, scores: $s }) { accepted } }",
        r#"{ "b": "b", "s": { "member": "m", "score": 2 } }"#,
        &[
            r#"{ "b": "b", "s": [{ "member": "m", "score": 2, "board": "b" }] }"#,
            r#"{ "b": ["b"], "s": [] }"#,
            r#"{ "b": "b", "s": [[]] }"#,
        ],
    ),
    (
        "query($of: StandingsOf, $m: RankMethod, $n: Int, $s: Boolean = false) { board(slug: \"b\") { standings(of: $of) { size @skip(if: $s) entry(member: \"m\") { rank(method: $m) } top(first: $n) { nodes { score } } } } }",
        r#"{ "of": { "window": "all" }, "m": "DENSE", "n": 1 }"#,
        &[
            r#"{ "of": { "windows": "all" } }"#,
            r#"{ "of": { "at": "yesterday" } }"#,
            r#"{ "of": "all" }"#,
            r#"{ "m": "NONE" }"#,
            r#"{ "m": 1 }"#,
            r#"{ "n": "1" }"#,
            r#"{ "n": 1.5 }"#,
            r#"{ "n": 4294967296 }"#,
            r#"{ "s": "true" }"#,
            r#"{ "s": null }"#,
        ],
    ),
];

#[tokio::test]
async fn variables_are_judged_alike_however_often_their_document_came() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let create = "mutation { createBoard(input: { slug: \"b\" }) { board { slug } } }";
    api.query(create, json!({})).await;
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    for (document, good, bad) in VARIABLES {
        for (number, bad) in bad.iter().enumerate() {
            let new = format!("{document} # {number}");
            let for_new = api.query(&new, json(bad)).await;
            assert_eq!(for_new.get("data"), None, "{document} {bad} {for_new}");
            for _ in 0..2 {
                let answer = api.query(document, json(good)).await;
                assert_eq!(answer.get("errors"), None, "{document} {answer}");
            }
            assert_eq!(api.query(document, json(bad)).await, for_new, "{document} {bad}");
        }
    }
}

//! Answers with errors fit the schema, as graphql-js reads both: every field is there, null only
//! where it may be, in the order of the selection, and each error stands for a null.

use std::fmt::Write;

use serde_json::json;

use tests::attack::request::Attack;
use tests::attack::{Attacked, boards};
use tests::model::game::seeded;
use tests::model::random_document::RandomDocuments;
use tests::model::schema::{Input, Place, Schema, in_lists, named};
use tests::servers::{node, program};

/// The random documents.
const DOCUMENTS: usize = 300;

/// Values that a field with such an argument may refuse.
fn refused(argument: &Input) -> Vec<String> {
    let values: &[&str] = match named(&argument.of) {
        "Int" => &["-1", "1000000"],
        "Float" => &["-1.5"],
        "String" => &["\"\"", "\"none\"", "\"\\u0000\""],
        "ID" => &["\"x\"", "\"board:none.1\"", "\"entry:none.1:all:all::m\""],
        "DateTime" | "Decimal" => &["\"x\"", "1"],
        _ => &[],
    };
    values.iter().map(|value| in_lists(&argument.of, (*value).to_owned())).collect()
}

/// A document for each argument of each field, with a value that it refuses.
fn with_a_failure(schema: &Schema) -> Vec<String> {
    let mut documents = vec![];
    // A subscription is answered by a stream, each of whose answers is one of these.
    let is_answered = |place: &Place| !place.field.starts_with("Subscription.");
    for place in schema.places().into_iter().filter(is_answered) {
        let (parent, name) = place.field.split_once('.').unwrap();
        let field = schema.fields(parent).iter().find(|field| field.name == name).unwrap();
        let leaf = if schema.is_composite(&place.type_name) { "__typename" } else { "" };
        documents.push(place.document(&[], leaf));
        for argument in &field.arguments {
            for value in refused(argument) {
                documents.push(place.document(&[(&argument.name, &value)], leaf));
            }
        }
    }
    documents
}

#[tokio::test]
async fn answers_with_errors_fit_the_schema() {
    let server = Attacked::start().await;
    boards::create(&server.api).await;
    for board in ["big", "big16", "hour"] {
        let scores = (0..5).map(|n| json!({ "member": boards::key(n), "score": n }));
        tests::api::submission::submit_durably(&server.api, board, scores.collect()).await;
    }
    let schema = Schema::of(&server.api).await;
    let mut random = RandomDocuments::new(&schema, seeded());
    let mut documents = with_a_failure(&schema);
    documents.extend((0..DOCUMENTS).map(|_| random.next_document()));
    // One part of an answer fails, and others do not.
    documents.extend(
        [
            "{ jobs { totalCount } boards { nodes { slug } } }",
            "{ node(id: \"x\") { id } boards { nodes { slug } } }",
            "{ board(slug: \"big\") { title standings { size top(first: -1) { totalCount } } } }",
            "{ board(slug: \"big\") { day: standings(of: { window: \"daily\" }) { size }
                week: standings(of: { window: \"weekly\" }) { size } } }",
            "{ board(slug: \"big\") { standings { top { nodes { rank member { friends(first: -1) { totalCount } } } } } } }",
            "mutation { a: deleteBoard(input: { slug: \"none\" }) { deletedBoardId }
                b: deleteBoard(input: { slug: \"none\" }) { deletedBoardId } }",
        ]
        .map(str::to_owned),
    );
    let (mut lines, mut failed) = (String::new(), 0);
    for document in documents {
        let attack = Attack::query("", &document);
        // Without a token, changes are refused.
        let reply = server.send(&attack).await.unwrap();
        let answer = reply.body();
        failed += usize::from(answer["data"].is_object() && answer["errors"].is_array());
        if answer.get("data").is_some() {
            // As it was sent: a value would sort the fields.
            let text = std::str::from_utf8(&reply.bytes).unwrap();
            writeln!(lines, "[{},{text}]", json!(document)).unwrap();
        }
    }
    println!("{} answers, {failed} with data and errors", lines.lines().count());
    assert!(failed > 50);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("answers.jsonl");
    std::fs::write(&file, lines).unwrap();
    let sdl = program::root().join("schema.graphql");
    let wrong = node::run("answers.js", &[sdl.to_str().unwrap(), file.to_str().unwrap()]).await;
    let wrong = wrong.as_array().unwrap();
    assert!(wrong.is_empty(), "{} are wrong, such as {:#}", wrong.len(), wrong[0]);
}

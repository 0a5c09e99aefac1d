//! Tools that judge the schema: graphql-eslint lints it, and graphql-inspector holds it against
//! that of the last release and against the one that a server tells.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::{node, program};

/// The version of the programs under test.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn schema() -> PathBuf {
    program::root().join("schema.graphql")
}

/// The changes from the last schema to the next one, as `schema/changes.js` judges them today. Each
/// schema comes with its version.
async fn changes(last: (&Path, &str), next: (&Path, &str), changelog: &Path) -> Value {
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let [last_file, next_file, changelog] =
        [last.0, next.0, changelog].map(|path| path.to_str().unwrap());
    let arguments = [next_file, next.1, last_file, last.1, changelog, &today];
    node::run("schema/changes.js", &arguments).await
}

#[tokio::test]
async fn graphql_eslint_accepts_the_schema() {
    let found = node::run("schema/lint.js", &[schema().to_str().unwrap()]).await;
    assert_eq!(found, json!({ "wrong": [], "unneeded": [] }), "{found:#}");
}

#[tokio::test]
async fn introspection_tells_the_schema_of_the_file() {
    let api = Api::start(&Deployment::new(Sql::Sqlite, Redis::Private).await).await;
    let found = node::run("schema/served.js", &[schema().to_str().unwrap(), api.url()]).await;
    assert_eq!(found, json!([]), "{found:#}");
}

#[tokio::test]
async fn the_schema_keeps_what_the_last_release_had() {
    let directory = program::root().join("tests/upgrades");
    let files = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "graphql")).collect();
    let [last] = &files[..] else {
        panic!("{}: expected one schema, has {files:?}", directory.display());
    };
    let version = last.file_stem().unwrap().to_str().unwrap();
    let changelog = program::root().join("CHANGELOG.md");
    let found = changes((last, version), (&schema(), VERSION), &changelog).await;
    assert_eq!((&found["wrong"], &found["undated"]), (&json!([]), &json!([])), "{found:#}");
}

const BOTH: &str = "old: Int kept: Int";
const KEPT: &str = "kept: Int";
const OLD: &str = "old: Int @deprecated(reason: \"Use kept; gone from 2026-01-01.\") kept: Int";
const LATER: &str = "old: Int @deprecated(reason: \"Use kept; gone from 9999-01-01.\") kept: Int";
const UNDATED: &str = "old: Int @deprecated(reason: \"Use kept.\") kept: Int";

/// Changes of the fields of `Query`: before and after, the versions of both, the part that the
/// changelog names, and if the change may be made.
const CHANGES: &[(&str, &str, [&str; 2], &str, bool)] = &[
    // Before 1.0, where the changelog names the part.
    (BOTH, KEPT, ["0.1.0", "0.2.0"], "", false),
    (BOTH, KEPT, ["0.1.0", "0.2.0"], "Query.kept", false),
    (BOTH, KEPT, ["0.1.0", "0.2.0"], "Query.old", true),
    (BOTH, KEPT, ["1.1.0", "1.2.0"], "Query.old", false),
    // Announced, and gone with a major version from the date on.
    (OLD, KEPT, ["1.1.0", "1.2.0"], "", false),
    (OLD, KEPT, ["1.1.0", "2.0.0"], "", true),
    (LATER, KEPT, ["1.1.0", "2.0.0"], "", false),
    (UNDATED, KEPT, ["1.1.0", "2.0.0"], "", false),
    // An announcement has a date.
    (BOTH, OLD, ["1.1.0", "1.2.0"], "", true),
    (BOTH, UNDATED, ["1.1.0", "1.2.0"], "", false),
    // A field keeps its type, even for a stricter one, and an argument its default.
    ("kept: Int", "kept: Int!", ["1.1.0", "1.2.0"], "", false),
    ("kept: Int!", "kept: Int", ["1.1.0", "1.2.0"], "", false),
    ("kept(a: Int = 1): Int", "kept(a: Int = 2): Int", ["1.1.0", "1.2.0"], "", false),
    ("kept: Int", "kept(a: Int!): Int", ["1.1.0", "1.2.0"], "", false),
    // Additions.
    ("kept: Int", "kept(a: Int): Int added: String", ["1.1.0", "1.2.0"], "", true),
];

#[tokio::test]
async fn a_part_goes_only_as_the_page_promises() {
    let directory = tempfile::tempdir().unwrap();
    let [last, next, changelog] =
        ["last.graphql", "next.graphql", "CHANGELOG.md"].map(|name| directory.path().join(name));
    let mut wrong = vec![];
    for (before, after, versions, named, is_taken) in CHANGES {
        for (file, fields) in [(&last, before), (&next, after)] {
            fs::write(file, format!("type Query {{ {fields} }}")).unwrap();
        }
        let text = format!("# Changelog\n\n## [Unreleased]\n\n* `{named}`\n\n## [0.1.0]\n");
        fs::write(&changelog, text).unwrap();
        let found = changes((&last, versions[0]), (&next, versions[1]), &changelog).await;
        let lists = [&found["wrong"], &found["undated"]];
        if lists.iter().all(|list| list.as_array().unwrap().is_empty()) != *is_taken {
            wrong.push(format!("{before} to {after} in {versions:?}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

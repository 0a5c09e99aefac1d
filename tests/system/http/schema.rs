//! The schema as a reviewed file.

use std::process::Command;

use serde_json::json;
use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program;

#[test]
fn the_schema_file_is_what_the_program_says() {
    let output = program::api().arg("schema").output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let file = program::root().join("schema.graphql");
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    if written != said {
        std::fs::write(&file, said).unwrap();
        panic!("schema.graphql was stale and is written again: review it and commit it");
    }
}

#[test]
fn every_type_field_argument_and_value_has_a_description() {
    let text = std::fs::read_to_string(program::root().join("schema.graphql")).unwrap();
    let (mut missing, mut of_type) = (vec![], "");
    let (mut in_description, mut described) = (false, false);
    for line in text.lines() {
        let said = line.trim();
        if said.starts_with("\"\"\"") {
            in_description = !in_description;
            described = true;
            continue;
        }
        let name = said.split([':', '(']).next().unwrap();
        let built_in = said.starts_with("directive ");
        if in_description || built_in || said.is_empty() || "})".contains(&said[..1]) {
            continue;
        }
        assert!(!said.starts_with("scalar ") || said.contains("@specifiedBy(url: "), "{said}");
        if !line.starts_with('\t') {
            of_type = said.trim_end_matches(" {");
        }
        let roots = ["query: Query", "mutation: Mutation", "subscription: Subscription"];
        let root = of_type == "schema" || roots.contains(&said);
        if !described && !root {
            missing.push(match line.starts_with('\t') {
                true => format!("{of_type}: {name}"),
                false => of_type.to_owned(),
            });
        }
        // Arguments without descriptions stand in one line.
        let in_one_line = said.split_once('(').filter(|(_, rest)| !rest.is_empty());
        if let Some((_, arguments)) = in_one_line.filter(|_| !said.starts_with("scalar ")) {
            missing.push(format!("{of_type}: {name}({arguments}"));
        }
        described = false;
    }
    assert!(missing.is_empty(), "without a description: {missing:#?}");
}

#[tokio::test]
async fn introspection_has_the_description_of_the_schema() {
    let api = Api::start(&Deployment::new(Sql::any(), Redis::Private).await).await;
    let data = api.data("{ s: __schema { d: description } }", json!({})).await;
    let description = data["s"]["d"].as_str().unwrap();
    let text = std::fs::read_to_string(program::root().join("schema.graphql")).unwrap();
    assert!(text.contains(&format!("\"\"\"\n{description}\n\"\"\"\nschema {{")), "{description}");
}

#[tokio::test]
async fn each_mutation_has_an_input_and_a_payload_of_its_own() {
    let api = Api::start(&Deployment::new(Sql::any(), Redis::Private).await).await;
    let query = "{ s: __schema { mutationType { fields {
        name args { name type { kind ofType { name } } } type { kind name }
    } } } }";
    let data = api.data(query, json!({})).await;
    let fields = data["s"]["mutationType"]["fields"].as_array().unwrap();
    assert!(fields.len() > 30);
    for field in fields {
        let name = field["name"].as_str().unwrap();
        let name = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        let input = json!({ "kind": "NON_NULL", "ofType": { "name": format!("{name}Input") } });
        assert_eq!(field["args"], json!([{ "name": "input", "type": input }]), "{name}");
        // Null where it fails: the results of the other mutations of a request stay.
        let payload = json!({ "kind": "OBJECT", "name": format!("{name}Payload") });
        assert_eq!(field["type"], payload, "{name}");
    }
}

/// Names that a program has without an import: those of TypeScript's DOM library that a schema may
/// want, of Swift, of Kotlin, and of C# with its implicit usings. `Node` is Relay's.
const TAKEN: &str = "
    Array Attr Cache Comment Date Document Element Error Event File History Image Location Lock Map
    Notification Object Option Path Plugin Position Range Record Request Response Screen Selection
    Set Storage Symbol Text Touch Window Worker

    Bucket Calendar Codable Collection Data Direction Operation Optional Process Result Scanner
    Sequence Source Stream Thread Timer URL Unit

    Annotation Any Comparable Enum Iterable List Nothing Pair Triple

    Action Attribute Barrier Buffer Console Delegate Directory Environment Exception Func Index Lazy
    Lookup Math Monitor Random Stack Task Tuple Type Version";

#[test]
fn no_type_has_a_name_that_a_language_has_taken() {
    let text = std::fs::read_to_string(program::root().join("schema.graphql")).unwrap();
    for line in text.lines() {
        let mut words = line.split([' ', '(']);
        if let ("type" | "interface" | "input" | "enum" | "union", Some(name)) =
            (words.next().unwrap(), words.next())
        {
            assert!(TAKEN.split_whitespace().all(|taken| taken != name), "{name} is taken");
        }
    }
}

#[test]
fn a_setting_that_is_none_stops_the_start_and_is_named() {
    let check = |command: &mut Command, says: &str| {
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(says), "{says}: {error}");
    };
    check(
        program::api().args(["token", "list"]).env("LAUREL_DATABSE_URL", "x"),
        "LAUREL_DATABSE_URL",
    );
    check(
        program::api().args(["token", "list"]).env("LAUREL_LOG_FORMAT", "xml"),
        "LAUREL_LOG_FORMAT",
    );
    check(program::api().args(["serve"]).env("LAUREL_LISTEN", "here"), "LAUREL_LISTEN");
    check(program::api().args(["serve"]).env("LAUREL_DEDUP_HOURS", "0"), "LAUREL_DEDUP_HOURS");
    let dir = tempfile::tempdir().unwrap();
    let mut command = program::api();
    command.arg("serve").env("LAUREL_DATA_DIR", dir.path()).env("LAUREL_LISTEN", "127.0.0.1:0");
    check(command.env("LAUREL_PARTITIONS", "12"), "LAUREL_PARTITIONS");
}

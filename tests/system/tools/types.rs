//! Code generators: the types that they make of the schema and of the pages compile.

use serde_json::json;

use tests::servers::node;

#[tokio::test]
async fn types_generated_for_every_operation_of_the_pages_compile_strictly() {
    let directory = tempfile::tempdir().unwrap();
    let seen = node::run("types/compile.js", &[directory.path().to_str().unwrap()]).await;
    assert_eq!(seen["errors"], json!([]), "{seen:#}");
    let count = |name: &str| seen[name].as_u64().unwrap();
    // The pages have these many at least, or they are read wrongly.
    assert!(count("operations") >= 50, "{seen}");
    assert!(count("answers") >= 20, "{seen}");
    assert!(count("programs") >= 1, "{seen}");
}

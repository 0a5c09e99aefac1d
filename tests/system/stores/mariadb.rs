//! MariaDB where it differs: a schema that no transaction has, text in the order of bytes, and
//! settings of the server.

use sea_orm::{ConnectionTrait, Database};
use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::mariadb_node::MariadbNode;

#[tokio::test]
async fn a_schema_that_was_cut_short_is_completed_by_the_next_start() {
    let deployment = Deployment::new(Sql::Mariadb, Redis::Own).await;
    let sql = deployment.settings().sql;
    sql.create().await.unwrap().close().await.unwrap();
    let db = deployment.sql().await;
    for statement in [
        "DELETE FROM seaql_migrations",
        "DROP TRIGGER board_updated",
        "DROP INDEX standing_rank ON standing",
        "DROP TABLE checkpoint",
    ] {
        db.execute_unprepared(statement).await.unwrap();
    }
    db.close().await.unwrap();
    let (one, other) = futures::join!(sql.create(), sql.create());
    one.unwrap().close().await.unwrap();
    other.unwrap().close().await.unwrap();
    let triggers =
        "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = DATABASE()";
    assert_eq!(deployment.number(triggers).await, 2);
    assert_eq!(deployment.number("SELECT COUNT(*) FROM seaql_migrations").await, 25);
    assert_eq!(deployment.number("SELECT COUNT(*) FROM checkpoint").await, 0);
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    assert_eq!(deployment.number("SELECT \"change\" FROM board").await, 1);
}

#[tokio::test]
async fn keys_are_compared_by_bytes() {
    let deployment = Deployment::new(Sql::Mariadb, Redis::Own).await;
    deployment.settings().sql.create().await.unwrap().close().await.unwrap();
    let db = deployment.sql().await;
    let mut keys = ["b", "a", "A", "a ", "ä", "a\u{308}", "\u{fffe}", "\u{1d11e}", "z", "\\", "\""];
    for key in keys {
        let insert = format!("INSERT INTO member (\"key\", created_at_ms) VALUES ('{key}', 0)");
        db.execute_unprepared(&insert).await.unwrap();
    }
    db.close().await.unwrap();
    keys.sort_unstable();
    let held: Vec<String> = deployment.column("SELECT \"key\" FROM member ORDER BY \"key\"").await;
    assert_eq!(held, keys);
}

#[tokio::test]
async fn a_server_that_takes_only_short_packets_is_refused_in_words() {
    let server = MariadbNode::start();
    let url = MariadbNode::url(server.port());
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let create = || {
        let mut command = deployment.api(&["demo"]);
        let output = command.env("LAUREL_DATABASE_URL", &url).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let db = Database::connect(&url).await.unwrap();
    db.execute_unprepared("SET GLOBAL max_allowed_packet = 1048576").await.unwrap();
    let (is_created, said) = create();
    assert!(!is_created, "{said}");
    assert!(said.contains("max_allowed_packet = 1048576: expected 16777216 at least"), "{said}");
    db.execute_unprepared("SET GLOBAL max_allowed_packet = 16777216").await.unwrap();
    let (is_created, said) = create();
    assert!(is_created, "{said}");
}

//! MariaDB where it differs: a schema that no transaction has, and text in the order of bytes.

use sea_orm::ConnectionTrait;
use serde_json::json;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};

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
    assert_eq!(deployment.number("SELECT COUNT(*) FROM seaql_migrations").await, 23);
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

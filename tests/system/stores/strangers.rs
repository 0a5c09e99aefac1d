//! Databases in which another program has tables: Laurel makes nothing there that could meet them.

use sea_orm::ConnectionTrait;

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};

use super::backup::apply;

/// Changes the tables of a database by statements.
async fn change(deployment: &Deployment, statements: &[&str]) {
    let db = deployment.sql().await;
    for statement in statements {
        db.execute_unprepared(statement).await.unwrap();
    }
    db.close().await.unwrap();
}

/// The names of all tables of a database.
async fn tables(deployment: &Deployment, sql: Sql) -> Vec<String> {
    let of_server = |schema: &str| {
        format!(
            "SELECT CAST(table_name AS TEXT) FROM information_schema.tables
                WHERE table_schema = {schema} ORDER BY 1"
        )
    };
    let select = match sql {
        Sql::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1".to_owned(),
        Sql::Postgres => of_server("current_schema()"),
        Sql::Mariadb => of_server("DATABASE()"),
    };
    deployment.column(&select).await
}

/// Applies a backup to a database, which is refused for a table there and left as it is.
async fn check_not_applied(path: &str, sql: Sql, table: &str) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    change(&deployment, &[&format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY)")]).await;
    let output = apply(&deployment, path).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("the table {table} in the database")), "{said}");
    assert_eq!(tables(&deployment, sql).await, [table]);
    assert!(!deployment.archive_dir().exists());
}

async fn check(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    change(&deployment, &["CREATE TABLE orders (id INTEGER PRIMARY KEY)"]).await;
    // The last one is also the table that Laurel makes first, with other columns.
    for table in ["member", "job", "board_change", "deployment"] {
        let create = format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY, note INTEGER)");
        change(&deployment, &[&create]).await;
        let error = deployment.settings().sql.create().await.unwrap_err().to_string();
        let expected = format!("a table {table} that Laurel did not make");
        assert!(error.contains(&expected) && error.contains("expected an empty"), "{error}");
        let mut there = vec![table, "orders"];
        there.sort_unstable();
        assert_eq!(tables(&deployment, sql).await, there);
        change(&deployment, &[&format!("DROP TABLE {table}")]).await;
    }
    // A list of the steps writes nothing.
    change(&deployment, &["CREATE TABLE schedule (id INTEGER PRIMARY KEY)"]).await;
    let listed = deployment.api_output(&["migrate", "status"]).await;
    assert!(listed.starts_with("Pending"), "{listed}");
    assert_eq!(tables(&deployment, sql).await, ["orders", "schedule"]);
    let error = deployment.settings().sql.create().await.unwrap_err().to_string();
    assert!(error.contains("a table schedule that"), "{error}");

    // Tables of other names do not matter.
    change(&deployment, &["DROP TABLE schedule"]).await;
    let api = Api::start(&deployment).await;
    let path = deployment.path("backup");
    deployment.api_output(&["backup", "create", &path]).await;
    api.stop().await;
    // But a backup is not mixed with any.
    for table in ["member", "orders"] {
        check_not_applied(&path, sql, table).await;
    }
}

#[tokio::test]
async fn tables_of_another_program_stay_as_they_are_on_sqlite() {
    check(Sql::Sqlite).await;
}

#[tokio::test]
async fn tables_of_another_program_stay_as_they_are_on_postgresql() {
    check(Sql::Postgres).await;
}

#[tokio::test]
async fn tables_of_another_program_stay_as_they_are_on_mariadb() {
    check(Sql::Mariadb).await;
}

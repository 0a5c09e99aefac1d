//! Erasures of members, and what is left of a member.

use std::process::Output;
use std::sync::Arc;

use sea_orm::{ConnectionTrait, DbBackend, Statement};

use crate::deployment::Deployment;

/// A key of standings; a star for a member before it is anonymized, and for the random key after.
pub fn starred<'k>(key: &'k str, member: &str) -> &'k str {
    if key == member || key.starts_with("erased-") { "*" } else { key }
}

/// The columns of tables and the keys of Redis that have a member's key somewhere.
pub async fn traces(deployment: &Deployment, member: &str) -> Vec<String> {
    let (db, mut found) = (deployment.sql().await, vec![]);
    let backend = db.get_database_backend();
    let columns = match backend {
        DbBackend::Sqlite => {
            "SELECT m.name, p.name FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type = 'table'"
        }
        DbBackend::MySql => {
            "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR) FROM information_schema.columns WHERE table_schema = DATABASE()"
        }
        _ => {
            "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) FROM information_schema.columns WHERE table_schema = current_schema()"
        }
    };
    let columns = db.query_all_raw(Statement::from_string(backend, columns)).await.unwrap();
    for row in columns {
        let table: String = row.try_get_by_index(0).unwrap();
        let column: String = row.try_get_by_index(1).unwrap();
        let text = if backend == DbBackend::MySql { "CHAR" } else { "TEXT" };
        let count = format!(
            r#"SELECT COUNT(*) FROM "{table}" WHERE CAST("{column}" AS {text}) LIKE '%{member}%'"#
        );
        let row = db.query_one_raw(Statement::from_string(backend, count)).await.unwrap().unwrap();
        if row.try_get_by_index::<i64>(0).unwrap() > 0 {
            found.push(format!("{table}.{column}"));
        }
    }
    db.close().await.unwrap();
    let has = |bytes: &[u8]| bytes.windows(member.len()).any(|part| part == member.as_bytes());
    for (key, _) in deployment.redis_contents().await {
        // The counts of a minute expire.
        if key.contains(":pace:") {
            continue;
        }
        let text: String = match &*deployment.ask_redis::<String>(&["TYPE", &key]).await {
            "zset" => {
                deployment.ask_redis::<Vec<String>>(&["ZRANGE", &key, "0", "-1"]).await.join(" ")
            }
            "hash" => deployment.ask_redis::<Vec<String>>(&["HGETALL", &key]).await.join(" "),
            "stream" => format!(
                "{:?}",
                deployment.ask_redis::<redis::Value>(&["XRANGE", &key, "-", "+"]).await
            ),
            "list" => {
                deployment.ask_redis::<Vec<String>>(&["LRANGE", &key, "0", "-1"]).await.join(" ")
            }
            _ => deployment.ask_redis::<Option<String>>(&["GET", &key]).await.unwrap_or_default(),
        };
        if has(key.as_bytes()) || has(text.as_bytes()) {
            found.push(key);
        }
    }
    found
}

/// Erases a member by the command, which kills itself at a step if one is named.
pub async fn erase(deployment: &Arc<Deployment>, member: &str, crash_at: Option<&str>) -> Output {
    erase_with(deployment, &[member], crash_at).await
}

/// As [`erase`], with further options.
pub async fn erase_with(
    deployment: &Arc<Deployment>,
    arguments: &[&str],
    crash_at: Option<&str>,
) -> Output {
    let mut command = deployment.api(&[&["erase", "member", "--yes"][..], arguments].concat());
    if let Some(step) = crash_at {
        command.env("CRASH_AT", step);
    }
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Erases a member by the command, with further variables.
pub async fn erase_at(
    deployment: &Arc<Deployment>,
    member: &str,
    variables: &[(&'static str, String)],
) -> Output {
    let mut command = deployment.api(&["erase", "member", "--yes", member]);
    command.envs(variables.iter().cloned());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

//! The machine and the versions of a measurement.

use std::process::Command;

use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use crate::stores::{Stores, field};

/// The machine, the versions, the date and the scale.
pub(crate) async fn describe(stores: &Stores, scale: f64) -> Value {
    let db = &stores.deployment.db;
    let select = Statement::from_string(db.get_database_backend(), "SELECT sqlite_version()");
    let row = db.query_one_raw(select).await.unwrap().unwrap();
    let sqlite: String = row.try_get_by_index(0).unwrap();
    let server = stores.info("server").await;
    json!({
        "date": jiff::Timestamp::now().to_string(),
        "scale": scale,
        "machine": {
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "processor": line_of("/proc/cpuinfo", "model name"),
            "memory": line_of("/proc/meminfo", "MemTotal"),
            "system": output("uname", &["-srm"]),
        },
        "versions": {
            "laurel": output("git", &["rev-parse", "--short", "HEAD"]),
            "redis": field(&server, "redis_version"),
            "sqlite": sqlite,
            "rust": output("rustc", &["--version"]),
        },
    })
}

/// The value after a name and a colon in a file; `None` without such a file or name.
fn line_of(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(named, _)| named.trim() == name)?;
    Some(found.1.trim().to_owned())
}

/// The output of a program; `None` if the program is missing or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

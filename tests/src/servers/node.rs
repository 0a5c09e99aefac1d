//! The programs of `tests/web`, run by Node.js: they print one line of JSON, and the tests judge
//! it.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::servers::program;

/// Runs a script to its end, and returns what it printed.
pub async fn run(script: &str, arguments: &[&str]) -> Value {
    let dir = program::root().join("tests/web");
    assert!(
        dir.join("node_modules/.package-lock.json").exists(),
        "{} lacks its packages: `make test` installs them, or `npm ci` there",
        dir.display()
    );
    let mut command = Command::new("node");
    command
        .arg(dir.join(script))
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    let output = match command.output().await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("node is missing: install Node.js 20.19 or newer")
        }
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{script}: {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The path of Chromium or a browser like it.
pub fn chromium() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|dir| names.map(|name| dir.join(name)))
        .find(|program| program.exists())
        .expect("chromium is missing: `make test` installs it, or apt-get install chromium")
}

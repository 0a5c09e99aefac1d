//! Commands of `analytics`, run to their end.

use std::process::Output;
use std::sync::Arc;

use serde_json::Value;

use crate::deployment::Deployment;

/// Runs a command with `--json`: its exit status, its output and its error output.
pub fn run(deployment: &Deployment, arguments: &[&str]) -> (i32, Value, String) {
    let output = deployment.analytics(&with_json(arguments));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (
        output.status.code().unwrap(),
        serde_json::from_slice(&output.stdout).unwrap_or_default(),
        error,
    )
}

/// The arguments of a command, with `--json` after its name.
pub fn with_json<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&arguments[..1], &["--json"], &arguments[1..]].concat()
}

/// Runs a command that must succeed, and returns the JSON it prints.
pub fn figures(deployment: &Deployment, arguments: &[&str]) -> Value {
    let output = deployment.analytics(&with_json(arguments));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Runs a command to its end without blocking the tasks beside it.
pub async fn output_beside(deployment: &Arc<Deployment>, arguments: &[&str]) -> Output {
    let mut command = deployment.analytics_command(arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

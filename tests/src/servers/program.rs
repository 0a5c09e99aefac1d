//! The programs under test: built once a run, started without stray settings.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

static API: OnceLock<PathBuf> = OnceLock::new();
static ANALYTICS: OnceLock<PathBuf> = OnceLock::new();

/// A command of the program `api`.
pub fn api() -> Command {
    command(API.get_or_init(|| build("api")))
}

/// A command of the program `analytics`.
pub fn analytics() -> Command {
    command(ANALYTICS.get_or_init(|| build("analytics")))
}

/// The repository's root, as cargo says it now: where checkouts share a target directory this may have been built in another one.
pub fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().unwrap().to_owned()
}

/// Sends a signal to a process.
pub fn signal(name: &str, pid: u32) {
    let status =
        Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(status.success(), "signal {name} to {pid}");
}

/// Builds a package with the profile and the target directory of this test, and says where its program is.
fn build(package: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let profile_dir = this.ancestors().nth(2).expect("a test lies in <target>/<profile>/deps");
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // All of the workspace, as `make test` builds it: with other features of what they share it would be built twice.
    command.args(["build", "--quiet", "--workspace", "--profile", profile]);
    // What cargo tells this test about its package must not reach the other's build scripts.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
            .iter()
            .any(|prefix| text.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
    let status = command
        .current_dir(root())
        .env("CARGO_TARGET_DIR", profile_dir.parent().unwrap())
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "{package} does not build");
    profile_dir.join(package)
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LAUREL_") {
            command.env_remove(name);
        }
    }
    command
}

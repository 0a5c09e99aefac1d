//! The programs under test: built once a run, started without stray settings.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The name of the server's program.
pub const SERVER: &str = "laurel";

/// The name of the program of batch jobs.
pub const ANALYTICS: &str = "laurel-analytics";

/// The name of the program that takes scores from queues.
pub const INGEST: &str = "laurel-ingest";

/// The packages that have them.
const PACKAGES: [&str; 3] = ["api", "analytics", "ingest"];

/// Set by `make test`, which has built the programs.
const BUILT: &str = "LAUREL_TEST_BUILT";

static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();

/// A command of the server's program.
pub fn api() -> Command {
    command(SERVER)
}

/// A command of the program of batch jobs.
pub fn analytics() -> Command {
    command(ANALYTICS)
}

/// The repository's root according to the running cargo: where checkouts share a target directory,
/// this library may have been built in another one.
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

/// A command that becomes another one within limits of the system, each an option of `ulimit`.
pub fn limited(command: &Command, limits: &[&str]) -> Command {
    let mut limited = Command::new("sh");
    let limits: String = limits.iter().map(|limit| format!("ulimit {limit}; ")).collect();
    limited.arg("-c").arg(format!("{limits}exec \"$0\" \"$@\""));
    limited.arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        limited.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

/// The directory of the programs for this test's profile. Builds them unless `make` did so.
fn programs() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let directory = this.ancestors().nth(2).expect("a test lies in <target>/<profile>/deps");
    if std::env::var_os(BUILT).is_none() {
        build(directory);
    }
    directory.to_owned()
}

/// Builds the programs in a directory of cargo's.
fn build(directory: &Path) {
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--profile", profile]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    // Variables that cargo sets for this test must not reach other build scripts.
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
        .env("CARGO_TARGET_DIR", directory.parent().unwrap())
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "the programs do not build");
}

/// A command of one of them, without the settings of this process.
pub fn command(program: &str) -> Command {
    command_at(&PROGRAMS.get_or_init(programs).join(program))
}

/// A command of the program at a path, without the settings of this process.
pub fn command_at(path: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LAUREL_") {
            command.env_remove(name);
        }
    }
    command
}

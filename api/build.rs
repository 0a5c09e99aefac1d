//! Compiles this crate again when its pages were built or taken away, and tells it the commit that
//! it is built from.

use std::path::Path;
use std::process::Command;

fn main() {
    // Cargo would compile the crate at every build if a watched path did not exist: without a dist,
    // its sources are watched.
    let watched = ["web/dist", "web", "build.rs"];
    let there = watched.into_iter().find(|path| Path::new(path).exists());
    println!("cargo::rerun-if-changed={}", there.expect("this very file exists"));
    // HEAD's log changes with every commit and checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    // An image is built without the repository, and its environment names the commit.
    println!("cargo::rerun-if-env-changed=LAUREL_COMMIT");
    let told = std::env::var("LAUREL_COMMIT").ok();
    let commit = told.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=LAUREL_COMMIT={}", commit.as_deref().unwrap_or("no commit"));
}

/// A line that git prints; none where there is no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| line.trim().to_owned())
}

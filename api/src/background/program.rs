//! `laurel-analytics` as a child of this process, niced, with the same stores.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::timeout;

/// The longest time for the program to stop by itself; then it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes kept of the program's output.
const PRINTED_BYTES_MAX: usize = 4096;

/// The program that does batch jobs.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Its path.
    pub(crate) path: PathBuf,
    /// The settings that this process was given.
    pub(crate) environment: Vec<(String, OsString)>,
}

impl Program {
    /// Runs a command of the program to its end, and returns its exit status and its complaint;
    /// `None` if this process stops first.
    ///
    /// # Errors
    /// If the program cannot be started, or takes longer than `longest`.
    pub(crate) async fn run(
        &self,
        name: &str,
        longest: Duration,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Option<(ExitStatus, String)>> {
        // `nice` replaces itself with the program, so the child's id stays the same.
        let mut niced = Command::new("nice");
        niced.args(["-n", "10"]).arg(&self.path);
        let mut child = match self.settle(&mut niced, name).spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.settle(&mut Command::new(&self.path), name).spawn()
            }
            spawned => spawned,
        }
        .with_context(|| format!("{} cannot be started", self.path.display()))?;
        let stdin = child.stdin.take();
        let (printed, complained) = (child.stdout.take(), child.stderr.take());
        let mut ending = std::pin::pin!(async {
            let (status, _, complaint) =
                tokio::join!(child.wait(), start_of(printed), start_of(complained));
            anyhow::Ok((status?, complaint))
        });
        tokio::select! {
            ended = timeout(longest, &mut ending) => {
                let ended = ended.with_context(|| {
                    format!("it took longer than {} h and was killed", longest.as_secs() / 3600)
                })?;
                return Ok(Some(ended?));
            }
            _ = stop.changed() => {}
        }
        // At the end of its standard input the program stops by itself and removes its temporary
        // files; after the timeout, dropping the child kills it.
        drop(stdin);
        let _ = timeout(STOP_TIMEOUT, ending).await;
        Ok(None)
    }

    /// Adds the program's arguments and environment to a command.
    fn settle<'c>(&self, command: &'c mut Command, name: &str) -> &'c mut Command {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LAUREL_") {
                command.env_remove(name);
            }
        }
        command
            .args([name, "--json", "--stop-with-stdin"])
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
    }
}

/// Reads to the end, and keeps the start.
async fn start_of(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else {
        return String::new();
    };
    let (mut kept, mut part) = (vec![], [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut part).await {
        let left = PRINTED_BYTES_MAX - kept.len();
        kept.extend_from_slice(&part[..count.min(left)]);
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

//! The programs of `clients/csharp`, compiled by Debian's mcs and run by mono.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::servers::program;
use crate::wait::PATIENCE;

/// The version of C# of the oldest Unity that the client is for.
const LANGUAGE: &str = "-langversion:7";

/// A running program; killed when dropped.
pub struct Program {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    lines: Vec<String>,
}

/// Compiles the C# files of a folder of `clients/csharp`, a warning being an error. A name in
/// `.dll` makes a library, whose public parts must all be documented.
pub fn compile(folders: &[&str], arguments: &[&str], out: &Path) {
    let client = program::root().join("clients/csharp");
    let files = folders.iter().flat_map(|folder| {
        let entries = fs::read_dir(client.join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path())
    });
    let files: Vec<PathBuf> =
        files.filter(|path| path.extension() == Some(OsStr::new("cs"))).collect();
    let mut command = Command::new("mcs");
    command.args([LANGUAGE, "-warn:4", "-warnaserror", "-r:System.Net.Http.dll"]).args(arguments);
    if out.extension() == Some(OsStr::new("dll")) {
        command.arg("-target:library").arg(format!("-doc:{}.xml", out.display()));
    }
    let output = command
        .arg(format!("-out:{}", out.display()))
        .args(&files)
        .output()
        .expect("mcs is missing: `make test` installs it, or apt-get install mono-mcs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "mcs {folders:?}: {printed}{errors}");
}

impl Program {
    /// Starts a program with arguments and an access token.
    pub fn start(program: &Path, arguments: &[&str], token: &str) -> Self {
        let mut child = tokio::process::Command::new("mono")
            .arg(program)
            .args(arguments)
            .env("LAUREL_TOKEN", token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("mono is missing: `make test` installs it, or apt-get install mono-runtime");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output, lines: vec![] }
    }

    /// Writes lines to its standard input.
    pub async fn write(&mut self, lines: &[&str]) {
        for line in lines {
            self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }
        self.input.flush().await.unwrap();
    }

    /// Waits until it has printed so many lines that begin with a text; returns the last one
    /// without that text.
    pub async fn printed(&mut self, start: &str, count: usize) -> String {
        loop {
            let found =
                self.lines.iter().filter_map(|line| line.strip_prefix(start)).nth(count - 1);
            if let Some(rest) = found {
                return rest.to_owned();
            }
            let line = timeout(PATIENCE, self.output.next_line()).await;
            let seen = &self.lines;
            let line = line.unwrap_or_else(|_| panic!("no {start:?} after {seen:#?}"));
            match line.unwrap() {
                Some(line) => self.lines.push(line),
                None => panic!("it ended after {seen:#?}: {}", errors(&mut self.child).await),
            }
        }
    }

    /// Kills it at once.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Closes its input, and waits until it ends by itself; returns what else it printed.
    pub async fn end(self) -> Vec<String> {
        let Self { mut child, input, mut output, mut lines } = self;
        drop(input);
        let ending = async {
            while let Some(line) = output.next_line().await.unwrap() {
                lines.push(line);
            }
            (errors(&mut child).await, child.wait().await.unwrap())
        };
        let ended = timeout(PATIENCE, ending).await;
        let (errors, status) = ended.expect("it ends with its input");
        assert!(status.success(), "{status}: {lines:#?} {errors}");
        lines
    }

    /// Waits until it fails; returns its errors.
    pub async fn failure(mut self) -> String {
        let errors = timeout(PATIENCE, errors(&mut self.child)).await.expect("it ends");
        let status = self.child.wait().await.unwrap();
        assert!(!status.success(), "{status}");
        errors
    }
}

/// The errors that a program writes until its end.
async fn errors(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).await.unwrap();
    text
}

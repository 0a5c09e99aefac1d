//! The pages as a reader follows them: every block of GraphQL and of shell, in the order of its
//! page, on a server with the demo.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program;

/// The address of the server in the pages.
const ADDRESS: &str = "http://127.0.0.1:8000";

/// The pages with blocks to run, but for those in docs/how-to.
const PAGES: [&str; 3] = ["README.md", "docs/README.md", "docs/tutorial.md"];

/// A block of a page.
struct Block {
    /// The line of the page on which it begins.
    line: usize,
    /// The words after the backticks: `graphql`, `sh`, `sh no-run`, `text`.
    info: String,
    text: String,
}

fn pages() -> Vec<String> {
    let how_to = fs::read_dir(program::root().join("docs/how-to")).unwrap();
    let mut pages: Vec<String> = how_to
        .map(|entry| format!("docs/how-to/{}", entry.unwrap().file_name().display()))
        .collect();
    pages.sort();
    PAGES.into_iter().map(str::to_owned).chain(pages).collect()
}

fn blocks(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(program::root().join(page)).unwrap();
    let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (vec![], None);
    for (index, line) in text.lines().enumerate() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            match open.take() {
                Some(block) => blocks.push(block),
                None => {
                    let info = info.trim().to_owned();
                    open = Some(Block { line: index + 1, info, text: String::new() });
                }
            }
        } else if let Some(block) = &mut open {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
    assert!(open.is_none(), "{page} ends within a block");
    blocks
}

/// Puts the programs into a directory, as `make install` does; the PATH that begins with it.
fn install(directory: &Path) -> OsString {
    for command in [program::api(), program::analytics()] {
        let built = PathBuf::from(command.get_program());
        symlink(&built, directory.join(built.file_name().unwrap())).unwrap();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = [directory.to_owned()].into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(directories).unwrap()
}

/// Runs a block of shell; its output, if it fails.
async fn run(api: &Api, directory: &Path, path: &OsStr, text: &str) -> Result<(), String> {
    let mut command = Command::new("bash");
    // The settings with which every command of this deployment is started.
    for (name, value) in api.deployment().api(&[]).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .args(["-e", "-c", &text.replace(ADDRESS, api.url())])
        .current_dir(directory)
        .env("PATH", path)
        .env("TOKEN", api.token())
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Sends a block of GraphQL with the admin token; the answer, if it has errors.
async fn ask(api: &Api, text: &str) -> Result<(), String> {
    let answer = api.query(text, json!({})).await;
    match answer.get("errors") {
        None => Ok(()),
        Some(_) => Err(answer.to_string()),
    }
}

/// Follows a page up to its first block that fails.
async fn follow(api: &Api, path: &OsStr, page: &str) -> Result<(), String> {
    let directory = tempfile::Builder::new().prefix("laurel-page-").tempdir().unwrap();
    for block in blocks(page) {
        let outcome = match block.info.as_str() {
            "graphql" => ask(api, &block.text).await,
            "sh" => run(api, directory.path(), path, &block.text).await,
            "json" => serde_json::from_str::<Value>(&block.text)
                .map(|_| ())
                .map_err(|error| error.to_string()),
            _ => Ok(()),
        };
        if let Err(output) = outcome {
            return Err(format!("{page}:{}: {}\n{}{output}", block.line, block.info, block.text));
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_block_of_the_pages_runs() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    deployment.api_output(&["demo"]).await;
    let api = Api::start(&deployment).await;
    let programs = tempfile::tempdir().unwrap();
    let path = install(programs.path());
    let mut failures = vec![];
    for page in pages() {
        failures.extend(follow(&api, &path, &page).await.err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

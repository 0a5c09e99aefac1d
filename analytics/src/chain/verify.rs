//! `verify`: a history file checked against checkpoints and a public key, without any store.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use engine::history::checkpoint::Checkpoint;
use entity::integrity::integrity_finding::Kind;
use sea_orm::ActiveEnum;
use serde::Serialize;

use super::check::{Fault, Link};
use super::line::Line;
use crate::display_path;
use crate::job::stop::Stop;

/// The longest line of a history file, in bytes: a commit has at most 1,000 events.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// The largest file of checkpoints, in bytes.
const CHECKPOINTS_BYTES_MAX: u64 = 256 << 20;

/// Faults that are kept; those beyond it are only counted.
const FAULTS_MAX: usize = 100;

/// Options of `verify`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The history files that `history` wrote: .ndjson.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// A file of checkpoints, as `checkpoint` prints them.
    #[arg(long)]
    checkpoints: PathBuf,
    /// The public key that must have signed the checkpoints, in hexadecimal: the `key` of a
    /// checkpoint that you trust.
    #[arg(long)]
    key: String,
}

/// The outcome of `verify`.
#[derive(Debug, Default, Serialize)]
pub struct Verified {
    /// The deployment that the checkpoints are of.
    deployment: String,
    commits: usize,
    events: usize,
    gone: usize,
    /// The commits after the last checkpoint of their partition: they lead on from it, and nothing
    /// is signed about them.
    unsigned: usize,
    checkpoints: usize,
    found: usize,
    faults: Vec<Shown>,
}

/// A fault as `--json` shows it.
#[derive(Debug, Serialize)]
struct Shown {
    kind: String,
    partition: u16,
    seq: i64,
    event: Option<i32>,
    member: Option<String>,
    note: String,
}

impl Verified {
    /// True if the history is what the checkpoints say.
    pub fn is_sound(&self) -> bool {
        self.found == 0
    }

    fn add(&mut self, partition: u16, faults: Vec<Fault>) {
        self.found += faults.len();
        for Fault { kind, seq, event, note } in faults {
            if self.faults.len() < FAULTS_MAX {
                let (index, member) = event.map(|event| (event.index, event.member)).unzip();
                let kind = kind.to_value();
                self.faults.push(Shown { kind, partition, seq, event: index, member, note });
            }
        }
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Shown { kind, partition, seq, event, note, .. } in &self.faults {
            write!(f, "{kind:<8}  partition {partition} commit {seq}")?;
            if let Some(event) = event {
                write!(f, " event {event}")?;
            }
            writeln!(f, ": {note}")?;
        }
        let Self { deployment, commits, events, gone, unsigned, checkpoints, found, .. } = self;
        write!(
            f,
            "verified {commits} commits with {events} events, and {gone} more whose content is gone, against {checkpoints} checkpoints of deployment {deployment}: found {found} faults; {unsigned} commits are later than the last checkpoint"
        )
    }
}

/// Verifies history files; a signal ends the process, as nothing is written.
///
/// # Errors
/// If a file cannot be read, or a checkpoint is not signed by the key.
pub async fn verify_until(mut stop: Stop, arguments: Arguments) -> Result<Verified> {
    tokio::select! {
        verified = tokio::task::spawn_blocking(move || verify(&arguments)) => verified?,
        why = stop.wait() => {
            eprintln!("error: {why}");
            std::process::exit(1);
        }
    }
}

fn verify(arguments: &Arguments) -> Result<Verified> {
    let (deployment, mut checkpoints) = checkpoints(arguments)?;
    let mut verified = Verified {
        deployment,
        checkpoints: checkpoints.values().map(BTreeMap::len).sum(),
        ..Verified::default()
    };
    let mut links: BTreeMap<u16, Link> = BTreeMap::new();
    for path in &arguments.files {
        read(path, |line| {
            let partition = line.partition();
            let commit = line.into_commit()?;
            let link = links.entry(partition).or_insert_with(Link::root);
            let mut faults = vec![];
            link.follow(&commit, true, &mut faults);
            let due = checkpoints.entry(partition).or_default();
            match due.remove(&link.seq) {
                Some(checkpoint) => link.check(&checkpoint, &mut faults),
                None => verified.unsigned += usize::from(due.range(link.seq..).next().is_none()),
            }
            let missing = commit.missing();
            verified.commits += 1;
            verified.events += commit.events.len() - missing;
            verified.gone += missing;
            verified.add(partition, faults);
            Ok(())
        })
        .with_context(|| format!("{} cannot be verified", display_path(path)))?;
    }
    // The checkpoints that are left are of commits that the history does not have.
    for (partition, left) in checkpoints {
        let Some((&seq, _)) = left.last_key_value() else { continue };
        let last = links.get(&partition).map_or(0, |link| link.seq);
        // The gap itself is a fault already.
        if seq <= last {
            continue;
        }
        let note =
            format!("commits {} to {seq} are missing: a checkpoint is of the last", last + 1);
        let fault = Fault { kind: Kind::Missing, seq: last + 1, event: None, note };
        verified.add(partition, vec![fault]);
    }
    Ok(verified)
}

/// Checkpoints by partition and seq.
type Checkpoints = BTreeMap<u16, BTreeMap<i64, Checkpoint>>;

/// The deployment, and its checkpoints.
fn checkpoints(arguments: &Arguments) -> Result<(String, Checkpoints)> {
    let path = &arguments.checkpoints;
    let cannot = || format!("{} cannot be read", display_path(path));
    let bytes = fs::metadata(path).with_context(cannot)?.len();
    ensure!(
        bytes <= CHECKPOINTS_BYTES_MAX,
        "{} has {bytes} bytes: expected at most {CHECKPOINTS_BYTES_MAX}",
        display_path(path)
    );
    let text = fs::read_to_string(path).with_context(cannot)?;
    let all = Checkpoint::parse_all(&text).with_context(cannot)?;
    let Some(first) = all.first().map(|first| first.deployment.clone()) else {
        bail!("{} has no checkpoint", display_path(path))
    };
    let mut checkpoints = Checkpoints::new();
    for checkpoint in all {
        let Checkpoint { partition, seq, key, deployment, .. } = &checkpoint;
        ensure!(
            *key == arguments.key,
            "the checkpoint of partition {partition} at seq {seq} is signed by {key}: expected {}",
            arguments.key
        );
        ensure!(
            *deployment == first,
            "the checkpoint of partition {partition} at seq {seq} is of another deployment: expected {first}"
        );
        let (partition, seq) = (*partition, i64::try_from(*seq)?);
        let commit_id = checkpoint.commit_id.clone();
        let former = checkpoints.entry(partition).or_default().insert(seq, checkpoint);
        ensure!(
            former.is_none_or(|former| former.commit_id == commit_id),
            "two checkpoints of partition {partition} at seq {seq} name different commits: expected one history; its key signed two"
        );
    }
    Ok((first, checkpoints))
}

/// Hands over the lines of a history file.
fn read(path: &Path, mut take: impl FnMut(Line) -> Result<()>) -> Result<()> {
    let mut file = BufReader::new(File::open(path)?);
    let mut text = vec![];
    for number in 1_u64.. {
        text.clear();
        file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text)?;
        if text.is_empty() {
            break;
        }
        let line = serde_json::from_slice(&text).map_err(anyhow::Error::from).and_then(&mut take);
        line.with_context(|| format!("line {number} is no commit"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_checkpoints_that_contradict_each_other_are_refused() {
        let page = include_str!("../../../docs/explanation/history.md");
        let one = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
        let (statement, _) = one.split_once("signature: ").unwrap();
        let (before, after) = statement.split_once("commit: ").unwrap();
        let other = format!(
            "{before}commit: {}{}signature: {}{}\n",
            "f".repeat(64),
            &after[64..],
            "5458de518310153e4f3721bd831ddf34ec083373728301a608cc3fd35bb79ab5",
            "98be238c2447b2da2f0e9aae2faca8d136574d99a17ad16c9c6741d36a5fca07",
        );
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("checkpoints.txt");
        let key = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8".to_owned();
        let arguments = Arguments { files: vec![], checkpoints: path.clone(), key };
        fs::write(&path, format!("{one}\n{one}")).unwrap();
        let (deployment, known) = checkpoints(&arguments).unwrap();
        assert_eq!(
            (deployment.as_str(), known[&3_u16].len()),
            ("6b1f0e2d9c8a47358e6d5c4b3a291807", 1)
        );
        fs::write(&path, format!("{one}\n{other}")).unwrap();
        let error = checkpoints(&arguments).unwrap_err();
        assert!(error.to_string().contains("name different commits"), "{error:#}");
    }

    #[test]
    fn a_line_that_is_no_commit_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("h.ndjson");
        fs::write(&path, "{}\n").unwrap();
        let error = read(&path, |_| Ok(())).unwrap_err();
        assert!(format!("{error:#}").starts_with("line 1 is no commit"), "{error:#}");
    }
}

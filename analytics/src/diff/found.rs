//! The outcome of a diff, as text and as JSON.

use std::collections::HashMap;
use std::fmt;

use serde::{Serialize, Serializer};

use super::proof::Proven;
use crate::diff::finding::Finding;

/// Findings printed; SQL has more of them.
const PRINTED_MAX: usize = 50;

/// Findings in the JSON.
const IN_JSON_MAX: usize = 1000;

/// The outcome of a diff.
#[derive(Debug, Default)]
pub struct Found {
    pub(crate) run_id: i64,
    pub(crate) checked: u64,
    /// The number of differences.
    pub(crate) found: usize,
    /// The findings that are kept.
    pub(crate) findings: Vec<Finding>,
    /// Differences left after a repair; `None` without `--repair`.
    pub(crate) left: Option<usize>,
    pub(crate) proven: Proven,
    pub(crate) slugs: HashMap<i64, String>,
    pub(crate) seconds: f64,
}

impl Found {
    /// True if everything agrees (after the repair, if there was one).
    pub fn is_clean(&self) -> bool {
        self.left.unwrap_or(self.found) == 0
    }

    /// The number of differences repaired.
    pub(crate) fn repaired(&self) -> usize {
        self.left.map_or(0, |left| self.found.saturating_sub(left))
    }

    fn shown<'a>(&'a self, finding: &'a Finding) -> ShownFinding<'a> {
        ShownFinding {
            kind: finding.kind.name(),
            board: self.slugs.get(&finding.board_no).map(String::as_str),
            place: finding.what.name(),
            member: &finding.member,
            window: &finding.window,
            period: &finding.period,
            segment: &finding.segment,
            history: finding.history,
            sql: finding.sql,
            redis: finding.redis,
            repaired: finding.is_repaired,
            note: finding.note.as_deref(),
        }
    }
}

/// The outcome as `--json` shows it.
#[derive(Serialize)]
struct Shown<'a> {
    run: i64,
    checked: u64,
    found: usize,
    repaired: usize,
    left: Option<usize>,
    proven: Proven,
    findings: Vec<ShownFinding<'a>>,
    seconds: f64,
}

/// A finding as `--json` shows it.
#[derive(Serialize)]
struct ShownFinding<'a> {
    kind: &'static str,
    /// The board's slug, if there is still such a board.
    board: Option<&'a str>,
    place: &'static str,
    member: &'a str,
    window: &'a str,
    period: &'a str,
    segment: &'a str,
    history: Option<i64>,
    sql: Option<i64>,
    redis: Option<i64>,
    repaired: bool,
    note: Option<&'a str>,
}

impl Serialize for Found {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let findings = self.findings.iter().take(IN_JSON_MAX);
        let shown = Shown {
            run: self.run_id,
            checked: self.checked,
            found: self.found,
            repaired: self.repaired(),
            left: self.left,
            proven: self.proven,
            findings: findings.map(|finding| self.shown(finding)).collect(),
            seconds: self.seconds,
        };
        shown.serialize(serializer)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raw =
            |score: Option<i64>| score.map_or_else(|| "-".to_owned(), |score| score.to_string());
        for finding in self.findings.iter().take(PRINTED_MAX) {
            let Finding { kind, board_no, member, window, period, .. } = finding;
            let board = self.slugs.get(board_no).map_or("a deleted board", String::as_str);
            let scores = format!(
                "history {}, sql {}, redis {}",
                raw(finding.history),
                raw(finding.sql),
                raw(finding.redis)
            );
            let place = match finding.what.name() {
                "ENTRY" => String::new(),
                name => format!(" ({name})"),
            };
            write!(
                f,
                "{:<15}  {board}  {window} {period}{place}  {member}: {scores}",
                kind.name()
            )?;
            if let Some(note) = &finding.note {
                write!(f, "; {note}")?;
            }
            writeln!(f, "{}", if finding.is_repaired { "; repaired" } else { "" })?;
        }
        if self.found > PRINTED_MAX {
            writeln!(f, "… and {} more, in the table integrity_finding", self.found - PRINTED_MAX)?;
        }
        let (checked, found, seconds, proven) =
            (self.checked, self.found, self.seconds, self.proven);
        write!(
            f,
            "checked {checked} entries, found {found} differences in {seconds:.1} s (run {}); partitions proven clean: {} by digests and sums, {} by their history; not proven: {}",
            self.run_id, proven.by_digest, proven.by_history, proven.unproven
        )?;
        match self.left {
            None => Ok(()),
            Some(0) => write!(f, "\nrepaired {found}; no differences left"),
            Some(left) => write!(f, "\nrepaired {}; {left} differences left", self.repaired()),
        }
    }
}

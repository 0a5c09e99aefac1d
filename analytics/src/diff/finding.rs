//! Differences between history, SQL and Redis, and their kinds.

use std::collections::BTreeSet;

use engine::integrity::look::{Location, Observation, StoredValues};
use engine::integrity::repair::ForeignKey;
use entity::integrity::integrity_finding::{self, Kind};
use ranking::board::Board;
use ranking::id::{MemberId, PartitionNo};
use ranking::standings_id::StandingsId;
use ranking::window::Window;
use sea_orm::ActiveEnum;

/// One difference.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The kind.
    pub kind: Kind,
    /// The board's number.
    pub board_no: i64,
    /// The member, as text that every database takes.
    pub member: String,
    /// The window's name.
    pub window: String,
    /// The period's label.
    pub period: String,
    /// The segment; empty for everyone.
    pub segment: String,
    /// The raw score by history.
    pub history: Option<i64>,
    /// The raw score in SQL.
    pub sql: Option<i64>,
    /// The raw score in Redis.
    pub redis: Option<i64>,
    /// The partition that holds the location.
    pub partition: PartitionNo,
    /// The subject.
    pub what: What,
    /// SQL and Redis agree with each other against history, here or in "all" for the same member.
    pub is_against_both: bool,
    /// The repair put it right.
    pub is_repaired: bool,
    /// A remark for the reader.
    pub note: Option<String>,
}

/// The subject of a finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// An entry or a row of a member, who is named by bytes.
    Location(Vec<u8>, Location),
    /// A key in Redis that Laurel does not write.
    Key(ForeignKey),
    /// The standings of a period that the list of periods does not name.
    Unlisted(StandingsId),
    /// A file of the archive.
    File(String),
    /// A commit, by its seq.
    Commit(u64),
    /// An event of the history, by the seq of its commit and its index there.
    Event(u64, u32),
    /// A position in a source, by the key in Redis and the field there.
    Position(String, String),
}

/// The note of a finding in which SQL and Redis agree against history.
const AGAINST_BOTH: &str = "SQL and Redis agree with each other against the history: if a finding says that an event or a commit was altered, restore the history from a backup; pass --against history to make both follow it";

/// The kind of a difference between history and one store; `None` if they agree.
pub fn kind_between(history: Option<StoredValues>, store: Option<StoredValues>) -> Option<Kind> {
    match (history, store) {
        (None, None) => None,
        (Some(_), None) => Some(Kind::Missing),
        (None, Some(_)) => Some(Kind::Phantom),
        (Some(StoredValues::Key(key, score)), Some(StoredValues::Key(other_key, other_score))) => {
            if score != other_score {
                return Some(Kind::WrongScore);
            }
            (key != other_key).then_some(Kind::WrongTieBreak)
        }
        (Some(a @ StoredValues::Archived { .. }), Some(b @ StoredValues::Archived { .. })) => {
            if a.score() != b.score() {
                return Some(Kind::WrongScore);
            }
            (a != b).then_some(Kind::WrongTieBreak)
        }
        (Some(_), Some(_)) => Some(Kind::WrongScore),
    }
}

impl Finding {
    /// The difference at a location, if there is one: that of Redis, or else that of SQL. Scores
    /// that decay are shown as of an instant, rounded.
    pub fn of(
        board: &Board,
        partition: PartitionNo,
        seen: &Observation,
        now_ms: i64,
    ) -> Option<Self> {
        let Observation { member, location, history, sql, redis } = seen;
        let has_row = !matches!(location, Location::Entry(id) if id.window != Window::All);
        let is_in_redis = matches!(location, Location::Entry(_));
        let by_redis = is_in_redis.then(|| kind_between(*history, *redis)).flatten();
        let by_sql = || has_row.then(|| kind_between(*history, *sql)).flatten();
        let kind = by_redis.or_else(by_sql)?;
        let id = match location {
            Location::Entry(id) | Location::Sealed(id) => id.clone(),
            Location::Archived(segment) => StandingsId::all_time(board, segment.clone()),
        };
        let score = |held: Option<StoredValues>| {
            let score = held.and_then(StoredValues::score)?;
            let half_life = id.window.half_life();
            let left = half_life.map(|half_life| half_life.value(score, now_ms).round() as i64);
            Some(left.unwrap_or(score))
        };
        let is_against_both = is_in_redis && has_row && sql == redis && history != sql;
        Some(Self {
            kind,
            board_no: board.no.0,
            // As text that every database takes.
            member: match std::str::from_utf8(member) {
                Ok(text) if MemberId::new(text).is_ok() => text.to_owned(),
                _ => String::from_utf8_lossy(member).escape_debug().to_string(),
            },
            window: id.window.to_string(),
            period: id.period.clone(),
            segment: id.segment.clone(),
            history: score(*history),
            sql: score(sql.filter(|_| has_row)),
            redis: score(redis.filter(|_| is_in_redis)),
            partition,
            what: What::Location(member.clone(), location.clone()),
            is_against_both,
            is_repaired: false,
            note: is_against_both.then(|| AGAINST_BOTH.to_owned()),
        })
    }

    /// A finding that concerns no single member.
    pub fn of_no_member(kind: Kind, board_no: i64, partition: PartitionNo, what: What) -> Self {
        let mut finding = Self {
            kind,
            board_no,
            member: "*".to_owned(),
            window: String::new(),
            period: String::new(),
            segment: String::new(),
            history: None,
            sql: None,
            redis: None,
            partition,
            what,
            is_against_both: false,
            is_repaired: false,
            note: None,
        };
        match &finding.what {
            What::Key(foreign) => finding.window.clone_from(&foreign.key),
            What::File(path) => finding.window.clone_from(path),
            What::Unlisted(id) => {
                finding.window = id.window.to_string();
                finding.period.clone_from(&id.period);
                finding.segment.clone_from(&id.segment);
            }
            What::Commit(seq) => {
                finding.window = format!("partition {partition}");
                finding.period = format!("commit {seq}");
            }
            What::Event(seq, index) => {
                finding.window = format!("partition {partition}");
                finding.period = format!("commit {seq} event {index}");
            }
            What::Position(key, field) => {
                finding.window.clone_from(key);
                finding.period.clone_from(field);
            }
            What::Location(..) => {}
        }
        finding
    }

    /// Sets the note.
    pub fn noted(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    /// Marks the member's history as doubtful: SQL and Redis agree with each other against it.
    pub fn doubt(&mut self) {
        self.is_against_both = true;
        self.note.get_or_insert_with(|| AGAINST_BOTH.to_owned());
    }

    /// Identifies the finding across comparisons.
    pub fn identity(&self) -> (i64, PartitionNo, What) {
        (self.board_no, self.partition, self.what.clone())
    }

    /// The row of `integrity_finding`.
    pub fn to_row(&self, run_id: i64, index: usize) -> integrity_finding::Model {
        integrity_finding::Model {
            run_id,
            finding_index: index as i32,
            board_no: self.board_no,
            kind: self.kind.to_value(),
            member: self.member.clone(),
            window: self.window.clone(),
            period: self.period.clone(),
            segment: self.segment.clone(),
            history: self.history,
            sql: self.sql,
            redis: self.redis,
            repaired: self.is_repaired,
            place: self.what.location().to_value(),
            note: self.note.clone(),
        }
    }
}

impl What {
    /// The location.
    pub fn location(&self) -> integrity_finding::Location {
        use integrity_finding::Location as Named;
        match self {
            Self::Location(_, Location::Entry(_)) => Named::Entry,
            Self::Location(_, Location::Sealed(_)) => Named::Sealed,
            Self::Location(_, Location::Archived(_)) => Named::Archived,
            Self::Key(_) | Self::Position(..) => Named::Key,
            Self::Unlisted(_) => Named::Periods,
            Self::File(_) => Named::File,
            Self::Commit(_) => Named::Commit,
            Self::Event(..) => Named::Event,
        }
    }
}

/// Turns a phantom into `WrongWindow` if its member is missing, with the same score, from another
/// period of the same window.
pub fn name_wrong_windows(findings: &mut [Finding]) {
    let place = |finding: &Finding, score| {
        (
            finding.board_no,
            finding.segment.clone(),
            finding.window.clone(),
            finding.member.clone(),
            score,
        )
    };
    let is_entry =
        |finding: &Finding| matches!(finding.what, What::Location(_, Location::Entry(_)));
    let missing: BTreeSet<_> = findings
        .iter()
        .filter(|finding| finding.kind == Kind::Missing && is_entry(finding))
        .map(|finding| place(finding, finding.history))
        .collect();
    for finding in
        findings.iter_mut().filter(|finding| finding.kind == Kind::Phantom && is_entry(finding))
    {
        if missing.contains(&place(finding, finding.redis)) {
            finding.kind = Kind::WrongWindow;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ranking::score::rank_key::RankKey;

    fn held(key: i64, score: i64) -> Option<StoredValues> {
        Some(StoredValues::Key(RankKey::from_i64(key).unwrap(), score))
    }

    #[test]
    fn a_difference_has_the_kind_of_what_differs() {
        assert_eq!(kind_between(held(1, 1), held(1, 1)), None);
        assert_eq!(kind_between(None, None), None);
        assert_eq!(kind_between(held(1, 1), None), Some(Kind::Missing));
        assert_eq!(kind_between(None, held(1, 1)), Some(Kind::Phantom));
        assert_eq!(kind_between(held(1, 1), held(2, 2)), Some(Kind::WrongScore));
        assert_eq!(kind_between(held(1, 1), held(2, 1)), Some(Kind::WrongTieBreak));
        assert_eq!(kind_between(held(1, 1), Some(StoredValues::Foreign)), Some(Kind::WrongScore));
    }
}

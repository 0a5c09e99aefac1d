//! What can differ between history, SQL and Redis, and of which kind it is.

use std::collections::BTreeSet;

use entity::integrity_finding;
use ranking::board::Board;
use ranking::key::StandingsId;
use ranking::rank_key::RankKey;
use ranking::window::Window;

/// The kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// History has the entry; a store does not.
    Missing,
    /// A store has the entry; history does not.
    Phantom,
    /// The score is another one.
    WrongScore,
    /// The score is right, its time is another one.
    WrongTieBreak,
    /// The entry stands in a period that it does not belong to, and not where it does.
    WrongWindow,
}

/// What one store has for a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Held {
    /// A key and the raw score in it.
    Key(RankKey, i64),
    /// Something that is no key of this program, or does not agree with itself.
    Foreign,
}

/// One difference.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// The board's number.
    pub board_no: i64,
    /// Whose entry.
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
}

impl Kind {
    /// Its name, as SQL and GraphQL have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "MISSING",
            Self::Phantom => "PHANTOM",
            Self::WrongScore => "WRONG_SCORE",
            Self::WrongTieBreak => "WRONG_TIE_BREAK",
            Self::WrongWindow => "WRONG_WINDOW",
        }
    }

    /// The kind of a difference between history and one store; `None` where they agree.
    pub fn between(history: Option<Held>, store: Option<Held>) -> Option<Self> {
        match (history, store) {
            (None, None) => None,
            (Some(_), None) => Some(Self::Missing),
            (None, Some(_)) => Some(Self::Phantom),
            (Some(Held::Key(key, score)), Some(Held::Key(other_key, other_score))) => {
                if score != other_score {
                    return Some(Self::WrongScore);
                }
                (key != other_key).then_some(Self::WrongTieBreak)
            }
            (Some(_), Some(_)) => Some(Self::WrongScore),
        }
    }
}

impl Held {
    /// What Redis' double means in a standings.
    pub fn of_double(board: &Board, window: Window, double: f64) -> Self {
        RankKey::from_f64(double).map_or(Self::Foreign, |key| {
            Self::Key(key, board.rules.layout(window).decode(key).0)
        })
    }

    /// What a row of `standing` holds; foreign where its score is not the one in its key.
    pub fn of_row(board: &Board, score: i64, rank_key: i64) -> Self {
        match RankKey::from_i64(rank_key) {
            Ok(key) if board.rules.layout(Window::All).decode(key).0 == score => {
                Self::Key(key, score)
            }
            _ => Self::Foreign,
        }
    }

    /// The raw score, where there is one.
    pub fn score(self) -> Option<i64> {
        match self {
            Self::Key(_, score) => Some(score),
            Self::Foreign => None,
        }
    }
}

impl Finding {
    /// The difference at one place, if there is one: that of Redis, or else that of SQL, which holds `all` only. Scores that decay are shown as
    /// of an instant, rounded.
    pub fn at(
        id: &StandingsId,
        member: &str,
        history: Option<Held>,
        sql: Option<Held>,
        redis: Option<Held>,
        now_ms: i64,
    ) -> Option<Self> {
        let holds_all = id.window == Window::All;
        let by_sql = || holds_all.then(|| Kind::between(history, sql)).flatten();
        let kind = Kind::between(history, redis).or_else(by_sql)?;
        let score = |held: Option<Held>| {
            let score = held.and_then(Held::score)?;
            let half_life = id.window.half_life();
            let left = half_life.map(|half_life| half_life.value(score, now_ms).round() as i64);
            Some(left.unwrap_or(score))
        };
        Some(Self {
            kind,
            board_no: id.board.0,
            member: member.to_owned(),
            window: id.window.to_string(),
            period: id.period.clone(),
            segment: id.segment.clone(),
            history: score(history),
            sql: score(sql.filter(|_| holds_all)),
            redis: score(redis),
        })
    }

    /// Its row.
    pub fn to_row(&self, run_id: i64, index: usize) -> integrity_finding::Model {
        integrity_finding::Model {
            run_id,
            finding_index: index as i32,
            board_no: self.board_no,
            kind: self.kind.name().to_owned(),
            member: self.member.clone(),
            window: self.window.clone(),
            period: self.period.clone(),
            segment: self.segment.clone(),
            history: self.history,
            sql: self.sql,
            redis: self.redis,
            repaired: false,
        }
    }
}

/// A phantom whose member is missing from another period of the same window, with the same score, was put into the wrong one.
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
    let missing: BTreeSet<_> = findings
        .iter()
        .filter(|finding| finding.kind == Kind::Missing)
        .map(|finding| place(finding, finding.history))
        .collect();
    for finding in findings
        .iter_mut()
        .filter(|finding| finding.kind == Kind::Phantom)
    {
        if missing.contains(&place(finding, finding.redis)) {
            finding.kind = Kind::WrongWindow;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(key: i64, score: i64) -> Option<Held> {
        Some(Held::Key(RankKey::from_i64(key).unwrap(), score))
    }

    #[test]
    fn a_difference_has_the_kind_of_what_differs() {
        assert_eq!(Kind::between(held(1, 1), held(1, 1)), None);
        assert_eq!(Kind::between(None, None), None);
        assert_eq!(Kind::between(held(1, 1), None), Some(Kind::Missing));
        assert_eq!(Kind::between(None, held(1, 1)), Some(Kind::Phantom));
        assert_eq!(
            Kind::between(held(1, 1), held(2, 2)),
            Some(Kind::WrongScore)
        );
        assert_eq!(
            Kind::between(held(1, 1), held(2, 1)),
            Some(Kind::WrongTieBreak)
        );
        assert_eq!(
            Kind::between(held(1, 1), Some(Held::Foreign)),
            Some(Kind::WrongScore)
        );
    }
}

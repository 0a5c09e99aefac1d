//! Old rows of tables that only tell what happened, deleted in small statements.

use sea_orm::sea_query::IntoCondition;
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseConnection, DbErr};

use super::dialect::{delete_among, statement};
use crate::history::dead_letter;

/// The most rows of one statement.
pub const ROWS_MAX: u64 = 1000;

/// Rows that only tell what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// Ended jobs, but the last one of each kind.
    Job,
    /// Findings of runs of the diff that go.
    Finding,
    /// Runs of the diff without findings, but the last one over all boards, and the last of these
    /// that found no difference.
    Run,
    /// Refused events that count nowhere: their content goes, and the rows stay.
    DeadLetter,
    /// Processes that ended without a word.
    Process,
    /// The acts of the audit log.
    Audit,
    /// Positions in sources that gave nothing more.
    Position,
}

/// The runs that go.
const RUNS: &str = r#"SELECT "id" FROM "integrity_run" WHERE "started_at_ms" < $1
    AND "id" NOT IN (SELECT MAX("id") FROM "integrity_run"
        WHERE "board_no" IS NULL AND "finished_at_ms" IS NOT NULL AND "is_partial" = FALSE
        HAVING MAX("id") IS NOT NULL)
    AND "id" NOT IN (SELECT MAX("id") FROM "integrity_run"
        WHERE "board_no" IS NULL AND "finished_at_ms" IS NOT NULL AND "found" = 0
        AND "is_partial" = FALSE HAVING MAX("id") IS NOT NULL)"#;

/// The key of a position in a source.
const POSITION_KEY: &str =
    r#""board_no", "layout_since", "partition", "source", "source_partition""#;

impl Records {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Job,
        Self::Finding,
        Self::Run,
        Self::DeadLetter,
        Self::Process,
        Self::Audit,
        Self::Position,
    ];

    /// Their table.
    pub fn table(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Finding => "integrity_finding",
            Self::Run => "integrity_run",
            Self::DeadLetter => "dead_letter",
            Self::Process => "process",
            Self::Audit => "audit_log",
            Self::Position => "source_position",
        }
    }

    /// The key of the table, and the keys of the rows that go; $1 is the instant. `None` for rows
    /// whose content alone goes.
    fn old(self) -> Option<(&'static str, String)> {
        Some(match self {
            Self::DeadLetter => return None,
            Self::Job => (
                r#""id""#,
                r#"SELECT "id" FROM "job" WHERE "finished_at_ms" < $1
                AND "id" NOT IN (SELECT MAX("id") FROM "job" GROUP BY "kind")"#
                    .to_owned(),
            ),
            Self::Finding => (
                r#""run_id", "finding_index""#,
                format!(
                    r#"SELECT "run_id", "finding_index" FROM "integrity_finding"
                    WHERE "run_id" IN ({RUNS})"#
                ),
            ),
            Self::Run => (
                r#""id""#,
                format!(
                    r#"{RUNS} AND NOT EXISTS (SELECT 1 FROM "integrity_finding" AS f
                    WHERE f."run_id" = "integrity_run"."id")"#
                ),
            ),
            Self::Process => {
                (r#""id""#, r#"SELECT "id" FROM "process" WHERE "heartbeat_at_ms" < $1"#.to_owned())
            }
            Self::Audit => {
                (r#""no""#, r#"SELECT "no" FROM "audit_log" WHERE "at_ms" < $1"#.to_owned())
            }
            Self::Position => (
                POSITION_KEY,
                format!(r#"SELECT {POSITION_KEY} FROM "source_position" WHERE "moved_at_ms" < $1"#),
            ),
        })
    }
}

/// Deletes at most [`ROWS_MAX`] rows from before an instant in Unix milliseconds, or takes the
/// content from all of them, which are few, and returns their number.
pub async fn delete_old(
    db: &DatabaseConnection,
    records: Records,
    before_ms: i64,
) -> Result<u64, DbErr> {
    let Some((key, old)) = records.old() else {
        let old = dead_letter::Column::CreatedAtMs.lt(before_ms);
        return dead_letter::blank(db, old.into_condition()).await;
    };
    let table = records.table();
    let backend = db.get_database_backend();
    let delete = delete_among(backend, table, key, &format!("{old} LIMIT {ROWS_MAX}"));
    let delete = statement(backend, delete, [before_ms.into()]);
    Ok(db.execute_raw(delete).await?.rows_affected())
}

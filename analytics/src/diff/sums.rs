//! Sums of a board's rows in SQL, by partition: the cheap proof compares them instead of the
//! history.
//!
//! Rows of `standing` and `archived_entry` are hashed. Rows of sealed standings and of events are
//! summed by SQL, since nothing else of them is read here. There are two kinds of sums, which
//! cannot overflow below 2³¹ rows:
//!
//! * of halves of 32 bits;
//! * of products of a row's numbers (modulo a prime of 16 bits) with a number made of its member.
//!   So the sum changes when the scores of two members are swapped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result};
use engine::deployment::Deployment;
use engine::partition::Partition;
use entity::archive::archive_mark;
use entity::history::log_cursor;
use entity::sql::blocks::{Block, Columns};
use entity::sql::dialect::{integer, mixed, statement};
use futures::TryStreamExt;
use ranking::board::Board;
use ranking::id::PartitionNo;
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction};

use super::sets::digest;

/// The sums of a board's rows in one partition, at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    /// SQL's cursor of the partition.
    pub(crate) cursor: log_cursor::Model,
    /// The sums of its rows of sealed standings and of events.
    lines: Vec<String>,
}

/// The count and the hash of rows.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    count: usize,
    /// The sum of the blocks' hashes.
    hashes: u128,
}

/// The hashes of the rows that are read one by one.
pub(crate) struct Hashed {
    /// Of `standing`.
    pub(crate) standing: Sum,
    /// Of `archived_entry`.
    pub(crate) archived: Sum,
}

impl Hashed {
    /// Reads and hashes the rows of a board, archived up to a seq, in a partition.
    pub(crate) async fn read(
        partition: Partition<'_>,
        board: &Board,
        archived_seq: i64,
    ) -> Result<Self> {
        let db = &partition.db;
        let standing = Columns::of_standing(partition.no, Some(board.no));
        let archived = match archived_seq {
            0 => Sum::default(),
            _ => Sum::of(Columns::of_archived(partition.no, board.no, archived_seq), db).await?,
        };
        Ok(Self { standing: Sum::of(standing, db).await?, archived })
    }
}

impl Sum {
    async fn of(columns: Columns, db: &DatabaseConnection) -> Result<Self> {
        let mut sum = Self::default();
        let mut blocks = columns.read(db);
        while let Some(block) = blocks.try_next().await? {
            sum.add(&block)?;
        }
        Ok(sum)
    }

    /// Adds rows.
    ///
    /// # Errors
    /// As [`Block::hash`].
    pub(crate) fn add(&mut self, block: &Block) -> Result<()> {
        self.hashes = self.hashes.wrapping_add(block.hash()?);
        self.count += block.len();
        Ok(())
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:032x}", self.count, self.hashes)
    }
}

impl Sums {
    /// A digest of these sums and of the hashes.
    pub(crate) fn digest(&self, hashed: &Hashed) -> String {
        let Hashed { standing, archived } = hashed;
        let mut lines = self.lines.clone();
        lines.extend([standing.to_string(), archived.to_string()]);
        digest(&lines)
    }
}

/// The cursors of a board's partitions, and the sums of its events and sealed entries, at one
/// moment. The events of a small board are found by an index.
pub(crate) async fn sums(
    deployment: &Deployment,
    board: &Board,
    partitions: &[PartitionNo],
    is_small: bool,
) -> Result<BTreeMap<PartitionNo, Sums>> {
    let no = board.no;
    let of_sealed = Table {
        name: "sealed_entry",
        numbers: &["score", "rank_key"],
        besides: &[("standings_no", 1)],
        texts: &[],
    };
    let of_events = Table {
        name: "score_event",
        numbers: &["score", "at_ms"],
        besides: &[("seq", 1024), ("event_index", 1), ("void_seq", 31), ("void_index", 7)],
        texts: match board.has_metadata {
            true => &["kind", "segments", "metadata"],
            false => &["kind", "segments"],
        },
    };
    let view = deployment.view().await?;
    let of_periods = format!(
        r#"WHERE "standings_no" IN (SELECT "no" FROM "sealed_period" WHERE "board_no" = {no})"#
    );
    let sealed = of_sealed.sums(&view, &of_periods).await?;
    // Events that were accepted while the board had other numbers of shards.
    let mut former: BTreeMap<PartitionNo, String> = BTreeMap::new();
    if board.has_moved() {
        let since = board.layout_since();
        for home in deployment.store.partitions().of_history(board) {
            let earlier = format!(
                r#"WHERE "partition" = {home} AND "generation" < {since} AND "board_no" = {no}"#
            );
            let events = of_events.sums(&view, &earlier).await?;
            former.extend(events.into_values().map(|line| (home, line)));
        }
    }
    let mut all = BTreeMap::new();
    for &partition in partitions {
        let Some(cursor) = log_cursor::of(&view, partition).await? else { continue };
        let mark = archive_mark::of(&view, no, partition).await?.archived_seq;
        let within = if is_small { r#""partition" + 0"# } else { r#""partition""# };
        let later =
            format!(r#"WHERE {within} = {partition} AND "seq" > {mark} AND "board_no" = {no}"#);
        let mut lines =
            vec![line(&sealed, partition), line(&of_events.sums(&view, &later).await?, partition)];
        let homes = deployment.store.partitions().homes(board, partition);
        let homes: BTreeSet<PartitionNo> = homes.into_iter().map(|(_, home)| home).collect();
        lines.extend(homes.iter().filter_map(|home| former.get(home).cloned()));
        all.insert(partition, Sums { cursor, lines });
    }
    view.rollback().await?;
    Ok(all)
}

fn line(of: &BTreeMap<i32, String>, partition: PartitionNo) -> String {
    of.get(&i32::from(partition)).cloned().unwrap_or_default()
}

/// A table whose rows SQL counts and sums.
#[derive(Clone, Copy)]
struct Table<'a> {
    name: &'a str,
    /// Columns that are summed by halves.
    numbers: &'a [&'a str],
    /// Columns that are summed together, each multiplied by a factor.
    besides: &'a [(&'a str, i64)],
    /// Text columns of which a few characters count.
    texts: &'a [&'a str],
}

impl Table<'_> {
    /// Counts and sums of rows as text, by partition. `which` is the SQL that follows the table's
    /// name.
    async fn sums(&self, view: &DatabaseTransaction, which: &str) -> Result<BTreeMap<i32, String>> {
        let mut sums = vec!["COUNT(*)".to_owned(), r#"SUM("mixed")"#.to_owned()];
        for number in self.numbers.iter().copied().chain(["besides"]) {
            sums.push(format!(r#"SUM("{number}" & 4294967295)"#));
            sums.push(format!(r#"SUM("{number}" >> 32)"#));
            sums.push(format!(r#"SUM(("{number}" % 65521) * "mixed")"#));
        }
        let backend = view.get_database_backend();
        let named = sums.iter().enumerate().map(|(place, sum)| {
            let sum = integer(backend, &format!("COALESCE({sum}, 0)"));
            format!(r#"{sum} AS "s{place}""#)
        });
        let named: Vec<String> = named.collect();
        let numbers = self.numbers.iter().map(|number| format!(r#""{number}""#));
        let numbers: Vec<String> = numbers.collect();
        let besides = self.besides.iter().map(|(number, times)| {
            let number = integer(backend, &format!(r#""{number}""#));
            format!("COALESCE({number}, 0) * {times}")
        });
        let besides: Vec<String> = besides.collect();
        // The limit keeps SQLite from computing "mixed" again for every sum.
        let sql = format!(
            r#"SELECT "partition", {} FROM (SELECT "partition", {}, {} AS "besides", {} AS "mixed" FROM "{}" {which} LIMIT {}) AS r GROUP BY "partition""#,
            named.join(", "),
            numbers.join(", "),
            besides.join(" + "),
            mixed(backend, self.texts),
            self.name,
            i64::MAX
        );
        let asked = statement(backend, sql, []);
        let mut lines = BTreeMap::new();
        for row in view.query_all_raw(asked).await.context("the rows cannot be summed")? {
            let mut line = String::new();
            for place in 0..sums.len() {
                let sum: i64 = row.try_get("", &format!("s{place}"))?;
                line.push_str(&format!("{sum} "));
            }
            lines.insert(row.try_get("", "partition")?, line);
        }
        Ok(lines)
    }
}

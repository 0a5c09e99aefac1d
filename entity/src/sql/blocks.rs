//! Rows of SQL in blocks of columns, for jobs that read a whole partition.
//!
//! Most of the cost of reading rows is handing them over one at a time. On SQLite this module asks
//! for a block's columns as JSON arrays: one result row stands for thousands. A server already
//! sends many rows at once.

mod arrays;

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use ranking::id::{BoardNo, PartitionNo};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, StreamTrait, Value};
use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

use super::dialect::statement;
use arrays::{Texts, last_of, parsed};

/// The most rows that a block has.
const ROWS_MAX: usize = 20_000;

/// A selection of rows of one table, and the columns to read.
#[derive(Debug)]
pub struct Columns {
    /// The table.
    table: &'static str,
    /// Columns that identify a row, in the order of SQLite's primary key.
    order: &'static [&'static str],
    /// Text columns, none of them nullable.
    texts: &'static [&'static str],
    /// Columns of 64-bit integers.
    numbers: &'static [&'static str],
    /// The SQL condition that selects the rows.
    which: String,
}

/// A block of rows.
#[derive(Debug)]
pub struct Block {
    texts: &'static [&'static str],
    numbers: &'static [&'static str],
    count: usize,
    held: Held,
}

/// The rows of a block, as the database returned them.
#[derive(Debug)]
enum Held {
    /// SQLite: one JSON array a column, texts first.
    Arrays(Vec<String>),
    /// Other databases: one result a row.
    Rows(Vec<QueryResult>),
}

/// The rows of a block, with `N` of the number columns.
#[derive(Debug)]
pub struct Rows<const N: usize> {
    segments: Texts,
    members: Texts,
    numbers: [Vec<Option<i64>>; N],
}

impl Columns {
    /// The rows of `standing` in a partition, of one board or of all.
    ///
    /// Texts: `segment` and `member`. Numbers: `score`, `rank_key` and `seq`; for all boards also
    /// `board_no`.
    pub fn of_standing(partition: PartitionNo, board: Option<BoardNo>) -> Self {
        let of_board = board.map(|no| format!(r#" AND "board_no" = {no}"#));
        Self {
            table: "standing",
            order: match board {
                Some(_) => &["member", "segment"],
                None => &["board_no", "member", "segment"],
            },
            texts: &["segment", "member"],
            numbers: match board {
                Some(_) => &["score", "rank_key", "seq"],
                None => &["score", "rank_key", "seq", "board_no"],
            },
            which: format!(r#""partition" = {partition}{}"#, of_board.unwrap_or_default()),
        }
    }

    /// The rows of `archived_entry` of a board in a partition, of commits up to a seq.
    ///
    /// Texts: `segment` and `member`. Numbers: `score`, `tick`, `events` and `through_seq`.
    pub fn of_archived(partition: PartitionNo, board: BoardNo, through_seq: i64) -> Self {
        Self {
            table: "archived_entry",
            order: &["member", "segment", "through_seq"],
            texts: &["segment", "member"],
            numbers: &["score", "tick", "events", "through_seq"],
            which: format!(
                r#""board_no" = {board} AND "partition" = {partition} AND "through_seq" <= {through_seq}"#
            ),
        }
    }

    /// Reads only these number columns. They must include those that identify a row: `board_no` if
    /// the rows are of all boards, `through_seq` if rows differ by it alone.
    pub fn with(self, numbers: &'static [&'static str]) -> Self {
        Self { numbers, ..self }
    }

    /// Reads the rows block by block. The order of the rows is not defined.
    ///
    /// # Errors
    /// `Type` if a column holds an invalid value.
    pub fn read<'a, C: ConnectionTrait + StreamTrait>(
        self,
        db: &'a C,
    ) -> BoxStream<'a, Result<Block, DbErr>> {
        match ConnectionTrait::get_database_backend(db) {
            DbBackend::Sqlite => {
                let blocks =
                    stream::try_unfold((self, Some(vec![])), move |(columns, after)| async move {
                        let Some(after) = after else { return Ok(None) };
                        let (block, next) = columns.block_after(db, after).await?;
                        Ok::<_, DbErr>((block.len() > 0).then_some((block, (columns, next))))
                    });
                blocks.boxed()
            }
            _ => self.rows_of(db).boxed(),
        }
    }

    /// The block after a key, and the key of its last row. The key is `None` if the block is not
    /// full, as no other block follows it.
    async fn block_after(
        &self,
        db: &impl ConnectionTrait,
        after: Vec<Value>,
    ) -> Result<(Block, Option<Vec<Value>>), DbErr> {
        let Self { table, which, order, .. } = self;
        let places = vec!["?"; order.len()].join(", ");
        let order = order.join(", ");
        let mut rows = format!("FROM {table} WHERE {which}");
        if !after.is_empty() {
            rows.push_str(&format!(" AND ({order}) > ({places})"));
        }
        let names: Vec<&str> = self.names().collect();
        let arrays = names.iter().map(|name| format!("json_group_array({name})"));
        let arrays: Vec<String> = arrays.collect();
        let sql = format!(
            "SELECT count(*), {} FROM (SELECT {} {rows} ORDER BY {order} LIMIT {ROWS_MAX})",
            arrays.join(", "),
            names.join(", "),
        );
        let row = db.query_one_raw(statement(DbBackend::Sqlite, sql, after)).await?;
        let row = row.ok_or_else(|| DbErr::Custom("an aggregate returned no row".to_owned()))?;
        let count: i64 = row.try_get_by_index(0)?;
        let arrays = (1..=names.len()).map(|place| row.try_get_by_index(place));
        let arrays = arrays.collect::<Result<Vec<String>, _>>()?;
        let count = count.unsigned_abs() as usize;
        let last = (count == ROWS_MAX).then(|| self.last_place(&arrays));
        let block =
            Block { texts: self.texts, numbers: self.numbers, count, held: Held::Arrays(arrays) };
        Ok((block, last.transpose()?))
    }

    /// The key of the last row, in the columns of `order`.
    fn last_place(&self, arrays: &[String]) -> Result<Vec<Value>, DbErr> {
        let value = |name: &&str| {
            let column = self.names().position(|read| read == *name);
            let column =
                column.ok_or_else(|| DbErr::Custom(format!("column {name} is not read")))?;
            let last = last_of(&arrays[column]);
            Ok(match self.texts.contains(name) {
                true => parsed::<String>(last)?.into(),
                false => parsed::<i64>(last)?.into(),
            })
        };
        self.order.iter().map(value).collect()
    }

    /// The names of the columns to read, texts first.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.texts.iter().chain(self.numbers).copied()
    }

    /// Streams all rows as the database sends them.
    fn rows_of<C: ConnectionTrait + StreamTrait>(
        self,
        db: &C,
    ) -> impl futures::Stream<Item = Result<Block, DbErr>> + Send {
        let names: Vec<String> = self.names().map(|name| format!(r#""{name}""#)).collect();
        let (names, Self { table, which, .. }) = (names.join(", "), &self);
        let sql = format!(r#"SELECT {names} FROM "{table}" WHERE {which}"#);
        let asked = statement(ConnectionTrait::get_database_backend(db), sql, []);
        let rows = async move { db.stream_raw(asked).await };
        stream::once(rows).try_flatten().chunks(ROWS_MAX).map(move |rows| {
            let rows: Vec<QueryResult> = rows.into_iter().collect::<Result<_, DbErr>>()?;
            Ok(Block {
                texts: self.texts,
                numbers: self.numbers,
                count: rows.len(),
                held: Held::Rows(rows),
            })
        })
    }
}

impl Block {
    /// The number of rows, at least one.
    #[expect(clippy::len_without_is_empty, reason = "no block is empty")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The rows, with these number columns.
    ///
    /// # Errors
    /// If a column was not read or holds a value of another type.
    pub fn rows<const N: usize>(&self, names: [&str; N]) -> Result<Rows<N>, DbErr> {
        let mut numbers = [const { vec![] }; N];
        for (column, name) in numbers.iter_mut().zip(names) {
            *column = self.numbers(name)?;
        }
        Ok(Rows { segments: self.texts("segment")?, members: self.texts("member")?, numbers })
    }

    /// A text column.
    fn texts(&self, name: &str) -> Result<Texts, DbErr> {
        let place = place(self.texts, name)?;
        match &self.held {
            Held::Arrays(arrays) => parsed(&arrays[place]),
            Held::Rows(rows) => {
                let mut texts = Texts::default();
                for row in rows {
                    texts.push(&row.try_get_by_index::<String>(place)?);
                }
                Ok(texts)
            }
        }
    }

    /// A number column.
    fn numbers(&self, name: &str) -> Result<Vec<Option<i64>>, DbErr> {
        let place = self.texts.len() + place(self.numbers, name)?;
        match &self.held {
            Held::Arrays(arrays) => parsed(&arrays[place]),
            Held::Rows(rows) => rows.iter().map(|row| row.try_get_by_index(place)).collect(),
        }
    }

    /// An XXH3 hash of everything that was read.
    ///
    /// The hashes of all blocks of the same rows, read from the same database, have the same sum.
    /// On SQLite a hash covers a whole block, so it also changes if rows move within the order.
    ///
    /// # Errors
    /// If a column holds an invalid value.
    pub fn hash(&self) -> Result<u128, DbErr> {
        if let Held::Arrays(arrays) = &self.held {
            let mut hash = Xxh3::new();
            for array in arrays {
                hash.update(&(array.len() as u64).to_le_bytes());
                hash.update(array.as_bytes());
            }
            return Ok(hash.digest128());
        }
        let texts = self.texts.iter().map(|name| self.texts(name));
        let texts: Vec<Texts> = texts.collect::<Result<_, _>>()?;
        let numbers = self.numbers.iter().map(|name| self.numbers(name));
        let numbers: Vec<Vec<Option<i64>>> = numbers.collect::<Result<_, _>>()?;
        let (mut sum, mut bytes) = (0_u128, vec![]);
        for row in 0..self.count {
            let texts = texts.iter().map(|column| column.get(row));
            let numbers = numbers.iter().map(|column| column[row]);
            sum = sum.wrapping_add(hash_of_row(0, texts, numbers, &mut bytes));
        }
        Ok(sum)
    }
}

/// An XXH3 hash of a row's texts and numbers. `bytes` is a scratch buffer.
pub fn hash_of_row<'a>(
    seed: u64,
    texts: impl IntoIterator<Item = &'a str>,
    numbers: impl IntoIterator<Item = Option<i64>>,
    bytes: &mut Vec<u8>,
) -> u128 {
    bytes.clear();
    for text in texts {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    for number in numbers {
        bytes.push(number.is_some().into());
        bytes.extend(number.unwrap_or_default().to_le_bytes());
    }
    xxh3_128_with_seed(bytes, seed)
}

impl<const N: usize> Rows<N> {
    /// The rows, each as segment, member and numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, [Option<i64>; N])> {
        (0..self.members.len()).map(|row| {
            let numbers = self.numbers.each_ref().map(|column| column[row]);
            (self.segments.get(row), self.members.get(row), numbers)
        })
    }
}

fn place(names: &[&str], name: &str) -> Result<usize, DbErr> {
    let place = names.iter().position(|read| *read == name);
    place.ok_or_else(|| DbErr::Custom(format!("column {name} is not read")))
}

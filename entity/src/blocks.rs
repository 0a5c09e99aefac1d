//! Rows of SQL in blocks of columns, for whoever goes through a partition. Handing rows over one at a time is most of what reading them costs: SQLite is
//! asked for each block's columns as JSON arrays, one row for thousands. PostgreSQL sends many rows at once by itself.

mod arrays;

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use ranking::id::{BoardNo, Partition};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, StreamTrait, Value};
use xxhash_rust::xxh3::{Xxh3, xxh3_128_with_seed};

use arrays::{Texts, last_of, parsed};

/// How many rows a block has at most.
const ROWS_MAX: usize = 20_000;

/// Rows of a table, and what of them is read.
#[derive(Debug)]
pub struct Columns {
    /// The table.
    table: &'static str,
    /// What tells the rows apart, in the order that SQLite has them in.
    order: &'static [&'static str],
    /// Columns of texts, none null.
    texts: &'static [&'static str],
    /// Columns of 64-bit numbers.
    numbers: &'static [&'static str],
    /// Which rows are meant, as a condition in SQL.
    which: String,
}

/// Some rows.
#[derive(Debug)]
pub struct Block {
    texts: &'static [&'static str],
    numbers: &'static [&'static str],
    count: usize,
    held: Held,
}

/// How a database gave them.
#[derive(Debug)]
enum Held {
    /// A JSON array of each column, texts first.
    Arrays(Vec<String>),
    /// One by one.
    Rows(Vec<QueryResult>),
}

/// Rows of a block, with `N` of the columns of numbers.
#[derive(Debug)]
pub struct Rows<const N: usize> {
    segments: Texts,
    members: Texts,
    numbers: [Vec<Option<i64>>; N],
}

impl Columns {
    /// The rows of `standing` in a partition, of one board or of all: texts `segment` and `member`, numbers `score`, `rank_key` and `seq`, and of all
    /// boards `board_no`.
    #[must_use]
    pub fn of_standing(partition: Partition, board: Option<BoardNo>) -> Self {
        let of_board = board.map(|no| format!(" AND board_no = {no}"));
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
            which: format!("partition = {partition}{}", of_board.unwrap_or_default()),
        }
    }

    /// The rows of `archived_entry` of a board in a partition that are of commits up to a seq: texts `segment` and `member`, numbers `score`, `tick`,
    /// `events` and `through_seq`.
    #[must_use]
    pub fn of_archived(partition: Partition, board: BoardNo, through_seq: i64) -> Self {
        Self {
            table: "archived_entry",
            order: &["member", "segment", "through_seq"],
            texts: &["segment", "member"],
            numbers: &["score", "tick", "events", "through_seq"],
            which: format!(
                "board_no = {board} AND partition = {partition} AND through_seq <= {through_seq}"
            ),
        }
    }

    /// Only these of the columns of numbers; with the board's, where it is of all boards, and with the seq, where several rows differ by it alone.
    #[must_use]
    pub fn with(self, numbers: &'static [&'static str]) -> Self {
        Self { numbers, ..self }
    }

    /// Reads the rows block by block, in no order that means anything.
    ///
    /// # Errors
    /// What SQL says; where a column holds what it must not.
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

    /// The block after a place, and its own last place; `None` where it is the last block.
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
        let statement = Statement::from_sql_and_values(DbBackend::Sqlite, sql, after);
        let row = db.query_one_raw(statement).await?;
        let row = row.ok_or_else(|| DbErr::Custom("an aggregate has no row".to_owned()))?;
        let count: i64 = row.try_get_by_index(0)?;
        let arrays = (1..=names.len()).map(|place| row.try_get_by_index(place));
        let arrays = arrays.collect::<Result<Vec<String>, _>>()?;
        let count = count.unsigned_abs() as usize;
        let last = (count == ROWS_MAX).then(|| self.last_place(&arrays));
        let block =
            Block { texts: self.texts, numbers: self.numbers, count, held: Held::Arrays(arrays) };
        Ok((block, last.transpose()?))
    }

    /// Where the last of the rows stands in the order.
    fn last_place(&self, arrays: &[String]) -> Result<Vec<Value>, DbErr> {
        let value = |name: &&str| {
            let column = self.names().position(|read| read == *name);
            let column = column.ok_or_else(|| DbErr::Custom(format!("{name} is not read")))?;
            let last = last_of(&arrays[column]);
            Ok(match self.texts.contains(name) {
                true => parsed::<String>(last)?.into(),
                false => parsed::<i64>(last)?.into(),
            })
        };
        self.order.iter().map(value).collect()
    }

    /// The names of the columns that are read, texts first.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.texts.iter().chain(self.numbers).copied()
    }

    /// All rows as the database sends them.
    fn rows_of<C: ConnectionTrait + StreamTrait>(
        self,
        db: &C,
    ) -> impl futures::Stream<Item = Result<Block, DbErr>> + Send {
        let names: Vec<&str> = self.names().collect();
        let sql = format!("SELECT {} FROM {} WHERE {}", names.join(", "), self.table, self.which);
        let statement = Statement::from_string(ConnectionTrait::get_database_backend(db), sql);
        let rows = async move { db.stream_raw(statement).await };
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
    /// How many rows it has: at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is none without rows")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The rows, with these columns of numbers.
    ///
    /// # Errors
    /// Where a column holds something else, or is not read.
    pub fn rows<const N: usize>(&self, names: [&str; N]) -> Result<Rows<N>, DbErr> {
        let mut numbers = [const { vec![] }; N];
        for (column, name) in numbers.iter_mut().zip(names) {
            *column = self.numbers(name)?;
        }
        Ok(Rows { segments: self.texts("segment")?, members: self.texts("member")?, numbers })
    }

    /// A column of texts.
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

    /// A column of numbers.
    fn numbers(&self, name: &str) -> Result<Vec<Option<i64>>, DbErr> {
        let place = self.texts.len() + place(self.numbers, name)?;
        match &self.held {
            Held::Arrays(arrays) => parsed(&arrays[place]),
            Held::Rows(rows) => rows.iter().map(|row| row.try_get_by_index(place)).collect(),
        }
    }

    /// A hash (XXH3) of all that was read. Of the blocks of the same rows, read from the same database, the hashes have the same sum; SQLite's are of
    /// whole blocks, and are others too where rows took another place.
    ///
    /// # Errors
    /// Where a column holds what it must not.
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

/// A hash (XXH3) of a row's texts and numbers; `bytes` is room to work in.
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
    /// Each as segment, member and numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, [Option<i64>; N])> {
        (0..self.members.len()).map(|row| {
            let numbers = self.numbers.each_ref().map(|column| column[row]);
            (self.segments.get(row), self.members.get(row), numbers)
        })
    }
}

fn place(names: &[&str], name: &str) -> Result<usize, DbErr> {
    let place = names.iter().position(|read| *read == name);
    place.ok_or_else(|| DbErr::Custom(format!("{name} is not read")))
}

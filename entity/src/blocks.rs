//! Rows of SQL in blocks of columns, for whoever goes through a partition. Handing rows over one at a time is most of what reading them costs: SQLite is
//! asked for each block's columns as JSON arrays, one row for thousands. PostgreSQL sends many rows at once by itself.

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use ranking::id::{BoardNo, Partition};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, StreamTrait, Value};

/// How many rows a block has at most.
const ROWS_MAX: usize = 20_000;

/// Rows of a table, and what of them is read.
#[derive(Debug)]
pub struct Columns {
    /// The table.
    table: &'static str,
    /// The index that SQLite finds the rows by: it knows no numbers of rows, and would go through a whole board to have them in an order.
    index: &'static str,
    /// What tells the rows apart, in the order that this index has them in.
    order: &'static [&'static str],
    /// Columns of texts, none null.
    texts: &'static [&'static str],
    /// Columns of 64-bit numbers.
    numbers: &'static [&'static str],
    /// Which rows are meant, as a condition in SQL.
    which: String,
}

/// Columns of some rows.
#[derive(Debug)]
pub struct Block {
    /// The columns of texts.
    pub texts: Vec<Vec<String>>,
    /// The columns of numbers.
    pub numbers: Vec<Vec<Option<i64>>>,
}

impl Columns {
    /// The rows of `standing` in a partition, of one board or of all: texts `segment` and `member`, numbers `score`, `rank_key`, `seq` and `board_no`.
    #[must_use]
    pub fn of_standing(partition: Partition, board: Option<BoardNo>) -> Self {
        let of_board = board.map(|no| format!(" AND board_no = {no}"));
        Self {
            table: "standing",
            index: "standing_partition",
            order: match board {
                Some(_) => &["rowid"],
                None => &["board_no", "rowid"],
            },
            texts: &["segment", "member"],
            numbers: &["score", "rank_key", "seq", "board_no"],
            which: format!("partition = {partition}{}", of_board.unwrap_or_default()),
        }
    }

    /// The rows of `archived_entry` of a board in a partition that are of commits up to a seq: texts `segment` and `member`, numbers `score`, `tick`,
    /// `events` and `through_seq`.
    #[must_use]
    pub fn of_archived(partition: Partition, board: BoardNo, through_seq: i64) -> Self {
        Self {
            table: "archived_entry",
            index: "archived_entry_partition",
            order: &["through_seq", "member", "segment"],
            texts: &["segment", "member"],
            numbers: &["score", "tick", "events", "through_seq"],
            which: format!(
                "board_no = {board} AND partition = {partition} AND through_seq <= {through_seq}"
            ),
        }
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
        let Self {
            table,
            index,
            which,
            order,
            ..
        } = self;
        let mut names: Vec<&str> = self.names().collect();
        for name in *order {
            if !names.contains(name) {
                names.push(name);
            }
        }
        let arrays: Vec<String> = names
            .iter()
            .map(|name| format!("json_group_array({name})"))
            .collect();
        let order = order.join(", ");
        let further = match after.len() {
            0 => String::new(),
            count => format!(" AND ({order}) > ({})", vec!["?"; count].join(", ")),
        };
        let sql = format!(
            "SELECT {} FROM (SELECT {} FROM {table} INDEXED BY {index} WHERE {which}{further} ORDER BY {order} LIMIT {ROWS_MAX})",
            arrays.join(", "),
            names.join(", "),
        );
        let statement = Statement::from_sql_and_values(DbBackend::Sqlite, sql, after);
        let row = db.query_one_raw(statement).await?;
        let row = row.ok_or_else(|| DbErr::Custom("an aggregate has no row".to_owned()))?;
        let (texts, numbers) = (self.texts.len(), self.numbers.len());
        let block = Block {
            texts: (0..texts)
                .map(|place| array(&row, place))
                .collect::<Result<_, _>>()?,
            numbers: (texts..texts + numbers)
                .map(|place| array(&row, place))
                .collect::<Result<_, _>>()?,
        };
        if block.len() < ROWS_MAX {
            return Ok((block, None));
        }
        let mut last = vec![];
        for name in self.order {
            let place = names.iter().position(|read| read == name);
            let place = place.ok_or_else(|| DbErr::Custom(format!("{name} is not read")))?;
            last.push(match block.texts.get(place) {
                Some(texts) => texts.last().cloned().into(),
                None => array::<i64>(&row, place)?.pop().into(),
            });
        }
        Ok((block, Some(last)))
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
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            names.join(", "),
            self.table,
            self.which
        );
        let statement = Statement::from_string(ConnectionTrait::get_database_backend(db), sql);
        let rows = async move { db.stream_raw(statement).await };
        stream::once(rows)
            .try_flatten()
            .chunks(ROWS_MAX)
            .map(move |rows| {
                let rows = rows
                    .into_iter()
                    .collect::<Result<Vec<QueryResult>, DbErr>>()?;
                let texts = self.texts.len();
                Ok(Block {
                    texts: (0..texts)
                        .map(|place| column(&rows, place))
                        .collect::<Result<_, _>>()?,
                    numbers: (texts..names.len())
                        .map(|place| column(&rows, place))
                        .collect::<Result<_, _>>()?,
                })
            })
    }
}

impl Block {
    /// How many rows it has: at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is none without rows")]
    pub fn len(&self) -> usize {
        self.texts[0].len()
    }
}

fn array<T: serde::de::DeserializeOwned>(row: &QueryResult, place: usize) -> Result<Vec<T>, DbErr> {
    let text: String = row.try_get_by_index(place)?;
    serde_json::from_str(&text)
        .map_err(|error| DbErr::Type(format!("a column holds what it must not: {error}")))
}

fn column<T: sea_orm::TryGetable>(rows: &[QueryResult], place: usize) -> Result<Vec<T>, DbErr> {
    let values = rows.iter().map(|row| row.try_get_by_index(place));
    values.collect()
}

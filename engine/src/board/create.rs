//! Boards made under numbers that Redis knows nothing of.

use std::collections::HashMap;

use entity::audit::{Act, board_value};
use entity::board;
use entity::error::Result;
use entity::history::log_cursor;
use entity::sql::begin;
use entity::webhook::outbox::{self, Notice};
use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use ranking::commit::Head;
use sea_orm::{DatabaseConnection, DbErr};

use crate::deployment::Deployment;
use crate::partition::Partition;
use crate::partition::pasts::gone_back;

/// The partitions that are looked at side by side.
const PARTITIONS_AT_ONCE: usize = 16;

/// The commits of a log that are looked at.
const COMMITS_MAX: usize = 100;

impl Deployment {
    /// Inserts a board, with the row of the audit log, and returns its row. Returns `None` if
    /// another board has the slug.
    ///
    /// SQL that has gone back may give out a number again, and events of the board that had it
    /// would become this one's. So it makes no board while Redis knows of boards that it lost.
    ///
    /// # Errors
    /// `Unavailable` if SQL has gone back, or if a store fails.
    pub async fn create_board(&self, row: board::Model, act: Act) -> Result<Option<board::Model>> {
        self.check_changes().await?;
        let behind = self.behind().await?;
        let checks: Vec<_> =
            behind.into_iter().map(|partition| partition.check_boards().boxed()).collect();
        let checks = stream::iter(checks).buffer_unordered(PARTITIONS_AT_ONCE);
        checks.try_collect::<()>().await?;
        Ok(insert_noted(&self.db, row, act).await?)
    }

    /// The partitions of which SQL may lack something that Redis has.
    async fn behind(&self) -> Result<Vec<Partition<'_>>> {
        let heads = self.store.heads().await?;
        let cursors = log_cursor::all(&self.db).await?;
        let at: HashMap<i32, (i64, &str)> = cursors
            .iter()
            .map(|cursor| (cursor.partition, (cursor.seq, cursor.commit_id.as_str())))
            .collect();
        let is_behind = |(partition, head): &(Partition<'_>, ranking::Result<Head>)| match head {
            Ok(head) => {
                let tip = (head.seq as i64, head.commit.as_str());
                at.get(&partition.no.into()) != Some(&tip)
            }
            // It is loaded from SQL before it takes a score.
            Err(_) => false,
        };
        let behind = self.partitions().zip(heads).filter(is_behind);
        Ok(behind.map(|(partition, _)| partition).collect())
    }
}

/// Inserts a board and the row of the audit log. Returns `None` if another board has the slug.
pub async fn insert_noted(
    db: &DatabaseConnection,
    row: board::Model,
    act: Act,
) -> Result<Option<board::Model>, DbErr> {
    let transaction = begin(db).await?;
    let Some(row) = board::insert(&transaction, row).await? else {
        transaction.rollback().await?;
        return Ok(None);
    };
    outbox::tell(&transaction, &[Notice::of_board(&row, "CREATED", row.created_at_ms)]).await?;
    act.on(&row).after(board_value(&row)).write(&transaction).await?;
    transaction.commit().await?;
    Ok(Some(row))
}

impl Partition<'_> {
    /// Checks that SQL knows the boards of the first commits that it does not have yet.
    async fn check_boards(self) -> Result<()> {
        let cursor = self.cursor_or_root().await?;
        let read = self.store.log_after(self.no, cursor.seq as u64, COMMITS_MAX).await;
        // One that is not level is loaded from SQL before it takes a score.
        let Ok(log) = read else { return Ok(()) };
        let events = log.commits.iter().flat_map(|commit| &commit.events);
        let boards = events.map(|event| event.board).collect();
        match board::some_given_out(&self.db, boards).await {
            Err(entity::Error::Ranking(ranking::Error::Unavailable(why))) => {
                let why = format!("partition {self}: {}", gone_back(&why));
                Err(ranking::Error::Unavailable(why).into())
            }
            checked => checked.map(|_| ()),
        }
    }
}

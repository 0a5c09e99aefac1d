//! A board's move to another number of shards, as the board's row records it.
//!
//! Each step is a compare-and-set: a process that takes the move over leaves the former holder
//! nothing to continue from. SQL's clock judges leases, as those of processes may differ.

use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, DatabaseConnection, DbErr,
    EntityTrait, QueryFilter, QueryOrder, QuerySelect, UpdateMany,
};

use crate::board;
use crate::deployment::clock::sql_now;
use crate::error::Result;

/// The time after its last heartbeat for which a move's holder counts as alive, in milliseconds.
pub const ALIVE_MS: i64 = 15_000;

/// A move under way.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reshard {
    /// A random id of the holder, new with each takeover.
    pub id: String,
    /// The number of shards that the move leads to.
    pub shards: u16,
    /// The present step.
    pub step: Step,
}

/// The steps of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Step {
    /// A job builds the new standings beside the live ones; reads and writes go on.
    Staging,
    /// The job holds the board's partitions; writers wait.
    Held,
    /// The move failed, and its partitions are being released.
    Undoing,
    /// The row has the new number; partitions are receiving their new standings.
    Decided,
    /// Reads and writes go on; rows of `standing` are being updated to the new partitions of their
    /// members.
    Settling,
}

impl Reshard {
    /// Begins a move, if the board is still as `row` says and is neither moving nor archived.
    /// Returns `None` otherwise.
    pub async fn begin(
        db: &DatabaseConnection,
        row: &board::Model,
        shards: u16,
    ) -> Result<Option<Self>> {
        let reshard = Self { id: crate::random_id(), shards, step: Step::Staging };
        let begun = reshard
            .written_by(unchanged(row), db)
            .filter(board::Column::Reshard.is_null())
            .filter(board::Column::ArchivedBeforeMs.is_null())
            .exec(db)
            .await?;
        Ok((begun.rows_affected == 1).then_some(reshard))
    }

    /// Advances to a step. Returns false if another process took the move over or advanced it.
    pub async fn advance(&mut self, db: &DatabaseConnection, no: i64, step: Step) -> Result<bool> {
        let next = Self { step, ..self.clone() };
        let update = of_text(no, &self.to_text());
        let advanced = next.written_by(update, db).exec(db).await?;
        if advanced.rows_affected == 1 {
            *self = next;
        }
        Ok(advanced.rows_affected == 1)
    }

    /// Takes the move over from a holder whose lease has expired. A move that is not decided is
    /// then to be undone. Returns false if the lease was renewed or another process was first.
    pub async fn take_over(&mut self, db: &DatabaseConnection, no: i64) -> Result<bool> {
        let step = match self.step {
            Step::Staging | Step::Held => Step::Undoing,
            step => step,
        };
        let next = Self { id: crate::random_id(), step, ..self.clone() };
        let update = of_text(no, &self.to_text()).filter(has_expired(db));
        let taken = next.written_by(update, db).exec(db).await?;
        if taken.rows_affected == 1 {
            *self = next;
        }
        Ok(taken.rows_affected == 1)
    }

    /// Renews the lease of the move with this id, whatever its step. Returns false if another
    /// process took the move over.
    pub async fn renew(db: &DatabaseConnection, no: i64, id: &str) -> Result<bool> {
        // The id comes first in the JSON text.
        let renewed = renewing(board::Entity::update_many(), db)
            .filter(board::Column::No.eq(no))
            .filter(board::Column::Reshard.starts_with(format!("{{\"id\":\"{id}\"")))
            .exec(db)
            .await?;
        Ok(renewed.rows_affected == 1)
    }

    /// Decides the move: one statement gives the row its new number of shards. Returns false if the
    /// board has changed.
    pub async fn decide(
        &mut self,
        db: &DatabaseConnection,
        row: &board::Model,
        later: board::ActiveModel,
    ) -> Result<bool> {
        let next = Self { step: Step::Decided, ..self.clone() };
        let decided = next
            .written_by(unchanged(row).set(later), db)
            .filter(board::Column::Reshard.eq(self.to_text()))
            .filter(board::Column::ArchivedBeforeMs.is_null())
            .exec(db)
            .await?;
        if decided.rows_affected == 1 {
            *self = next;
        }
        Ok(decided.rows_affected == 1)
    }

    /// Ends the move. Returns false if another process took it over.
    pub async fn end(&self, db: &DatabaseConnection, no: i64) -> Result<bool> {
        let ended = board::ActiveModel {
            reshard: Set(None),
            reshard_until_ms: Set(None),
            ..Default::default()
        };
        let ended = of_text(no, &self.to_text()).set(ended).exec(db).await?;
        Ok(ended.rows_affected == 1)
    }

    /// True if the row still records exactly this state.
    pub async fn is_still(&self, db: &DatabaseConnection, no: i64) -> Result<bool> {
        let row = board::Entity::find_by_id(no)
            .filter(board::Column::DeletedAtMs.is_null())
            .one(db)
            .await?;
        Ok(row.is_some_and(|row| row.reshard.as_deref() == Some(self.to_text().as_str())))
    }

    fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers have a JSON form")
    }

    /// An update that also records this state, and renews the lease.
    fn written_by(
        &self,
        update: UpdateMany<board::Entity>,
        db: &DatabaseConnection,
    ) -> UpdateMany<board::Entity> {
        let row = board::ActiveModel { reshard: Set(Some(self.to_text())), ..Default::default() };
        renewing(update.set(row), db)
    }
}

/// The former layouts of one board, or of all boards that ever moved, deleted ones too. A move that
/// is decided changes them, and nothing else does.
pub async fn former_layouts(
    db: &impl ConnectionTrait,
    no: Option<i64>,
) -> Result<Vec<(i64, String)>, DbErr> {
    use board::Column::{FormerLayouts, No};
    let select = board::Entity::find()
        .select_only()
        .columns([No, FormerLayouts])
        .filter(FormerLayouts.ne("[]"))
        .order_by_asc(No);
    let select = match no {
        Some(no) => select.filter(No.eq(no)),
        None => select,
    };
    select.into_tuple().all(db).await
}

/// True of the row of a board whose move has a lease that has expired.
pub fn has_expired(db: &DatabaseConnection) -> Expr {
    let now = sql_now(db.get_database_backend());
    Expr::cust(format!(r#""reshard_until_ms" < {now}"#))
}

/// An update that also renews the lease.
fn renewing(
    update: UpdateMany<board::Entity>,
    db: &DatabaseConnection,
) -> UpdateMany<board::Entity> {
    let now = sql_now(db.get_database_backend());
    update.col_expr(board::Column::ReshardUntilMs, Expr::cust(format!("{now} + {ALIVE_MS}")))
}

fn of_text(no: i64, text: &str) -> UpdateMany<board::Entity> {
    board::Entity::update_many()
        .filter(board::Column::No.eq(no))
        .filter(board::Column::Reshard.eq(text))
}

/// An update of a board's row, if the board is not deleted and its layout is still that of `row`.
fn unchanged(row: &board::Model) -> UpdateMany<board::Entity> {
    use board::Column::{DeletedAtMs, FormerLayouts, Generation, No, Shards, Windows};
    let still = Condition::all()
        .add(No.eq(row.no))
        .add(DeletedAtMs.is_null())
        .add(Generation.eq(row.generation))
        .add(Shards.eq(row.shards))
        .add(Windows.eq(&row.windows))
        .add(FormerLayouts.eq(&row.former_layouts));
    board::Entity::update_many().filter(still)
}

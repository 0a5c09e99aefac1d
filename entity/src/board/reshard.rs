//! How far a board's move to another number of shards has got, as its row says it. Each step of it is a compare-and-set: whoever took the move over leaves the other one
//! nothing to go on with.

use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DatabaseConnection, EntityTrait, QueryFilter,
    UpdateMany,
};

use crate::board;
use crate::error::Result;

/// How long whoever moves a board is taken to be at it after the last sign of life, in milliseconds.
pub const ALIVE_MS: i64 = 15_000;

/// A move that is under way.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reshard {
    /// Whose it is: random, new with each one who takes it over.
    pub id: String,
    /// The number of shards that it leads to.
    pub shards: u16,
    /// What is being done.
    pub step: Step,
}

/// What is being done to a board that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Step {
    /// Its standings are made beside the present ones; everybody goes on.
    Staging,
    /// Its partitions are held, or are being: nobody writes.
    Held,
    /// It is given up, and its partitions are let go.
    Undoing,
    /// The row has the new number; partitions are being given their new standings.
    Decided,
    /// Everybody goes on; rows of `standing` are told where their members are now.
    Settling,
}

impl Reshard {
    /// Begins a move of a board that is as its row says, and is neither moved already nor archived; whether it is.
    pub async fn begin(
        db: &DatabaseConnection,
        row: &board::Model,
        shards: u16,
    ) -> Result<Option<Self>> {
        let reshard = Self { id: crate::random_id(), shards, step: Step::Staging };
        let begun = as_it_is(row)
            .set(reshard.to_row())
            .filter(board::Column::Reshard.is_null())
            .filter(board::Column::ArchivedBeforeMs.is_null())
            .exec(db)
            .await?;
        Ok((begun.rows_affected == 1).then_some(reshard))
    }

    /// Goes on to a step; whether it was still at this one, and nobody had taken it over.
    pub async fn advance(&mut self, db: &DatabaseConnection, no: i64, step: Step) -> Result<bool> {
        let next = Self { step, ..self.clone() };
        let advanced = of_text(no, &self.to_text()).set(next.to_row()).exec(db).await?;
        if advanced.rows_affected == 1 {
            *self = next;
        }
        Ok(advanced.rows_affected == 1)
    }

    /// Takes the place of one who has been silent for long: undoes the move, or finishes it where it is decided; whether nobody else did.
    pub async fn take_over(&mut self, db: &DatabaseConnection, no: i64) -> Result<bool> {
        let step = match self.step {
            Step::Staging | Step::Held => Step::Undoing,
            step => step,
        };
        let next = Self { id: crate::random_id(), step, ..self.clone() };
        let now_ms = crate::now_ms();
        let taken = of_text(no, &self.to_text())
            .set(next.to_row())
            .filter(board::Column::ReshardUntilMs.lt(now_ms))
            .exec(db)
            .await?;
        if taken.rows_affected == 1 {
            *self = next;
        }
        Ok(taken.rows_affected == 1)
    }

    /// Says that the one of an id still is at it, whatever step it has got to; whether it was still its own.
    pub async fn renew(db: &DatabaseConnection, no: i64, id: &str) -> Result<bool> {
        let alive = board::ActiveModel {
            reshard_until_ms: Set(Some(crate::now_ms() + ALIVE_MS)),
            ..Default::default()
        };
        // The id comes first in the text.
        let renewed = board::Entity::update_many()
            .set(alive)
            .filter(board::Column::No.eq(no))
            .filter(board::Column::Reshard.starts_with(format!("{{\"id\":\"{id}\"")))
            .exec(db)
            .await?;
        Ok(renewed.rows_affected == 1)
    }

    /// Decides: the row gets its new number of shards, in one statement; whether the board was still as it was.
    pub async fn decide(
        &mut self,
        db: &DatabaseConnection,
        row: &board::Model,
        later: board::ActiveModel,
    ) -> Result<bool> {
        let next = Self { step: Step::Decided, ..self.clone() };
        let decided = board::ActiveModel {
            reshard: Set(Some(next.to_text())),
            reshard_until_ms: Set(Some(crate::now_ms() + ALIVE_MS)),
            ..later
        };
        let decided = as_it_is(row)
            .set(decided)
            .filter(board::Column::Reshard.eq(self.to_text()))
            .filter(board::Column::ArchivedBeforeMs.is_null())
            .exec(db)
            .await?;
        if decided.rows_affected == 1 {
            *self = next;
        }
        Ok(decided.rows_affected == 1)
    }

    /// Ends it; whether it was still its own.
    pub async fn end(&self, db: &DatabaseConnection, no: i64) -> Result<bool> {
        let ended = board::ActiveModel {
            reshard: Set(None),
            reshard_until_ms: Set(None),
            ..Default::default()
        };
        let ended = of_text(no, &self.to_text()).set(ended).exec(db).await?;
        Ok(ended.rows_affected == 1)
    }

    /// Whether the row still says just this.
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

    fn to_row(&self) -> board::ActiveModel {
        board::ActiveModel {
            reshard: Set(Some(self.to_text())),
            reshard_until_ms: Set(Some(crate::now_ms() + ALIVE_MS)),
            ..Default::default()
        }
    }
}

fn of_text(no: i64, text: &str) -> UpdateMany<board::Entity> {
    board::Entity::update_many()
        .filter(board::Column::No.eq(no))
        .filter(board::Column::Reshard.eq(text))
}

/// The row of a board that is there, and has its layout, as another row of it says.
fn as_it_is(row: &board::Model) -> UpdateMany<board::Entity> {
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

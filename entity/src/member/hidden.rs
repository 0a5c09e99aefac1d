//! Members who are on private boards alone: a client that sees none of these does not see them.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, SelectStatement};
use sea_orm::{Condition, QuerySelect, QueryTrait};

use super::{Column, Entity};
use crate::board::seen::Seen;
use crate::board::{self, Visibility, living};
use crate::standings::standing;

/// A client, as far as it matters to members who are on private boards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Viewer {
    /// The boards that it sees.
    pub seen: Seen,
    /// The member that it is, who sees itself.
    pub member: Option<String>,
}

impl Viewer {
    /// The condition on rows of `member` that the client does not see.
    pub fn hidden(&self) -> Condition {
        let private = Condition::all().add(board::Column::Visibility.eq(Visibility::Private));
        let mut others = Condition::any().add(board::Column::Visibility.eq(Visibility::Public));
        match &self.seen {
            Seen::All => others = others.add(board::Column::No.is_not_null()),
            Seen::Public => {}
            Seen::Listed(numbers) => {
                others = others.add(board::Column::No.is_in(numbers.iter().copied()));
            }
        }
        let mut hidden = Condition::all().add(Expr::exists(entries_on(private)));
        hidden = hidden.add(Expr::exists(entries_on(others)).not());
        hidden.add_option(self.member.as_ref().map(|own| Column::Key.ne(own.as_str())))
    }

    /// Of some members, those that the client does not see.
    pub async fn hidden_of(
        &self,
        db: &impl ConnectionTrait,
        keys: &[String],
    ) -> Result<Vec<String>, DbErr> {
        Entity::find()
            .select_only()
            .column(Column::Key)
            .filter(Column::Key.is_in(keys))
            .filter(self.hidden())
            .into_tuple()
            .all(db)
            .await
    }
}

/// The entries in `all` of the member of a row, on some boards.
fn entries_on(boards: Condition) -> SelectStatement {
    let boards = living().select_only().column(board::Column::No).filter(boards);
    standing::Entity::find()
        .select_only()
        .column(standing::Column::BoardNo)
        .filter(
            Expr::col((standing::Entity, standing::Column::Member)).equals((Entity, Column::Key)),
        )
        .filter(standing::Column::Segment.eq(""))
        .filter(standing::Column::BoardNo.in_subquery(boards.into_query()))
        .into_query()
}

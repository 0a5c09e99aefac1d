//! Members whom a client does not see: those who are on private boards alone, if it sees none of
//! these, and those who have hidden.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, SelectStatement};
use sea_orm::{Condition, QuerySelect, QueryTrait};

use super::friendship::Column::{High, Low};
use super::{Column, Entity, friendship, visibility};
use crate::board::seen::Seen;
use crate::board::{self, Visibility, living};
use crate::standings::standing;

/// A client, as far as it matters to members whom it may not see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Viewer {
    /// The boards that it sees.
    pub seen: Seen,
    /// The member that it is, who sees itself.
    pub member: Option<String>,
    /// True if it sees members whatever their visibility.
    pub sees_hidden: bool,
}

impl Viewer {
    /// The condition on rows of `member` that the client does not see.
    pub fn hidden(&self) -> Condition {
        let mut hidden = Condition::any().add(self.on_private_boards());
        if !self.sees_hidden {
            hidden = hidden.add(Expr::exists(self.not_public()));
        }
        let others = self.member.as_ref().map(|own| Column::Key.ne(own.as_str()));
        Condition::all().add(hidden).add_option(others)
    }

    /// The row of visibility of a member who has hidden from the client.
    fn not_public(&self) -> SelectStatement {
        use visibility::{Column as Of, Entity as Rows, Visibility};
        let mut hidden = Condition::any().add(Of::Visibility.eq(Visibility::Hidden));
        let mut from_strangers = Condition::all().add(Of::Visibility.eq(Visibility::Friends));
        if let Some(own) = &self.member {
            let friends = [(Low, High), (High, Low)].map(|(one, other)| {
                friendship::Entity::find()
                    .select_only()
                    .column(one)
                    .filter(Expr::col((friendship::Entity, one)).equals((Entity, Column::Key)))
                    .filter(other.eq(own.as_str()))
                    .into_query()
            });
            for friend in friends {
                from_strangers = from_strangers.add(Expr::exists(friend).not());
            }
        }
        hidden = hidden.add(from_strangers);
        Rows::find()
            .select_only()
            .column(Of::Member)
            .filter(Expr::col((Rows, Of::Member)).equals((Entity, Column::Key)))
            .filter(hidden)
            .into_query()
    }

    /// The condition on rows of members who are on boards that the client does not see, alone.
    fn on_private_boards(&self) -> Condition {
        let private = Condition::all().add(board::Column::Visibility.eq(Visibility::Private));
        let mut others = Condition::any().add(board::Column::Visibility.eq(Visibility::Public));
        match &self.seen {
            Seen::All => others = others.add(board::Column::No.is_not_null()),
            Seen::Public => {}
            Seen::Listed(numbers) => {
                others = others.add(board::Column::No.is_in(numbers.iter().copied()));
            }
        }
        let on_private = Condition::all().add(Expr::exists(entries_on(private)));
        on_private.add(Expr::exists(entries_on(others)).not())
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

/// The entries in `all` of the member of a row, on some boards: SQL looks at the boards that the
/// member is on, and at no others.
fn entries_on(boards: Condition) -> SelectStatement {
    use standing::{Column as Of, Entity as Rows};
    let mut select = living().select_only().column(board::Column::No).filter(boards).into_query();
    let is_of_entry = Expr::col((board::Entity, board::Column::No)).equals((Rows, Of::BoardNo));
    select
        .inner_join(Rows, is_of_entry)
        .and_where(Expr::col((Rows, Of::Member)).equals((Entity, Column::Key)))
        .and_where(Of::Segment.eq(""));
    select
}

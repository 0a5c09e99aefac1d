//! The boards that a client sees.

use sea_orm::Condition;
use sea_orm::entity::prelude::*;

use super::{Column, Model, Visibility};

/// The boards that a client sees, and so may write where its scopes allow that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Seen {
    /// All boards.
    All,
    /// Public boards.
    #[default]
    Public,
    /// The boards of these numbers, public or private. A number is never used again, so another
    /// board of the same slug is not among them.
    Listed(Vec<i64>),
}

impl Seen {
    /// True if a board is among them.
    pub fn includes(&self, board: &Model) -> bool {
        match self {
            Self::All => true,
            Self::Public => board.visibility == Visibility::Public,
            Self::Listed(numbers) => numbers.contains(&board.no),
        }
    }

    /// The condition on rows of `board` that [`Self::includes`] checks.
    pub fn condition(&self) -> Condition {
        Condition::all().add_option(match self {
            Self::All => None,
            Self::Public => Some(Column::Visibility.eq(Visibility::Public)),
            Self::Listed(numbers) => Some(Column::No.is_in(numbers.iter().copied())),
        })
    }
}

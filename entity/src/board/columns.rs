//! The columns of a board that are one of a few names.

use sea_orm::entity::prelude::*;

/// The order of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Direction {
    /// The highest score ranks first.
    #[sea_orm(string_value = "HIGH_FIRST")]
    HighFirst,
    /// The lowest score ranks first.
    #[sea_orm(string_value = "LOW_FIRST")]
    LowFirst,
}

/// How a submitted score changes the score of its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Policy {
    /// The submitted score is added.
    #[sea_orm(string_value = "SUM")]
    Sum,
    /// The better score stays.
    #[sea_orm(string_value = "BEST")]
    Best,
    /// The score earned last stays.
    #[sea_orm(string_value = "LATEST")]
    Latest,
}

/// The order of members with equal scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum TieBreak {
    /// The member that reached the score first ranks higher.
    #[sea_orm(string_value = "EARLIEST")]
    Earliest,
    /// The member that reached the score last ranks higher.
    #[sea_orm(string_value = "LATEST")]
    Latest,
    /// The member with the smaller key, by bytes, ranks higher.
    #[sea_orm(string_value = "MEMBER")]
    Member,
}

/// The clients that may read a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Visibility {
    /// All clients.
    #[sea_orm(string_value = "PUBLIC")]
    Public,
    /// Clients with an access token.
    #[sea_orm(string_value = "PRIVATE")]
    Private,
}

/// Conversions to and from the type of the same name in `ranking`.
macro_rules! as_in_ranking {
    ($type:ident { $($value:ident),+ }) => {
        impl From<ranking::board::$type> for $type {
            fn from(value: ranking::board::$type) -> Self {
                match value {
                    $(ranking::board::$type::$value => Self::$value),+
                }
            }
        }

        impl From<$type> for ranking::board::$type {
            fn from(value: $type) -> Self {
                match value {
                    $($type::$value => Self::$value),+
                }
            }
        }
    };
}

as_in_ranking!(Direction { HighFirst, LowFirst });
as_in_ranking!(Policy { Sum, Best, Latest });
as_in_ranking!(TieBreak { Earliest, Latest, Member });

//! Members: everyone who was ranked or named.

use sea_orm::entity::prelude::*;

/// A row of `member`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "member")]
pub struct Model {
    /// The id, chosen by the game.
    #[sea_orm(primary_key, auto_increment = false)]
    pub key: String,
    /// The display name; the key stands in until there is one.
    pub name: Option<String>,
    /// The name in lower case, for searches by prefix.
    pub name_folded: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// Required by SeaORM; no query follows a relation.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Folds a name for searches: to lower case, character by character. So a prefix of a name folds to
/// a prefix of the folded name.
#[must_use]
pub fn fold_name(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).collect()
}

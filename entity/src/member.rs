//! Members: whoever was ranked or named.

use sea_orm::entity::prelude::*;

/// A row of `member`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "member")]
pub struct Model {
    /// The id that the game gives.
    #[sea_orm(primary_key, auto_increment = false)]
    pub key: String,
    /// What to call it; the key until told.
    pub name: Option<String>,
    /// The name in lower case, for whoever looks for its start.
    pub name_folded: Option<String>,
    /// Its region.
    pub region: Option<String>,
    /// When it came into being, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// A name as it is searched by: in lower case, character by character, so that the start of a name folds to the start of what it folds to.
#[must_use]
pub fn fold_name(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).collect()
}

//! Access tokens; of the secret only a hash is kept.

use sea_orm::entity::prelude::*;

/// A row of `access_token`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "access_token")]
pub struct Model {
    /// Its public id.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    /// read, submit or admin.
    pub scope: String,
    /// The member it speaks for.
    pub member: Option<String>,
    /// When, in Unix milliseconds.
    pub created_at_ms: i64,
    /// When it ends, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
    /// When it was revoked, in Unix milliseconds.
    pub revoked_at_ms: Option<i64>,
}

/// None that are followed.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

//! Access tokens. SQL keeps only a hash of the secret.

use sea_orm::entity::prelude::*;

/// A row of `access_token`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "access_token")]
pub struct Model {
    /// The public id.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    /// read, submit or admin.
    pub scope: String,
    /// The only member that the token may act for, if it is limited to one.
    pub member: Option<String>,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
    /// Expiry time, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
    /// Revocation time, in Unix milliseconds.
    pub revoked_at_ms: Option<i64>,
}

/// Required by SeaORM; no query follows a relation.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

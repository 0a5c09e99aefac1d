//! Access tokens. SQL keeps only a hash of the secret.

use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue::Set, IntoActiveModel, QueryOrder};

/// The rights of a token. Each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Scope {
    /// Reads everything, private boards too.
    #[sea_orm(string_value = "read")]
    Read,
    /// Submits scores and changes friendships.
    #[sea_orm(string_value = "submit")]
    Submit,
    /// Everything.
    #[sea_orm(string_value = "admin")]
    Admin,
}

/// A row of `access_token`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "access_token")]
pub struct Model {
    /// The public id.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    /// The rights.
    pub scope: Scope,
    /// The only member that the token may act for, if it is limited to one.
    pub member: Option<String>,
    /// Creation time, in Unix milliseconds.
    pub created_at_ms: i64,
    /// Expiry time, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
    /// Revocation time, in Unix milliseconds.
    pub revoked_at_ms: Option<i64>,
}

no_relations!();

/// The token of an id.
pub async fn find(db: &impl ConnectionTrait, id: &str) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).one(db).await
}

/// The number of tokens, ended ones too.
pub async fn count(db: &impl ConnectionTrait) -> Result<u64, DbErr> {
    Entity::find().count(db).await
}

/// All tokens, oldest first.
pub async fn list(db: &impl ConnectionTrait) -> Result<Vec<Model>, DbErr> {
    Entity::find().order_by_asc(Column::CreatedAtMs).all(db).await
}

/// Inserts a token.
pub async fn insert(db: &impl ConnectionTrait, row: Model) -> Result<(), DbErr> {
    Entity::insert(row.into_active_model()).exec_without_returning(db).await?;
    Ok(())
}

/// Revokes a token by its id. Returns false if there is no such token.
pub async fn revoke(db: &impl ConnectionTrait, id: &str, now_ms: i64) -> Result<bool, DbErr> {
    let row = ActiveModel {
        id: Set(id.to_owned()),
        revoked_at_ms: Set(Some(now_ms)),
        ..Default::default()
    };
    match Entity::update(row).exec_without_returning(db).await {
        Ok(result) => Ok(result.rows_affected > 0),
        Err(DbErr::RecordNotUpdated) => Ok(false),
        Err(error) => Err(error),
    }
}

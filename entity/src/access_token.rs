//! Access tokens. SQL keeps only a hash of the secret.

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, IntoActiveModel, QueryOrder, QuerySelect};

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
    /// A name that tells what it is for.
    pub name: Option<String>,
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

/// At most `limit` tokens after a time of creation and an id, oldest first.
pub async fn after(
    db: &impl ConnectionTrait,
    after: Option<(i64, String)>,
    limit: usize,
) -> Result<Vec<Model>, DbErr> {
    let later = after.map(|(created_at_ms, id)| {
        let with_it = Condition::all().add(Column::CreatedAtMs.eq(created_at_ms));
        Condition::any()
            .add(Column::CreatedAtMs.gt(created_at_ms))
            .add(with_it.add(Column::Id.gt(id)))
    });
    Entity::find()
        .filter(Condition::all().add_option(later))
        .order_by_asc(Column::CreatedAtMs)
        .order_by_asc(Column::Id)
        .limit(limit as u64)
        .all(db)
        .await
}

/// Inserts a token.
pub async fn insert(db: &impl ConnectionTrait, row: Model) -> Result<(), DbErr> {
    Entity::insert(row.into_active_model()).exec_without_returning(db).await?;
    Ok(())
}

/// Revokes a token by its id; one that was revoked before keeps that time.
pub async fn revoke(db: &impl ConnectionTrait, id: &str, now_ms: i64) -> Result<(), DbErr> {
    Entity::update_many()
        .col_expr(Column::RevokedAtMs, Expr::value(now_ms))
        .filter(Column::Id.eq(id))
        .filter(Column::RevokedAtMs.is_null())
        .exec(db)
        .await?;
    Ok(())
}

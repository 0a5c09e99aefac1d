//! Access tokens. SQL keeps only a hash of the secret.

use sea_orm::entity::prelude::*;
use sea_orm::{Condition, IntoActiveModel, QueryOrder, QuerySelect};
use serde_json::json;

use crate::audit::Act;
use crate::board::seen::Seen;
use crate::sql::begin;

/// A row of `access_token`.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "access_token")]
pub struct Model {
    /// The public id.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
    /// The scopes, as words between spaces, without those that they include.
    pub scopes: String,
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
    /// The boards that it is for, as a JSON array of their numbers; `all` for a token of before
    /// there were lists, which sees private boards too; none for all public boards.
    pub boards: Option<String>,
    /// The last use, in Unix milliseconds, to a minute; none if it was never used.
    pub last_used_at_ms: Option<i64>,
}

no_relations!();

/// The rows of [`revoked_since`].
const REVOKED_ROWS_MAX: u64 = 10_000;

/// The column `boards` of a token that was made before there were lists.
const EVERY_BOARD: &str = "all";

impl Model {
    /// The boards that the token sees. A list that cannot be read, as it was edited, has none.
    pub fn seen(&self) -> Seen {
        match self.boards.as_deref() {
            None => Seen::Public,
            Some(EVERY_BOARD) => Seen::All,
            Some(list) => Seen::Listed(serde_json::from_str(list).unwrap_or_default()),
        }
    }

    /// An act that made the row what it is, with all of it but the hash.
    fn of_act(&self, act: Act) -> Act {
        let act = self.member.iter().fold(act, |act, member| act.on_member(member));
        act.after(json!({
            "id": self.id,
            "name": self.name,
            "scopes": self.scopes,
            "member": self.member,
            "boards": self.boards,
            "expiresAt": self.expires_at_ms,
            "revokedAt": self.revoked_at_ms,
        }))
    }
}

/// The column `boards` for a list of boards.
pub fn boards_text(numbers: &[i64]) -> String {
    serde_json::to_string(numbers).expect("numbers have a JSON form")
}

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

/// Inserts a token, with the row of the audit log.
pub async fn insert(db: &DatabaseConnection, row: Model, act: Act) -> Result<(), DbErr> {
    let act = row.of_act(act);
    let transaction = begin(db).await?;
    Entity::insert(row.into_active_model()).exec_without_returning(&transaction).await?;
    act.write(&transaction).await?;
    transaction.commit().await
}

/// Revokes a token by its id, with the row of the audit log; one that was revoked before keeps that
/// time. Returns true if it was revoked now.
pub async fn revoke(
    db: &DatabaseConnection,
    id: &str,
    now_ms: i64,
    act: Act,
) -> Result<bool, DbErr> {
    let transaction = begin(db).await?;
    let revoked = Entity::update_many()
        .col_expr(Column::RevokedAtMs, Expr::value(now_ms))
        .filter(Column::Id.eq(id))
        .filter(Column::RevokedAtMs.is_null())
        .exec(&transaction)
        .await?;
    if revoked.rows_affected == 1
        && let Some(row) = find(&transaction, id).await?
    {
        row.of_act(act).write(&transaction).await?;
    }
    transaction.commit().await?;
    Ok(revoked.rows_affected == 1)
}

/// The ids of tokens that were revoked since an instant, at most 10,000.
pub async fn revoked_since(db: &impl ConnectionTrait, since_ms: i64) -> Result<Vec<String>, DbErr> {
    Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::RevokedAtMs.gte(since_ms))
        .order_by_desc(Column::RevokedAtMs)
        .limit(REVOKED_ROWS_MAX)
        .into_tuple()
        .all(db)
        .await
}

/// Notes the use of a token, unless one was noted since an instant.
pub async fn note_use(
    db: &impl ConnectionTrait,
    id: &str,
    since_ms: i64,
    now_ms: i64,
) -> Result<(), DbErr> {
    let is_due =
        Condition::any().add(Column::LastUsedAtMs.is_null()).add(Column::LastUsedAtMs.lt(since_ms));
    Entity::update_many()
        .col_expr(Column::LastUsedAtMs, Expr::value(now_ms))
        .filter(Column::Id.eq(id))
        .filter(is_due)
        .exec(db)
        .await?;
    Ok(())
}

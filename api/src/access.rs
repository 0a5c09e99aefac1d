//! Access tokens: who is asking, and what they may do. Of a secret only its SHA-256 is kept.

use std::sync::Arc;
use std::time::Duration;

use entity::access_token;
use moka::future::Cache;
use sea_orm::{ActiveValue::Set, DatabaseConnection, EntityTrait, QueryOrder};
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorCode, Result};

/// How long a token that was checked is taken as good without asking SQL again: a revoked one works that much longer.
const REMEMBERED: Duration = Duration::from_secs(5);

/// How many tokens are remembered.
const TOKENS_MAX: u64 = 10_000;

/// What a token allows; each scope includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Scope {
    /// Reads, of private boards too.
    Read,
    /// Submitting scores.
    Submit,
    /// Everything.
    Admin,
}

/// Who is asking.
#[derive(Debug, Clone)]
pub struct Principal {
    /// What they may do.
    pub scope: Scope,
    /// The member they speak for; `None` for a token of a service.
    pub member: Option<String>,
}

/// Checks tokens.
#[derive(Debug, Clone)]
pub struct Access {
    checked: Cache<String, Arc<Principal>>,
}

impl Scope {
    /// Its name, on the command line and in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Admin => "admin",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Read, Self::Submit, Self::Admin].into_iter().find(|scope| scope.name() == name)
    }

    /// It and the scopes it includes.
    #[must_use]
    pub fn included(self) -> Vec<String> {
        let scopes = [Self::Read, Self::Submit, Self::Admin];
        scopes
            .into_iter()
            .filter(|scope| *scope <= self)
            .map(|scope| scope.name().to_owned())
            .collect()
    }
}

impl Access {
    /// Has checked none yet.
    #[must_use]
    pub fn new() -> Self {
        Self { checked: Cache::builder().max_capacity(TOKENS_MAX).time_to_live(REMEMBERED).build() }
    }

    /// Who a bearer token speaks for.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` where it is unknown, revoked or past its end; `UNAVAILABLE` where SQL does not answer.
    pub async fn check(&self, db: &DatabaseConnection, token: &str) -> Result<Arc<Principal>> {
        let refused = || {
            Error::new(
                ErrorCode::Unauthenticated,
                "this access token is unknown, revoked or past its end",
            )
        };
        let hash = hash_of(token);
        if let Some(principal) = self.checked.get(&hash).await {
            return Ok(principal);
        }
        let id = token
            .strip_prefix("laurel_")
            .and_then(|rest| rest.split_once('_'))
            .map(|(id, _)| id)
            .ok_or_else(refused)?;
        let row = access_token::Entity::find_by_id(id).one(db).await?.ok_or_else(refused)?;
        let ended = row.revoked_at_ms.is_some()
            || row.expires_at_ms.is_some_and(|end_ms| end_ms <= entity::now_ms());
        if row.hash != hash || ended {
            return Err(refused());
        }
        let scope = Scope::from_name(&row.scope).ok_or_else(refused)?;
        let principal = Arc::new(Principal { scope, member: row.member });
        self.checked.insert(hash, principal.clone()).await;
        Ok(principal)
    }
}

/// Makes a token; it cannot be shown again.
pub async fn create(
    db: &DatabaseConnection,
    scope: Scope,
    member: Option<String>,
    lifetime: Option<Duration>,
) -> Result<String> {
    let id = entity::random_id()[..12].to_owned();
    let token = format!("laurel_{id}_{}{}", entity::random_id(), entity::random_id());
    let now_ms = entity::now_ms();
    let row = access_token::ActiveModel {
        id: Set(id),
        hash: Set(hash_of(&token)),
        scope: Set(scope.name().to_owned()),
        member: Set(member),
        created_at_ms: Set(now_ms),
        expires_at_ms: Set(lifetime.map(|lifetime| now_ms + lifetime.as_millis() as i64)),
        revoked_at_ms: Set(None),
    };
    access_token::Entity::insert(row).exec_without_returning(db).await?;
    Ok(token)
}

/// Revokes a token by its id; whether there was one.
pub async fn revoke(db: &DatabaseConnection, id: &str) -> Result<bool> {
    let row = access_token::ActiveModel {
        id: Set(id.to_owned()),
        revoked_at_ms: Set(Some(entity::now_ms())),
        ..Default::default()
    };
    match access_token::Entity::update(row).exec_without_returning(db).await {
        Ok(result) => Ok(result.rows_affected > 0),
        Err(sea_orm::DbErr::RecordNotUpdated) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Every token there is, oldest first, without its secret.
pub async fn list(db: &DatabaseConnection) -> Result<Vec<access_token::Model>> {
    Ok(access_token::Entity::find().order_by_asc(access_token::Column::CreatedAtMs).all(db).await?)
}

fn hash_of(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

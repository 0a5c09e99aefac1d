//! Access tokens: the principal behind a request, and its scope. SQL keeps only the SHA-256 of a
//! token.

use std::sync::Arc;
use std::time::Duration;

use entity::access_token;
use moka::future::Cache;
use sea_orm::DatabaseConnection;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// How long a checked token stays valid without another SELECT. A revoked token works that much
/// longer.
const CHECK_AGE_MAX: Duration = Duration::from_secs(5);

/// The most checked tokens kept in memory.
const TOKENS_MAX: u64 = 10_000;

/// The scope of an access token. Each scope includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Scope {
    /// Reads everything, private boards too.
    Read,
    /// Submits scores and changes friendships.
    Submit,
    /// Everything.
    Admin,
}

/// The identity behind a request.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The id of the token.
    pub id: Arc<str>,
    /// The scope of the token.
    pub scope: Scope,
    /// The member that the token is bound to; `None` for a service's token.
    pub member: Option<String>,
}

/// Checks access tokens, and remembers recent results.
#[derive(Debug, Clone)]
pub struct Access {
    checked: Cache<String, Arc<Principal>>,
}

impl Scope {
    /// The name, on the command line and in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Admin => "admin",
        }
    }

    /// The names of this scope and of those it includes.
    pub fn included(self) -> Vec<String> {
        let scopes = [Self::Read, Self::Submit, Self::Admin];
        scopes
            .into_iter()
            .filter(|scope| *scope <= self)
            .map(|scope| scope.name().to_owned())
            .collect()
    }
}

impl From<access_token::Scope> for Scope {
    fn from(scope: access_token::Scope) -> Self {
        match scope {
            access_token::Scope::Read => Self::Read,
            access_token::Scope::Submit => Self::Submit,
            access_token::Scope::Admin => Self::Admin,
        }
    }
}

impl From<Scope> for access_token::Scope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Read => Self::Read,
            Scope::Submit => Self::Submit,
            Scope::Admin => Self::Admin,
        }
    }
}

impl Access {
    /// Starts with no results.
    pub fn new() -> Self {
        Self {
            checked: Cache::builder().max_capacity(TOKENS_MAX).time_to_live(CHECK_AGE_MAX).build(),
        }
    }

    /// The principal of a bearer token that was checked a moment ago.
    pub async fn cached(&self, token: &str) -> Option<Arc<Principal>> {
        self.checked.get(&hash_of(token)).await
    }

    /// Finds the principal of a bearer token with one SELECT.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` if the token is unknown, revoked or expired; `UNAVAILABLE` if SQL does not
    /// answer.
    pub async fn check(
        &self,
        db: &DatabaseConnection,
        token: &str,
        now_ms: i64,
    ) -> Result<Arc<Principal>> {
        let refused = || Error::unauthenticated("this access token is unknown, revoked or expired");
        let hash = hash_of(token);
        let id = token
            .strip_prefix("laurel_")
            .and_then(|rest| rest.split_once('_'))
            .map(|(id, _)| id)
            .ok_or_else(refused)?;
        let row = access_token::find(db, id).await?.ok_or_else(refused)?;
        let ended =
            row.revoked_at_ms.is_some() || row.expires_at_ms.is_some_and(|end_ms| end_ms <= now_ms);
        if row.hash != hash || ended {
            return Err(refused());
        }
        let principal =
            Arc::new(Principal { id: row.id.into(), scope: row.scope.into(), member: row.member });
        self.checked.insert(hash, principal.clone()).await;
        Ok(principal)
    }
}

/// Creates a token and returns its text, which cannot be shown again.
pub async fn create(
    db: &DatabaseConnection,
    scope: Scope,
    member: Option<String>,
    lifetime: Option<Duration>,
    now_ms: i64,
) -> Result<String> {
    let id = entity::random_id()[..12].to_owned();
    let token = format!("laurel_{id}_{}{}", entity::random_id(), entity::random_id());
    let row = access_token::Model {
        id,
        hash: hash_of(&token),
        scope: scope.into(),
        member,
        created_at_ms: now_ms,
        expires_at_ms: lifetime.map(|lifetime| now_ms + lifetime.as_millis() as i64),
        revoked_at_ms: None,
    };
    access_token::insert(db, row).await?;
    Ok(token)
}

fn hash_of(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

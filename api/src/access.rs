//! Access tokens: the principal behind a request, and its scope. SQL keeps only the SHA-256 of a
//! token. Tokens of players may come from another program, which signs them.

pub mod jwt;

use std::sync::Arc;
use std::time::Duration;

use async_graphql::Enum;
use entity::access_token;
use moka::future::Cache;
use ranking::commit::content::to_hex;
use sea_orm::DatabaseConnection;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use self::jwt::{Players, is_jwt};
use crate::error::{Error, ErrorCode, Result};
use crate::health::Health;

/// How long a checked token stays valid without another SELECT. A token that another process
/// revoked works that much longer, and while SQL is away until it answers again, within the limit
/// of a setting.
const CHECK_AGE_MAX: Duration = Duration::from_millis(900);

/// The longest lifetime of a token, in hours: ten years.
pub const LIFETIME_HOURS_MAX: i64 = 3650 * 24;

/// The most checked tokens kept in memory.
const TOKENS_MAX: u64 = 10_000;

/// The scope of an access token. Each scope includes those before it.
#[derive(Enum, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub enum Scope {
    /// Reads everything; private boards too, unless a player logged in with it.
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
    /// True for a player who logged in by a token of another program.
    pub is_player: bool,
    /// When the token expires, in Unix milliseconds; `None` for never.
    pub expires_at_ms: Option<i64>,
}

/// Checks access tokens, and remembers those that were good.
#[derive(Debug, Clone)]
pub struct Access {
    checked: Cache<String, Arc<Checked>>,
    /// Players whose tokens were good a moment ago: SQL knows none of them, and they push out no
    /// tokens of the server's own.
    logged_in: Cache<String, Arc<Principal>>,
    health: Arc<Health>,
    players: Option<Arc<Players>>,
}

/// A token that was good when SQL was asked.
#[derive(Debug)]
struct Checked {
    principal: Arc<Principal>,
    at: Instant,
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

    /// This scope and those it includes.
    pub fn included(self) -> Vec<Self> {
        let scopes = [Self::Read, Self::Submit, Self::Admin];
        scopes.into_iter().filter(|scope| *scope <= self).collect()
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

impl Principal {
    /// True until the token expires.
    fn is_good_at(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_none_or(|end_ms| now_ms < end_ms)
    }
}

/// True for a client whom the operator gave a token. Anyone may be a player.
pub fn is_known(principal: Option<&Principal>) -> bool {
    principal.is_some_and(|principal| !principal.is_player)
}

impl Access {
    /// Starts with no results. While SQL is away, a token that was checked goes on for
    /// `remembered`. Players log in if there are keys for it.
    pub fn new(health: &Arc<Health>, remembered: Duration, players: Option<Players>) -> Self {
        let checked = Cache::builder().max_capacity(TOKENS_MAX).time_to_live(remembered);
        let logged_in = Cache::builder().max_capacity(TOKENS_MAX).time_to_live(CHECK_AGE_MAX);
        Self {
            checked: checked.build(),
            logged_in: logged_in.build(),
            health: health.clone(),
            players: players.map(Arc::new),
        }
    }

    /// The principal of a bearer token that was checked a moment ago, or before SQL went away.
    pub async fn cached(&self, token: &str, now_ms: i64) -> Option<Arc<Principal>> {
        if is_jwt(token) {
            let player = self.logged_in.get(&hash_of(token)).await?;
            return player.is_good_at(now_ms).then_some(player);
        }
        let checked = self.checked.get(&hash_of(token)).await?;
        let is_good = checked.at.elapsed() < CHECK_AGE_MAX || self.health.sql.is_away();
        checked.principal_at(now_ms).filter(|_| is_good)
    }

    /// Finds the principal of a bearer token with one SELECT, or from memory if SQL does not
    /// answer.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` if the token is unknown or revoked, `EXPIRED_TOKEN` if it has expired;
    /// `UNAVAILABLE` if SQL does not answer and the token is not remembered.
    pub async fn check(
        &self,
        db: &DatabaseConnection,
        token: &str,
        now_ms: i64,
    ) -> Result<Arc<Principal>> {
        let refused = || Error::unauthenticated("this access token is unknown or revoked");
        let hash = hash_of(token);
        if is_jwt(token)
            && let Some(players) = &self.players
        {
            let player = players.check(token, now_ms).await?;
            self.logged_in.insert(hash, player.clone()).await;
            return Ok(player);
        }
        let id = token
            .strip_prefix("laurel_")
            .and_then(|rest| rest.split_once('_'))
            .map(|(id, _)| id)
            .ok_or_else(refused)?;
        let at = Instant::now();
        let look_up = async { Ok(access_token::find(db, id).await?) };
        let row = match self.health.sql.ask(look_up).await {
            Ok(row) => row,
            Err(error) if error.code != ErrorCode::Unavailable => return Err(error),
            Err(error) => {
                let last = self.checked.get(&hash).await;
                let principal = last.and_then(|last| last.principal_at(now_ms));
                return principal.ok_or(error);
            }
        };
        let good = row.filter(|row| row.hash == hash && row.revoked_at_ms.is_none());
        let checked = good.map(|row| Checked {
            at,
            principal: Arc::new(Principal {
                id: row.id.into(),
                scope: row.scope.into(),
                member: row.member,
                is_player: false,
                expires_at_ms: row.expires_at_ms,
            }),
        });
        let expired = || Error::new(ErrorCode::ExpiredToken, "this access token has expired");
        let checked = checked.ok_or_else(refused).and_then(|checked| {
            let principal = checked.principal_at(now_ms).ok_or_else(expired)?;
            Ok((checked, principal))
        });
        let (checked, principal) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                // It must not come back when SQL goes away.
                self.checked.invalidate(&hash).await;
                return Err(error);
            }
        };
        self.checked.insert(hash, Arc::new(checked)).await;
        Ok(principal)
    }

    /// Forgets a token by its hash, as it was revoked.
    pub async fn forget(&self, hash: &str) {
        self.checked.invalidate(hash).await;
    }
}

impl Checked {
    /// The principal, unless the token has expired.
    fn principal_at(&self, now_ms: i64) -> Option<Arc<Principal>> {
        self.principal.is_good_at(now_ms).then(|| self.principal.clone())
    }
}

/// A token to be made.
#[derive(Debug)]
pub struct NewToken {
    /// The scope.
    pub scope: Scope,
    /// A name that tells what it is for.
    pub name: Option<String>,
    /// The only member that it speaks for.
    pub member: Option<String>,
    /// The time for which it works; `None` for good.
    pub lifetime: Option<Duration>,
}

impl NewToken {
    /// A token of a service that works for good.
    pub fn of_scope(scope: Scope) -> Self {
        Self { scope, name: None, member: None, lifetime: None }
    }
}

/// Creates a token. Returns its row and its text, which cannot be shown again.
///
/// # Errors
/// `BAD_USER_INPUT` for an administrator that is bound to a member.
pub async fn create(
    db: &DatabaseConnection,
    new: NewToken,
    now_ms: i64,
) -> Result<(access_token::Model, String)> {
    let NewToken { scope, name, member, lifetime } = new;
    if scope == Scope::Admin && member.is_some() {
        let message = "invalid member: a token of scope admin is bound to no member: expected none, or scope read or submit";
        return Err(Error::bad_input(message).at("input.member"));
    }
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
        name,
    };
    access_token::insert(db, row.clone()).await?;
    Ok((row, token))
}

fn hash_of(token: &str) -> String {
    to_hex(&Sha256::digest(token.as_bytes()))
}

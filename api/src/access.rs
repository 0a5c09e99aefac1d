//! Access tokens: the principal behind a request, its scopes and its boards. SQL keeps only the
//! SHA-256 of a token. Tokens of players may come from another program, which signs them.

pub mod creation;
pub mod jwt;
mod revocation;
pub mod scope;
mod uses;

use std::sync::Arc;
use std::time::Duration;

use engine::deployment::Deployment;
use entity::access_token;
use entity::board::seen::Seen;
use moka::future::Cache;
use ranking::commit::content::to_hex;
use sea_orm::DatabaseConnection;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::jwt::{Players, is_jwt};
use self::revocation::Revocations;
use self::scope::{Scope, Scopes};
use self::uses::Uses;
use crate::error::{Error, ErrorCode, Result};
use crate::health::Health;

/// How long a checked token stays valid without another SELECT. A token that another process
/// revoked works that much longer; while SQL is away, until Redis tells of it.
const CHECK_AGE_MAX: Duration = Duration::from_millis(900);

/// The most checked tokens kept in memory.
const TOKENS_MAX: u64 = 10_000;

/// The longest id in a token, in bytes. Those that are made have 12.
const TOKEN_ID_BYTES_MAX: usize = 64;

/// The identity behind a request, with all that its answers depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The id of the token.
    pub id: Arc<str>,
    /// The name of the token.
    pub name: Option<String>,
    /// The scopes of the token.
    pub scopes: Scopes,
    /// The boards that it sees.
    pub seen: Seen,
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
    uses: Uses,
    revocations: Arc<Revocations>,
    _learning: Arc<AbortOnDropHandle<()>>,
}

/// A token that was good when SQL was asked.
#[derive(Debug)]
struct Checked {
    principal: Arc<Principal>,
    at: Instant,
    last_used_at_ms: Option<i64>,
}

impl Principal {
    /// The principal of a token that SQL has.
    fn of_row(row: access_token::Model) -> Self {
        let scopes = Scopes::parse(&row.scopes);
        let is_admin = scopes.include(Scope::Admin);
        Self {
            seen: if is_admin { Seen::All } else { row.seen() },
            id: row.id.into(),
            name: row.name,
            scopes,
            member: row.member,
            is_player: false,
            expires_at_ms: row.expires_at_ms,
        }
    }

    /// True if it has a scope.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.include(scope)
    }

    /// The part that many clients may share: neither the token nor the member.
    pub fn rights(&self) -> Self {
        Self { id: "".into(), name: None, member: None, expires_at_ms: None, ..self.clone() }
    }

    /// True if some scope lets it write.
    pub fn may_write(&self) -> bool {
        self.scopes != Scopes::of([Scope::Read])
    }

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
    pub fn new(
        deployment: &Deployment,
        health: &Arc<Health>,
        remembered: Duration,
        players: Option<Players>,
    ) -> Self {
        let checked = Cache::builder().max_capacity(TOKENS_MAX).time_to_live(remembered);
        let logged_in = Cache::builder().max_capacity(TOKENS_MAX).time_to_live(CHECK_AGE_MAX);
        let checked = checked.build();
        let revocations = Revocations::new(&checked);
        Self {
            _learning: Arc::new(revocations.learn(deployment, health)),
            revocations,
            checked,
            logged_in: logged_in.build(),
            health: health.clone(),
            players: players.map(Arc::new),
            uses: Uses::new(&deployment.db),
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

    /// True for an access token that was good when it was checked last and did not expire since.
    pub async fn remembers(&self, token: &str, now_ms: i64) -> bool {
        let checked = self.checked.get(&hash_of(token)).await;
        checked.is_some_and(|checked| checked.principal_at(now_ms).is_some())
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
            // SQL is asked for none that it cannot have.
            .filter(|id| id.len() <= TOKEN_ID_BYTES_MAX)
            .filter(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric()))
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
            last_used_at_ms: row.last_used_at_ms,
            principal: Arc::new(Principal::of_row(row)),
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
        self.uses.note(&principal, checked.last_used_at_ms, now_ms);
        self.checked.insert(hash.clone(), Arc::new(checked)).await;
        if self.is_revoked(&principal) {
            // It was revoked while SQL was asked.
            self.checked.invalidate(&hash).await;
            return Err(refused());
        }
        Ok(principal)
    }

    /// Forgets the token of an id, as it was revoked.
    pub async fn revoke(&self, id: &str) {
        self.revocations.add(vec![id.to_owned()]).await;
    }

    /// True if the token was revoked lately.
    pub fn is_revoked(&self, principal: &Principal) -> bool {
        !principal.is_player && self.revocations.has(&principal.id)
    }

    /// Is told when tokens are revoked.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.revocations.follow()
    }
}

impl Checked {
    /// The principal, unless the token has expired.
    fn principal_at(&self, now_ms: i64) -> Option<Arc<Principal>> {
        self.principal.is_good_at(now_ms).then(|| self.principal.clone())
    }
}

fn hash_of(token: &str) -> String {
    to_hex(&Sha256::digest(token.as_bytes()))
}

//! The log-in of players by JSON Web Tokens (RFC 7519) that another program signs, such as a game's
//! server or a provider of OpenID Connect: `sub` is the member.
//!
//! A key has one algorithm, whatever a token says, so that no token is checked by another one. A
//! token needs `exp`, `iss`, `aud` and `sub`.

mod keys;

use std::sync::Arc;

use anyhow::{Context, Result as AnyResult, bail, ensure};
use engine::settings::JwtSettings;
use entity::board::seen::Seen;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use ranking::id::MemberId;
use serde::Deserialize;
use serde_json::{Map, Value};

use self::keys::{Key, Keys};
use super::Principal;
use super::scope::{Scope, Scopes};
use crate::error::{Error, ErrorCode, Result};

/// The longest token, in bytes.
const JWT_BYTES_MAX: usize = 8 << 10;

/// The shortest secret, in bytes: as long as the hash of HS256 (RFC 7518, section 3.2).
const JWT_SECRET_BYTES_MIN: usize = 32;

/// The longest time that a token may still be valid, in seconds.
const JWT_LIFETIME_MAX: i64 = 30 * 86_400;

/// The prefix of a word for a scope, for issuers whose words are of many programs.
const SCOPE_PREFIX: &str = "laurel:";

/// Checks players' tokens.
#[derive(Debug)]
pub struct Players {
    keys: Keys,
    issuer: String,
    audience: String,
    scope_claim: String,
    /// The scopes where a token names none.
    scopes: Scopes,
    leeway_seconds: u32,
}

/// The claims that are read here; the library checks the issuer and the audience.
#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    exp: i64,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Players {
    /// Reads the settings, and the keys; `None` if no secret and no keys are given.
    ///
    /// # Errors
    /// If the settings do not fit each other, or the keys cannot be had.
    pub async fn load(settings: &JwtSettings) -> AnyResult<Option<Self>> {
        let JwtSettings { jwt_secret, jwks_file, jwks_url, jwt_issuer, jwt_audience, .. } =
            settings;
        let keys = match (jwt_secret, jwks_file, jwks_url) {
            (Some(secret), _, _) => {
                ensure!(
                    secret.as_bytes().len() >= JWT_SECRET_BYTES_MIN,
                    "LAUREL_JWT_SECRET is too short: expected {JWT_SECRET_BYTES_MIN} bytes or more"
                );
                Keys::of_secret(DecodingKey::from_secret(secret.as_bytes()))
            }
            (None, Some(file), _) => Keys::of_file(file).await?,
            (None, None, Some(url)) => Keys::of_url(url).await?,
            (None, None, None) => {
                if jwt_issuer.is_some() || jwt_audience.is_some() {
                    bail!(
                        "LAUREL_JWT_ISSUER and LAUREL_JWT_AUDIENCE need keys: expected LAUREL_JWT_SECRET, LAUREL_JWKS_FILE or LAUREL_JWKS_URL"
                    );
                }
                return Ok(None);
            }
        };
        let given = |value: &Option<String>, name: &str| {
            let value = value.clone().filter(|value| !value.is_empty());
            value.with_context(|| format!("players' tokens need {name}: expected what they name"))
        };
        Ok(Some(Self {
            keys,
            issuer: given(jwt_issuer, "LAUREL_JWT_ISSUER (iss)")?,
            audience: given(jwt_audience, "LAUREL_JWT_AUDIENCE (aud)")?,
            scope_claim: settings.jwt_scope_claim.clone(),
            scopes: Scopes::of(settings.jwt_scope.iter().filter_map(|word| scope_named(word))),
            leeway_seconds: settings.jwt_leeway_seconds,
        }))
    }

    /// The principal of a player's token.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` if the token is none of the issuer's for this server, `EXPIRED_TOKEN` if
    /// it has expired; `UNAVAILABLE` if it names a key that cannot be had now.
    pub async fn check(&self, token: &str, now_ms: i64) -> Result<Arc<Principal>> {
        if token.len() > JWT_BYTES_MAX {
            return Err(refused(&format!("expected at most {JWT_BYTES_MAX} bytes")));
        }
        let header = decode_header(token).map_err(|_| refused("expected a JSON Web Token"))?;
        // An extension that a reader must know (RFC 7515, section 4.1.11): none is known here.
        if header.crit.is_some() {
            return Err(refused("expected no header crit"));
        }
        let found = self.keys.find(header.kid.as_deref(), header.alg).await?;
        let Key { algorithm, decoding, .. } = found.as_ref();
        let mut validation = Validation::new(*algorithm);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        validation.validate_nbf = true;
        validation.leeway = self.leeway_seconds.into();
        let claims = decode::<Claims>(token, decoding, &validation);
        let claims = claims.map_err(|error| self.error(error.kind()))?.claims;
        // The library takes a list that has the issuer, too; RFC 7519 knows one issuer.
        if !claims.others.get("iss").is_some_and(Value::is_string) {
            return Err(self.error(&ErrorKind::InvalidIssuer));
        }
        let expires_at_s = claims.exp.saturating_add(self.leeway_seconds.into());
        let now_s = now_ms.div_euclid(1000);
        if expires_at_s <= now_s {
            return Err(self.error(&ErrorKind::ExpiredSignature));
        }
        if claims.exp.saturating_sub(now_s) > JWT_LIFETIME_MAX {
            let days = JWT_LIFETIME_MAX / 86_400;
            return Err(refused(&format!("expected exp within {days} days")));
        }
        let member = MemberId::for_new(&claims.sub)
            .map_err(|_| refused("expected a member's key in sub: 1 to 128 bytes"))?;
        Ok(Arc::new(Principal {
            id: format!("player {member}").into(),
            name: None,
            scopes: self.scopes_of(claims.others.get(&self.scope_claim)),
            seen: Seen::Public,
            member: Some(member.to_string()),
            is_player: true,
            expires_at_ms: Some(expires_at_s.saturating_mul(1000)),
        }))
    }

    /// The scopes that a claim names.
    fn scopes_of(&self, claim: Option<&Value>) -> Scopes {
        let words: Vec<&str> = match claim {
            Some(Value::String(text)) => text.split(' ').collect(),
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            _ => vec![],
        };
        let mut named = words.into_iter().filter_map(scope_named).peekable();
        if named.peek().is_some() { Scopes::of(named) } else { self.scopes }
    }

    fn error(&self, kind: &ErrorKind) -> Error {
        match kind {
            ErrorKind::ExpiredSignature => {
                Error::new(ErrorCode::ExpiredToken, "this access token has expired")
            }
            ErrorKind::ImmatureSignature => refused("it is not valid yet"),
            ErrorKind::InvalidIssuer => {
                refused(&format!("expected the issuer {} in iss", self.issuer))
            }
            ErrorKind::InvalidAudience => {
                refused(&format!("expected the audience {} in aud", self.audience))
            }
            ErrorKind::MissingRequiredClaim(claim) => {
                refused(&format!("expected the claim {claim}"))
            }
            ErrorKind::InvalidSignature => refused("its signature is wrong"),
            _ => refused("expected a signed JSON Web Token with exp, iss, aud and sub"),
        }
    }
}

/// True for a text of the form of a JSON Web Token: three parts.
pub fn is_jwt(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// The scope that a player's token may have. None makes a moderator or an administrator.
fn scope_named(word: &str) -> Option<Scope> {
    let scope = Scope::of_name(word.strip_prefix(SCOPE_PREFIX).unwrap_or(word))?;
    matches!(scope, Scope::Read | Scope::Submit | Scope::Friends).then_some(scope)
}

fn refused(reason: &str) -> Error {
    Error::unauthenticated(format!("this access token is not good: {reason}"))
}

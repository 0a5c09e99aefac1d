//! The creation of access tokens.

use std::collections::BTreeSet;
use std::time::Duration;

use entity::audit::Act;
use entity::{access_token, board};
use ranking::shown;
use sea_orm::DatabaseConnection;

use super::hash_of;
use super::scope::{Scope, Scopes};
use crate::error::{Error, ErrorCode, Result};

/// The longest lifetime of a token, in hours: ten years.
pub const LIFETIME_HOURS_MAX: i64 = 3650 * 24;

/// The most boards that a token is for.
const TOKEN_BOARDS_MAX: usize = 100;

/// A token to be made.
#[derive(Debug)]
pub struct NewToken {
    /// The scopes, at least one.
    pub scopes: Vec<Scope>,
    /// A name that tells what it is for.
    pub name: Option<String>,
    /// The only member that it speaks for.
    pub member: Option<String>,
    /// The slugs of the only boards that it is for; `None` for all public boards.
    pub boards: Option<Vec<String>>,
    /// The time for which it works; `None` for good.
    pub lifetime: Option<Duration>,
}

impl NewToken {
    /// The token of an administrator that works for good.
    pub fn admin() -> Self {
        Self { scopes: vec![Scope::Admin], name: None, member: None, boards: None, lifetime: None }
    }

    /// Checks the scopes against the rest.
    fn check(&self) -> Result<Scopes> {
        if self.scopes.is_empty() {
            let message =
                "invalid scopes: expected at least one of read, submit, friends, moderate, admin";
            return Err(Error::bad_input(message).at("input.scopes"));
        }
        let scopes = Scopes::of(self.scopes.iter().copied());
        if self.member.is_some() && scopes.include(Scope::Moderate) {
            let message = "invalid member: a token of scope moderate or admin is bound to no member: expected none, or scopes read, submit and friends";
            return Err(Error::bad_input(message).at("input.member"));
        }
        if self.boards.is_some() && scopes.include(Scope::Admin) {
            let message = "invalid boards: a token of scope admin is for all boards: expected none, or other scopes";
            return Err(Error::bad_input(message).at("input.boards"));
        }
        Ok(scopes)
    }
}

/// Creates a token, with the row of the audit log. Returns its row and its text, which cannot be
/// shown again.
///
/// # Errors
/// `BAD_USER_INPUT` for an administrator or a moderator that is bound to a member, for an
/// administrator that is bound to boards, and without a scope; `NOT_FOUND` for a board that does
/// not exist, `LIMIT_EXCEEDED` for more than 100.
pub async fn create(
    db: &DatabaseConnection,
    new: NewToken,
    now_ms: i64,
    act: Act,
) -> Result<(access_token::Model, String)> {
    let scopes = new.check()?;
    let NewToken { name, member, boards, lifetime, .. } = new;
    let boards = match boards {
        Some(slugs) => Some(access_token::boards_text(&numbers_of(db, &slugs).await?)),
        None => None,
    };
    let id = entity::random_id()[..12].to_owned();
    let token = format!("laurel_{id}_{}{}", entity::random_id(), entity::random_id());
    let row = access_token::Model {
        id,
        hash: hash_of(&token),
        scopes: scopes.words(),
        member,
        created_at_ms: now_ms,
        expires_at_ms: lifetime.map(|lifetime| now_ms + lifetime.as_millis() as i64),
        revoked_at_ms: None,
        name,
        boards,
        last_used_at_ms: None,
    };
    access_token::insert(db, row.clone(), act).await?;
    Ok((row, token))
}

/// The numbers of boards, ascending.
async fn numbers_of(db: &DatabaseConnection, slugs: &[String]) -> Result<Vec<i64>> {
    if slugs.is_empty() {
        let message = format!("invalid boards: expected 1 to {TOKEN_BOARDS_MAX} slugs");
        return Err(Error::bad_input(message).at("input.boards"));
    }
    if slugs.len() > TOKEN_BOARDS_MAX {
        let message = format!("{} boards: expected at most {TOKEN_BOARDS_MAX}", slugs.len());
        return Err(Error::limit_exceeded(message).at("input.boards"));
    }
    // An invalid slug has no board, and not every database accepts it as text.
    let possible: BTreeSet<&str> = slugs
        .iter()
        .map(String::as_str)
        .filter(|slug| ranking::id::check_slug(slug).is_ok())
        .collect();
    let rows = board::of_slugs(db, &possible).await?;
    for (index, slug) in slugs.iter().enumerate() {
        if rows.iter().all(|row| row.slug != *slug) {
            let message = format!("there is no board {}: expected the slug of one", shown(slug));
            let error = Error::new(ErrorCode::NotFound, message);
            return Err(error.at(format!("input.boards[{index}]")));
        }
    }
    let numbers: BTreeSet<i64> = rows.into_iter().map(|row| row.no).collect();
    Ok(numbers.into_iter().collect())
}

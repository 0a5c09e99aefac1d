//! `laurel token`: access tokens on the command line.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Subcommand;
use engine::audit::of_command;
use entity::access_token;
use entity::board::seen::Seen;
use entity::deployment::clock::Clock;
use jiff::{SignedDuration, Span, SpanRelativeTo};
use sea_orm::DatabaseConnection;

use super::SqlArguments;
use crate::access::creation::{self, LIFETIME_HOURS_MAX, NewToken};
use crate::access::scope::{Scope, Scopes};
use crate::graphql::types::scalar::text;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Makes a token and prints it, once.
    Create {
        /// The scopes of the token, with commas between them; each includes read, and admin
        /// includes all.
        #[arg(long, required = true, value_name = "SCOPES", value_delimiter = ',')]
        scope: Vec<Scope>,
        /// The member that the token speaks for: it submits that member's scores only, on boards
        /// that allow it.
        #[arg(long, value_name = "KEY")]
        member: Option<String>,
        /// The slugs of the only boards that the token sees, with commas between them, at most 100,
        /// private ones among them; by default it sees all public boards.
        #[arg(long, value_name = "SLUGS", value_delimiter = ',')]
        boards: Option<Vec<String>>,
        /// The lifetime of the token: 30d, 12h, 45m, 90s; by default it does not expire.
        #[arg(long, value_name = "DURATION", value_parser = parse_lifetime)]
        expires: Option<Duration>,
        /// A name that tells what the token is for, at most 200 characters.
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        #[command(flatten)]
        sql: SqlArguments,
    },
    /// Revokes a token; it stops working within a second.
    Revoke {
        /// The id of the token, as `list` shows it.
        id: String,
        #[command(flatten)]
        sql: SqlArguments,
    },
    /// Lists the tokens, without their secrets.
    List(SqlArguments),
}

/// Runs a command.
pub async fn run(command: TokenCommand) -> Result<()> {
    let clock = Clock::default();
    let now_ms = clock.now_ms();
    match command {
        TokenCommand::Create { scope: scopes, member, boards, expires: lifetime, name, sql } => {
            if let Some(member) = &member {
                ranking::id::MemberId::for_new(member)?;
            }
            let name = name.map(|name| text("name", name)).transpose()?;
            let new = NewToken { scopes, name, member, boards, lifetime };
            let (db, act) = (connect(&sql).await?, of_command("laurel token create", &clock));
            let (_, token) = creation::create(&db, new, now_ms, act).await?;
            println!("{token}");
        }
        TokenCommand::Revoke { id, sql } => {
            let db = connect(&sql).await?;
            if access_token::find(&db, &id).await?.is_none() {
                bail!("unknown token {id:?}: expected an id that `laurel token list` shows");
            }
            let act = of_command("laurel token revoke", &clock);
            access_token::revoke(&db, &id, now_ms, act).await?;
            println!("revoked {id}");
        }
        TokenCommand::List(sql) => {
            let tokens = access_token::list(&connect(&sql).await?).await?;
            let rows = tokens.into_iter().map(columns).collect::<Result<Vec<_>>>()?;
            let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
            let widths = [0, 1, 2, 3].map(|column| width(column).unwrap_or_default());
            for [id, scopes, member, state, rest] in &rows {
                let [of_id, of_scopes, of_member, of_state] = widths;
                let line = format!(
                    "{id:of_id$}  {scopes:of_scopes$}  {member:of_member$}  {state:of_state$}  {rest}"
                );
                println!("{}", line.trim_end());
            }
        }
    }
    Ok(())
}

/// The columns of a token in a list: id, scopes, member, state, and boards and name.
fn columns(mut token: access_token::Model) -> Result<[String; 5]> {
    let state = match (token.revoked_at_ms, token.expires_at_ms) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(end_ms)) => {
            format!("until {}", jiff::Timestamp::from_second(end_ms.div_euclid(1000))?)
        }
        (None, None) => "does not expire".to_owned(),
    };
    let member = token.member.take().unwrap_or_else(|| "-".into());
    let scopes = Scopes::parse(&token.scopes).words().replace(' ', ",");
    let boards = match token.seen() {
        Seen::Listed(numbers) if numbers.len() == 1 => "1 board  ".to_owned(),
        Seen::Listed(numbers) => format!("{} boards  ", numbers.len()),
        Seen::All | Seen::Public => String::new(),
    };
    let name = token.name.take().unwrap_or_default();
    Ok([token.id, scopes, member, state, format!("{boards}{name}")])
}

async fn connect(arguments: &SqlArguments) -> Result<DatabaseConnection> {
    arguments.log.start("info")?;
    Ok(arguments.sql.connect().await?)
}

fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let hours_max = SignedDuration::from_hours(LIFETIME_HOURS_MAX);
    let span: Option<Span> = text.parse().ok();
    span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok())
        .filter(|lifetime| *lifetime >= SignedDuration::from_secs(1) && *lifetime <= hours_max)
        .map(SignedDuration::unsigned_abs)
        .ok_or_else(|| {
            format!("invalid lifetime {text:?}: expected 30d, 12h, 45m or 90s, at most 3650d")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_has_a_unit_and_is_at_most_ten_years() {
        let seconds = |text| parse_lifetime(text).map(|lifetime| lifetime.as_secs());
        assert_eq!(seconds("30d"), Ok(30 * 86_400));
        assert_eq!(seconds("12h"), Ok(43_200));
        assert_eq!(seconds("3650d"), Ok(3650 * 86_400));
        for wrong in ["", "30", "0s", "-1d", "3651d", "1y", "d", "1e3s", "soon"] {
            assert!(seconds(wrong).unwrap_err().contains("expected"), "{wrong}");
        }
    }
}

//! The row of the audit log that a mutation leaves.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_graphql::Context;
use entity::audit::{Act, Actor};
use sea_orm::DbErr;
use tokio::time::timeout;

use crate::access::Principal;
use crate::access::scope::Scope;
use crate::app::App;
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::change::Change;
use crate::graphql::request::{app, state};

/// How long SQL may take to note that an act failed, or is over.
const NOTE_TIMEOUT: Duration = Duration::from_secs(2);

/// A change by an administrator or a moderator, which leaves one row in the audit log however it
/// ends. Acts of a member's own token, or of one without these rights, are not kept.
pub(crate) struct Audit<'c> {
    app: &'c App,
    entry: Mutex<Entry>,
    is_kept: bool,
    _change: Change<'c>,
}

/// The act, and how much of it the log has.
struct Entry {
    act: Act,
    row: Row,
}

/// The row of an act.
#[derive(Clone, Copy)]
enum Row {
    /// It is not written.
    None,
    /// It is written, and says that the act took effect; or none is needed.
    Whole,
    /// It is written, by this number, and does not say yet how the act ends.
    Begun(i64),
}

impl<'c> Audit<'c> {
    /// Begins a change, which is named by the field of the schema.
    pub(crate) fn of(ctx: &Context<'c>) -> Self {
        let (app, state) = (app(ctx), state(ctx));
        let principal = state.principal.as_deref();
        let now_ms = app.deployment.clock.now_ms();
        let act = Act::new(ctx.field().name(), actor(principal), now_ms);
        Self {
            app,
            entry: Mutex::new(Entry { act, row: Row::None }),
            is_kept: principal.is_some_and(|principal| {
                principal.member.is_none() && principal.may(Scope::Moderate)
            }),
            _change: state.changes.enter(),
        }
    }

    /// Adds what is known of the act by now.
    pub(crate) fn note(&self, add: impl FnOnce(Act) -> Act) {
        let mut entry = self.lock();
        entry.act = add(entry.act.clone());
    }

    /// The act, for the transaction that carries it out and writes its row.
    pub(crate) fn act(&self) -> Act {
        self.lock().act.clone()
    }

    /// Tells that such a transaction was committed.
    pub(crate) fn written(&self) {
        self.lock().row = Row::Whole;
    }

    /// Tells that the client only looks, so that no row is needed.
    pub(crate) fn changes_nothing(&self) {
        self.lock().row = Row::Whole;
    }

    /// Writes the row of an act that no single transaction carries out, before it begins.
    ///
    /// # Errors
    /// `UNAVAILABLE` if SQL does not answer.
    pub(crate) async fn announce(&self) -> Result<()> {
        if self.is_kept {
            let no = self.act().write_begun(&self.app.deployment.db).await?;
            self.lock().row = Row::Begun(no);
        }
        Ok(())
    }

    /// Writes or completes the row, and answers with the payload of the mutation. A client that has
    /// no right to the act leaves no row.
    ///
    /// # Errors
    /// That of the act.
    pub(crate) async fn end<T>(&self, done: Result<T>) -> async_graphql::Result<Option<T>> {
        let error = done.as_ref().err();
        let is_of_rights = error
            .is_some_and(|error| error.code.is_of_token() || error.code == ErrorCode::Forbidden);
        let (act, row) = {
            let entry = self.lock();
            (entry.act.clone(), entry.row)
        };
        let db = &self.app.deployment.db;
        let outcome = error.map_or(Ok(()), |error| Err(error.code.name()));
        match (row, outcome) {
            _ if !self.is_kept => {}
            (Row::Whole, _) => {}
            (Row::Begun(no), outcome) => in_time(act.finish(db, no, outcome)).await,
            (Row::None, Ok(())) => act.write(db).await.map_err(Error::from)?,
            (Row::None, Err(_)) if is_of_rights || self.app.health.sql.is_away() => {}
            (Row::None, Err(code)) => in_time(act.write_failed(db, code)).await,
        }
        Ok(Some(done?))
    }

    fn lock(&self) -> MutexGuard<'_, Entry> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The author of an act by a token.
fn actor(principal: Option<&Principal>) -> Actor {
    let Some(principal) = principal else {
        return Actor { id: "anyone".to_owned(), name: None };
    };
    Actor { id: format!("accessToken:{}", principal.id), name: principal.name.clone() }
}

/// Writes an outcome. If SQL fails, the server's log tells it.
async fn in_time(writing: impl Future<Output = Result<(), DbErr>>) {
    let error = match timeout(NOTE_TIMEOUT, writing).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer".to_owned(),
    };
    tracing::warn!(error, "the outcome of an act is not in the audit log");
}

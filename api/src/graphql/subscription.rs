//! The subscriptions: parts of standings, pushed when they change.
//!
//! An execution gives one answer. A feed executes the document again after each change, with the
//! same [`Following`]: so all fields of an answer are those of one instant.

use std::sync::Arc;

use async_graphql::{Context, Result, Subscription as GraphQlSubscription};
use futures::Stream;
use futures::stream::once;
use ranking::id::MemberId;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::board::named;
use super::guard::Needs;
use super::price;
use super::request::{app, state};
use super::sight::is_hidden;
use super::standings::entries::EntryConnection;
use super::standings::entry::Entry;
use super::standings::entry_page::whole;
use super::standings::{Standings, StandingsOf};
use super::types::connection::limit;
use crate::error::Error;
use crate::live::{Part, RETRY_PAUSE, Want, Watch};

/// The part of standings that a subscription follows, from one execution to the next.
#[derive(Clone, Default)]
pub struct Following(Arc<Mutex<Option<Watch>>>);

/// All subscriptions.
pub struct Subscription;

impl Following {
    /// Waits until another execution may give another answer.
    pub async fn changed(&self) {
        match self.0.lock().await.as_mut() {
            // Reads end with the process only.
            Some(watch) => drop(watch.changed().await),
            None => sleep(RETRY_PAUSE).await,
        }
    }

    /// A part of standings, followed from now on in place of the one before.
    async fn part(
        &self,
        ctx: &Context<'_>,
        standings: &Standings,
        want: Want,
    ) -> crate::error::Result<Part> {
        let mut following = self.0.lock().await;
        let watch = following.take().filter(|watch| watch.is_of(&standings.read, &want));
        let watch = watch.unwrap_or_else(|| app(ctx).live.watch(&standings.read, want));
        following.insert(watch).part().await
    }
}

/// The standings of now that the arguments of a subscription name.
async fn standings(
    ctx: &Context<'_>,
    board: &str,
    of: Option<StandingsOf>,
) -> crate::error::Result<Standings> {
    let board = named(ctx, board).await?;
    Standings::choose(ctx, &board, of.into()).await
}

/// All subscriptions. Each begins with an answer of now; further ones follow at most 250 ms after a
/// change, and at most ten a second. Between two answers, changes are left out that others have
/// taken back or overtaken.
#[GraphQlSubscription]
impl Subscription {
    /// The first entries of standings, pushed when one of them has changed: a member, a score, a
    /// time, their order, or if there are more. Fields about other things are those of that
    /// instant; alone they push nothing. When a period ends, the next one follows.
    #[graphql(guard = "Needs::Nothing")]
    async fn top(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board's slug.")] board: String,
        #[graphql(
            desc = "The window, period and segment; by default the present period, and the next ones."
        )]
        of: Option<StandingsOf>,
        #[graphql(default = 10, desc = "The number of entries, at most 1,000.")] first: Option<i32>,
    ) -> Result<impl Stream<Item = EntryConnection>> {
        let first = limit("first", first)?;
        let standings = standings(ctx, &board, of).await?;
        state(ctx).spend(price::page(app(ctx), &standings.read, first + 1)).await?;
        let following = ctx.data::<Following>()?;
        let part = following.part(ctx, &standings, Want::Page(first)).await?;
        let Part::Page(entries, has_next) = part else {
            return Err(Error::internal(&"a page was followed, and an entry came").into());
        };
        Ok(once(std::future::ready(standings.connection(whole(entries), 0, false, has_next))))
    }

    /// A member's entry in standings, pushed when its score, its time or its rank has changed, also
    /// when others push it down; null while the member has none. When a period ends, the next one
    /// follows.
    #[graphql(guard = "Needs::Nothing")]
    async fn entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The board's slug.")] board: String,
        #[graphql(desc = "The member's key.")] member: String,
        #[graphql(
            desc = "The window, period and segment; by default the present period, and the next ones."
        )]
        of: Option<StandingsOf>,
    ) -> Result<impl Stream<Item = Option<Entry>>> {
        let member = MemberId::new(&member).map_err(Error::from)?;
        let standings = standings(ctx, &board, of).await?;
        state(ctx).spend(price::entries(&standings.read, 1)).await?;
        let following = ctx.data::<Following>()?;
        let Part::Entry(found) =
            following.part(ctx, &standings, Want::Entry(member.clone())).await?
        else {
            return Err(Error::internal(&"an entry was followed, and a page came").into());
        };
        let found = match is_hidden(ctx, member.as_str()).await {
            true => None,
            false => found,
        };
        let entry = found.map(|found| Entry::new(standings, member, found));
        Ok(once(std::future::ready(entry)))
    }
}

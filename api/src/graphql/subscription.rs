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
use crate::http::rates::Client;
use crate::http::shares::Part as MemoryPart;
use crate::http::sockets::Holders;
use crate::live::{Part, RETRY_PAUSE, Want, Watch};

/// The points of reads that bring nothing new, after which clients pay for them.
const READS_POINTS_MAX: u64 = 1000;

/// The memory of an entry on a page that is followed, in bytes, about.
const FOLLOWED_ENTRY_BYTES: u64 = 64;

/// The part of standings that a subscription follows, from one execution to the next.
#[derive(Clone)]
pub struct Following(Arc<Mutex<Followed>>);

struct Followed {
    /// The clients that hold memory for pages; `None` for a query, which follows nothing.
    holders: Option<Arc<Holders>>,
    watch: Option<Watched>,
}

struct Watched {
    watch: Watch,
    /// The points of a read of the part.
    read_points: u64,
    _memory: Option<MemoryPart<Client>>,
}

/// All subscriptions.
pub struct Subscription;

impl Following {
    /// That of a query, which follows nothing.
    pub fn nothing() -> Self {
        Self(Arc::new(Mutex::new(Followed { holders: None, watch: None })))
    }

    /// That of a subscription, for which some clients hold memory.
    pub fn of(holders: Arc<Holders>) -> Self {
        Self(Arc::new(Mutex::new(Followed { holders: Some(holders), watch: None })))
    }

    /// Waits until another execution may give another answer; false if clients have reads to pay
    /// for before.
    pub async fn changed(&self) -> bool {
        match self.0.lock().await.watch.as_mut() {
            Some(watched) => {
                let reads_max = READS_POINTS_MAX.div_ceil(watched.read_points.max(1));
                // Reads end with the process only.
                watched.watch.changed(reads_max).await.unwrap_or(true)
            }
            None => {
                sleep(RETRY_PAUSE).await;
                true
            }
        }
    }

    /// The points of the reads that no client has paid for. The caller sees that one does.
    pub async fn take_points(&self) -> u64 {
        let mut followed = self.0.lock().await;
        let watched = followed.watch.as_mut();
        watched.map_or(0, |watched| watched.watch.take_reads() * watched.read_points)
    }

    /// Has nothing read until the next execution.
    pub async fn pause(&self) {
        self.0.lock().await.watch = None;
    }

    /// A part of standings, followed from now on in place of the one before; a read of it costs so
    /// many points.
    async fn part(
        &self,
        ctx: &Context<'_>,
        standings: &Standings,
        (want, read_points): (Want, u64),
    ) -> crate::error::Result<Part> {
        let mut followed = self.0.lock().await;
        let known = followed.watch.take();
        let watched = match known.filter(|known| known.watch.is_of(&standings.read, &want)) {
            Some(watched) => watched,
            None => {
                let entries = if let Want::Page(first) = want { first as u64 } else { 0 };
                let bytes = entries * FOLLOWED_ENTRY_BYTES;
                let holders = followed.holders.as_ref();
                let _memory = holders.map(|holders| holders.hold(bytes)).transpose()?;
                let watch = app(ctx).live.watch(&standings.read, want);
                Watched { watch, read_points, _memory }
            }
        };
        followed.watch.insert(watched).watch.part().await
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
        let points = price::page(app(ctx), &standings.read, first + 1);
        state(ctx).spend(points).await?;
        let following = ctx.data::<Following>()?;
        let part = following.part(ctx, &standings, (Want::Page(first), points)).await?;
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
        let points = price::entries(&standings.read, 1);
        state(ctx).spend(points).await?;
        let following = ctx.data::<Following>()?;
        let want = Want::Entry(member.clone());
        let Part::Entry(found) = following.part(ctx, &standings, (want, points)).await? else {
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

//! The members that there are: those with a row in SQL, and those whose first score is on the way
//! there.

use std::collections::{BTreeSet, HashMap};

use async_graphql::Context;
use entity::member as row;
use ranking::id::MemberId;

use super::Member;
use crate::error::{Error, Result};
use crate::graphql::price;
use crate::graphql::request::{app, state};
use crate::graphql::sight::hidden_among;
use crate::loader::ROWS_MAX;

/// Rows of members, by key.
type Rows = HashMap<String, row::Model>;

impl Member {
    /// The members whom a mutation may name: for a member's own token those of [`Self::find`], for
    /// a service all of [`Self::existing`].
    pub(crate) async fn nameable(ctx: &Context<'_>, keys: &[String]) -> Result<Vec<Option<Self>>> {
        let principal = state(ctx).principal.as_ref();
        match principal.is_some_and(|principal| principal.member.is_none()) {
            true => Self::existing(ctx, keys).await,
            false => Self::find(ctx, keys).await,
        }
    }

    /// As [`Self::find`], and those that the client does not see by their visibility.
    pub(crate) async fn existing(ctx: &Context<'_>, keys: &[String]) -> Result<Vec<Option<Self>>> {
        let _reading = state(ctx).loaders.reading();
        state(ctx).spend(keys.len() as u64 * price::member_row()).await?;
        // An invalid key has no member. It must not get into the query, as not every database
        // accepts it as text.
        let possible = keys.iter().filter(|key| MemberId::new(key).is_ok()).cloned().collect();
        let mut rows = state(ctx).loaders.members(possible).await?;
        withhold(ctx, keys.len(), &mut rows).await?;
        let (mut on_the_way, mut arrived) = (BTreeSet::new(), vec![]);
        for key in keys.iter().filter(|key| !rows.contains_key(*key)) {
            match is_on_the_way(ctx, key).await {
                Some(true) => _ = on_the_way.insert(key),
                Some(false) => arrived.push(key.clone()),
                None => {}
            }
        }
        // SQL got their commits since the rows were read, or has deleted the members again.
        for some in arrived.chunks(ROWS_MAX) {
            state(ctx).spend(some.len() as u64 * price::member_row()).await?;
            let again =
                row::of_keys(&app(ctx).deployment.reads, some).await.map_err(Error::from)?;
            let mut again = again.into_iter().map(|row| (row.key.clone(), row)).collect();
            withhold(ctx, some.len(), &mut again).await?;
            rows.extend(again);
        }
        let bytes =
            |key| rows.get(key).and_then(|row| row.attributes.as_ref()).map_or(0, String::len);
        // The price of a hidden member is that of one who is not there.
        let hidden = hidden_among(app(ctx), state(ctx), keys.iter().map(String::as_str)).await;
        let seen = keys.iter().zip(hidden).filter(|(_, is_hidden)| !is_hidden);
        price::pay_text(ctx, seen.map(|(key, _)| bytes(key)).sum()).await?;
        let find = |key: &String| match rows.get(key) {
            Some(row) => Some(Self::of_row(row.clone())),
            None => on_the_way.contains(key).then(|| Self::named(key)),
        };
        Ok(keys.iter().map(find).collect())
    }
}

/// True if this process accepted a score of a member a moment ago that SQL does not have yet, on a
/// board that the client sees; false if SQL has it; `None` if it accepted none.
async fn is_on_the_way(ctx: &Context<'_>, key: &str) -> Option<bool> {
    let (app, member) = (app(ctx), MemberId::new(key).ok()?);
    let (partition, seq) = app.recent_members.commit_of(&member, state(ctx).seen())?;
    let cursor = app.cursors.seq(&app.deployment, &app.health, partition).await;
    // While SQL does not say how far it is, the member may well be on the way.
    Some(cursor.map_or(true, |cursor| cursor < seq))
}

/// Takes away the rows of members that the client does not see by the boards that they are on.
/// `asked` is the number of keys that were asked for: the price tells nothing of those that are
/// there.
async fn withhold(ctx: &Context<'_>, asked: usize, rows: &mut Rows) -> Result<()> {
    let Some(viewer) = state(ctx).viewer(app(ctx)).await? else { return Ok(()) };
    state(ctx).spend(price::select(0) + asked as u64 * price::HIDDEN).await?;
    let found: Vec<String> = rows.keys().cloned().collect();
    for chunk in found.chunks(ROWS_MAX) {
        for hidden in viewer.hidden_of(&app(ctx).deployment.reads, chunk).await? {
            rows.remove(&hidden);
        }
    }
    Ok(())
}

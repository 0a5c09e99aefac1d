//! The friends of members, and their rankings: each list is found and sorted once a request.

use std::collections::HashMap;
use std::sync::Arc;

use dataloader::BatchFn;
use ranking::id::MemberId;
use ranking::store::read::RankedEntry;
use tokio::time::Instant;

use super::entries::Place;
use super::lookups::Lookups;
use crate::app::SharedApp;
use crate::error::Result;

/// A member's friends, ordered by key, and the instant until which the list is good.
pub(crate) type FriendsRead = Result<(Arc<[MemberId]>, Instant)>;

/// A place in a ranking of friends: first those with an entry, in rank order, then the others by
/// key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FriendPlace {
    Ranked(RankedEntry),
    Missing(MemberId),
}

/// The ranking of a member and its friends, in order, and the instant until which it is good.
pub(crate) type RankingRead = Result<(Arc<[FriendPlace]>, Instant)>;

/// Finds lists of friends.
pub(crate) struct FriendsBatch(pub(crate) Lookups);

/// Ranks friends. One `ZMSCORE` for each shard reads the keys of all friends of a member.
pub(crate) struct FriendRankingBatch(pub(crate) Lookups);

impl FriendPlace {
    pub(crate) fn ranked(&self) -> Option<&RankedEntry> {
        match self {
            Self::Ranked(entry) => Some(entry),
            Self::Missing(_) => None,
        }
    }

    pub(crate) fn member(&self) -> &MemberId {
        match self {
            Self::Ranked(entry) => &entry.member,
            Self::Missing(member) => member,
        }
    }
}

impl BatchFn<MemberId, FriendsRead> for FriendsBatch {
    async fn load(&mut self, members: &[MemberId]) -> HashMap<MemberId, FriendsRead> {
        let app = &self.0.app;
        self.0.read_all(members.iter().map(|member| friends(app, member))).await
    }
}

impl BatchFn<Place, RankingRead> for FriendRankingBatch {
    async fn load(&mut self, places: &[Place]) -> HashMap<Place, RankingRead> {
        let app = &self.0.app;
        self.0.read_all(places.iter().map(|place| ranking(app, place))).await
    }
}

async fn friends(app: &SharedApp, member: &MemberId) -> Vec<(MemberId, FriendsRead)> {
    vec![(member.clone(), app.friends.of(&app.deployment, member).await)]
}

async fn ranking(app: &SharedApp, place: &Place) -> Vec<(Place, RankingRead)> {
    vec![(place.clone(), ranked(app, place).await)]
}

async fn ranked(app: &SharedApp, place: &Place) -> RankingRead {
    let (friends, good_until) = app.friends.of(&app.deployment, &place.key).await?;
    let mut members = friends.to_vec();
    members.push(place.key.clone());
    let keys = app.reader().rank_keys(&place.standings, &members).await?;
    let place = |(member, key): (MemberId, _)| match key {
        Some(key) => FriendPlace::Ranked(RankedEntry { key, member }),
        None => FriendPlace::Missing(member),
    };
    let mut places: Vec<FriendPlace> = members.into_iter().zip(keys).map(place).collect();
    places.sort_unstable();
    Ok((places.into(), good_until))
}

//! The state that all requests share: stores, caches, access tokens and committers.

use std::sync::Arc;
use std::time::Duration;

use engine::deployment::Deployment;
use engine::read::reader::Reader;
use moka::sync::Cache;
use ranking::attribute::Attributes;
use sea_orm::DatabaseConnection;

use crate::access::Access;
use crate::access::jwt::Players;
use crate::cache::boards::Boards;
use crate::cache::cursors::Cursors;
use crate::cache::friends::Friends;
use crate::cache::pages::PageCache;
use crate::cache::private_boards::PrivateBoards;
use crate::cache::recent_members::RecentMembers;
use crate::graphql::submission::written::LateWrites;
use crate::health::Health;
use crate::http::turns;
use crate::live::Live;
use crate::submit::committer::Committers;
use crate::visibility::Visibilities;
use crate::webhook::receiver::Receivers;
use engine::settings::{CacheSettings, Friendships, MembersFor, PoolSettings, SubmissionSettings};

/// How long a read waits for a level partition, a rolled window, or a board that moves.
const READ_TIMEOUT: Duration = Duration::from_secs(4);

/// The most members whose attributes are kept for when SQL is unavailable.
const LAST_ATTRIBUTES_MAX: u64 = 100_000;

/// The state of the API.
pub struct App {
    /// The stores.
    pub deployment: Deployment,
    reader: Reader,
    costly_reader: Reader,
    /// Standings that subscriptions follow.
    pub live: Live,
    /// The cache of boards.
    pub boards: Boards,
    /// The cache of lists of friends.
    pub friends: Friends,
    /// The cursors of SQL, for requests that wait for it.
    pub cursors: Cursors,
    /// The health of the stores.
    pub health: Arc<Health>,
    /// The access tokens.
    pub access: Access,
    /// The cache of first pages of standings.
    pub pages: PageCache,
    /// The greatest age of a cached page or answer.
    pub cache_age: Duration,
    /// The committers of scores, one per partition.
    pub committers: Committers,
    /// True if public boards may be read without a token.
    pub public_reads: bool,
    /// The clients that search for members, and see their friends and histories.
    pub members: MembersFor,
    /// The consent that a friendship needs.
    pub friendships: Friendships,
    /// The members who are not public.
    pub visibilities: Visibilities,
    /// True if some board may be private.
    pub private_boards: PrivateBoards,
    /// The most standings that the scores of one request may write.
    pub standings_per_submission: u64,
    /// The turn of requests with many late scores.
    pub(crate) late_writes: LateWrites,
    /// Members whose scores this process accepted a moment ago.
    pub recent_members: RecentMembers,
    /// The receivers of webhooks that are allowed.
    pub(crate) receivers: Receivers,
    /// Members' last known attributes, used while SQL is unavailable.
    pub last_attributes: Cache<String, Arc<Attributes>>,
}

impl App {
    /// Builds the state, with empty caches.
    pub fn new(
        (deployment, health, receivers): (Deployment, Arc<Health>, Receivers),
        committers: Committers,
        (public_reads, members, friendships): (bool, MembersFor, Friendships),
        players: Option<Players>,
        pools: &PoolSettings,
        submissions: &SubmissionSettings,
        caches: &CacheSettings,
    ) -> Self {
        let cache_age = Duration::from_millis(caches.cache_age_ms);
        let bytes_max = caches.page_cache_bytes;
        let pages = PageCache::new(&deployment.store, cache_age, bytes_max);
        let reader = Reader::new(&deployment, READ_TIMEOUT).with_fallback();
        let remembered = Duration::from_secs(60 * pools.tokens_remembered_minutes);
        let visibilities = Visibilities::start(&deployment, &health);
        Self {
            live: Live::start(&deployment, &reader, &visibilities),
            costly_reader: reader.costly(),
            reader,
            cursors: Cursors::new(&deployment),
            access: Access::new(&deployment, &health, remembered, players),
            deployment,
            boards: Boards::new(&health),
            friends: Friends::new(&health),
            pages,
            cache_age,
            committers,
            public_reads,
            members,
            friendships,
            visibilities,
            private_boards: PrivateBoards::default(),
            standings_per_submission: submissions.standings_per_submission,
            late_writes: LateWrites::default(),
            recent_members: RecentMembers::default(),
            receivers,
            last_attributes: Cache::new(LAST_ATTRIBUTES_MAX),
            health,
        }
    }

    /// SQL, for what a request looks up first; costly requests leave its connections to others.
    pub fn lookups(&self) -> &DatabaseConnection {
        if turns::is_here() { &self.deployment.reads } else { &self.deployment.lookups }
    }

    /// Standings, from Redis or SQL.
    pub fn reader(&self) -> &Reader {
        if turns::is_here() { &self.costly_reader } else { &self.reader }
    }
}

/// The state, as request handlers share it.
pub type SharedApp = Arc<App>;

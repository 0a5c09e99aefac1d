//! The fields that answer with several objects, and how many.

use engine::history::remove::REMOVED_MAX;
use entity::member::ban::BOARDS_MAX;
use ranking::attribute::ATTRIBUTES_MAX;
use ranking::window::season::SEASONS_MAX;

use crate::graphql::integrity::FINDINGS_DEFAULT;
use crate::graphql::job::JOBS_DEFAULT;
use crate::graphql::types::connection::PAGE_DEFAULT;

/// Fields that answer with a page, each with its default length. Their `nodes` and `edges` count
/// for each item, and their other fields once.
pub(super) const PAGES: [(&str, usize); 18] = [
    ("accessTokens", PAGE_DEFAULT),
    ("auditLog", PAGE_DEFAULT),
    ("erasureReceipts", PAGE_DEFAULT),
    ("reports", PAGE_DEFAULT),
    ("segments", PAGE_DEFAULT),
    ("quarantine", PAGE_DEFAULT),
    ("top", PAGE_DEFAULT),
    ("boards", PAGE_DEFAULT),
    ("friends", PAGE_DEFAULT),
    ("friendRequests", PAGE_DEFAULT),
    ("periods", PAGE_DEFAULT),
    ("events", PAGE_DEFAULT),
    ("searchMembers", PAGE_DEFAULT),
    ("jobs", JOBS_DEFAULT),
    ("integrityRuns", JOBS_DEFAULT),
    ("findings", FINDINGS_DEFAULT),
    ("partitions", JOBS_DEFAULT),
    ("webhooks", PAGE_DEFAULT),
];

/// Fields that answer with a list of at most so many objects, or with an object that has one, where
/// no argument names them.
pub(super) const LISTS: [(&str, u64); 5] = [
    ("removeEntries", REMOVED_MAX as u64),
    ("windows", 17),
    ("seasons", SEASONS_MAX as u64),
    ("attributes", ATTRIBUTES_MAX as u64),
    ("bans", BOARDS_MAX as u64 + 1),
];

/// Lists in the answer to a query about the schema, each with the number of objects it counts for.
pub(super) const SCHEMA_LISTS: [(&str, u64); 8] = [
    ("args", 2),
    ("directives", 5),
    ("enumValues", 6),
    ("fields", 8),
    ("inputFields", 6),
    ("interfaces", 2),
    ("possibleTypes", 4),
    ("types", 120),
];

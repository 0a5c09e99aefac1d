//! The SQL tables. Each has a SeaORM entity, the queries that it owns, and conversions of its rows
//! to values of `ranking`.
//!
//! | module | tables |
//! |---|---|
//! | [`deployment`] | the deployment itself, its clocks, and the processes that have it open |
//! | [`board`] | boards, their windows and their moves to another number of shards |
//! | [`member`], [`access_token`] | members, their friends, bans and reports; what clients may do |
//! | [`history`] | commits, events, dead letters, and each partition's cursor |
//! | [`standings`] | all-time rows, sealed periods and their entries |
//! | [`archive`] | files of archived events, their sums and their metadata |
//! | [`mirror`] | files of events on an object store, and how far they go |
//! | [`integrity`] | runs of the integrity diff, findings and proofs |
//! | [`job`] | batch jobs, and work that runs once a day |
//! | [`webhook`] | receivers of events, how far each has been told, and what waits for it |
//! | [`audit`] | the acts of administrators and moderators |
//! | [`sql`] | statements of many tables; rows read in blocks, and deleted in chunks or by age |
//!
//! Nothing here parses a command line, starts a server or names `redis`.

/// The two items that SeaORM wants of every table. No query follows a relation.
macro_rules! no_relations {
    () => {
        /// No relations.
        #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
        pub enum Relation {}

        impl ActiveModelBehavior for ActiveModel {}
    };
}

pub mod access_token;
pub mod archive;
pub mod audit;
pub mod board;
pub mod deployment;
pub mod error;
pub mod history;
pub mod integrity;
pub mod job;
pub mod member;
pub mod mirror;
pub mod sql;
pub mod standings;
pub mod webhook;

pub use error::{Error, Result};

/// A new name or token: 32 random hexadecimal digits.
pub fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

//! The harness of the whole-system tests: the real programs against a real Redis and a real SQL
//! database, spoken to in GraphQL.
//!
//! | module | has |
//! |---|---|
//! | [`servers`] | what runs: the programs, SQL, Redis, Node.js; certificates |
//! | [`deployment`] | stores of its own for each test |
//! | [`attack`] | hostile requests to a server of their own, and what they cost it |
//! | [`api`] | a process that serves them, and what is asked of it |
//! | [`documents`] | the GraphQL documents that several tests send |
//! | [`jobs`] | the commands of `analytics` |
//! | [`boards`] | boards that several tests begin with |
//! | [`model`] | the oracle: boards computed naively, random boards and events |
//! | [`engine`] | engines that run the statements of a fold |
//! | [`queue`] | a queue of scores on a real broker, and the program that empties it |
//! | [`receiver`] | a receiver of events, and the webhook that sends them to it |
//! | [`trial`] | a deployment under faults: its load, and the verdict on it |
//! | [`wait`], [`clock`] | conditions waited for, with a deadline; the present |
//! | [`extent`] | how much of a random test runs |
//!
//! A test starts what it needs and stops all of it, also when it fails; the log of a process is
//! shown then, and the failure itself at once.
//! Random tests print their seed; `LAUREL_TEST_SEED` repeats one.

#![expect(
    clippy::unwrap_used,
    reason = "in a test a surprise is a failure, and its place is its best message"
)]
#![expect(missing_docs, reason = "fields and variants are named as in the schema")]

pub mod api;
pub mod attack;
pub mod boards;
pub mod clock;
pub mod deployment;
pub mod documents;
pub mod engine;
pub mod extent;
mod failure;
pub mod jobs;
pub mod model;
pub mod queue;
pub mod receiver;
pub mod servers;
pub mod trial;
pub mod wait;

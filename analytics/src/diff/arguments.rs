//! The options of `diff`.

use std::sync::Arc;

use engine::job::part::Part;

use crate::fold::load::{CheckedStates, StatesArguments};

/// Options of `diff`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The board's slug; every board by default.
    #[arg(long)]
    pub(crate) board: Option<String>,
    /// Repair what differs, and nothing else, then compare again. Exit status 0 if all agrees by
    /// then, 3 if differences are left. Where SQL and Redis agree with each other against the
    /// history, both are left alone unless --against history is given.
    #[arg(long)]
    pub(crate) repair: bool,
    /// The reference to compare with: the history (the default), or the all-time rows of standing
    /// in SQL, which are compared with Redis only and need no history.
    #[arg(long, value_enum, conflicts_with = "plan")]
    pub(super) against: Option<Against>,
    /// Fold the history of every partition, including those that digests and sums would prove
    /// clean.
    #[arg(long)]
    pub(super) full: bool,
    /// The part to compare, K/N: of N processes on any machines, each with its own K from 0 to
    /// N - 1, each compares its share of the partitions, and repairs it with --repair. All parts
    /// are one run. A part that ended early is run again, and the others need not be.
    #[arg(long, value_name = "K/N", conflicts_with = "plan")]
    pub(crate) part: Option<Part>,
    #[command(flatten)]
    pub(super) states: StatesArguments,
    /// The states of --plan, once they are checked.
    #[arg(skip)]
    pub(super) checked: Option<Arc<CheckedStates>>,
    /// Assume that Redis has no other clients: dump sorted sets of any size with one command each,
    /// which is faster but blocks Redis.
    #[arg(long)]
    pub(super) exclusive: bool,
}

/// The reference that stores are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Against {
    /// The fold of all accepted events.
    History,
    /// The rows of `standing`.
    Standings,
}

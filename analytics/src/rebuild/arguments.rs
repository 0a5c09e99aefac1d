//! The options of `rebuild` and `restore`.

use std::path::PathBuf;

use engine::job::part::Part;
use ranking::window::Window;

/// Options of `rebuild`.
#[derive(Debug, clap::Args)]
pub struct RebuildArguments {
    /// The board's slug.
    #[arg(long)]
    pub board: String,
    /// The one window to rebuild; by default every window.
    #[arg(long, conflicts_with = "shards")]
    pub window: Option<Window>,
    /// The part of the board to rebuild, K/N: of N processes on any machines, each with its own K
    /// from 0 to N - 1, each rebuilds its share of the board's partitions, one a shard. A part that
    /// ended early is run again, and the others need not be.
    #[arg(long, value_name = "K/N", conflicts_with = "shards")]
    pub part: Option<Part>,
    /// Moves the board to another number of shards while people play: a power of two up to the
    /// number of partitions.
    #[arg(long, conflicts_with = "exclusive")]
    pub shards: Option<u16>,
    /// Loads the states that an engine folded by the plan in this directory, instead of folding the
    /// history; they are checked first.
    #[arg(long, requires = "states", conflicts_with_all = ["window", "part", "shards"])]
    pub plan: Option<PathBuf>,
    /// The directory with the engine's states.
    #[arg(long, requires = "plan")]
    pub states: Option<PathBuf>,
    /// The members to draw at random, whose states are folded again.
    #[arg(long, requires = "plan", default_value_t = crate::fold::check::MEMBERS)]
    pub members: u64,
    /// Takes Redis for itself: one command loads each shard, faster, while Redis answers no other
    /// client.
    #[arg(long)]
    pub exclusive: bool,
}

/// Options of `restore`.
#[derive(Debug, clap::Args)]
pub struct RestoreArguments {
    /// The slug of a board: all its standings are rebuilt from its history.
    #[arg(long)]
    pub board: Option<String>,
    /// Takes Redis for itself: one command loads each shard, faster, while Redis answers no other
    /// client.
    #[arg(long)]
    pub exclusive: bool,
}

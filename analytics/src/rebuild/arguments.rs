//! The options of `rebuild` and `restore`.

use engine::job::part::Part;
use ranking::window::Window;

use crate::fold::load::StatesArguments;

/// Options of `rebuild`.
#[derive(Debug, clap::Args)]
pub struct RebuildArguments {
    /// The board's slug.
    #[arg(long)]
    pub board: String,
    /// The one window to rebuild; by default every window.
    #[arg(long, conflicts_with_all = ["shards", "plan"])]
    pub window: Option<Window>,
    /// The part of the board to rebuild, K/N: of N processes on any machines, each with its own K
    /// from 0 to N - 1, each rebuilds its share of the board's partitions, one a shard. A part that
    /// ended early is run again, and the others need not be.
    #[arg(long, value_name = "K/N", conflicts_with_all = ["shards", "plan"])]
    pub part: Option<Part>,
    /// Moves the board to another number of shards while people play: a power of two up to the
    /// number of partitions.
    #[arg(long, conflicts_with_all = ["exclusive", "plan"])]
    pub shards: Option<u16>,
    #[command(flatten)]
    pub states: StatesArguments,
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

//! The options of `rebuild` and `restore`.

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
    /// Moves the board to another number of shards while people play: a power of two up to the
    /// number of partitions.
    #[arg(long, conflicts_with = "exclusive")]
    pub shards: Option<u16>,
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

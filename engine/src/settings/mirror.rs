//! The settings of the lake.

use std::time::Duration;

/// The place of the lake, and how its store is asked.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Lake")]
pub struct MirrorSettings {
    /// The place to which the history is mirrored: file:///directory, s3://bucket/path,
    /// gs://bucket/path or az://container/path, without secrets; these come by the variables that
    /// the store's own programs read, such as AWS_ACCESS_KEY_ID. None by default: no lake.
    #[arg(long, env = "LAUREL_MIRROR", value_name = "URL")]
    pub mirror: Option<String>,
    /// The time that the lake's store may take for one request, in seconds, 1 to 600. A request
    /// that failed is sent again for up to three minutes.
    #[arg(long, env = "LAUREL_MIRROR_TIMEOUT_SECONDS", default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub mirror_timeout_seconds: u64,
    /// The minutes between two runs of the mirror in the background work, 1 to 1440; it needs
    /// LAUREL_MIRROR.
    #[arg(long, env = "LAUREL_MIRROR_MINUTES", default_value_t = 15, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub mirror_minutes: u64,
}

impl MirrorSettings {
    /// The time of one request.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.mirror_timeout_seconds)
    }
}

impl Default for MirrorSettings {
    /// The settings without a lake.
    fn default() -> Self {
        Self { mirror: None, mirror_timeout_seconds: 60, mirror_minutes: 15 }
    }
}

//! Settings of submissions: how much one request may write, and how much of them may wait.

/// The most that one request may write, and that all may queue.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Submissions")]
pub struct SubmissionSettings {
    /// The most standings that the scores of one request may write, 12,000 to 10,000,000. A score
    /// writes one in each window, and a late one writes one in each period of a rolling window that
    /// it still counts in.
    #[arg(long, env = "LAUREL_STANDINGS_PER_SUBMISSION", default_value_t = 16_000, value_name = "STANDINGS", value_parser = clap::value_parser!(u64).range(12_000..=10_000_000))]
    pub standings_per_submission: u64,
    /// The memory for submissions that wait for their commit or are committed, in bytes, 4 MiB to
    /// 4 GiB. Further ones are refused for the moment, as are those of a board or an access token
    /// that would hold more than they leave free.
    #[arg(long, env = "LAUREL_SUBMISSIONS_BYTES", default_value_t = 64 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(4 << 20..=4 << 30))]
    pub submissions_bytes: u64,
}

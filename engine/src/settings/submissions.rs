//! Settings of submissions: how much one request may write.

/// The most that one request may write.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Submissions")]
pub struct SubmissionSettings {
    /// The most standings that the scores of one request may write, 12,000 to 10,000,000. A score
    /// writes one in each window, and a late one writes one in each period of a rolling window that
    /// it still counts in.
    #[arg(long, env = "LAUREL_STANDINGS_PER_SUBMISSION", default_value_t = 20_000, value_name = "STANDINGS", value_parser = clap::value_parser!(u64).range(12_000..=10_000_000))]
    pub standings_per_submission: u64,
}

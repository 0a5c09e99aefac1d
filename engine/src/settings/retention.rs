//! Settings of retention: how long the background work keeps rows that only tell what happened.

/// The days that such rows are kept; always by `default()`, as for a command without the settings.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Retention")]
pub struct RetentionSettings {
    /// The time that ended jobs are kept, in days, 0 to 36500; 0 for always. The last one of each
    /// kind stays.
    #[arg(long, env = "LAUREL_JOB_RETENTION_DAYS", default_value_t = 90, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub job_retention_days: u32,
    /// The time that runs of the diff and their findings are kept, in days, 0 to 36500; 0 for
    /// always. The last run over all boards stays, and the last one that found no difference.
    #[arg(long, env = "LAUREL_FINDING_RETENTION_DAYS", default_value_t = 90, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub finding_retention_days: u32,
    /// The time that events which SQL refused are kept once they count nowhere, in days, 0 to
    /// 36500; 0 for always.
    #[arg(long, env = "LAUREL_DEAD_LETTER_RETENTION_DAYS", default_value_t = 365, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub dead_letter_retention_days: u32,
    /// The time that the acts of the audit log are kept, in days, 0 to 36500; 0 for always.
    #[arg(long, env = "LAUREL_AUDIT_RETENTION_DAYS", default_value_t = 365, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub audit_retention_days: u32,
    /// The time that the position in a source is kept after its last score, in days, 0 to 36500; 0
    /// for always. Redis keeps it until its partition is loaded from SQL again. Messages that come
    /// again afterwards may count twice.
    #[arg(long, env = "LAUREL_POSITION_RETENTION_DAYS", default_value_t = 400, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub position_retention_days: u32,
}

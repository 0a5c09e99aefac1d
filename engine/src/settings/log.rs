//! Settings of the log, which both programs write to standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The level and the form of the log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logging")]
pub struct LogSettings {
    /// The least level to log: error, warn, info, debug, trace, or a filter such as
    /// "info,api=debug". By default info for the server and warn for batch jobs.
    #[arg(long, env = "LAUREL_LOG", value_name = "LEVEL")]
    pub log: Option<String>,
    /// The form of a log line.
    #[arg(long, env = "LAUREL_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// A line of text, colored on a terminal.
    Text,
    /// A JSON object.
    Json,
}

impl LogSettings {
    /// Starts the log of this process, at `level` unless a setting names another one.
    ///
    /// # Errors
    /// `Invalid` for text that is no filter.
    pub fn start(&self, level: &str) -> ranking::Result<()> {
        // The migrations' own lines would greet every start.
        let default = format!("{level},sea_orm_migration=warn");
        let filter = self.log.as_deref().unwrap_or(&default);
        let filter = EnvFilter::try_new(filter).map_err(|_| {
            ranking::Error::Invalid(format!(
                "invalid LAUREL_LOG {filter:?}: expected error, warn, info, debug, trace, or a filter such as \"info,api=debug\""
            ))
        })?;
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        match self.log_format {
            LogFormat::Text => log.init(),
            LogFormat::Json => log.json().init(),
        }
        Ok(())
    }
}

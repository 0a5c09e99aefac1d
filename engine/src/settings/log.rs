//! Settings of the log, which all programs write to standard error.

use std::io::IsTerminal;

use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

use super::traces::SPANS;

/// The exporter of spans, beside the log.
pub type SpanLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The level and the form of the log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logging")]
pub struct LogSettings {
    /// The least level to log: error, warn, info, debug, trace, or a filter such as
    /// "info,laurel=debug". By default info for the server and warn for batch jobs.
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
        self.start_beside(level, None)
    }

    /// As [`Self::start`], and gives all spans of the target [`SPANS`] to an exporter. Without one
    /// they are not made.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_beside(&self, level: &str, spans: Option<SpanLayer>) -> ranking::Result<()> {
        // The migrations' own lines would greet every start.
        let default = format!("{level},sea_orm_migration=warn");
        let filter = self.log.as_deref().unwrap_or(&default);
        let filter = parse_filter(filter).ok_or_else(|| {
            ranking::Error::Invalid(format!(
                "invalid LAUREL_LOG {filter:?}: expected error, warn, info, debug, trace, or a filter such as \"info,laurel=debug\""
            ))
        })?;
        let no_spans = format!("{SPANS}=off").parse().expect("it is a directive");
        let filter = filter.add_directive(no_spans);
        let registry = tracing_subscriber::registry();
        match spans {
            None => registry.with(filter).with(self.lines()).init(),
            Some(spans) => {
                let of_target = Targets::new().with_target(SPANS, Level::INFO);
                let spans = spans.with_filter(of_target);
                registry.with(spans).with(self.lines().with_filter(filter)).init();
            }
        }
        Ok(())
    }

    /// The writer of the log's lines.
    fn lines<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let lines =
            fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
        match self.log_format {
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().boxed(),
        }
    }
}

/// Parses a filter; `None` for text that is none. A directive without a level would be taken for
/// the name of a module, and a misspelled level would silence the log.
fn parse_filter(text: &str) -> Option<EnvFilter> {
    let is_known = |directive: &str| {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
        // No text at all parses as error.
        !level.trim().is_empty() && level.trim().parse::<LevelFilter>().is_ok()
    };
    let is_filter = text.split(',').all(is_known);
    is_filter.then(|| EnvFilter::try_new(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_a_level_in_each_directive() {
        for text in ["info", "WARN", "off", "info,laurel=debug", "engine::seal=trace,error"] {
            assert!(parse_filter(text).is_some(), "{text}");
        }
        for text in ["", "inof", "not a filter!!", "info,laurel", "a=loud", "a=", "info,"] {
            assert!(parse_filter(text).is_none(), "{text}");
        }
    }
}

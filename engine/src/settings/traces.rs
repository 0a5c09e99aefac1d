//! Settings of traces, which go to a collector by OTLP, the protocol of OpenTelemetry.

use std::path::PathBuf;

use super::redacted::Secret;

/// The target of all spans that are exported. The log never shows them.
pub const SPANS: &str = "laurel::span";

/// The collector of spans. There are none without its address.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Traces")]
pub struct TraceSettings {
    /// The collector that spans are sent to by OTLP over HTTP, such as http://127.0.0.1:4318; by
    /// default spans are neither made nor sent. Without a path, /v1/traces is added. The way there
    /// is encrypted or does not leave this machine, unless LAUREL_ALLOW_CLEARTEXT is true.
    #[arg(long, env = "LAUREL_OTLP_URL", hide_env_values = true, value_name = "URL")]
    pub otlp_url: Option<Secret>,
    /// A file with headers for the collector, such as "Authorization: Bearer …", one a line, read
    /// at the start.
    #[arg(long, env = "LAUREL_OTLP_HEADERS_FILE", value_name = "FILE", requires = "otlp_url")]
    pub otlp_headers_file: Option<PathBuf>,
    /// The certificates of the authorities that the collector's may come from, as a PEM file. By
    /// default those of the system.
    #[arg(long, env = "LAUREL_OTLP_CA", value_name = "FILE", requires = "otlp_url")]
    pub otlp_ca: Option<PathBuf>,
    /// The part of all traces that is sent, 0 to 1.
    #[arg(long, env = "LAUREL_OTLP_RATIO", default_value_t = 1.0, value_name = "PART", value_parser = parse_ratio)]
    pub otlp_ratio: f64,
    /// The time that the collector may take to answer, in milliseconds, 10 to 60000.
    #[arg(long, env = "LAUREL_OTLP_TIMEOUT_MS", default_value_t = 5000, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub otlp_timeout_ms: u64,
    /// The spans that may wait to be sent, 1 to 1000000; further ones are dropped and counted. A
    /// span takes about a KiB.
    #[arg(long, env = "LAUREL_OTLP_QUEUE", default_value_t = 8192, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub otlp_queue: u32,
}

/// Parses a part of a whole.
fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "expected a number from 0 to 1, such as 0.05".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_a_part_of_a_whole() {
        assert_eq!(parse_ratio("0"), Ok(0.0));
        assert_eq!(parse_ratio("0.05"), Ok(0.05));
        assert_eq!(parse_ratio("1"), Ok(1.0));
        for wrong in ["", "1.01", "-0.1", "5%", "NaN", "inf"] {
            assert!(parse_ratio(wrong).unwrap_err().contains("expected"), "{wrong}");
        }
    }
}

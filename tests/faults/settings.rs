//! Settings of a run, from the variables that `make faults` passes on.

use std::time::Duration;

/// The faults to run, and for how long.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Everything random follows from it: `FAULTS_SEED`.
    pub(crate) seed: u64,
    /// Parts of names of faults, all if empty: `FAULTS_ONLY`, or the arguments of `cargo test`.
    pub(crate) only: Vec<String>,
    /// True for the part that belongs to `make test`: unless `FAULTS_ALL` is set.
    pub(crate) is_short: bool,
    /// How often each fault is done to its world, one after the other: `FAULTS_RUNS`.
    pub(crate) runs: usize,
    /// The duration of a soak, instead of single faults: `FAULTS_SOAK_SECONDS`.
    pub(crate) soak: Option<Duration>,
    /// The load before and after each fault: `FAULTS_CALM_MS`.
    pub(crate) calm: Duration,
    /// About how long a fault lasts that ends by itself: `FAULTS_LAST_MS`.
    pub(crate) lasts: Duration,
    /// The longest time until a deployment has recovered: `FAULTS_RECOVERY_SECONDS`.
    pub(crate) recovery_longest: Duration,
    /// True if the table of the page on reliability is written: `FAULTS_TABLE`.
    pub(crate) writes_page: bool,
}

impl Settings {
    /// Reads them.
    pub(crate) fn from_environment() -> Self {
        let only = text("FAULTS_ONLY").unwrap_or_default();
        let mut only: Vec<String> =
            only.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        // Arguments that cargo passes on begin with a dash; T of `make test` is a part of a name.
        only.extend(std::env::args().skip(1).filter(|argument| !argument.starts_with('-')));
        let is_short = text("FAULTS_ALL").is_none();
        Self {
            seed: number("FAULTS_SEED").unwrap_or_else(rand::random),
            only,
            is_short,
            runs: number("FAULTS_RUNS").map_or(1, |runs| usize::try_from(runs).unwrap()),
            soak: number("FAULTS_SOAK_SECONDS").map(Duration::from_secs),
            calm: Duration::from_millis(number("FAULTS_CALM_MS").unwrap_or(2000)),
            lasts: Duration::from_millis(number("FAULTS_LAST_MS").unwrap_or(if is_short {
                4000
            } else {
                8000
            })),
            recovery_longest: Duration::from_secs(number("FAULTS_RECOVERY_SECONDS").unwrap_or(90)),
            writes_page: text("FAULTS_TABLE").is_some(),
        }
    }

    /// True if every other fault will do: in `make test`, unless some were asked for.
    pub(crate) fn is_half(&self) -> bool {
        self.is_short && self.only.is_empty() && !tests::extent::is_all()
    }

    /// True if a fault was asked for.
    pub(crate) fn asks_for(&self, name: &str) -> bool {
        let name = format!("faults::{name}");
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }

    /// True if a fault was asked for by its whole name.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.only.iter().any(|only| only == name)
    }
}

/// How long SQL is away beside a steady load: `FAULTS_AWAY_SECONDS`.
pub(crate) fn away() -> Duration {
    Duration::from_secs(number("FAULTS_AWAY_SECONDS").unwrap_or(600))
}

/// A variable that is set and not empty: `make` passes on empty ones.
fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn number(name: &str) -> Option<u64> {
    let text = text(name)?;
    Some(text.parse().unwrap_or_else(|_| panic!("invalid {name} {text:?}: expected a number")))
}

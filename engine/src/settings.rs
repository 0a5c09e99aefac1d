//! The settings of all programs: each is an environment variable, and a flag of the commands that
//! use it.
//!
//! Each is declared once, here. The names that a program accepts, the name in an error, and the
//! environment of a child derive from the declarations.

pub mod connections;
pub mod feed;
pub mod ingest;
pub mod jwt;
pub mod limits;
pub mod live;
pub mod log;
pub mod mirror;
pub mod redacted;
pub mod retention;
pub mod server;
pub mod sql;
pub mod stores;
pub mod submissions;
pub mod traces;
pub mod webhooks;

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Parser};

pub use connections::ConnectionSettings;
pub use feed::FeedSettings;
pub use ingest::{IngestAck, IngestSettings};
pub use jwt::JwtSettings;
pub use limits::{Introspection, RateSettings, RequestLimits, Switch};
pub use live::LiveSettings;
pub use log::LogSettings;
pub use mirror::MirrorSettings;
pub use retention::RetentionSettings;
pub use server::{CacheSettings, DailyDiffSettings, DiffAt, Friendships, HttpSettings, MembersFor};
pub use sql::{CleartextSettings, PoolSettings, SqlSettings};
pub use stores::Settings;
pub use submissions::SubmissionSettings;
pub use traces::TraceSettings;
pub use webhooks::WebhookSettings;

/// The settings that are named to a user who gave one that is none.
const LIKELY_NAMES: usize = 3;

/// The arguments of a command that opens all stores.
#[derive(Debug, Args)]
#[allow(missing_docs, reason = "a doc comment of a field would replace the help of the command")]
pub struct StoreArguments {
    #[command(flatten)]
    pub settings: Settings,
    #[command(flatten)]
    pub log: LogSettings,
}

/// The settings of the server alone, and of its background work.
#[derive(Debug, Args)]
#[allow(missing_docs, reason = "a doc comment of a field would replace the help of the command")]
pub struct ServeSettings {
    #[command(flatten)]
    pub connections: ConnectionSettings,
    #[command(flatten)]
    pub pools: PoolSettings,
    #[command(flatten)]
    pub jwt: JwtSettings,
    #[command(flatten)]
    pub limits: RequestLimits,
    #[command(flatten)]
    pub rates: RateSettings,
    #[command(flatten)]
    pub live: LiveSettings,
    #[command(flatten)]
    pub submissions: SubmissionSettings,
    #[command(flatten)]
    pub caches: CacheSettings,
    #[command(flatten)]
    pub daily_diff: DailyDiffSettings,
    #[command(flatten)]
    pub retention: RetentionSettings,
    #[command(flatten)]
    pub traces: TraceSettings,
    #[command(flatten)]
    pub webhooks: WebhookSettings,
}

/// Every setting of every command. The ones without a help heading come first: clap would give them
/// the heading of those before them.
#[derive(Debug, Args)]
struct All {
    #[command(flatten)]
    http: HttpSettings,
    #[command(flatten)]
    stores: Settings,
    #[command(flatten)]
    serve: ServeSettings,
    #[command(flatten)]
    ingest: IngestSettings,
    #[command(flatten)]
    feed: FeedSettings,
    #[command(flatten)]
    log: LogSettings,
}

/// A command line, read.
#[derive(Debug)]
pub struct Parsed<A> {
    /// The arguments.
    pub arguments: A,
    /// The settings that were given, as environment variables: a child that gets them finds the
    /// same stores.
    pub environment: Vec<(String, OsString)>,
}

/// Reads the command line and the environment. A usage error ends the process with status 2 and
/// names the variable that holds the refused value. An unknown environment variable that begins
/// with `LAUREL_` is a usage error, too.
pub fn parse<A: Parser>() -> Parsed<A> {
    let command = A::command();
    if let Some(message) = unknown_variable() {
        command.clone().error(ErrorKind::UnknownArgument, message).exit();
    }
    let matches = command.clone().try_get_matches().unwrap_or_else(|error| {
        if let Some(name) = refused_variable(&command, &error) {
            eprintln!("{name}, or the flag of the same name:");
        }
        error.exit()
    });
    let arguments = A::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    Parsed { arguments, environment: environment(&command, &matches) }
}

/// A setting, as its declaration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The environment variable.
    pub name: String,
    /// The flag, with its two dashes.
    pub flag: String,
    /// The values that it takes: a placeholder such as `MS`, or all of them.
    pub values: Vec<String>,
    /// The value where none is given; `None` where the help says what holds then.
    pub default: Option<String>,
    /// The help, without the full stop at its end.
    pub help: String,
    /// The heading in the help of commands; `None` for the settings above all headings.
    pub group: Option<String>,
}

/// Every setting, by groups.
pub fn all() -> Vec<Setting> {
    All::augment_args(Command::new("")).get_arguments().filter_map(setting).collect()
}

/// The names of all settings.
pub fn names() -> BTreeSet<String> {
    all().into_iter().map(|setting| setting.name).collect()
}

/// The setting that an argument declares; `None` for an argument without a variable.
fn setting(argument: &Arg) -> Option<Setting> {
    let possible = argument.get_possible_values();
    let placeholders = argument.get_value_names().unwrap_or_default();
    let values = match possible.is_empty() {
        true => placeholders.iter().map(ToString::to_string).collect(),
        false => possible.iter().map(|value| value.get_name().to_owned()).collect(),
    };
    let default = argument.get_default_values().first();
    Some(Setting {
        name: variable(argument)?,
        flag: format!("--{}", argument.get_long()?),
        values,
        default: default.map(|value| value.to_string_lossy().into_owned()),
        help: argument.get_help().map(ToString::to_string).unwrap_or_default(),
        group: argument.get_help_heading().map(str::to_owned),
    })
}

/// A message about an environment variable that begins with `LAUREL_` and is not a setting: a
/// misspelled setting must not be ignored.
fn unknown_variable() -> Option<String> {
    let names = names();
    let given = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let unknown =
        given.into_iter().find(|name| name.starts_with("LAUREL_") && !names.contains(name))?;
    let likely = likely_names(&unknown, &names).join(", ");
    Some(format!("unknown setting {unknown}: did you mean {likely}? --help lists them all"))
}

/// The names that are most like one that is none, likeliest first.
fn likely_names<'n>(unknown: &str, names: &'n BTreeSet<String>) -> Vec<&'n str> {
    // All of them begin alike, which would count as likeness.
    let part = |name: &'n str| name.trim_start_matches("LAUREL_");
    let wanted = unknown.trim_start_matches("LAUREL_");
    let like = |name: &'n str| strsim::jaro_winkler(part(name), wanted);
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_by(|left, right| like(right).total_cmp(&like(left)));
    names.truncate(LIKELY_NAMES);
    names
}

/// The variable of the argument that an error is about.
fn refused_variable(command: &Command, error: &clap::Error) -> Option<String> {
    let about = error.get(ContextKind::InvalidArg)?.to_string();
    let flag = about.strip_prefix("--")?.split_whitespace().next()?;
    all_arguments(command).into_iter().find(|arg| arg.get_long() == Some(flag)).and_then(variable)
}

fn all_arguments(command: &Command) -> Vec<&Arg> {
    let own = command.get_arguments();
    own.chain(command.get_subcommands().flat_map(all_arguments)).collect()
}

fn variable(argument: &Arg) -> Option<String> {
    argument.get_env().map(|name| name.to_string_lossy().into_owned())
}

/// The settings that a command line or the environment gave, by the name of their variable.
fn environment(command: &Command, matches: &ArgMatches) -> Vec<(String, OsString)> {
    let mut given = vec![];
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let is_given = matches!(
            matches.value_source(id),
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        );
        if let Some(name) = variable(argument).filter(|_| is_given)
            && let Some(value) = matches.get_raw(id).and_then(|mut values| values.next())
        {
            given.push((name, value.to_owned()));
        }
    }
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        given.extend(environment(command, matches));
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(subcommand)]
        command: Sub,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Sub {
        Serve(Box<All>),
    }

    #[test]
    fn a_child_gets_the_settings_that_were_given_and_no_defaults() {
        let command = <Program as clap::CommandFactory>::command();
        let line = ["laurel", "serve", "--data-dir", "/x y", "--cache-age-ms=7", "--no-workers"];
        let matches = command.clone().try_get_matches_from(line).unwrap();
        let given = environment(&command, &matches);
        let expected = [("LAUREL_DATA_DIR", "/x y"), ("LAUREL_CACHE_AGE_MS", "7")];
        assert_eq!(given, expected.map(|(name, value)| (name.to_owned(), value.into())));
    }

    #[test]
    fn an_error_names_the_variable_of_its_flag_and_invents_none() {
        let command = <Program as clap::CommandFactory>::command();
        let refused = |line: &[&str]| {
            let error = command.clone().try_get_matches_from(line).unwrap_err();
            refused_variable(&command, &error)
        };
        let named = refused(&["laurel", "serve", "--dedup-hours", "0"]);
        assert_eq!(named.as_deref(), Some("LAUREL_DEDUP_HOURS"));
        assert_eq!(refused(&["laurel", "serve", "--no-such-flag"]), None);
        assert_eq!(refused(&["laurel", "serve", "--no-workers=yes"]), None);
    }

    #[test]
    fn a_misspelled_setting_is_told_those_that_are_like_it() {
        let names = names();
        for (unknown, meant) in [
            ("LAUREL_REDIS_URI", "LAUREL_REDIS_URL"),
            ("LAUREL_DATABASE", "LAUREL_DATABASE_URL"),
            ("LAUREL_QUERY_TIMEOUT", "LAUREL_QUERY_TIMEOUT_MS"),
            ("LAUREL_TLSCERT", "LAUREL_TLS_CERT"),
        ] {
            assert_eq!(likely_names(unknown, &names)[0], meant, "{unknown}");
        }
    }

    #[test]
    fn every_setting_has_a_name_that_begins_with_laurel() {
        let names = names();
        assert!(names.contains("LAUREL_PERSISTED_QUERIES_BYTES"), "{names:?}");
        assert!(names.iter().all(|name| name.starts_with("LAUREL_")), "{names:?}");
    }

    #[test]
    fn a_setting_is_described_as_it_is_declared() {
        let all = all();
        let find = |name: &str| all.iter().find(|setting| setting.name == name).unwrap();
        let timeout = find("LAUREL_REDIS_TIMEOUT_MS");
        assert_eq!(
            (timeout.flag.as_str(), timeout.values.as_slice()),
            ("--redis-timeout-ms", &["MS".to_owned()][..])
        );
        assert_eq!(
            (timeout.default.as_deref(), timeout.group.as_deref()),
            (Some("4000"), Some("Stores"))
        );
        assert_eq!(find("LAUREL_LISTEN").group, None);
        assert_eq!(find("LAUREL_LOG_FORMAT").values, ["text", "json"]);
        assert_eq!(find("LAUREL_PARTITIONS").default, None);
        assert!(all.iter().all(|setting| !setting.help.is_empty()), "{all:?}");
    }
}

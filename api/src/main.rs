//! `laurel`: GraphQL over HTTP, the background work, and the commands around them.
//!
//! | module | has |
//! |---|---|
//! | [`command`] | the commands: serve, worker, demo |
//! | [`http`] | GraphQL over HTTP: parameters, persisted queries, query cost, answers; GraphiQL |
//! | [`graphql`] | the schema, one file a noun |
//! | [`submit`] | scores on their way into partitions |
//! | [`read`], [`loader`] | reads of standings; the look-ups of one request, batched |
//! | [`cache`] | pages, answers, boards, friends and members kept for a moment |
//! | [`background`] | the log into SQL, recovery, upkeep; the daily diff |
//! | [`access`] | access tokens |
//! | [`metrics`] | counters, histograms and gauges |

/// Answers are made of many small pieces.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod access;
mod app;
mod background;
mod cache;
mod command;
mod error;
mod graphql;
mod http;
mod loader;
mod metrics;
mod read;
mod submit;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use engine::deployment::{Settings, parse_arguments, refuse_unknown_variables};
use tracing_subscriber::EnvFilter;

/// The environment variables that only this program reads, beside those of its caches.
const OWN_SETTING_NAMES: [&str; 4] =
    ["LAUREL_LISTEN", "LAUREL_PUBLIC_READS", "LAUREL_LOG", "LAUREL_LOG_FORMAT"];

/// Laurel, a leaderboard service.
#[derive(Parser)]
#[command(name = "api", version)]
struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// What is logged, to standard error: error, warn, info, debug, trace, or a filter such as "info,api=debug".
    #[arg(long, env = "LAUREL_LOG", default_value = "info", global = true)]
    log: String,
    /// How it is logged.
    #[arg(long, env = "LAUREL_LOG_FORMAT", default_value = "text", global = true)]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Serves GraphQL, and does the background work.
    Serve(ServeArguments),
    /// Does the background work alone: the log into SQL, recovery, the daily diff.
    Worker(WorkerArguments),
    /// Creates the demo boards and loads their events; nothing where they are there.
    Demo,
    /// Prints the schema.
    Schema,
    /// Makes, revokes and lists access tokens.
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Args)]
struct ServeArguments {
    /// The address to listen on.
    #[arg(long, env = "LAUREL_LISTEN", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// Whether public boards may be read without an access token.
    #[arg(long, env = "LAUREL_PUBLIC_READS", default_value_t = true, action = clap::ArgAction::Set)]
    public_reads: bool,
    /// Leave the background work to `api worker`.
    #[arg(long)]
    no_workers: bool,
    #[command(flatten)]
    caches: cache::shared::CacheSettings,
    #[command(flatten)]
    schedule: background::daily_diff::ScheduleSettings,
}

#[derive(Args)]
struct WorkerArguments {
    #[command(flatten)]
    schedule: background::daily_diff::ScheduleSettings,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Makes a token and prints it, once.
    Create {
        /// What it allows; each scope includes those before it.
        #[arg(long)]
        scope: access::Scope,
        /// The member it speaks for: it submits that member's scores only, where a board allows it.
        #[arg(long)]
        member: Option<String>,
        /// How long it is good for: 30d, 12h, 45m, 90s. For good by default.
        #[arg(long, value_parser = parse_duration)]
        expires: Option<Duration>,
    },
    /// Revokes a token; it stops working within seconds.
    Revoke {
        /// Its id, as `list` shows it.
        id: String,
    },
    /// Lists the tokens, without their secrets.
    List,
}

fn main() -> std::process::ExitCode {
    let arguments = parse_arguments::<Arguments>();
    if let Err(error) = run(arguments) {
        eprintln!("error: {error:#}");
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::SUCCESS
}

#[tokio::main]
async fn run(arguments: Arguments) -> Result<()> {
    if matches!(arguments.command, Command::Schema) {
        print!("{}", graphql::sdl());
        return Ok(());
    }
    refuse_unknown_variables(
        &[
            &OWN_SETTING_NAMES[..],
            &cache::shared::SETTING_NAMES,
            &background::daily_diff::SETTING_NAMES,
        ]
        .concat(),
    )?;
    start_log(&arguments)?;
    let settings = &arguments.settings;
    match arguments.command {
        Command::Serve(serve) => {
            let background = match serve.no_workers {
                true => None,
                false => Some(serve.schedule.daily(settings)?),
            };
            command::serve::serve(
                settings,
                serve.listen,
                serve.public_reads,
                background,
                &serve.caches,
            )
            .await
        }
        Command::Worker(worker) => {
            command::serve::work(settings, worker.schedule.daily(settings)?).await
        }
        Command::Demo => command::serve::demo(settings).await,
        Command::Schema => Ok(()),
        Command::Token(command) => tokens(settings, command).await,
    }
}

fn start_log(arguments: &Arguments) -> Result<()> {
    // The migrations' own lines would greet every start.
    let filter =
        if arguments.log == "info" { "info,sea_orm_migration=warn" } else { &arguments.log };
    let Ok(filter) = EnvFilter::try_new(filter) else {
        bail!(
            "LAUREL_LOG: {:?} is no filter; info or \"info,api=debug\" is accepted",
            arguments.log
        )
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match arguments.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

async fn tokens(settings: &Settings, command: TokenCommand) -> Result<()> {
    let db = command::serve::database(settings).await?;
    match command {
        TokenCommand::Create { scope, member, expires } => {
            if let Some(member) = &member {
                ranking::id::MemberId::new(member)?;
            }
            println!("{}", access::create(&db, scope, member, expires).await?);
        }
        TokenCommand::Revoke { id } => {
            if !access::revoke(&db, &id).await? {
                bail!("there is no token {id:?}; `api token list` shows those there are");
            }
            println!("revoked {id}");
        }
        TokenCommand::List => {
            for token in access::list(&db).await? {
                let state = match (token.revoked_at_ms, token.expires_at_ms) {
                    (Some(_), _) => "revoked".to_owned(),
                    (None, Some(end_ms)) => {
                        format!("until {}", jiff::Timestamp::from_millisecond(end_ms)?)
                    }
                    (None, None) => "for good".to_owned(),
                };
                println!(
                    "{}  {:<6}  {:<20}  {state}",
                    token.id,
                    token.scope,
                    token.member.unwrap_or_else(|| "-".into())
                );
            }
        }
    }
    Ok(())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused =
        || format!("{text:?} is no duration; 30d, 12h, 45m or 90s is accepted, up to 3650d");
    let unit = text.chars().last().ok_or_else(refused)?;
    let seconds = match unit {
        'd' => 86_400,
        'h' => 3600,
        'm' => 60,
        's' => 1,
        _ => return Err(refused()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| refused())?;
    count
        .checked_mul(seconds)
        .filter(|&seconds| (1..=3650 * 86_400).contains(&seconds))
        .map(Duration::from_secs)
        .ok_or_else(refused)
}

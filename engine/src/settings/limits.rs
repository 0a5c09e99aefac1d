//! Settings that bound what a request may be, what it may cost, and how often it may come.

use std::num::NonZeroU32;

/// The limits of one request, and of all requests under way.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limits of requests")]
pub struct RequestLimits {
    /// The longest body, in bytes.
    #[arg(long, env = "LAUREL_BODY_BYTES_MAX", default_value_t = 512 << 10, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1024..=64 << 20))]
    pub body_bytes_max: u32,
    /// The longest query, without its variables, in bytes.
    #[arg(long, env = "LAUREL_QUERY_BYTES_MAX", default_value_t = 32 << 10, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1024..=1 << 20))]
    pub query_bytes_max: u32,
    /// The most tokens of a query: names, values, and signs other than commas.
    #[arg(long, env = "LAUREL_TOKENS_MAX", default_value_t = 5000, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub tokens_max: u32,
    /// The most fields that a query expands to, fragments followed and pages counted once.
    #[arg(long, env = "LAUREL_SELECTIONS_MAX", default_value_t = 5000, value_name = "FIELDS", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub selections_max: u32,
    /// The most objects and look-ups of a query: fields but the plain ones, for each item of their
    /// list. One that waits takes some 3 KB.
    #[arg(long, env = "LAUREL_OBJECTS_MAX", default_value_t = 20_000, value_name = "OBJECTS", value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    pub objects_max: u32,
    /// The most aliases in one selection set.
    #[arg(long, env = "LAUREL_ALIASES_MAX", default_value_t = 100, value_name = "ALIASES", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub aliases_max: u32,
    /// The most fields of one selection set that share a response key and have selections. Each is
    /// executed before they are merged.
    #[arg(long, env = "LAUREL_DUPLICATES_MAX", default_value_t = 100, value_name = "FIELDS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub duplicates_max: u32,
    /// The most directives of a query.
    #[arg(long, env = "LAUREL_DIRECTIVES_MAX", default_value_t = 50, value_name = "DIRECTIVES", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub directives_max: u32,
    /// The most operations of a query.
    #[arg(long, env = "LAUREL_OPERATIONS_MAX", default_value_t = 10, value_name = "OPERATIONS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub operations_max: u32,
    /// The most levels of nested fields; fragments included, a query has 32 levels at most.
    #[arg(long, env = "LAUREL_FIELD_LEVELS_MAX", default_value_t = 20, value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(10..=32))]
    pub field_levels_max: u32,
    /// The most levels of lists in a query about the schema. GraphiQL's has 3.
    #[arg(long, env = "LAUREL_SCHEMA_LISTS_MAX", default_value_t = 3, value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub schema_lists_max: u32,
    /// The most variables of an operation.
    #[arg(long, env = "LAUREL_VARIABLES_MAX", default_value_t = 64, value_name = "VARIABLES", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub variables_max: u32,
    /// The most values in all variables, those in lists and objects included.
    #[arg(long, env = "LAUREL_VARIABLE_VALUES_MAX", default_value_t = 40_000, value_name = "VALUES", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub variable_values_max: u32,
    /// The longest string of a query or its variables, in bytes.
    #[arg(long, env = "LAUREL_STRING_BYTES_MAX", default_value_t = 2048, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1024..=1 << 20))]
    pub string_bytes_max: u32,
    /// The most bytes of arguments, counted for each object whose field takes them.
    #[arg(long, env = "LAUREL_ARGUMENT_BYTES_MAX", default_value_t = 8 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(64 << 10..=1 << 30))]
    pub argument_bytes_max: u64,
    /// The longest name or number of a query, in bytes. Each error has the names that lead to its
    /// field.
    #[arg(long, env = "LAUREL_NAME_BYTES_MAX", default_value_t = 128, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=1024))]
    pub name_bytes_max: u32,
    /// The longest answer, in bytes.
    #[arg(long, env = "LAUREL_ANSWER_BYTES_MAX", default_value_t = 16 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64 << 10..=256 << 20))]
    pub answer_bytes_max: u32,
    /// The memory for answers of more than 64 KiB that are kept or sent, in bytes. A client may
    /// hold as much of it as it leaves free; further ones are answered 503.
    #[arg(long, env = "LAUREL_ANSWERS_BYTES", default_value_t = 32 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1 << 20..=64 << 30))]
    pub answers_bytes: u64,
    /// The most that one request may cost, in points. A point is about a microsecond of CPU.
    #[arg(long, env = "LAUREL_COST_MAX", default_value_t = 200_000, value_name = "POINTS", value_parser = clap::value_parser!(u32).range(10_000..=100_000_000))]
    pub cost_max: u32,
    /// The most points of all requests that are executed at a time; further ones wait.
    #[arg(long, env = "LAUREL_COST_UNDER_WAY_MAX", default_value_t = 1_000_000, value_name = "POINTS", value_parser = clap::value_parser!(u32).range(10_000..=400_000_000))]
    pub cost_under_way_max: u32,
    /// The most requests that wait to be executed; further ones are answered 503.
    #[arg(long, env = "LAUREL_REQUESTS_WAITING_MAX", default_value_t = 1000, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub requests_waiting_max: u32,
    /// The memory for the queries and variables of requests that wait to be executed, in bytes.
    /// Further ones are answered 503.
    #[arg(long, env = "LAUREL_REQUESTS_WAITING_BYTES", default_value_t = 64 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(16 << 20..=16 << 30))]
    pub requests_waiting_bytes: u64,
    /// The memory for the queries and variables of mutations until they have ended, in bytes. A
    /// client may hold as much of it as it leaves free; further ones are answered 503.
    #[arg(long, env = "LAUREL_MUTATIONS_BYTES", default_value_t = 128 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(16 << 20..=64 << 30))]
    pub mutations_bytes: u64,
    /// The time that a query may take, from its parsing to its answer, in milliseconds.
    #[arg(long, env = "LAUREL_QUERY_TIMEOUT_MS", default_value_t = 5000, value_name = "MS", value_parser = clap::value_parser!(u32).range(100..=600_000))]
    pub query_timeout_ms: u32,
    /// The time that a mutation may take until its client gets `TIMEOUT`, in milliseconds. Its
    /// change goes on.
    #[arg(long, env = "LAUREL_MUTATION_TIMEOUT_MS", default_value_t = 30_000, value_name = "MS", value_parser = clap::value_parser!(u32).range(1000..=600_000))]
    pub mutation_timeout_ms: u32,
    /// How long a request takes that the log names, with its fields and its cost, in milliseconds;
    /// 0 names none.
    #[arg(long, env = "LAUREL_SLOW_REQUEST_MS", default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=600_000))]
    pub slow_request_ms: u32,
    /// The clients that may ask for the schema: all, tokens (clients with an access token), or off.
    #[arg(long, env = "LAUREL_INTROSPECTION", default_value = "all", value_name = "WHO")]
    pub introspection: Introspection,
    /// GraphiQL at /graphiql: on or off.
    #[arg(long, env = "LAUREL_GRAPHIQL", default_value = "on", value_name = "SWITCH")]
    pub graphiql: Switch,
    /// The office at /admin: on or off.
    #[arg(long, env = "LAUREL_ADMIN_PAGE", default_value = "on", value_name = "SWITCH")]
    pub admin_page: Switch,
}

/// The clients that may ask for the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Introspection {
    /// All clients.
    All,
    /// Clients with an access token.
    Tokens,
    /// None.
    Off,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// The rates of clients: by access token, or by address without one. Each bucket fills at its rate
/// up to its burst.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Rates of clients")]
pub struct RateSettings {
    /// The points of reads that a client may spend in a second; 0 for no limit.
    #[arg(long, env = "LAUREL_READ_RATE", default_value_t = 1_000_000, value_name = "POINTS")]
    pub read_rate: u32,
    /// The points of reads that a client may save up; at least what one request may cost.
    #[arg(long, env = "LAUREL_READ_BURST", default_value = "20000000", value_name = "POINTS")]
    pub read_burst: NonZeroU32,
    /// The scores, friendships and other changes that a client may send in a second; 0 for no
    /// limit.
    #[arg(long, env = "LAUREL_WRITE_RATE", default_value_t = 50_000, value_name = "EVENTS")]
    pub write_rate: u32,
    /// The changes that a client may save up; at least 1,000, as one request may have.
    #[arg(long, env = "LAUREL_WRITE_BURST", default_value = "500000", value_name = "EVENTS", value_parser = clap::value_parser!(u32).range(1000..))]
    pub write_burst: u32,
    /// The requests with an unknown, revoked or expired token that an address may send in a minute
    /// before its tokens are checked later; 0 for no limit.
    #[arg(long, env = "LAUREL_FAILED_TOKENS_RATE", default_value_t = 60, value_name = "REQUESTS")]
    pub failed_tokens_rate: u32,
    /// The TLS handshakes that an address may begin in a second; beyond that its connections are
    /// closed. 0 for no limit.
    #[arg(long, env = "LAUREL_HANDSHAKE_RATE", default_value_t = 200, value_name = "HANDSHAKES", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub handshake_rate: u32,
    /// The TLS handshakes that an address may save up.
    #[arg(long, env = "LAUREL_HANDSHAKE_BURST", default_value_t = 2000, value_name = "HANDSHAKES", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub handshake_burst: u32,
}

//! Settings of the log-in of players: JSON Web Tokens that another program signs.

use std::path::PathBuf;

use super::redacted::Secret;

/// The log-in of players by JSON Web Tokens (JWT). It is on once a secret or keys are given.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Log-in of players")]
pub struct JwtSettings {
    /// The secret that players' tokens are signed with, by HS256: at least 32 bytes.
    #[arg(long, env = "LAUREL_JWT_SECRET", value_name = "TEXT", hide_env_values = true)]
    pub jwt_secret: Option<Secret>,
    /// The file of the public keys of players' tokens, as a JSON Web Key Set (JWKS): RS256, ES256
    /// or EdDSA. It is read again when a token names a key that it had not.
    #[arg(long, env = "LAUREL_JWKS_FILE", value_name = "FILE", conflicts_with_all = ["jwt_secret", "jwks_url"])]
    pub jwks_file: Option<PathBuf>,
    /// As LAUREL_JWKS_FILE, at an address of https, or of http on this machine.
    #[arg(long, env = "LAUREL_JWKS_URL", value_name = "URL", conflicts_with = "jwt_secret")]
    pub jwks_url: Option<String>,
    /// The issuer that players' tokens must name (iss). Needed once a secret or keys are given.
    #[arg(long, env = "LAUREL_JWT_ISSUER", value_name = "TEXT")]
    pub jwt_issuer: Option<String>,
    /// The audience that players' tokens must name (aud). Needed once a secret or keys are given.
    #[arg(long, env = "LAUREL_JWT_AUDIENCE", value_name = "TEXT")]
    pub jwt_audience: Option<String>,
    /// The claim that says what a player may do: read, submit or friends, in a text or a list of
    /// words, also as laurel:read and so on. Other words mean nothing.
    #[arg(long, env = "LAUREL_JWT_SCOPE_CLAIM", default_value = "scope", value_name = "NAME")]
    pub jwt_scope_claim: String,
    /// The scopes of a player whose token names none, with commas between them.
    #[arg(long, env = "LAUREL_JWT_SCOPE", default_value = "read", value_name = "SCOPES", value_delimiter = ',', value_parser = ["read", "submit", "friends"])]
    pub jwt_scope: Vec<String>,
    /// How far the clocks of the issuer and of this server may be apart, in seconds, 0 to 300.
    #[arg(long, env = "LAUREL_JWT_LEEWAY_SECONDS", default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=300))]
    pub jwt_leeway_seconds: u32,
}

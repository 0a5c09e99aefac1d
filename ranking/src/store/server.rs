//! The Redis servers of a deployment, and the routing of commands to them.

pub mod address;
pub(crate) mod cluster;
pub mod health;
pub(crate) mod node;
pub mod proxy;
pub(crate) mod route;
pub mod run;

use redis::RedisResult;

use super::classify;
use crate::Result;

/// Asks the server at a URL whether it is ready.
///
/// # Errors
/// `Unavailable` while it is down or still loads its file.
pub async fn ping(url: &str) -> Result<()> {
    send(url, "PING").await.map_err(|error| classify(&error))
}

/// Tells the server at a URL to save its data and exit. It closes the connection instead of
/// answering.
///
/// # Errors
/// `Unavailable`, even after an orderly exit.
pub async fn shut_down(url: &str) -> Result<()> {
    send(url, "SHUTDOWN").await.map_err(|error| classify(&error))
}

async fn send(url: &str, command: &str) -> RedisResult<()> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    redis::cmd(command).query_async(&mut connection).await
}

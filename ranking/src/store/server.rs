//! The servers of a deployment, and how a command finds the right one.

pub(crate) mod cluster;
pub(crate) mod node;
pub(crate) mod route;

use redis::RedisResult;

use super::what_it_means;
use crate::Result;

/// Asks the server of a URL whether it serves.
///
/// # Errors
/// `Unavailable` while it does not run or still loads its file.
pub async fn ping(url: &str) -> Result<()> {
    send(url, "PING").await.map_err(|error| what_it_means(&error))
}

/// Tells the server of a URL to save its data and to end. It closes the connection instead of answering.
///
/// # Errors
/// `Unavailable`, also where it ended in order.
pub async fn shut_down(url: &str) -> Result<()> {
    send(url, "SHUTDOWN").await.map_err(|error| what_it_means(&error))
}

async fn send(url: &str, command: &str) -> RedisResult<()> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    redis::cmd(command).query_async(&mut connection).await
}

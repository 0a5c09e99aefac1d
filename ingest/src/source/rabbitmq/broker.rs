//! A broker of RabbitMQ: connections, queues, confirmations.

use std::path::Path;

use anyhow::{Context, anyhow};
use lapin::options::QueueDeclareOptions;
use lapin::protocol::{AMQPErrorKind, AMQPHardError};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Confirmation, Connection, ConnectionProperties, Error, ErrorKind, Queue};
use tokio::time::timeout;

use super::super::{BROKER_TIMEOUT, Trouble, lost};

/// Connects to a broker. `ca` is a file of certificates.
pub(crate) async fn connect(url: &str, ca: Option<&Path>) -> Result<Connection, Trouble> {
    let mut tls = OwnedTLSConfig::default();
    if let Some(ca) = ca {
        let chain =
            std::fs::read_to_string(ca).with_context(|| format!("{} cannot be read", ca.display()));
        tls.cert_chain = Some(chain.map_err(Trouble::Wrong)?);
    }
    let properties = ConnectionProperties::default().with_connection_name("laurel-ingest".into());
    let runtime = lapin::runtime::default_runtime().map_err(lost)?;
    let connection = Connection::connect_with_config(url, properties, tls, runtime).await;
    connection.map_err(|error| trouble(error, "RabbitMQ refuses"))
}

/// A queue that is there, and what it holds.
pub(super) async fn look_at(channel: &Channel, queue: &str) -> lapin::Result<Queue> {
    let options = QueueDeclareOptions { passive: true, ..Default::default() };
    channel.queue_declare(ShortString::from(queue), options, FieldTable::default()).await
}

/// Fails if a queue is not there.
pub(crate) async fn look_for(channel: &Channel, queue: &str) -> Result<(), Trouble> {
    let found = look_at(channel, queue).await;
    found.map(drop).map_err(|error| trouble(error, &format!("the queue {queue} is not there")))
}

/// Waits until the broker has something, such as a dead letter, in a queue.
pub(crate) async fn confirmed(
    name: &str,
    what: &str,
    confirm: impl Future<Output = lapin::Result<Confirmation>>,
) -> Result<(), Trouble> {
    let confirmed = timeout(BROKER_TIMEOUT, confirm).await;
    let confirmed = confirmed.map_err(|_| lost(anyhow!("RabbitMQ does not confirm {what}")))?;
    match confirmed.map_err(lost)? {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(_)) => {
            Err(Trouble::Wrong(anyhow!("the queue {name} for {what} is gone")))
        }
        _ => Err(lost(anyhow!("RabbitMQ refuses {what} in {name}"))),
    }
}

/// True if the broker says that a queue of this kind cannot do what was asked.
pub(crate) fn is_not_implemented(error: &Error) -> bool {
    let kind = AMQPErrorKind::Hard(AMQPHardError::NOTIMPLEMENTED);
    matches!(error.kind(), ErrorKind::ProtocolError(error) if *error.kind() == kind)
}

/// An error of the broker's own is of the settings; others are of the connection.
pub(crate) fn trouble(error: Error, what: &str) -> Trouble {
    let is_of_settings =
        matches!(error.kind(), ErrorKind::ProtocolError(_) | ErrorKind::AuthProviderError(_));
    let error = anyhow::Error::from(error).context(what.to_owned());
    if is_of_settings { Trouble::Wrong(error) } else { Trouble::Lost(error) }
}

//! Replies of RabbitMQ: confirmations, and errors of the settings or of the connection.

use anyhow::anyhow;
use lapin::options::QueueDeclareOptions;
use lapin::protocol::{AMQPErrorKind, AMQPHardError};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Confirmation, Error, ErrorKind};
use tokio::time::timeout;

use super::super::{BROKER_TIMEOUT, Trouble, lost};

/// Waits until the broker has something, such as a dead letter, in a queue.
pub(super) async fn confirmed(
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

/// Fails if a queue is not there.
pub(super) async fn look_for(channel: &Channel, queue: &str) -> Result<(), Trouble> {
    let options = QueueDeclareOptions { passive: true, ..Default::default() };
    let declared =
        channel.queue_declare(ShortString::from(queue), options, FieldTable::default()).await;
    declared.map(drop).map_err(|error| trouble(error, &format!("the queue {queue} is not there")))
}

/// True if the broker says that a queue of this kind cannot do what was asked.
pub(super) fn is_not_implemented(error: &Error) -> bool {
    let kind = AMQPErrorKind::Hard(AMQPHardError::NOTIMPLEMENTED);
    matches!(error.kind(), ErrorKind::ProtocolError(error) if *error.kind() == kind)
}

/// An error of the broker's own is of the settings; others are of the connection.
pub(super) fn trouble(error: Error, what: &str) -> Trouble {
    let is_of_settings =
        matches!(error.kind(), ErrorKind::ProtocolError(_) | ErrorKind::AuthProviderError(_));
    let error = anyhow::Error::from(error).context(what.to_owned());
    if is_of_settings { Trouble::Wrong(error) } else { Trouble::Lost(error) }
}

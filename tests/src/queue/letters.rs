//! Dead letters, as an operator finds them.

use futures::StreamExt;
use lapin::options::{BasicAckOptions, BasicGetOptions};
use lapin::types::AMQPValue;

use super::{DEAD, Queue, kafka};

/// A message that was put aside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Letter {
    pub payload: String,
    pub code: String,
    pub reason: String,
    /// The length of the message in bytes, if only its beginning is here.
    pub cut: Option<String>,
}

impl Queue {
    /// Takes all dead letters. Those of Kafka stay.
    pub async fn letters(&self) -> Vec<Letter> {
        let mut letters = match self {
            Self::Kafka(server) => kafka::letters(server),
            Self::Nats(_) => self.of_nats().await,
            Self::RabbitMq(_) | Self::RabbitMqStream(_) => self.of_rabbitmq().await,
        };
        letters.sort();
        letters
    }

    async fn of_nats(&self) -> Vec<Letter> {
        let context = self.jetstream().await;
        let stream = context.get_stream("LETTERS").await.unwrap();
        let config = async_nats::jetstream::consumer::pull::Config::default();
        let consumer = stream.create_consumer(config).await.unwrap();
        let mut messages = consumer.fetch().max_messages(100_000).messages().await.unwrap();
        let mut letters = vec![];
        while let Some(message) = messages.next().await {
            let message = message.unwrap();
            let header = |name: &str| {
                let headers = message.headers.as_ref().unwrap();
                headers.get(name).unwrap().to_string()
            };
            letters.push(Letter {
                payload: String::from_utf8_lossy(&message.payload).into_owned(),
                code: header("laurel-code"),
                reason: header("laurel-reason"),
                cut: message.headers.as_ref().unwrap().get("laurel-cut").map(ToString::to_string),
            });
            assert_eq!(
                (header("laurel-source"), header("laurel-subject")),
                ("SCORES".into(), "scores.b".into())
            );
            message.ack().await.unwrap();
        }
        stream.purge().await.unwrap();
        letters
    }

    async fn of_rabbitmq(&self) -> Vec<Letter> {
        let (_connection, channel) = self.channel().await;
        let mut letters = vec![];
        while let Some(got) =
            channel.basic_get(DEAD.into(), BasicGetOptions::default()).await.unwrap()
        {
            let headers = got.properties.headers().clone().unwrap();
            let header = |name: &str| match headers.inner().get(name) {
                Some(AMQPValue::LongString(text)) => text.to_string(),
                other => panic!("{name}: {other:?}"),
            };
            letters.push(Letter {
                payload: String::from_utf8_lossy(&got.data).into_owned(),
                code: header("laurel-code"),
                reason: header("laurel-reason"),
                cut: None,
            });
            assert_eq!(header("laurel-source"), "SCORES");
            got.ack(BasicAckOptions::default()).await.unwrap();
        }
        letters
    }
}

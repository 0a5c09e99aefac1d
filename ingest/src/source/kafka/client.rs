//! The client of Kafka: its settings, and questions for which it blocks.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Error, anyhow};
use ranking::store::server::address::is_loopback;
use rdkafka::TopicPartitionList;
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::Offset;

use super::super::address::{KafkaAddress, KafkaBrokers};
use super::super::{BROKER_TIMEOUT, Opening, PREFETCH_BATCHES, Trouble, lost};
use super::group::Group;

/// The most bytes of an answer of one broker, for memory of any size.
const FETCH_BYTES_MAX: usize = 48 << 20;

/// The least: a message that is longer comes alone.
const FETCH_BYTES_MIN: usize = 1 << 20;

/// The brokers whose answers have room in the memory together.
const BROKERS: usize = 4;

/// The most KiB that the client's queue can be set to.
const QUEUE_KIB_MAX: usize = 2_097_151;

/// How often the client of a full queue looks for room.
const FULL_QUEUE_PAUSE_MS: u32 = 20;

/// How often a member tells its group that it is there, at least, and how many times in a session.
const HEARTBEAT_MS: u32 = 3000;
const HEARTBEATS: u32 = 4;

/// The settings of consumers and producers. `ca` is a file of certificates.
pub(crate) fn config(brokers: &KafkaBrokers, ca: Option<&Path>) -> Result<ClientConfig, Trouble> {
    let needs_openssl = match &brokers.login {
        _ if brokers.has_tls => Some("kafkas://"),
        Some(login) if login.mechanism != "PLAIN" => Some(&*login.mechanism),
        _ => None,
    };
    if let Some(what) = needs_openssl.filter(|_| !cfg!(feature = "kafka-tls")) {
        return Err(Trouble::Wrong(anyhow!(
            "{what} needs OpenSSL, and this program was built without: expected one that was built with the feature kafka-tls"
        )));
    }
    let mut config = ClientConfig::new();
    config.set("client.id", "laurel-ingest").set("bootstrap.servers", &brokers.servers).set(
        "security.protocol",
        match (brokers.has_tls, &brokers.login) {
            (false, None) => "plaintext",
            (false, Some(_)) => "sasl_plaintext",
            (true, None) => "ssl",
            (true, Some(_)) => "sasl_ssl",
        },
    );
    if let Some(login) = &brokers.login {
        config
            .set("sasl.mechanism", &login.mechanism)
            .set("sasl.username", &login.user)
            .set("sasl.password", &login.password);
    }
    if let Some(ca) = ca.filter(|_| brokers.has_tls) {
        config.set("ssl.ca.location", ca.to_string_lossy());
    }
    Ok(config)
}

/// A consumer that has not begun. Its queue has half of the memory, the answers of its brokers and
/// the batch under way a quarter each.
pub(super) fn consumer(
    config: &ClientConfig,
    opening: &Opening,
    address: &KafkaAddress,
) -> Result<StreamConsumer<Group>, Trouble> {
    let queue_kib = (opening.bytes_max / 2 / 1024).min(QUEUE_KIB_MAX);
    let fetch_bytes =
        (opening.bytes_max / 4 / BROKERS).clamp(FETCH_BYTES_MIN, FETCH_BYTES_MAX).to_string();
    let ahead = u32::from(opening.batch) * u32::from(PREFETCH_BATCHES);
    let heartbeat_ms = HEARTBEAT_MS.min(address.session_ms / HEARTBEATS);
    let mut config = config.clone();
    config
        .set("group.id", &address.group)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // A group without a position begins at the first message: none is passed over.
        .set("auto.offset.reset", "earliest")
        .set("session.timeout.ms", address.session_ms.to_string())
        .set("heartbeat.interval.ms", heartbeat_ms.to_string())
        .set("queued.max.messages.kbytes", queue_kib.to_string())
        .set("queued.min.messages", ahead.to_string())
        .set("message.max.bytes", FETCH_BYTES_MIN.to_string())
        .set("fetch.max.bytes", &fetch_bytes)
        .set("fetch.message.max.bytes", FETCH_BYTES_MIN.to_string())
        .set("fetch.queue.backoff.ms", FULL_QUEUE_PAUSE_MS.to_string());
    config.create_with_context(Group::default()).map_err(|error| Trouble::Wrong(error.into()))
}

/// Fails if a topic is not there, or if the way to one of the brokers is in clear text and may not
/// be.
pub(crate) fn look_for<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    allows_cleartext: bool,
) -> Result<(), Trouble> {
    let found = client.fetch_metadata(Some(topic), BROKER_TIMEOUT);
    let found = found.map_err(|error| trouble(error, "Kafka does not answer"))?;
    let away = found.brokers().iter().find(|broker| !is_loopback(broker.host()));
    if let Some(away) = away.filter(|_| !allows_cleartext) {
        return Err(Trouble::Wrong(anyhow!(
            "Kafka leads to its broker {} in clear text: expected kafkas://, or LAUREL_ALLOW_CLEARTEXT=true on a network that no stranger can read",
            away.host()
        )));
    }
    let of_topic = found.topics().iter().find(|found| found.name() == topic);
    let error = of_topic.and_then(|topic| topic.error()).map(RDKafkaErrorCode::from);
    match error {
        None if of_topic.is_some_and(|topic| !topic.partitions().is_empty()) => Ok(()),
        None | Some(RDKafkaErrorCode::UnknownTopicOrPartition) => {
            Err(Trouble::Wrong(anyhow!("the topic {topic} is not there")))
        }
        Some(error) => {
            Err(trouble(KafkaError::MetadataFetch(error), &format!("the topic {topic}")))
        }
    }
}

/// The messages of a topic that the group has not settled: in each partition those from the
/// committed position to the end, as a group that moves partitions has no other sure state.
pub(super) fn left(consumer: &StreamConsumer<Group>, topic: &str) -> Result<u64, Trouble> {
    let found = consumer.fetch_metadata(Some(topic), BROKER_TIMEOUT).map_err(lost)?;
    let of_topic = found.topics().iter().find(|found| found.name() == topic);
    let mut list = TopicPartitionList::new();
    for partition in of_topic.iter().flat_map(|topic| topic.partitions()) {
        list.add_partition(topic, partition.id());
    }
    if list.count() == 0 {
        return Err(lost(anyhow!("the topic {topic} is not there")));
    }
    let committed = consumer.committed_offsets(list, BROKER_TIMEOUT).map_err(lost)?;
    let mut left = 0;
    for element in committed.elements() {
        let bounds = consumer.fetch_watermarks(topic, element.partition(), BROKER_TIMEOUT);
        let (low, high) = bounds.map_err(lost)?;
        // A position that is none, or not in the log, is not used: the first message follows.
        let next = match element.offset() {
            Offset::Offset(next) if (low..=high).contains(&next) => next,
            _ => low,
        };
        left += u64::try_from(high - next).unwrap_or_default();
    }
    Ok(left)
}

/// Positions of a topic, as the client takes them.
pub(super) fn list(topic: &str, next: &BTreeMap<i32, i64>) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (&partition, &offset) in next {
        list.add_partition_offset(topic, partition, Offset::Offset(offset))?;
    }
    Ok(list)
}

/// True if the client gets over an error by itself. One broker of several may be away; all of them
/// are not.
pub(super) fn is_passing(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{
        BrokerTransportFailure, CoordinatorLoadInProgress, CoordinatorNotAvailable,
        IllegalGeneration, LeaderNotAvailable, NotCoordinator, NotLeaderForPartition,
        OperationTimedOut, PollExceeded, RebalanceInProgress, RequestTimedOut, Resolve,
        UnknownMemberId,
    };
    let passing = [
        BrokerTransportFailure,
        CoordinatorLoadInProgress,
        CoordinatorNotAvailable,
        IllegalGeneration,
        LeaderNotAvailable,
        NotCoordinator,
        NotLeaderForPartition,
        OperationTimedOut,
        PollExceeded,
        RebalanceInProgress,
        RequestTimedOut,
        Resolve,
        UnknownMemberId,
    ];
    let is_fatal = matches!(error, KafkaError::MessageConsumptionFatal(_));
    !is_fatal && error.rdkafka_error_code().is_some_and(|code| passing.contains(&code))
}

/// True if a position is not committed because the group has moved the partition.
pub(super) fn is_of_group(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{
        AssignmentLost, FencedMemberEpoch, IllegalGeneration, RebalanceInProgress,
        StaleMemberEpoch, UnknownMemberId,
    };
    let moved = [
        AssignmentLost,
        FencedMemberEpoch,
        IllegalGeneration,
        RebalanceInProgress,
        StaleMemberEpoch,
        UnknownMemberId,
    ];
    error.rdkafka_error_code().is_some_and(|code| moved.contains(&code))
}

/// An error of the broker's own is of the settings; after others, another connection may do.
pub(crate) fn trouble(error: KafkaError, what: &str) -> Trouble {
    use RDKafkaErrorCode::{
        Authentication, ClusterAuthorizationFailed, GroupAuthorizationFailed,
        InconsistentGroupProtocol, InvalidGroupId, InvalidSessionTimeout, SaslAuthenticationFailed,
        TopicAuthorizationFailed,
    };
    let is_of_settings = matches!(
        error.rdkafka_error_code(),
        Some(
            Authentication
                | ClusterAuthorizationFailed
                | GroupAuthorizationFailed
                | InconsistentGroupProtocol
                | InvalidGroupId
                | InvalidSessionTimeout
                | SaslAuthenticationFailed
                | TopicAuthorizationFailed
        )
    );
    let error = Error::from(error).context(what.to_owned());
    if is_of_settings { Trouble::Wrong(error) } else { Trouble::Lost(error) }
}

//! A Kafka of a test's own: the mock cluster that librdkafka has, in this process, with real
//! sockets and groups; or tansu, where `LAUREL_TEST_TANSU` names its program.

use std::process::{Child, Command, Stdio};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{FutureProducer, Producer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::servers::redis_cluster::free_port;
use crate::wait::until;

/// A running Kafka; it ends when this value is dropped.
pub enum Kafka {
    /// The client that has the cluster in it.
    Mock(FutureProducer),
    Tansu(Tansu),
}

/// A tansu with its data in a file.
pub struct Tansu {
    program: String,
    dir: String,
    port: u16,
    child: Child,
}

impl Kafka {
    /// Starts one with its data in a directory, if it has any.
    pub fn start(dir: String) -> Self {
        match std::env::var("LAUREL_TEST_TANSU") {
            Ok(program) => {
                std::fs::create_dir_all(&dir).unwrap();
                let port = free_port();
                let child = spawn(&program, &dir, port);
                Self::Tansu(Tansu { program, dir, port, child })
            }
            Err(_) => {
                let config = ClientConfig::new().set("test.mock.num.brokers", "1").to_owned();
                Self::Mock(config.create().unwrap())
            }
        }
    }

    /// The addresses of its brokers.
    pub fn servers(&self) -> String {
        match self {
            Self::Mock(client) => cluster(client, |cluster| cluster.bootstrap_servers()),
            Self::Tansu(server) => format!("127.0.0.1:{}", server.port),
        }
    }

    /// Makes a topic, once it answers.
    pub async fn create_topic(&self, name: &str, partitions: i32) {
        match self {
            Self::Mock(client) => {
                cluster(client, |cluster| cluster.create_topic(name, partitions, 1)).unwrap();
            }
            Self::Tansu(_) => {
                until("Kafka makes a topic", async || {
                    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
                        .set("bootstrap.servers", self.servers())
                        .create()
                        .unwrap();
                    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
                    let made = admin.create_topics([&topic], &AdminOptions::new()).await.ok()?;
                    made.iter().all(Result::is_ok).then_some(())
                })
                .await;
            }
        }
    }

    /// Kills it without warning. The mock cluster loses its connections, and keeps its memory.
    pub fn kill(&mut self) {
        match self {
            Self::Mock(client) => cluster(client, |cluster| cluster.broker_down(-1)).unwrap(),
            Self::Tansu(server) => server.kill(),
        }
    }

    /// Starts it again after it was killed.
    pub fn restart(&mut self) {
        match self {
            Self::Mock(client) => cluster(client, |cluster| cluster.broker_up(-1)).unwrap(),
            Self::Tansu(server) => server.child = spawn(&server.program, &server.dir, server.port),
        }
    }

    /// Has the next messages that are published refused as too long. Only the mock cluster can.
    pub fn refuse_as_too_long(&self, times: usize) {
        let Self::Mock(client) = self else { panic!("it is no mock cluster") };
        let errors = vec![RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE; times];
        cluster(client, |cluster| cluster.request_errors(RDKafkaApiKey::Produce, &errors));
    }
}

fn cluster<T>(
    client: &FutureProducer,
    use_it: impl FnOnce(
        &MockCluster<
            '_,
            rdkafka::producer::future_producer::FutureProducerContext<DefaultClientContext>,
        >,
    ) -> T,
) -> T {
    use_it(&client.client().mock_cluster().expect("its settings ask for one"))
}

impl Tansu {
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Tansu {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(program: &str, dir: &str, port: u16) -> Child {
    let listener = format!("tcp://127.0.0.1:{port}");
    Command::new(program)
        .args(["broker", "--listener-url", &listener, "--advertised-listener-url", &listener])
        // The path of its file begins where it runs.
        .args(["--storage-engine", "sqlite://tansu.db"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("tansu is built: make test-kafka")
}

//! Proxies in front of Redis that keep commands back: no process starts there, and says why.

use tokio::net::TcpStream;

use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::redis_cluster::free_port;
use tests::servers::redis_server::RedisServer;
use tests::servers::twemproxy::Twemproxy;
use tests::wait::until;

#[tokio::test]
async fn a_proxy_that_keeps_info_back_is_refused_in_words() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let _server = RedisServer::start_at(dir.path(), port);
    let proxy = Twemproxy::start(dir.path(), port);
    until("the proxy listens", async || TcpStream::connect(proxy.address()).await.ok()).await;
    let mut command = deployment.api(&["serve"]);
    let output =
        command.env("LAUREL_REDIS_URL", format!("redis://{}", proxy.address())).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("answers PING") && said.contains("no proxy"), "{said}");
}

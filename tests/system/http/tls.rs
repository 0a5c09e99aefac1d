//! TLS: the certificate, clients that stop within the handshake, and a server without it.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use tests::api::Api;
use tests::attack::process::Process;
use tests::attack::{CPU_MAX, GROWTH_BYTES_MAX};
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::certificates::Certificates;
use tests::servers::program;
use tests::wait::until;

/// The clients of each kind that begin a handshake.
const CLIENTS: usize = 50;

/// The server's time for a handshake and headers, and that in which a busy machine ends it.
const HEADER_TIMEOUT_MS: &str = "2000";
const END_MAX: Duration = Duration::from_secs(15);

/// The connections that the server closed as their headers, or their handshakes, took too long.
const CLOSED_FOR_HEADERS: &str = "laurel_connections_closed_total{reason=\"headers\"}";

/// The warning of a server that other machines reach in clear text.
const CLEAR_TEXT: &str = "without TLS, so access tokens travel in clear text";

#[tokio::test]
async fn it_speaks_tls_and_reads_its_certificate_again() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let (certificate, key) = (deployment.path("cert.pem"), deployment.path("key.pem"));
    let certify = || {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .args(["-keyout", &key, "-out", &certificate])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    certify();
    let token = deployment.admin_token().await.to_owned();
    let files = ["--tls-cert", &certificate, "--tls-key", &key];
    let api = Api::spawn(&deployment, &files, token).await;
    let port = api.url().strip_prefix("https://127.0.0.1:").expect("it says https").to_owned();
    let ask = async || {
        let mut curl = tokio::process::Command::new("curl");
        curl.args(["-sS", "--cacert", &certificate, &format!("https://127.0.0.1:{port}/healthz")]);
        let output = curl.output().await.unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(ask().await.as_deref(), Some("ok\n"));
    let plain = reqwest::get(format!("http://127.0.0.1:{port}/healthz")).await;
    assert!(plain.is_err());
    certify();
    assert_eq!(ask().await, None, "the new certificate is not in use yet");
    program::signal("HUP", api.pid());
    until("the new certificate is in use", ask).await;
    let lone = program::api()
        .args(["serve", "--tls-cert", &certificate])
        .env("LAUREL_DATA_DIR", deployment.path("other"))
        .output()
        .unwrap();
    assert_eq!(lone.status.code(), Some(2));
}

/// Parts of handshakes, by their kind. A record has a type, a version, and a length.
fn parts() -> [(&'static str, Vec<u8>); 5] {
    let hello = |length: [u8; 3]| [&[22, 3, 1, 64, 0, 1][..], &length, &[0; 16_380]].concat();
    [
        ("nothing", vec![]),
        ("half a record's head", vec![22, 3, 1]),
        ("a record that stops", hello([0, 63, 252])[..4000].to_vec()),
        ("a hello of 16 MB", hello([255, 255, 255]).repeat(60)),
        ("clear text", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
    ]
}

#[tokio::test]
async fn handshakes_that_stop_end_and_hold_little() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let certificates = Certificates::create();
    let file = |name: &str| certificates.dir().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("server.pem"), file("server.key"));
    let mut command = deployment.api(&["serve", "--tls-cert", &certificate, "--tls-key", &key]);
    command.env("LAUREL_HEADER_TIMEOUT_MS", HEADER_TIMEOUT_MS);
    let token = deployment.admin_token().await.to_owned();
    let api = Api::spawn_command(&deployment, command, token).await;
    let server: SocketAddr = api.url().split_once("//").unwrap().1.parse().unwrap();
    let authority = certificates.authority();
    let get = async |path: &str| {
        let mut curl = tokio::process::Command::new("curl");
        curl.args(["-sS", "--cacert"]).arg(&authority).arg(format!("https://{server}{path}"));
        String::from_utf8(curl.output().await.unwrap().stdout).unwrap()
    };
    let is_served =
        async || get("/graphql?query=%7B__typename%7D").await.contains("\"data\"").then_some(());
    until("the server answers", is_served).await;
    let process = Process::of(api.pid());
    for (what, part) in parts() {
        process.reset_peak();
        let (cpu, bytes) = (process.cpu(), process.peak_bytes());
        let mut clients = vec![];
        for _ in 0..CLIENTS {
            let mut client = TcpStream::connect(server).await.unwrap();
            // The server may have enough of it before it has read all.
            let _ = timeout(END_MAX, client.write_all(&part)).await;
            clients.push(client);
        }
        assert_eq!(is_served().await, Some(()), "{what}: no other client is served");
        let deadline = Instant::now() + END_MAX;
        for client in &mut clients {
            let left = deadline.saturating_duration_since(Instant::now());
            // It closes the connection, or resets it.
            let read = timeout(left, client.read_to_end(&mut vec![])).await;
            assert!(read.is_ok(), "{what}: a connection is still open");
        }
        let cpu = process.cpu() - cpu;
        let grown = process.peak_bytes().saturating_sub(bytes);
        println!("{CLIENTS} × {what}: {cpu:?} {} MiB", grown >> 20);
        assert!(cpu <= CPU_MAX && grown <= GROWTH_BYTES_MAX, "{what}: {cpu:?} {grown} B");
    }
    assert!(!get("/metrics").await.contains(&format!("{CLOSED_FOR_HEADERS} 0\n")));
}

#[tokio::test]
async fn an_address_begins_so_many_handshakes() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let certificates = Certificates::create();
    let file = |name: &str| certificates.dir().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("server.pem"), file("server.key"));
    let mut command = deployment.api(&["serve", "--tls-cert", &certificate, "--tls-key", &key]);
    command.envs([("LAUREL_HANDSHAKE_BURST", "10"), ("LAUREL_HANDSHAKE_RATE", "1")]);
    let token = deployment.admin_token().await.to_owned();
    let api = Api::spawn_command(&deployment, command, token).await;
    let authority = certificates.authority();
    let is_served = async |host: &str| {
        let mut curl = tokio::process::Command::new("curl");
        curl.args(["-sS", "--interface", host, "--cacert"]).arg(&authority);
        let output = curl.arg(format!("{}/healthz", api.url())).output().await.unwrap();
        output.status.success()
    };
    until("the server answers", async || is_served("127.0.0.4").await.then_some(())).await;
    let mut served = 0;
    while is_served("127.0.0.2").await {
        served += 1;
        assert!(served < 100, "handshakes have no limit");
    }
    assert!(served >= 10 && is_served("127.0.0.3").await, "{served} are served");
}

#[tokio::test]
async fn a_client_that_comes_again_resumes_its_session() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let certificates = Certificates::create();
    let file = |name: &str| certificates.dir().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("server.pem"), file("server.key"));
    let token = deployment.admin_token().await.to_owned();
    let api =
        Api::spawn(&deployment, &["--tls-cert", &certificate, "--tls-key", &key], token).await;
    let address = api.url().split_once("//").unwrap().1.to_owned();
    let session = deployment.path("session.pem");
    for (way, said) in [("-sess_out", "New, TLSv1.3"), ("-sess_in", "Reused, TLSv1.3")] {
        let mut client = tokio::process::Command::new("openssl");
        client.args(["s_client", "-connect", &address, "-CAfile"]).arg(certificates.authority());
        client.args(["-ign_eof", way, &session]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = client.stderr(Stdio::null()).spawn().unwrap();
        // Tickets follow the handshake.
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        client.stdin.take().unwrap().write_all(request).await.unwrap();
        let output = client.wait_with_output().await.unwrap();
        let output = String::from_utf8_lossy(&output.stdout);
        assert!(output.contains(said), "{way}: {output}");
    }
}

#[tokio::test]
async fn a_server_that_others_reach_in_clear_text_warns() {
    let certificates = Certificates::create();
    let file = |name: &str| certificates.dir().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("server.pem"), file("server.key"));
    let tls = ["--tls-cert", certificate.as_str(), "--tls-key", key.as_str()];
    for (listen, more, warns) in
        [("0.0.0.0:0", &[][..], true), ("0.0.0.0:0", &tls, false), ("127.0.0.1:0", &[], false)]
    {
        let deployment = Deployment::new(Sql::any(), Redis::Own).await;
        let arguments = [&["--listen", listen], more].concat();
        let token = deployment.admin_token().await.to_owned();
        let api = Api::spawn(&deployment, &arguments, token).await;
        assert_eq!(api.log().contains(CLEAR_TEXT), warns, "{arguments:?}: {}", api.log());
    }
}

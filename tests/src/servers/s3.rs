//! A server of S3's API with one bucket: moto, where `LAUREL_TEST_S3` names the Python
//! that has it.

use std::process::{Child, Command, Stdio};

use tokio::net::TcpStream;

use crate::servers::redis_cluster::free_port;
use crate::wait::until;

/// Makes the bucket.
const SETUP: &str = r#"
import boto3, sys
boto3.client("s3", endpoint_url=f"http://127.0.0.1:{sys.argv[1]}", region_name="us-east-1",
             aws_access_key_id="x", aws_secret_access_key="x").create_bucket(Bucket="lake")
"#;

/// The requests that a server that checks credentials takes before it does: that of [`SETUP`].
const SETUP_REQUESTS: &str = "1";

/// The treatment of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials {
    /// Any are right.
    Any,
    /// None are right.
    None,
}

/// A running server; killed when dropped.
pub struct S3 {
    child: Child,
    /// Its port.
    pub port: u16,
}

/// The Python that has moto; `None` in a run without it.
pub fn python() -> Option<String> {
    std::env::var("LAUREL_TEST_S3").ok()
}

impl S3 {
    /// Starts one with a bucket `lake`.
    pub async fn start(python: &str, credentials: Credentials) -> Self {
        let port = free_port();
        let mut command = Command::new(python);
        command
            .args(["-m", "moto.server", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if credentials == Credentials::None {
            command.env("INITIAL_NO_AUTH_ACTION_COUNT", SETUP_REQUESTS);
        }
        let child = command.spawn().expect("LAUREL_TEST_S3 is a Python");
        let server = Self { child, port };
        until("the S3 server listens", async || {
            TcpStream::connect(("127.0.0.1", port)).await.ok().map(drop)
        })
        .await;
        let output = Command::new(python).args(["-c", SETUP, &port.to_string()]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        server
    }

    /// The variables of a program that comes by a port, such as that of a proxy.
    pub fn variables(port: u16) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT", format!("http://127.0.0.1:{port}")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "laurel".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "another-secret".to_owned()),
        ]
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

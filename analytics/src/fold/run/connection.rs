//! A session of Spark Connect.
//!
//! The client blocks its thread, and a call can take hours. So each call has a thread of its own,
//! which the end of the process does not wait for, as it would for one of tokio's.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use spark_connect::{SparkError, SparkSession};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long an engine may take to answer the first call.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an engine may take to end what it does for us.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The most characters of an engine's error: the first of them tell what is wrong, and the others
/// are its stack.
const ERROR_CHARS_MAX: usize = 1000;

/// An open session. Dropped in the middle of a statement, it lets the engine stop that.
pub struct Connection {
    session: SparkSession,
    version: String,
    is_ended: bool,
}

impl Connection {
    /// Opens a session.
    ///
    /// # Errors
    /// If the URL is none of an engine, or the engine does not answer in [`OPEN_TIMEOUT`].
    pub async fn open(url: &str) -> Result<Self> {
        let url = url.to_owned();
        let session = aside(move || SparkSession::builder().remote(&url).get_or_create()).await;
        let session = session.context(
            "invalid engine: expected sc://HOST:PORT, or sc://HOST:PORT/;use_ssl=true with a token beyond this machine",
        )?;
        let of_call = session.clone();
        let asked = timeout(OPEN_TIMEOUT, aside(move || of_call.version()));
        let Ok(version) = asked.await else {
            bail!(
                "the engine does not answer within {} s: expected a server of Spark Connect at that address",
                OPEN_TIMEOUT.as_secs()
            );
        };
        let version = version.context("the engine tells no version")?;
        Ok(Self { session, version, is_ended: false })
    }

    /// The version of Spark that the engine tells; other engines tell the one that they resemble.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Runs a statement, and writes its rows as Parquet files into a directory, which is replaced.
    ///
    /// # Errors
    /// If the engine fails. One that is away for a moment is asked again by the client.
    pub async fn write(&self, statement: &str, out: &str) -> Result<()> {
        let (session, statement, out) =
            (self.session.clone(), statement.to_owned(), out.to_owned());
        aside(move || session.sql(&statement)?.write().mode("overwrite").parquet(&out)).await
    }

    /// Ends the session.
    pub async fn end(mut self) {
        self.is_ended = true;
        let session = self.session.clone();
        let _ = timeout(END_TIMEOUT, aside(move || session.stop())).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        let session = self.session.clone();
        let (ended, is_ended) = mpsc::channel();
        std::thread::spawn(move || {
            let _ = session.interrupt_all();
            let _ = session.stop();
            let _ = ended.send(());
        });
        let _ = is_ended.recv_timeout(END_TIMEOUT);
    }
}

/// Makes a call of the client on a thread of its own.
async fn aside<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, SparkError> + Send + 'static,
) -> Result<T> {
    let (done, is_done) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = done.send(call());
    });
    is_done.await.context("the client of Spark Connect failed")?.map_err(told)
}

/// An error of the engine, cut to what people read.
fn told(error: SparkError) -> anyhow::Error {
    let text: String = error.message().chars().take(ERROR_CHARS_MAX).collect();
    anyhow!("{}", text.trim_end())
}

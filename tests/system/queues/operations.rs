//! The address at which a running `laurel ingest` or `laurel feed` tells what it does.

use std::process::Command;

use tests::servers::redis_cluster::free_port;
use tests::wait::until;

/// The address.
pub(super) struct Operations(String);

impl Operations {
    /// Has a command listen at an address of its own.
    pub(super) fn of(command: &mut Command) -> Self {
        Self::by(command, "LAUREL_INGEST_OPERATIONS_LISTEN")
    }

    /// As [`Self::of`], of `laurel feed`.
    pub(super) fn of_feed(command: &mut Command) -> Self {
        Self::by(command, "LAUREL_FEED_OPERATIONS_LISTEN")
    }

    fn by(command: &mut Command, variable: &str) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        command.env(variable, &address);
        Self(address)
    }

    /// The status and the text of an answer.
    pub(super) async fn get(&self, path: &str) -> Option<(u16, String)> {
        let answer = reqwest::get(format!("http://{}{path}", self.0)).await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    /// Waits until it takes nothing for a reason with this text in it; returns the reason.
    pub(super) async fn until_paused(&self, why: &str) -> String {
        until(why, async || {
            let (status, text) = self.get("/readyz").await?;
            (status == 503 && text.contains(why)).then_some(text)
        })
        .await
    }

    /// Waits until so many messages are settled, put aside or not.
    pub(super) async fn until_settled(&self, count: usize) {
        until("the messages are settled", async || {
            let (_, metrics) = self.get("/metrics").await?;
            let settled =
                metrics.lines().filter(|line| line.starts_with("laurel_ingest_messages_total"));
            let number = |line: &str| line.rsplit(' ').next()?.parse::<usize>().ok();
            (settled.filter_map(number).sum::<usize>() == count).then_some(())
        })
        .await;
    }

    /// Waits until a metric has at least a value.
    pub(super) async fn until_metric(&self, name: &str, value: usize) {
        until(name, async || {
            let (_, metrics) = self.get("/metrics").await?;
            let found = metrics.lines().find_map(|line| line.strip_prefix(name))?;
            (found.trim().parse::<usize>().ok()? >= value).then_some(())
        })
        .await;
    }
}

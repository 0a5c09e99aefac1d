//! `laurel feed`: the events of a webhook with the address `feed:NAME`, published to a broker.
//!
//! SQL has the events and how far the broker has them: [`engine::webhook::delivery`] reads them,
//! and moves on once the broker has confirmed them. So the program keeps nothing of its own.

pub(crate) mod metrics;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use engine::settings::{FeedSettings, LogSettings, SqlSettings};
use engine::webhook::delivery::{Deliveries, Error, Source, State, Waiting, Webhook, feed_name};
use tokio::time::sleep;

use crate::operations;
use crate::sink::{Broker, Opening};
use crate::stop::Stop;
use metrics::Metrics;

/// The pause between two looks for webhooks of the feed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The arguments of `laurel feed`.
#[derive(Debug, Args)]
#[allow(missing_docs, reason = "a doc comment of a field would replace the help of the command")]
pub(crate) struct FeedArguments {
    #[command(flatten)]
    feed: FeedSettings,
    #[command(flatten)]
    sql: SqlSettings,
    #[command(flatten)]
    log: LogSettings,
}

/// Delivers until a signal.
///
/// # Errors
/// If a setting is missing or does not fit the broker, or SQL does not answer at the start.
pub(crate) async fn run(arguments: FeedArguments) -> Result<()> {
    let FeedArguments { feed, sql, log } = arguments;
    log.start(crate::LOG)?;
    let stop = Stop::new().context("signals cannot be caught")?;
    let name = feed.feed_name.as_deref().context(
        "the feed has no name: expected --name, or LAUREL_FEED_NAME, as in the address feed:NAME of a webhook",
    )?;
    let address = format!("feed:{name}");
    ensure!(
        feed_name(&address).is_some(),
        "invalid LAUREL_FEED_NAME {name:?}: expected 1 to 64 small letters, digits, hyphens and underscores"
    );
    let opening = Opening::new(&feed, &sql.cleartext)?;
    let place = opening.place().to_owned();
    let source = Source::open(&sql).await.context("the database cannot be opened")?;
    let metrics = Arc::new(Metrics::new());
    let broker = Broker::new(name.to_owned(), opening, metrics.clone());
    broker.connect().await?;
    if let Some(address) = feed.feed_operations_listen {
        operations::listen(address, metrics.clone()).await?;
    }
    tracing::info!("events of {address} go to {place}");
    let mut deliveries = Deliveries::new(source.clone(), broker.clone(), stop.receiver());
    loop {
        look(&source, &mut deliveries, &metrics, &address).await;
        tokio::select! {
            () = sleep(LOOK_INTERVAL) => {}
            () = stop.said() => break,
        }
    }
    deliveries.end().await;
    broker.close().await;
    println!("{}", metrics.summary());
    Ok(())
}

/// Looks for webhooks of the feed, and for what waits.
async fn look(
    source: &Source,
    deliveries: &mut Deliveries<Broker>,
    metrics: &Metrics,
    address: &str,
) {
    let looked = async {
        let mut rows = deliveries.look().await?;
        rows.retain(|row| row.url == address);
        let mut all = Waiting::default();
        for row in &rows {
            let waiting = source.waiting(&row.id).await?;
            all.commits += waiting.commits;
            all.events += waiting.events;
        }
        Ok::<_, Error>((rows, all))
    };
    match looked.await {
        Ok((rows, waiting)) => {
            metrics.waits(waiting);
            match why_idle(&rows, address) {
                Some(why) => metrics.webhook.pause(why),
                None => metrics.webhook.go_on(),
            }
        }
        Err(error) => metrics.webhook.pause(format!("SQL does not answer: {error}")),
    }
}

/// The reason why nothing is delivered to any of the feed's webhooks.
fn why_idle(rows: &[Webhook], address: &str) -> Option<String> {
    if rows.iter().any(|row| row.state == State::Active) {
        return None;
    }
    Some(match rows.first() {
        None => format!("no webhook has the address {address}: createWebhook makes one"),
        Some(row) => format!("the webhook {} is not active: resumeWebhook goes on", row.name),
    })
}

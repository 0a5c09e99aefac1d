//! `laurel checkpoint`: signed statements about the history.

use anyhow::{Context, Result};
use engine::history::checkpoint::Due;
use engine::settings::StoreArguments;
use engine::settings::stores::Missing;
use entity::history::checkpoint;

use super::{connect, open};

#[derive(Debug, clap::Args)]
pub struct CheckpointArguments {
    /// Prints every checkpoint that the database has, and signs none.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    stores: StoreArguments,
}

/// Signs the last commit of each partition, and prints the last checkpoint of each.
pub async fn run(arguments: CheckpointArguments) -> Result<()> {
    arguments.stores.log.start("warn")?;
    let db = connect(&arguments.stores, Missing::Refuse).await?;
    let deployment = open(&arguments.stores, db).await?;
    let mut statements = vec![];
    if !arguments.all {
        for partition in deployment.partitions() {
            partition.settle().await.context("the log cannot be persisted")?;
        }
        engine::history::checkpoint::make(&deployment, Due::Now)
            .await
            .context("nothing was signed")?;
    }
    for partition in deployment.partitions() {
        let rows = match arguments.all {
            true => checkpoint::after(&deployment.db, partition.no, 0).await?,
            false => checkpoint::last(&deployment.db, partition.no).await?.into_iter().collect(),
        };
        statements.extend(rows.into_iter().map(|row| row.statement));
    }
    print!("{}", statements.join("\n"));
    deployment.close().await;
    Ok(())
}

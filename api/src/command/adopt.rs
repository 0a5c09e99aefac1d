//! `laurel adopt`: a database and a Redis joined by hand, once it is shown what that loses.

use anyhow::{Context, Result};
use engine::audit::{Begun, of_command};
use engine::deployment::Deployment;
use engine::settings::stores::Missing;
use serde_json::json;

use super::{AdoptArguments, connect};

/// Shows what would be lost; with `--yes` joins the two.
///
/// # Errors
/// If a store does not answer, or another process uses the deployment.
pub async fn run(arguments: AdoptArguments) -> Result<()> {
    let AdoptArguments { yes, stores } = arguments;
    stores.log.start("warn")?;
    let db = connect(&stores, Missing::Refuse).await?;
    let opened = stores.settings.open_unchecked(db).await;
    let deployment = opened.context("the stores cannot be opened")?;
    let adopted = adopt(&deployment, yes).await;
    deployment.close().await;
    adopted
}

async fn adopt(deployment: &Deployment, yes: bool) -> Result<()> {
    println!("the database is deployment {}", deployment.identity);
    let differences = deployment.differences().await?;
    for difference in &differences {
        println!("{difference}");
    }
    let losing = differences.iter().filter(|difference| difference.loses()).count();
    println!("{losing} of {} partitions would lose something", differences.len());
    if !yes {
        println!("nothing was changed: stop all processes of Laurel, then confirm with --yes");
        return Ok(());
    }
    let act = of_command("laurel adopt", &deployment.clock);
    let act = act.after(json!({ "partitions": differences.len(), "losing": losing }));
    let begun = Begun::new(&deployment.db, act).await?;
    let adopted = deployment.adopt_redis().await;
    begun.finish(&adopted).await;
    adopted.context("Redis is not adopted whole; run it again")?;
    println!("Redis is adopted: all partitions are level with the database");
    Ok(())
}

//! Counts of the commands that Redis ran.

use std::collections::BTreeMap;

use crate::deployment::Deployment;

/// How often each command ran since the counts were reset.
pub async fn counts(deployment: &Deployment) -> BTreeMap<String, usize> {
    let info: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(&mut deployment.redis().await)
        .await
        .unwrap();
    let of_line = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split_once(',')?.0.parse().ok()?))
    };
    info.lines().filter_map(of_line).collect()
}

/// Resets the counts.
pub async fn reset_counts(deployment: &Deployment) {
    redis::cmd("CONFIG")
        .arg("RESETSTAT")
        .query_async::<()>(&mut deployment.redis().await)
        .await
        .unwrap();
}

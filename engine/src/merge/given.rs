//! The rows of SQL about a source beside scores, given to the target.

use entity::board::entrant;
use entity::error::Result;
use entity::member;
use entity::member::merge::{self, Step};
use entity::member::{erasure, friend_request, friendship, report, visibility};
use entity::sql::begin;
use entity::webhook::outbox::{self, Notice};
use serde_json::json;

use crate::deployment::Deployment;

/// Decides a merge. A target that is no member yet takes over the source's name, region, other
/// attributes, picture and visibility, unless it is anonymous.
pub(super) async fn decide(deployment: &Deployment, row: &merge::Model) -> Result<()> {
    let transaction = begin(&deployment.db).await?;
    let is_anonymous = erasure::is_anonymous(&transaction, &row.source, &row.target).await?;
    if merge::advance(&transaction, row, Step::Decided).await? && !is_anonymous {
        let source = member::find(&transaction, &row.source).await?;
        let target = member::find(&transaction, &row.target).await?;
        if let (Some(source), None) = (source, target) {
            let change = member::Change {
                key: row.target.clone(),
                attributes: Some(source.other_attributes()),
                name: Some(source.name),
                region: Some(source.region),
                avatar_url: Some(source.avatar_url),
                visibility: None,
            };
            member::write(&transaction, change, deployment.clock.now_ms()).await?;
            visibility::copy(&transaction, &row.source, &row.target).await?;
        }
    }
    Ok(transaction.commit().await?)
}

/// Gives the target what SQL has of the source beside scores, and ends the step of the copies. An
/// anonymous one gets its places on boards alone.
pub(super) async fn give(deployment: &Deployment, row: &merge::Model) -> Result<()> {
    let transaction = begin(&deployment.db).await?;
    let is_anonymous = erasure::is_anonymous(&transaction, &row.source, &row.target).await?;
    if merge::advance(&transaction, row, Step::Merged).await? {
        let now_ms = deployment.clock.now_ms();
        entrant::give(&transaction, &row.source, &row.target).await?;
        if is_anonymous {
            return Ok(transaction.commit().await?);
        }
        friendship::give(&transaction, &row.source, &row.target, now_ms).await?;
        friend_request::give(&transaction, &row.source, &row.target, now_ms).await?;
        report::give(&transaction, &row.source, &row.target).await?;
        let more = json!({ "into": row.target });
        let told = Notice::of_member(&row.source, "MERGED", more, now_ms);
        outbox::tell(&transaction, &[told]).await?;
    }
    Ok(transaction.commit().await?)
}

//! The record of a merge, and who may take part in one.

use entity::deployment::clock::sql_now_ms;
use entity::error::Result;
use entity::member;
use entity::member::erasure;
use entity::member::merge;
use ranking::id::MemberId;

use super::{refusal, take_back, taken_back};
use crate::ban::check_unbanned;
use crate::deployment::Deployment;
use crate::erasure::check_not_erasing;

/// The purpose of a merge.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// The target is to have all that the source has.
    Merge,
    /// The source is being erased, and the target is the random key that keeps its scores.
    Erasure,
}

impl Purpose {
    /// Checks that the members, source and target, may take part in a new merge.
    async fn check(self, deployment: &Deployment, both: [&str; 2]) -> Result<()> {
        match self {
            Self::Merge => check_not_erasing(deployment, &both).await?,
            Self::Erasure if erasure::is_anonymous(&deployment.db, both[0], both[1]).await? => {}
            Self::Erasure => return Err(taken_back()),
        }
        check_unbanned(deployment, both).await
    }
}

/// Records a merge. Returns `None` if there is no source.
pub(super) async fn start(
    deployment: &Deployment,
    source: &MemberId,
    target: &MemberId,
    purpose: Purpose,
) -> Result<Option<merge::Model>> {
    let db = &deployment.db;
    let other = async || match merge::of(db, target.as_str()).await? {
        None => merge::other(db, source.as_str(), target.as_str()).await,
        of_target => Ok(of_target),
    };
    if let Some(other) = other().await? {
        return Err(refusal(&other).into());
    }
    let both = [source.as_str(), target.as_str()];
    purpose.check(deployment, both).await?;
    let is_member =
        async || Ok::<_, entity::Error>(member::find(db, source.as_str()).await?.is_some());
    if !is_member().await? {
        // Its first score may be on its way.
        for partition in deployment.partitions() {
            partition.settle().await?;
        }
        if !is_member().await? {
            return Ok(None);
        }
    }
    merge::insert(db, source.as_str(), target.as_str(), sql_now_ms(db).await?).await?;
    let row = merge::of(db, source.as_str()).await?;
    let row = row.filter(|row| row.target == target.as_str()).ok_or_else(taken_back)?;
    // Another merge of one of them may have been recorded at the same time.
    if let Some(other) = other().await? {
        take_back(deployment, &row).await?;
        return Err(refusal(&other).into());
    }
    // So may a ban, or an erasure.
    if let Err(error) = purpose.check(deployment, both).await {
        take_back(deployment, &row).await?;
        return Err(error);
    }
    Ok(Some(row))
}

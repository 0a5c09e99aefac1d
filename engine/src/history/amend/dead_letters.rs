//! Voids of the events that SQL refused.

use std::collections::HashSet;

use tokio::time::{Duration, Instant};

use super::{By, Plan, Voids, amend_one};
use crate::deployment::Deployment;
use entity::board;
use entity::error::Result;
use entity::history::dead_letter;

/// The time limit for the void of an event that SQL refused; the next round tries again.
const VOID_TIMEOUT: Duration = Duration::from_secs(5);

/// Voids the events that SQL refused, so that they no longer count. Their clients were told of the
/// refusal. A partition that takes no commit is tried once, and holds up no other.
pub async fn void_dead_letters(deployment: &Deployment) -> Result<()> {
    let mut waiting = HashSet::new();
    for letter in dead_letter::pending(&deployment.db, None).await? {
        if waiting.contains(&letter.partition) {
            continue;
        }
        if let Err(error) = void_dead_letter(deployment, &letter).await {
            if error.is_transient() {
                waiting.insert(letter.partition);
            }
            tracing::debug!(partition = letter.partition, seq = letter.seq, %error, "a dead letter cannot be voided yet");
        }
    }
    Ok(())
}

async fn void_dead_letter(deployment: &Deployment, letter: &dead_letter::Model) -> Result<()> {
    let (place, event) = letter.event()?;
    let boards = board::some(&deployment.db, [event.board].into()).await?;
    if let Some(board) = boards.get(&event.board) {
        let deadline = Instant::now() + VOID_TIMEOUT;
        let no = deployment.store.partitions().of_member(board, &event.member);
        let partition = deployment.partition(no);
        let targets = [(event.member, place)];
        let plan = Plan::Voids(Voids::of_one(&targets));
        amend_one((partition, board), plan, By::Upkeep, deadline).await?;
    }
    Ok(())
}

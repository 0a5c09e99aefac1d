//! Boards at work in this process, without a server: scores go straight to their partition.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::deployment::Deployment as Stores;
use engine::partition::submit::Prepared;
use entity::board;
use ranking::board::rules::{Rules, RulesInput};
use ranking::board::{Board, TieBreak};
use ranking::id::{EventId, MemberId, PartitionNo};
use ranking::submission::effect::Report;
use ranking::submission::{Submission, Verdict};
use tokio::time::Instant;

/// Creates a board of sums from 0 to 1,000,000 with these windows.
pub async fn summing_board(stores: &Stores, slug: &str, windows: &[&str]) -> Board {
    let rules = Rules::new(RulesInput {
        tie_break: TieBreak::Member,
        max: 1_000_000,
        windows: windows.iter().map(|name| name.parse().unwrap()).collect(),
        ..RulesInput::default()
    })
    .unwrap();
    let mut row = board::of_rules(slug, slug, &rules, "UTC", 0);
    row.windows = board::windows_text(&board::first_windows(&rules, &BTreeMap::new()));
    let row = board::insert(&stores.db, row).await.unwrap().unwrap();
    row.to_ranking().unwrap()
}

/// A member's score of 1, earned when it is accepted.
pub fn point(board: &Board, member: &str, event_id: Option<&str>) -> Submission {
    Submission {
        report: Report::Nothing,
        board: board.clone(),
        member: MemberId::new(member).unwrap(),
        score: 1,
        at_ms: None,
        event_id: event_id.map(|id| EventId::new(id).unwrap()),
        segments: vec![],
        metadata: None,
        provenance: None,
    }
}

/// Submits a batch to the only partition, at an instant of this process' clock.
pub async fn submit_at(
    stores: &Stores,
    submissions: Vec<Submission>,
    now_ms: i64,
) -> entity::error::Result<Vec<Verdict>> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let partition = stores.partition(PartitionNo(0));
    let submitted = partition.submit(Prepared::new(submissions, now_ms), None, deadline).await?;
    Ok(submitted.verdicts)
}

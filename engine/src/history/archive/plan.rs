//! Plans an archive: events may leave SQL if no fold will need them again without the archive's
//! files.

use ranking::id::BoardNo;
use ranking::submission::Wanted;
use ranking::window::Window;
use ranking::window::seal::NEVER_MS;
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QuerySelect};

use super::{Plan, Span};
use crate::deployment::Deployment;
use crate::partition::Partition;
use entity::board;
use entity::error::Result;
use entity::history::{commit, dead_letter, score_event};
use entity::member::ban::removal;

/// The events of a board, accepted before an instant, that can be archived; or the reason why there
/// are none.
///
/// Events that may have to be folded again stay: those of an unsealed period, a decaying window or
/// attempts in all time, those whose ids are still remembered, and those beside which scores may
/// still come late.
pub async fn plan(
    deployment: &Deployment,
    row: &board::Model,
    before_ms: i64,
) -> Result<std::result::Result<Plan, String>> {
    let board = row.to_ranking()?;
    if row.reshard.is_some() {
        return Ok(Err(
            "it is moving to another number of shards; archive it afterwards".to_owned()
        ));
    }
    if board.has_moved() {
        return Ok(Err(
            "it once had another number of shards; such boards cannot be archived".to_owned()
        ));
    }
    if let Some(member) = removal::any_of_board(&deployment.db, row.no).await? {
        return Ok(Err(format!(
            "member {} is banned from it, and a lift needs its events; archive the board once no member is",
            ranking::shown(&member)
        )));
    }
    let partitions = deployment.partitions_of(&board);
    let mut now_ms = deployment.clock.now_ms();
    for partition in &partitions {
        partition.settle().await?;
        // Event ids are kept by the clock of the partition. That of this process may be ahead.
        now_ms = now_ms.min(partition.snapshot(&Wanted::default()).await?.clock_ms);
    }
    let mut before_ms = before_ms.min(now_ms - deployment.dedup.kept_ms());
    if let Some(lateness_ms) = row.lateness_max_ms {
        before_ms = before_ms.min(now_ms - lateness_ms);
    }
    for window in row.window_rows()? {
        let rule: Window = window.name.parse()?;
        if !rule.has_periods() {
            return Ok(Err(counts_for_good(rule)));
        }
        let sealed = window.sealed();
        let is_still = window.is_settled()
            && sealed.sealing_before_ms == sealed.sealed_before_ms
            && window.dropped_before_ms.unwrap_or(NEVER_MS) == sealed.sealed_before_ms;
        if !is_still {
            return Ok(Err(format!(
                "its window {rule} is being changed or sealed; archive it later"
            )));
        }
        if sealed.sealed_before_ms == NEVER_MS {
            return Ok(Err(format!(
                "its window {rule} has no sealed periods; let it retain fewer, and archive once they are sealed"
            )));
        }
        let open = rule.period_at(sealed.sealed_before_ms, &board.rules.calendar)?;
        // No event counts in a gap, and no season is added that begins before archived events end.
        let needed_ms = if open.is_gap() { open.end_ms } else { Some(open.start_ms) };
        before_ms = before_ms.min(needed_ms.unwrap_or(i64::MAX));
    }
    let mut spans = vec![];
    for partition in partitions {
        spans.extend(span(partition, board.no, before_ms).await?);
    }
    if spans.is_empty() {
        return Ok(Err(
            "it has no more events that old; events accepted within the dedup window (LAUREL_DEDUP_HOURS) or its lateness limit stay"
                .to_owned(),
        ));
    }
    Ok(Ok(Plan { row: row.clone(), before_ms, spans }))
}

/// The reason why events stay, given a window in which each of them counts for good.
fn counts_for_good(window: Window) -> String {
    match window.half_life() {
        Some(_) => format!(
            "its window {window} counts every event for good; boards with decay windows cannot be archived"
        ),
        None => "it limits the attempts of all time, which every event counts in; boards with attemptsMax in all cannot be archived".to_owned(),
    }
}

/// The events of a partition, from the archive mark on, that were all accepted and earned before an
/// instant; it ends before the first event that was not.
async fn span(partition: Partition<'_>, board: BoardNo, before_ms: i64) -> Result<Option<Span>> {
    let db = &partition.db;
    let mark = partition.archive_mark(board).await?;
    let cursor = partition.cursor().await?;
    let mut end_seq = cursor.map_or(0, |cursor| cursor.seq) + 1;
    use commit::Column as C;
    let first_later: Option<Option<i64>> = commit::Entity::find()
        .select_only()
        .column_as(C::Seq.min(), "seq")
        .filter(C::Partition.eq(mark.partition))
        .filter(
            // A process' clock may be behind that of Redis, by which event ids are kept.
            Condition::any().add(C::AcceptedAtMs.gte(before_ms)).add(C::ClockMs.gte(before_ms)),
        )
        .into_tuple()
        .one(db)
        .await?;
    end_seq = end_seq.min(first_later.flatten().unwrap_or(end_seq));
    for letter in dead_letter::pending(db, Some(partition.no)).await? {
        end_seq = end_seq.min(letter.seq);
    }
    use score_event::Column as E;
    let of_span = |end_seq: i64| {
        Condition::all()
            .add(E::Partition.eq(mark.partition))
            .add(E::Seq.gt(mark.archived_seq))
            .add(E::Seq.lt(end_seq))
            .add(E::BoardNo.eq(board.0))
    };
    let first_earned_later: Option<Option<i64>> = score_event::Entity::find()
        .select_only()
        .column_as(E::Seq.min(), "seq")
        .filter(of_span(end_seq).add(E::AtMs.gte(before_ms)))
        .into_tuple()
        .one(db)
        .await?;
    end_seq = end_seq.min(first_earned_later.flatten().unwrap_or(end_seq));
    let last: Option<Option<i64>> = score_event::Entity::find()
        .select_only()
        .column_as(E::Seq.max(), "seq")
        .filter(of_span(end_seq))
        .into_tuple()
        .one(db)
        .await?;
    Ok(last.flatten().map(|through_seq| Span {
        partition: partition.no,
        after_seq: mark.archived_seq,
        through_seq,
    }))
}

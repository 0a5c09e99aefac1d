//! The events that the history has under event ids of a file: an import skips them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::Result;
use engine::deployment::Deployment;
use entity::history::score_event;
use futures::TryStreamExt;
use ranking::board::Board;
use ranking::id::BoardNo;
use sea_orm::sea_query::ExprTrait;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::MEMBERS_MAX;
use super::rows::Row;
use crate::frame::history::{archived_with, keys, marks};

/// A board, a member and an event id.
pub(crate) type Id = (BoardNo, String, String);

/// The score, the time and the metadata of an event.
pub(crate) type Content = (i64, i64, Option<String>);

/// Members and event ids of one board.
type Named<'a> = BTreeSet<(&'a str, &'a str)>;

/// The contents, by event id, of the events that the history has under ids of rows. Voided
/// events are left out, since their ids may be used again.
pub(crate) async fn known_events(
    deployment: &Deployment,
    rows: &[Row],
) -> Result<HashMap<Id, Content>> {
    let mut boards: BTreeMap<BoardNo, (&Board, Named<'_>)> = BTreeMap::new();
    for Row { submission, .. } in rows {
        let of_board = boards.entry(submission.board.no);
        let (_, named) = of_board.or_insert_with(|| (&submission.board, Named::new()));
        if let Some(id) = &submission.event_id {
            named.insert((submission.member.as_str(), id.as_str()));
        }
    }
    let mut known = HashMap::new();
    for (no, (board, named)) in boards {
        let mut events = in_sql(deployment, no, &named).await?;
        // The files are read after SQL, so an event that an archive moves between the two reads is
        // not missed.
        events.extend(archived(deployment, board, &named).await?);
        let voided: HashSet<_> = events.iter().filter_map(|event| event.voids()).collect();
        for event in events {
            let place = event.place()?;
            if let (Some(id), Some(score), Some(at_ms)) = (event.event_id, event.score, event.at_ms)
                && !voided.contains(&place)
            {
                known.insert((no, event.member, id), (score, at_ms, event.metadata));
            }
        }
    }
    Ok(known)
}

/// The events in SQL that are named, and all voids of their members.
async fn in_sql(
    deployment: &Deployment,
    no: BoardNo,
    named: &Named<'_>,
) -> Result<Vec<score_event::Model>> {
    use score_event::Column::{BoardNo as No, EventId, Member, VoidSeq};
    let mut members: Vec<&str> = named.iter().map(|&(member, _)| member).collect();
    members.dedup();
    let mut events = vec![];
    for chunk in members.chunks(MEMBERS_MAX) {
        let mut rows = score_event::Entity::find()
            .filter(No.eq(no.0))
            .filter(Member.is_in(chunk.iter().copied()))
            .filter(EventId.is_not_null().or(VoidSeq.is_not_null()))
            .stream(&deployment.db)
            .await?;
        while let Some(row) = rows.try_next().await? {
            let id = row.event_id.as_deref().unwrap_or_default();
            if row.voids().is_some() || named.contains(&(row.member.as_str(), id)) {
                events.push(row);
            }
        }
    }
    Ok(events)
}

/// The archived events that are named, and all archived voids.
async fn archived(
    deployment: &Deployment,
    board: &Board,
    named: &Named<'_>,
) -> Result<Vec<score_event::Model>> {
    let marks = marks(deployment, board).await?;
    if marks.values().all(|mark| mark.archived_seq == 0) {
        return Ok(vec![]);
    }
    let texts = |&(member, id): &(&str, &str)| (member.to_owned(), id.to_owned());
    let (members, ids) = named.iter().map(texts).unzip();
    let named = keys(vec![("member", members), ("event_id", ids)])?;
    archived_with(deployment, board, &marks, &named).await
}

//! Totals of a span's events in "all", by member, on top of what is archived already. They are what
//! SQL keeps of archived events.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Result;
use engine::deployment::Deployment;
use engine::history::archive::{self, Span};
use entity::archive::{archive_mark, archived_entry, archived_metadata};
use entity::history::score_event;
use ranking::board::Board;
use ranking::fold::replay::Replay;
use ranking::id::MemberId;
use ranking::standings_id::StandingsId;
use ranking::window::Window;
use sea_orm::IntoActiveModel;

/// Members of one SELECT: SQLite takes 32,766 parameters.
const MEMBERS_MAX: usize = 1000;

/// Rows that one transaction stages.
const ROWS_MAX: usize = 5000;

/// The members that have events in a span, with their states. Memory grows with the members.
pub(crate) struct SpanTotals<'a> {
    board: &'a Board,
    span: &'a Span,
    mark: archive_mark::Model,
    replay: Replay,
    /// By member: the number of archived events, and the segments that may hold a state.
    members: HashMap<String, (i64, HashSet<String>)>,
}

impl<'a> SpanTotals<'a> {
    /// Begins a span with no events.
    pub(crate) async fn begin(
        deployment: &Deployment,
        board: &'a Board,
        span: &'a Span,
    ) -> Result<Self> {
        // From `close` on, no client can void an event of the span.
        let voided = score_event::voided(&deployment.db, span.partition, i64::MAX as u64).await?;
        Ok(Self {
            board,
            span,
            mark: archive_mark::of(&deployment.db, board.no, span.partition).await?,
            replay: Replay::without(voided, 0).only([Window::All]),
            members: HashMap::new(),
        })
    }

    /// Adds events, in their order.
    pub(crate) async fn take(
        &mut self,
        deployment: &Deployment,
        rows: &[score_event::Model],
    ) -> Result<()> {
        let new: HashSet<&str> = rows
            .iter()
            .map(|row| row.member.as_str())
            .filter(|&member| !self.members.contains_key(member))
            .collect();
        let new: Vec<&str> = new.into_iter().collect();
        for members in new.chunks(MEMBERS_MAX) {
            let known = members.iter().copied();
            let known = archived_entry::of_members(&deployment.db, &self.mark, known).await?;
            self.members
                .extend(members.iter().map(|&member| (member.to_owned(), Default::default())));
            for ((member, segment), row) in known {
                if let Some(state) = row.state() {
                    let id = MemberId::new(&member)?;
                    self.replay.begin_with(self.board, &id, &segment, state);
                }
                let (events, segments) = self.members.entry(member).or_default();
                *events += row.events;
                segments.insert(segment);
            }
        }
        if self.board.has_metadata {
            let kept = rows.iter().filter_map(archived_metadata::Model::of_event);
            archive::stage_metadata(deployment, kept.collect()).await?;
        }
        for row in rows {
            let event = row.to_ranking()?;
            let (events, segments) = self.members.entry(row.member.clone()).or_default();
            *events += 1;
            for segment in &event.segments {
                if !segments.contains(segment) {
                    segments.insert(segment.clone());
                }
            }
            self.replay.apply(self.board, row.place()?, &event)?;
        }
        Ok(())
    }

    /// Stages the totals in `archived_entry`.
    pub(crate) async fn stage(self, deployment: &Deployment) -> Result<()> {
        let mut rows = Vec::with_capacity(ROWS_MAX);
        // In the order of the primary key.
        let members: BTreeMap<&String, &(i64, HashSet<String>)> = self.members.iter().collect();
        for (member, (events, segments)) in members {
            let id = MemberId::new(member)?;
            let everyone = String::new();
            let others = segments.iter().filter(|segment| !segment.is_empty());
            for segment in others.chain([&everyone]) {
                let standings = StandingsId::all_time(self.board, segment.clone());
                let state = self.replay.state_of(&standings, &id);
                let row = archived_entry::Model {
                    board_no: self.board.no.0,
                    member: member.clone(),
                    segment: segment.clone(),
                    through_seq: self.span.through_seq,
                    partition: self.span.partition.into(),
                    score: state.map(|state| state.score),
                    tick: state.map(|state| state.tick),
                    events: if segment.is_empty() { *events } else { 0 },
                };
                rows.push(row.into_active_model());
            }
            if rows.len() >= ROWS_MAX {
                archive::stage(deployment, std::mem::take(&mut rows)).await?;
            }
        }
        Ok(archive::stage(deployment, rows).await?)
    }
}

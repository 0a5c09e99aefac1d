//! The segments that scores count in: by what members are at that moment.

use std::collections::HashMap;

use entity::member::{Column, Entity};
use ranking::id::MemberId;
use ranking::submission::{REGION, segment_of};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};

use crate::app::App;
use crate::cache::boards::KnownBoard;
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::submission::ScoreInput;

/// The segments of the members of one submission.
pub(crate) enum Segments {
    /// The board has none.
    None,
    /// Members' regions.
    ByRegion(HashMap<String, Option<String>>),
}

impl Segments {
    /// Looks up what is needed of the members: one SELECT where the board has segments. While SQL is away, what it said last.
    pub(crate) async fn of(app: &App, board: &KnownBoard, scores: &[ScoreInput]) -> Self {
        if board.segment_by.is_empty() {
            return Self::None;
        }
        // A key that can be nobody's is refused later: not every database takes it as text.
        let members = || {
            let keys = scores.iter().map(|score| score.member.as_str());
            keys.filter(|key| MemberId::new(key).is_ok())
        };
        let rows: Result<Vec<(String, Option<String>)>, _> = Entity::find()
            .select_only()
            .columns([Column::Key, Column::Region])
            .filter(Column::Key.is_in(members()))
            .into_tuple()
            .all(&app.deployment.db)
            .await;
        let regions = match rows {
            Ok(rows) => {
                let unknown = members().map(|member| (member.to_owned(), None));
                let regions: HashMap<_, _> = unknown.chain(rows).collect();
                for (member, region) in &regions {
                    app.last_regions.insert(member.clone(), region.clone());
                }
                regions
            }
            Err(error) => {
                tracing::warn!(%error, "members' regions are taken from memory");
                let last = |member: &str| {
                    let region = app.last_regions.get(member)?;
                    Some((member.to_owned(), region))
                };
                members().filter_map(last).collect()
            }
        };
        Self::ByRegion(regions)
    }

    /// The segments of a member.
    ///
    /// # Errors
    /// `UNAVAILABLE` where SQL is away and it is not known what the member is.
    pub(crate) fn of_member(&self, member: &str) -> Result<Vec<String>> {
        let Self::ByRegion(regions) = self else {
            return Ok(vec![]);
        };
        let region = regions.get(member).ok_or_else(|| {
            Error::new(
                ErrorCode::Unavailable,
                "the database does not answer, and in which region this member is, is not known; try again later",
            )
        })?;
        let segment = region.iter().map(|region| segment_of(REGION, region));
        Ok(segment.collect())
    }
}

//! The segments that submitted scores count in, by the attributes of their members at that moment.

use std::collections::HashMap;

use entity::member;
use ranking::id::MemberId;
use ranking::submission::{REGION, segment_of};

use super::ScoreInput;
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode, Result};

/// The segments of the members of one submission.
pub(super) enum Segments {
    /// The board has no segments.
    None,
    /// The regions of the members, by key.
    ByRegion(HashMap<String, Option<String>>),
}

impl Segments {
    /// Looks up the attributes of the members, with one SELECT if the board has segments. If SQL
    /// does not answer in time, takes the last known ones.
    pub(super) async fn of(app: &App, board: &CachedBoard, scores: &[ScoreInput]) -> Self {
        if board.segment_by.is_empty() {
            return Self::None;
        }
        // An invalid key is refused later. It must not get into the query, as not every database
        // accepts it as text.
        let keys = scores.iter().map(|score| score.member.as_str());
        let members: Vec<&str> = keys.filter(|key| MemberId::new(key).is_ok()).collect();
        let db = &app.deployment.lookups;
        let look_up = async { Ok(member::regions(db, &members).await?) };
        let regions = match app.health.sql.ask(look_up).await {
            Ok(rows) => {
                let unknown = members.iter().map(|member| ((*member).to_owned(), None));
                let regions: HashMap<_, _> = unknown.chain(rows).collect();
                for (member, region) in &regions {
                    app.last_regions.insert(member.clone(), region.clone());
                }
                regions
            }
            Err(_) => {
                let last = |member: &&str| {
                    let region = app.last_regions.get(*member)?;
                    Some(((*member).to_owned(), region))
                };
                members.iter().filter_map(last).collect()
            }
        };
        Self::ByRegion(regions)
    }

    /// The segments of a member.
    ///
    /// # Errors
    /// `UNAVAILABLE` if SQL does not answer and the member's region is not known.
    pub(super) fn of_member(&self, member: &str) -> Result<Vec<String>> {
        let Self::ByRegion(regions) = self else {
            return Ok(vec![]);
        };
        let region = regions.get(member).ok_or_else(|| {
            Error::new(
                ErrorCode::Unavailable,
                "the database does not answer, so this member's region is unknown; try again later",
            )
        })?;
        let segment = region.iter().map(|region| segment_of(REGION, region));
        Ok(segment.collect())
    }
}

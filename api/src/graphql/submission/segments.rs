//! The segments that submitted scores count in, by their own attributes and those that their
//! members have at that moment.

use std::collections::HashMap;
use std::sync::Arc;

use entity::member;
use ranking::attribute::{Attributes, check_segmented_by, segments_of};
use ranking::id::MemberId;

use super::ScoreInput;
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode, Result};
use crate::graphql::member::input::checked_attributes;

/// The attributes of the members of one submission, by key; empty if the board has no segments.
pub(super) struct Segments(HashMap<String, Arc<Attributes>>);

impl Segments {
    /// Looks up the attributes of the members, with one SELECT if the board has segments. If SQL
    /// does not answer in time, takes the last known ones.
    pub(super) async fn of(app: &App, board: &CachedBoard, scores: &[ScoreInput]) -> Self {
        if board.segment_by.is_empty() {
            return Self(HashMap::new());
        }
        // An invalid key is refused later. It must not get into the query, as not every database
        // accepts it as text.
        let keys = scores.iter().map(|score| score.member.as_str());
        let members: Vec<&str> = keys.filter(|key| MemberId::new(key).is_ok()).collect();
        let db = &app.deployment.lookups;
        let look_up = async { Ok(member::attributes(db, &members).await?) };
        Self(match app.health.sql.ask(look_up).await {
            Ok(rows) => {
                let unknown = members.iter().map(|member| ((*member).to_owned(), Arc::default()));
                let rows = rows.into_iter().map(|(key, attributes)| (key, Arc::new(attributes)));
                let known: HashMap<_, _> = unknown.chain(rows).collect();
                for (member, attributes) in &known {
                    app.last_attributes.insert(member.clone(), attributes.clone());
                }
                known
            }
            Err(_) => {
                let last = |member: &&str| {
                    let attributes = app.last_attributes.get(*member)?;
                    Some(((*member).to_owned(), attributes))
                };
                members.iter().filter_map(last).collect()
            }
        })
    }

    /// The segments of a score.
    ///
    /// # Errors
    /// `BAD_USER_INPUT` for attributes of the score that the board has no segments by;
    /// `UNAVAILABLE` if SQL does not answer and the member's attributes are not known.
    pub(super) fn of_score(&self, board: &CachedBoard, score: &ScoreInput) -> Result<Vec<String>> {
        let segment_by = &board.segment_by;
        let at = |error: ranking::Error| Error::from(error).at("attributes");
        let given = checked_attributes(score.attributes.iter().flatten().cloned());
        let given = given.map_err(at)?;
        given.keys().try_for_each(|name| check_segmented_by(segment_by, name)).map_err(at)?;
        let of_member = self.0.get(&score.member);
        if of_member.is_none() && !segment_by.iter().all(|name| given.contains_key(name)) {
            return Err(Error::new(
                ErrorCode::Unavailable,
                "the database does not answer, so this member's attributes are unknown; try again later",
            ));
        }
        Ok(segments_of(segment_by, |name| given.get(name).or_else(|| of_member?.get(name))))
    }
}

//! Scores that are quarantined: SQL keeps them before the answer says so.

use std::collections::BTreeSet;
use std::sync::Arc;

use entity::member::quarantine::{Kept, QUARANTINED_MAX, Suspect, keep};
use ranking::submission::{Submission, Verdict};

use super::segments::Segments;
use super::{Outcome, Sending, read};
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::request::RequestState;

/// Keeps the scores that are suspicious, in one transaction. Those that cannot be kept are refused.
/// Returns the indices of the scores of members that are banned in silence.
pub(super) async fn keep_all(
    app: &App,
    state: &RequestState,
    board: &Arc<CachedBoard>,
    sending: &Sending<'_>,
    outcomes: &mut [(usize, Outcome)],
) -> BTreeSet<usize> {
    let is_suspect = |outcome: &Outcome| matches!(outcome, Ok(Verdict::Quarantined { .. }));
    if !outcomes.iter().any(|(_, outcome)| is_suspect(outcome)) {
        return BTreeSet::new();
    }
    let scores = &sending.input.scores;
    let segments = Segments::of(app, board, scores).await;
    let provenances = sending.sources.as_ref().map(|of| of.provenances(|_| false));
    let (mut places, mut suspects) = (vec![], vec![]);
    for (place, (index, outcome)) in outcomes.iter_mut().enumerate() {
        let Ok(Verdict::Quarantined { suspicion, message }) = outcome else { continue };
        match read(board, &scores[*index], &segments, state.now_ms) {
            Ok(submission) => {
                let (suspicion, message) = (*suspicion, message.clone());
                let provenance = provenances.as_ref().and_then(|of| of[*index].clone());
                let submission = Submission { provenance, ..submission };
                places.push(place);
                suspects.push(Suspect { submission, suspicion, message });
            }
            Err(error) => *outcome = Err(error),
        }
    }
    let (db, no) = (&app.deployment.db, board.row.no);
    let kept = async { Ok(keep(db, no, &suspects, state.now_ms).await?) };
    // Others may keep the connections busy, which does not tell that SQL is away.
    let kept = app.health.sql.read(kept).await;
    let mut silent = BTreeSet::new();
    for (at, place) in places.into_iter().enumerate() {
        let (index, outcome) = &mut outcomes[place];
        let refused = match kept.as_ref().map(|kept| kept[at]) {
            Ok(Kept::Done) => continue,
            Ok(Kept::InSilence) => {
                silent.insert(*index);
                continue;
            }
            Ok(Kept::Full) => Error::limit_exceeded(format!(
                "the member has {QUARANTINED_MAX} scores in quarantine on this board, as many as it may have"
            ))
            .at("member"),
            Ok(Kept::Conflict) => Error::new(
                ErrorCode::EventIdConflict,
                "invalid eventId: it is that of another score in quarantine: expected the same content for the same id",
            ),
            Ok(Kept::NotBanned) => Error::new(
                ErrorCode::Unavailable,
                "a ban of this member was lifted a moment ago; send the score again",
            ),
            Err(_) => Error::new(
                ErrorCode::Unavailable,
                "the score is suspicious, and the database does not answer to keep it; try again later",
            ),
        };
        *outcome = Err(refused);
    }
    silent
}

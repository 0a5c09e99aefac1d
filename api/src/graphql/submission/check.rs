//! The checks of a request before any score of it is read.

use ranking::commit::COMMIT_EVENTS_MAX;

use super::ScoreInput;
use crate::access::Principal;
use crate::cache::boards::CachedBoard;
use crate::error::Error;

/// Checks the number of scores of a request.
pub(super) fn check_count(scores: &[ScoreInput]) -> crate::error::Result<()> {
    if scores.is_empty() {
        return Err(Error::bad_input(format!(
            "scores is empty: expected 1 to {COMMIT_EVENTS_MAX} scores"
        ))
        .at("input.scores"));
    }
    if scores.len() > COMMIT_EVENTS_MAX {
        return Err(Error::limit_exceeded(format!(
            "{} scores sent at once: expected at most {COMMIT_EVENTS_MAX}",
            scores.len()
        ))
        .at("input.scores"));
    }
    Ok(())
}

/// Checks that a member's own token submits scores of that member only, and that the board allows
/// it.
pub(super) fn check_member_token(
    principal: &Principal,
    board: &CachedBoard,
    scores: &[ScoreInput],
) -> crate::error::Result<()> {
    let Some(member) = &principal.member else {
        return Ok(());
    };
    if !board.row.self_submit {
        return Err(Error::forbidden(format!(
            "board {} does not accept scores from members themselves",
            board.row.slug
        )));
    }
    if scores.iter().any(|score| score.member != *member) {
        return Err(Error::forbidden(format!(
            "this access token may submit scores of {member} only"
        )));
    }
    if scores.iter().any(|score| score.attributes.as_ref().is_some_and(|given| !given.is_empty())) {
        return Err(Error::forbidden(
            "a member's own access token sends no attributes: expected none, as those of upsertMembers count",
        ));
    }
    Ok(())
}

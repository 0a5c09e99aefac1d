//! The submissions of a member's own token.

use super::ScoreInput;
use crate::access::Principal;
use crate::cache::boards::CachedBoard;
use crate::error::Error;

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

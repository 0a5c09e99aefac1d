//! Scores of members of whom the partition does not know that they joined.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use engine::board::entrants;
use ranking::id::MemberId;
use ranking::submission::Verdict;

use super::{Outcome, Sending, submit_again};
use crate::app::App;
use crate::cache::boards::CachedBoard;
use crate::error::{Error, ErrorCode};
use crate::graphql::request::RequestState;

/// Asks SQL once about the members that are said not to have joined. Submits the scores of those
/// who have, and leaves the others refused. If SQL does not answer, it is not known who has.
pub(super) async fn ask_sql(
    app: &App,
    state: &RequestState,
    board: &Arc<CachedBoard>,
    sending: &mut Sending<'_>,
    outcomes: &mut Vec<(usize, Outcome)>,
) {
    let is_refused =
        |outcome: &Outcome| matches!(outcome, Ok(Verdict::Rejected(ranking::Error::NotJoined(_))));
    let member = |index: usize| MemberId::new(&sending.input.scores[index].member).ok();
    let refused = outcomes.iter().filter(|(_, outcome)| is_refused(outcome));
    let members: BTreeSet<MemberId> = refused.filter_map(|(index, _)| member(*index)).collect();
    if members.is_empty() {
        return;
    }
    let members: Vec<MemberId> = members.into_iter().collect();
    let ask = async { Ok(entrants::ask(&app.deployment, &board.board, &members).await?) };
    let joined: HashSet<MemberId> = match app.health.sql.ask(ask).await {
        Ok(joined) => joined.into_iter().collect(),
        Err(_) => {
            let message =
                "the database does not answer, so it is unknown who joined; try again later";
            for (_, outcome) in outcomes.iter_mut().filter(|(_, outcome)| is_refused(outcome)) {
                *outcome = Err(Error::new(ErrorCode::Unavailable, message));
            }
            return;
        }
    };
    let has_joined = |(index, outcome): &mut (usize, Outcome)| {
        is_refused(outcome) && member(*index).is_some_and(|member| joined.contains(&member))
    };
    let again: Vec<usize> = outcomes.extract_if(.., has_joined).map(|(index, _)| index).collect();
    if !again.is_empty() {
        outcomes.extend(submit_again(app, state, board, sending, again).await);
        outcomes.sort_unstable_by_key(|(index, _)| *index);
    }
}

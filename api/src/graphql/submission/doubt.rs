//! Scores of a board of which it cannot be told whether it is gone.

use ranking::submission::Verdict;

use super::Outcome;
use crate::error::{Error, ErrorCode};

/// Gives scores of a board that seems to be gone the error of its look-up, if SQL does not answer:
/// the board may only have changed.
pub(super) fn doubt_gone(outcomes: &mut [(usize, Outcome)], error: &Error) {
    if error.code != ErrorCode::Unavailable {
        return;
    }
    for (_, outcome) in outcomes {
        if matches!(outcome, Ok(Verdict::Rejected(ranking::Error::BoardGone))) {
            *outcome = Err(error.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_not_gone_while_sql_does_not_answer() {
        let outcomes = || -> [(usize, Outcome); 2] {
            let gone = Ok(Verdict::Rejected(ranking::Error::BoardGone));
            [(0, gone), (1, Ok(Verdict::Duplicate { seq: 7 }))]
        };
        let mut doubted = outcomes();
        doubt_gone(&mut doubted, &Error::new(ErrorCode::Unavailable, "away"));
        assert_eq!(doubted[0].1.as_ref().unwrap_err().code, ErrorCode::Unavailable);
        assert!(matches!(doubted[1].1, Ok(Verdict::Duplicate { .. })));
        let mut kept = outcomes();
        doubt_gone(&mut kept, &Error::bad_input("other"));
        assert!(matches!(kept[0].1, Ok(Verdict::Rejected(ranking::Error::BoardGone))));
    }
}

//! The answer to a request, and to each score in it.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::format::shortened;
use crate::message::Fault;

/// The answer for one score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The server has it.
    Counted(Counted),
    /// The server refuses it for good.
    Refused(Fault),
    /// It may be sent again: nothing of it was written, or that is unknown.
    Again(Fault),
}

/// The way in which the server has a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// It counts.
    Applied,
    /// It counted before.
    Duplicate,
    /// It is kept until a moderator decides.
    Quarantined,
}

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// An answer for each score.
    Results(Vec<Answer>),
    /// The request as a whole was refused.
    Failed(Fault),
    /// The answer is none of GraphQL.
    Foreign(String),
}

#[derive(Deserialize)]
struct Body {
    data: Option<Data>,
    #[serde(default)]
    errors: Vec<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    submit_scores: Option<Payload>,
}

#[derive(Deserialize)]
struct Payload {
    results: Vec<ScoreResult>,
}

#[derive(Deserialize)]
struct ScoreResult {
    status: String,
    error: Option<ScoreError>,
}

#[derive(Deserialize)]
struct ScoreError {
    code: String,
    message: String,
}

#[derive(Deserialize)]
struct Failure {
    message: String,
    extensions: Option<Extensions>,
}

#[derive(Deserialize)]
struct Extensions {
    code: String,
}

/// Reads an answer.
pub(super) fn read_answer(status: StatusCode, body: &[u8]) -> Sent {
    let foreign = || Sent::Foreign(format!("{status} without a result of GraphQL"));
    let Ok(body) = serde_json::from_slice::<Body>(body) else {
        // A proxy in front of the server says so in its own words.
        let is_passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        return match is_passing {
            true => Sent::Failed(super::unavailable(&format!("the server answers {status}"))),
            false => foreign(),
        };
    };
    if let Some(Data { submit_scores: Some(payload) }) = body.data {
        return Sent::Results(payload.results.into_iter().map(answer).collect());
    }
    let Some(Failure { message, extensions }) = body.errors.into_iter().next() else {
        return foreign();
    };
    match extensions {
        Some(Extensions { code }) => Sent::Failed(Fault { code, reason: shortened(&message) }),
        None => foreign(),
    }
}

fn answer(result: ScoreResult) -> Answer {
    let fault = || match &result.error {
        Some(error) => Fault { code: error.code.clone(), reason: shortened(&error.message) },
        None => super::unavailable("the server gives no reason"),
    };
    match result.status.as_str() {
        "APPLIED" => Answer::Counted(Counted::Applied),
        "DUPLICATE" => Answer::Counted(Counted::Duplicate),
        "QUARANTINED" => Answer::Counted(Counted::Quarantined),
        "REJECTED" => {
            let fault = fault();
            let is_passing =
                matches!(&*fault.code, "UNAVAILABLE" | "TIMEOUT" | "RATE_LIMITED" | "INTERNAL");
            if is_passing { Answer::Again(fault) } else { Answer::Refused(fault) }
        }
        // UNKNOWN, and what a later server may say.
        _ => Answer::Again(fault()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_refused_for_good_is_a_dead_letter() {
        let read = |status: u16, body: &str| {
            read_answer(StatusCode::from_u16(status).unwrap(), body.as_bytes())
        };
        let results = |results: &str| {
            let body = format!("{{\"data\":{{\"submitScores\":{{\"results\":[{results}]}}}}}}");
            match read(200, &body) {
                Sent::Results(answers) => answers,
                other => panic!("{other:?}"),
            }
        };
        let answer = |status: &str, code: &str| {
            let error = format!("{{\"code\":\"{code}\",\"message\":\"m\"}}");
            results(&format!("{{\"status\":\"{status}\",\"error\":{error}}}")).pop().unwrap()
        };
        assert_eq!(
            results("{\"status\":\"APPLIED\",\"error\":null},{\"status\":\"DUPLICATE\"}"),
            [Answer::Counted(Counted::Applied), Answer::Counted(Counted::Duplicate)]
        );
        let quarantined = answer("QUARANTINED", "DELTA_EXCEEDED");
        assert_eq!(quarantined, Answer::Counted(Counted::Quarantined));
        for code in ["BAD_USER_INPUT", "MEMBER_BANNED", "EVENT_ID_CONFLICT", "TOO_LATE"] {
            assert!(matches!(answer("REJECTED", code), Answer::Refused(_)), "{code}");
        }
        for code in ["UNAVAILABLE", "TIMEOUT", "INTERNAL"] {
            assert!(matches!(answer("REJECTED", code), Answer::Again(_)), "{code}");
        }
        assert!(matches!(answer("UNKNOWN", "TIMEOUT"), Answer::Again(_)));
        assert!(matches!(answer("LATER", "NEW"), Answer::Again(_)));

        let failed = "{\"data\":null,\"errors\":[{\"message\":\"m\",\"extensions\":{\"code\":\"NOT_FOUND\"}}]}";
        let fault = Fault { code: "NOT_FOUND".to_owned(), reason: "m".to_owned() };
        assert_eq!(read(200, failed), Sent::Failed(fault));
        assert!(matches!(read(502, "<html>"), Sent::Failed(fault) if fault.code == "UNAVAILABLE"));
        for (status, body) in [(404, "<html>"), (200, "{}"), (301, "")] {
            assert!(matches!(read(status, body), Sent::Foreign(_)), "{status} {body}");
        }
    }
}

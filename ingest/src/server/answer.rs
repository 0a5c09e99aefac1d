//! The answer to a request, and to each score in it.
//!
//! Only an answer of a server of Laurel that names a code of scores refuses scores. Anything else
//! comes from a wrong address or a proxy, and says nothing about them.

use engine::settings::redacted::Redacted;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use serde::Deserialize;
use serde_json::Value;

use crate::format::shortened;
use crate::message::Fault;

/// The field of the mutation, in the path of its errors.
const MUTATION: &str = "submitScores";

/// The codes after which the same scores may be accepted.
const PASSING: [&str; 4] = ["UNAVAILABLE", "TIMEOUT", "RATE_LIMITED", "INTERNAL"];

/// The codes of a token that is not good, or no longer.
const OF_TOKEN: [&str; 2] = ["UNAUTHENTICATED", "EXPIRED_TOKEN"];

/// The codes by which a server refuses a request for the scores in it, for their board, or for
/// what its token may submit.
const OF_SCORES: [&str; 4] = ["BAD_USER_INPUT", "LIMIT_EXCEEDED", "NOT_FOUND", "FORBIDDEN"];

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
    /// The mutation refuses its scores, as a whole.
    Refused(Fault),
    /// The request was refused before the mutation, for the scores or for the query.
    Unread(Fault),
    /// The token is not good.
    Token(Fault),
    /// The server has no answer for the moment.
    Away(Fault),
    /// The answer is not that of a server of Laurel to such a request.
    Foreign(String),
}

#[derive(Deserialize, Default)]
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
    /// The field that failed; none if the request was not executed.
    #[serde(default)]
    path: Vec<Value>,
    extensions: Option<Extensions>,
}

#[derive(Deserialize)]
struct Extensions {
    #[serde(default)]
    code: String,
}

/// Reads an answer.
pub(super) fn read_answer(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Sent {
    let body = serde_json::from_slice::<Body>(body).unwrap_or_default();
    if let (StatusCode::OK, Some(Data { submit_scores: Some(payload) })) = (status, body.data) {
        return Sent::Results(payload.results.into_iter().map(answer).collect());
    }
    let failure = body.errors.into_iter().next();
    let told = failure.as_ref().map_or_else(String::new, |failure| failure.message.clone());
    let foreign = || Sent::Foreign(shortened(&described(status, headers, &told)));
    // A proxy in front of the server says so in its own words.
    let is_passing = status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    if is_passing {
        let reason = format!("the server answers {}", described(status, headers, &told));
        return Sent::Away(super::unavailable(&shortened(&reason)));
    }
    let Some(Failure { message, path, extensions: Some(Extensions { code }) }) = failure else {
        return foreign();
    };
    let fault = Fault { code, reason: shortened(&message) };
    let is_of_scores =
        matches!(status, StatusCode::OK | StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE);
    match &*fault.code {
        code if OF_TOKEN.contains(&code) => Sent::Token(fault),
        code if is_of_scores && PASSING.contains(&code) => Sent::Away(fault),
        code if is_of_scores && OF_SCORES.contains(&code) => {
            match path.first().is_some_and(|field| field == MUTATION) {
                true => Sent::Refused(fault),
                false => Sent::Unread(fault),
            }
        }
        _ => foreign(),
    }
}

/// An answer in words: its status, its media type, where it leads, and its message.
fn described(status: StatusCode, headers: &HeaderMap, message: &str) -> String {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let mut text = status.to_string();
    if let Some(kind) = header(CONTENT_TYPE) {
        text += &format!(" of type {kind}");
    }
    if let Some(place) = header(LOCATION) {
        text += &format!(", to {}", Redacted(place));
    }
    if !message.is_empty() {
        text += &format!(": {message}");
    }
    text
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
            let is_passing = PASSING.contains(&&*fault.code);
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
            read_answer(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
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
    }

    #[test]
    fn only_a_server_of_laurel_that_names_a_code_of_scores_refuses_them() {
        let read = |status: u16, kind: &'static str, body: &str| {
            let headers = HeaderMap::from_iter([
                (CONTENT_TYPE, kind.parse().unwrap()),
                (LOCATION, "https://u:cret@login.example/a?token=cret".parse().unwrap()),
            ]);
            read_answer(StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes())
        };
        let failed = |path: &str, code: &str| {
            format!(
                "{{\"data\":null,\"errors\":[{{\"message\":\"m\",{path}\"extensions\":{{\"code\":\"{code}\"}}}}]}}"
            )
        };
        let fault = |code: &str| Fault { code: code.to_owned(), reason: "m".to_owned() };
        let path = "\"path\":[\"submitScores\"],";
        for code in OF_SCORES {
            assert_eq!(read(200, "", &failed(path, code)), Sent::Refused(fault(code)));
            for status in [200, 400, 413] {
                assert_eq!(read(status, "", &failed("", code)), Sent::Unread(fault(code)));
            }
            // Another Host, another path, another method, and headers that a proxy adds.
            for status in [301, 401, 403, 404, 405, 421, 431] {
                let Sent::Foreign(told) = read(status, "", &failed("", code)) else {
                    panic!("{status} {code}");
                };
                assert!(told.contains(&status.to_string()) && told.ends_with(": m"), "{told}");
            }
            for status in [408, 429, 500, 502, 503] {
                assert!(matches!(read(status, "", &failed("", code)), Sent::Away(_)), "{status}");
            }
        }
        for code in PASSING {
            assert_eq!(read(200, "", &failed(path, code)), Sent::Away(fault(code)));
        }
        assert_eq!(
            read(401, "", &failed("", "EXPIRED_TOKEN")),
            Sent::Token(fault("EXPIRED_TOKEN"))
        );
        // Another server of GraphQL, and a later one of Laurel.
        for code in ["GRAPHQL_VALIDATION_FAILED", "PERSISTED_QUERY_NOT_FOUND", "NEW"] {
            assert!(matches!(read(200, "", &failed("", code)), Sent::Foreign(_)), "{code}");
        }
        for body in ["", "<html>", "{}", "[]", "{\"errors\":[{\"message\":\"m\"}]}"] {
            for status in [200, 204, 302, 400, 404, 405, 413, 421] {
                let Sent::Foreign(told) = read(status, "text/html", body) else {
                    panic!("{status} {body}");
                };
                assert!(told.contains("text/html") && !told.contains("cret"), "{told}");
                assert!(told.contains(", to https://***@login.example/a?***"), "{told}");
            }
            assert!(matches!(read(502, "text/html", body), Sent::Away(_)), "{body}");
        }
    }
}

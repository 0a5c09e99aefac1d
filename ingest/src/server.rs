//! The server: scores go in by its GraphQL API, and each has an answer.
//!
//! The API is where a score is judged: bans, quarantine, limits of fair play, attempts, entrants,
//! segments, rates and tokens hold for a queue as for any other client, by the same code.

mod answer;
mod token;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use engine::settings::redacted::Redacted;
use engine::settings::{CleartextSettings, IngestAck, IngestSettings};
use hyper::body::Bytes;
use reqwest::Response;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use url::Url;

use crate::format::Score;
use crate::message::Fault;
pub(crate) use answer::{Answer, Counted};
use answer::{Sent, read_answer};
use token::Token;

/// The mutation. Nothing is asked for that the server would have to look up.
const SUBMIT: &str = "mutation Ingest($input: SubmitScoresInput!) { submitScores(input: $input) { results { status error { code message } } } }";

/// The most scores of a request.
pub(crate) const REQUEST_SCORES_MAX: usize = 1000;

/// The most bytes of the scores of a request, unless one alone has more: half of the body that a
/// server takes by default.
pub(crate) const REQUEST_BYTES_MAX: usize = 256 << 10;

/// The longest time for a connection.
const SERVER_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time for an answer: longer than the server's own.
const SERVER_ANSWER_TIMEOUT: Duration = Duration::from_secs(40);

/// The longest answer that is read, in bytes: a thousand results with an error each.
const SERVER_ANSWER_BYTES_MAX: usize = 4 << 20;

/// The accepted form of the server's address.
const EXPECTED: &str = "expected the address of a server of Laurel, such as http://127.0.0.1:8000";

/// The server, and the right to submit to it.
pub(crate) struct Server {
    client: reqwest::Client,
    url: Url,
    token: Token,
    ack: &'static str,
    /// The source of the question whether it takes scores.
    asked_source: Option<&'static str>,
}

/// The state of the server.
pub(crate) enum Readiness {
    /// It takes scores by this token.
    Ready,
    /// It does not answer for the moment.
    Away(String),
    /// It is no server of Laurel, or none that takes such requests.
    Wrong(String),
}

impl Server {
    /// The server that the settings name; nothing is sent yet.
    ///
    /// # Errors
    /// If its address is none, if the way there is in clear text and may leave this machine, or if
    /// the file of the token cannot be read. No message shows a password.
    pub(crate) fn new(settings: &IngestSettings, cleartext: &CleartextSettings) -> Result<Self> {
        let to = settings.to.as_str();
        let invalid = |why: &str| format!("invalid LAUREL_INGEST_TO {}: {why}", Redacted(to));
        let mut url = Url::parse(to).ok().with_context(|| invalid(EXPECTED))?;
        ensure!(matches!(url.scheme(), "http" | "https"), invalid(EXPECTED));
        let host = url.host_str().unwrap_or_default();
        ensure!(
            url.scheme() == "https" || cleartext.permit(host),
            invalid(
                "the token and the scores would go in clear text: expected https://, a server on this machine, or LAUREL_ALLOW_CLEARTEXT=true on a network that no stranger can read"
            )
        );
        let token = Token::new(settings)?;
        let has_login = !url.username().is_empty() || url.password().is_some();
        ensure!(
            !has_login || token.text().is_none(),
            invalid("it has a name or a password beside the access token: expected one of them")
        );
        if url.path() == "/" {
            url.set_path("/graphql");
        }
        let client = reqwest::Client::builder()
            .connect_timeout(SERVER_CONNECT_TIMEOUT)
            .timeout(SERVER_ANSWER_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none());
        Ok(Self {
            client: client.build().context("no client of HTTP can be made")?,
            url,
            token,
            ack: match settings.ack {
                IngestAck::Durable => "DURABLE",
                IngestAck::Applied => "APPLIED",
            },
            asked_source: None,
        })
    }

    /// The server, which has to know positions: an older one would refuse each score.
    pub(crate) fn with_positions(self) -> Self {
        Self { asked_source: Some("{\"name\":\"none\"}"), ..self }
    }

    /// Asks whether the server takes scores by this token. No score is sent: the server looks at
    /// the token first, and then its mutation refuses the empty list.
    ///
    /// # Errors
    /// If it refuses the token.
    pub(crate) async fn check(&self) -> Result<Readiness> {
        Ok(match self.send("none", &[], self.asked_source).await? {
            Sent::Results(_) => Readiness::Ready,
            Sent::Refused(fault) if fault.code == "BAD_USER_INPUT" => Readiness::Ready,
            Sent::Refused(fault) if fault.code == "FORBIDDEN" => {
                bail!("the server refuses the access token: {}", fault.reason)
            }
            Sent::Refused(fault) | Sent::Unread(fault) | Sent::Token(fault) => {
                Readiness::Wrong(self.wrong(&format!("{}: {}", fault.code, fault.reason)))
            }
            Sent::Away(fault) => Readiness::Away(fault.reason),
            Sent::Foreign(told) => Readiness::Wrong(self.wrong(&told)),
        })
    }

    /// Submits scores of one board, and returns an answer for each. A request that is refused as a
    /// whole is halved until the faulty scores are alone; before one of them is refused, the server
    /// is asked whether it takes scores at all.
    ///
    /// # Errors
    /// If the server refuses the token.
    pub(crate) async fn submit(
        &self,
        board: &str,
        scores: &[&Score],
        source: Option<&str>,
    ) -> Result<Vec<Answer>> {
        let mut answers: Vec<Option<Answer>> = vec![None; scores.len()];
        let mut again = None;
        let all = 0..scores.len();
        let mut left = vec![all];
        while let Some(range) = left.pop() {
            if let Some(again) = again.as_ref().filter(|_| source.is_some()) {
                range.for_each(|index| answers[index] = Some(Answer::clone(again)));
                continue;
            }
            let answer = match self.send(board, &scores[range.clone()], source).await? {
                Sent::Results(results) if results.len() == range.len() => {
                    again = results.iter().find(|result| is_again(result)).cloned();
                    for (index, result) in range.zip(results) {
                        answers[index] = Some(result);
                    }
                    continue;
                }
                Sent::Results(_) => {
                    Answer::Again(unavailable("the server answered for another number of scores"))
                }
                Sent::Foreign(told) => Answer::Again(unavailable(&self.wrong(&told))),
                Sent::Away(fault) | Sent::Token(fault) => Answer::Again(fault),
                Sent::Refused(fault) if fault.code == "NOT_FOUND" => Answer::Refused(fault),
                Sent::Refused(_) | Sent::Unread(_) if range.len() > 1 => {
                    let middle = range.start + range.len() / 2;
                    // The first half next: the position of a later score stands for those before.
                    left.extend([middle..range.end, range.start..middle]);
                    continue;
                }
                Sent::Refused(fault) | Sent::Unread(fault) => match self.check().await? {
                    Readiness::Ready => Answer::Refused(fault),
                    Readiness::Away(why) | Readiness::Wrong(why) => {
                        Answer::Again(unavailable(&why))
                    }
                },
            };
            again = Some(answer.clone()).filter(is_again);
            range.for_each(|index| answers[index] = Some(answer.clone()));
        }
        Ok(answers.into_iter().map(|answer| answer.expect("each range was answered for")).collect())
    }

    /// Sends one request, by another token if this one is refused and its file has a new one.
    ///
    /// # Errors
    /// If the server refuses the new token too.
    async fn send(&self, board: &str, scores: &[&Score], source: Option<&str>) -> Result<Sent> {
        let scores: Vec<&str> = scores.iter().map(|score| &*score.input).collect();
        let (query, ack) = (serde_json::json!(SUBMIT), self.ack);
        let source = source.map_or_else(String::new, |source| format!("\"source\":{source},"));
        let body = format!(
            "{{\"query\":{query},\"variables\":{{\"input\":{{\"board\":{},\"ack\":\"{ack}\",{source}\"scores\":[{}]}}}}}}",
            serde_json::json!(board),
            scores.join(",")
        );
        let body = Bytes::from(body);
        loop {
            let token = self.token.text();
            match self.post(body.clone(), token.as_deref()).await {
                Sent::Token(fault) => {
                    self.token.renew(token.as_deref()).context(fault.reason)?;
                }
                sent => return Ok(sent),
            }
        }
    }

    async fn post(&self, body: Bytes, token: Option<&str>) -> Sent {
        let mut request =
            self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let answered = async {
            let response = request.body(body).send().await?;
            let (status, headers) = (response.status(), response.headers().clone());
            Ok::<_, reqwest::Error>((status, headers, read_body(response).await?))
        };
        match answered.await {
            Ok((status, headers, Some(body))) => read_answer(status, &headers, &body),
            Ok((status, ..)) => {
                Sent::Foreign(format!("{status} with more than {SERVER_ANSWER_BYTES_MAX} bytes"))
            }
            Err(error) => {
                let error = anyhow::Error::from(error.without_url());
                Sent::Away(unavailable(&format!("the server does not answer: {error:#}")))
            }
        }
    }

    /// The fault of an address, in words.
    fn wrong(&self, told: &str) -> String {
        format!("LAUREL_INGEST_TO {} answers {told}: {EXPECTED}", Redacted(self.url.as_str()))
    }
}

/// Reads the body of an answer; `None` if it is too long.
async fn read_body(mut response: Response) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = vec![];
    while let Some(part) = response.chunk().await? {
        if body.len() + part.len() > SERVER_ANSWER_BYTES_MAX {
            return Ok(None);
        }
        body.extend_from_slice(&part);
    }
    Ok(Some(body))
}

/// True for scores that may be sent again.
fn is_again(answer: &Answer) -> bool {
    matches!(answer, Answer::Again(_))
}

fn unavailable(reason: &str) -> Fault {
    Fault { code: "UNAVAILABLE".to_owned(), reason: reason.to_owned() }
}

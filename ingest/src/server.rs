//! The server: scores go in by its GraphQL API, and each has an answer.
//!
//! The API is where a score is judged: bans, quarantine, limits of fair play, attempts, entrants,
//! segments, rates and tokens hold for a queue as for any other client, by the same code.

mod answer;
mod token;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use engine::settings::{IngestAck, IngestSettings};
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

/// The server, and the right to submit to it.
pub(crate) struct Server {
    client: reqwest::Client,
    url: Url,
    token: Token,
    ack: &'static str,
}

/// The state of the server at the start.
pub(crate) enum Readiness {
    /// It takes scores by this token.
    Ready,
    /// It does not answer for the moment.
    Away(String),
}

impl Server {
    /// The server that the settings name; nothing is sent yet.
    ///
    /// # Errors
    /// If its address is none, or the file of the token cannot be read.
    pub(crate) fn new(settings: &IngestSettings) -> Result<Self> {
        let invalid = || {
            let shown = &settings.to;
            format!(
                "invalid LAUREL_INGEST_TO {shown:?}: expected an address such as http://127.0.0.1:8000"
            )
        };
        let mut url = Url::parse(&settings.to).with_context(invalid)?;
        ensure!(matches!(url.scheme(), "http" | "https"), invalid());
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
            token: Token::new(settings)?,
            ack: match settings.ack {
                IngestAck::Durable => "DURABLE",
                IngestAck::Applied => "APPLIED",
            },
        })
    }

    /// Asks whether the server takes scores by this token. No score is sent: the server looks at
    /// the token first, and then refuses the empty list.
    ///
    /// # Errors
    /// If it refuses the token, or is no server of Laurel.
    pub(crate) async fn check(&self) -> Result<Readiness> {
        match self.send("none", &[]).await {
            Sent::Results(_) => Ok(Readiness::Ready),
            Sent::Failed(fault) => match fault.code.as_str() {
                "BAD_USER_INPUT" => Ok(Readiness::Ready),
                "UNAUTHENTICATED" | "EXPIRED_TOKEN" | "FORBIDDEN" => {
                    bail!("the server refuses the access token: {}", fault.reason)
                }
                _ => Ok(Readiness::Away(fault.reason)),
            },
            Sent::Foreign(told) => bail!("{} is no server of Laurel: it answers {told}", self.url),
        }
    }

    /// Submits scores of one board, and returns an answer for each. A request that is refused as a
    /// whole is halved until the faulty scores are alone.
    ///
    /// # Errors
    /// If the server refuses the token.
    pub(crate) async fn submit(&self, board: &str, scores: &[&Score]) -> Result<Vec<Answer>> {
        let mut answers: Vec<Option<Answer>> = vec![None; scores.len()];
        let all = 0..scores.len();
        let mut left = vec![all];
        while let Some(range) = left.pop() {
            let fault = match self.send(board, &scores[range.clone()]).await {
                Sent::Results(results) if results.len() == range.len() => {
                    for (index, result) in range.zip(results) {
                        answers[index] = Some(result);
                    }
                    continue;
                }
                Sent::Results(_) => unavailable("the server answered for another number of scores"),
                Sent::Foreign(told) => unavailable(&format!("the server answers {told}")),
                Sent::Failed(fault) => fault,
            };
            let every = |answer: Answer| range.clone().map(move |index| (index, answer.clone()));
            let told: Vec<(usize, Answer)> = match fault.code.as_str() {
                "UNAVAILABLE" | "TIMEOUT" | "RATE_LIMITED" | "INTERNAL" => {
                    every(Answer::Again(fault)).collect()
                }
                "UNAUTHENTICATED" | "EXPIRED_TOKEN" => {
                    self.token.renew().context(fault.reason)?;
                    left.push(range);
                    continue;
                }
                "NOT_FOUND" => every(Answer::Refused(fault)).collect(),
                "FORBIDDEN" if matches!(self.check().await?, Readiness::Away(_)) => {
                    every(Answer::Again(fault)).collect()
                }
                _ if range.len() > 1 => {
                    let middle = range.start + range.len() / 2;
                    left.extend([range.start..middle, middle..range.end]);
                    continue;
                }
                _ => every(Answer::Refused(fault)).collect(),
            };
            told.into_iter().for_each(|(index, answer)| answers[index] = Some(answer));
        }
        Ok(answers.into_iter().map(|answer| answer.expect("each range was answered for")).collect())
    }

    /// Sends one request.
    async fn send(&self, board: &str, scores: &[&Score]) -> Sent {
        let scores: Vec<&str> = scores.iter().map(|score| &*score.input).collect();
        let (query, ack) = (serde_json::json!(SUBMIT), self.ack);
        let body = format!(
            "{{\"query\":{query},\"variables\":{{\"input\":{{\"board\":{},\"ack\":\"{ack}\",\"scores\":[{}]}}}}}}",
            serde_json::json!(board),
            scores.join(",")
        );
        let mut request =
            self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        if let Some(token) = self.token.text() {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let answered = async {
            let response = request.body(body).send().await?;
            Ok::<_, reqwest::Error>((response.status(), response.bytes().await?))
        };
        match answered.await {
            Ok((status, body)) => read_answer(status, &body),
            Err(error) => {
                let error = anyhow::Error::from(error.without_url());
                Sent::Failed(unavailable(&format!("the server does not answer: {error:#}")))
            }
        }
    }
}

fn unavailable(reason: &str) -> Fault {
    Fault { code: "UNAVAILABLE".to_owned(), reason: reason.to_owned() }
}

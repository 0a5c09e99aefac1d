//! One hostile request, and its answer.

use reqwest::{Client, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::attack::ECHO_BYTES_MAX;

/// Bodies longer than this may be refused before they are read.
const LONG_BYTES: usize = 256 << 10;

/// Codes of errors that refuse a request.
const REFUSALS: [&str; 5] =
    ["LIMIT_EXCEEDED", "BAD_USER_INPUT", "UNAUTHENTICATED", "FORBIDDEN", "TIMEOUT"];

/// How an attack must be answered. No answer may be a fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With an error.
    Refused,
    /// With an error, or shortly.
    Bounded,
    /// In any way.
    Answered,
    /// Without an error: it is the request of an honest client.
    Served,
}

/// A hostile request to `/graphql`.
#[derive(Debug, Clone)]
pub struct Attack {
    pub what: String,
    pub outcome: Outcome,
    body: String,
    is_get: bool,
    sender: Sender,
}

/// The client that sends it.
#[derive(Debug, Clone)]
enum Sender {
    Stranger,
    Admin,
    /// The client of a token.
    Client(String),
}

/// An answer to it.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub bytes: Vec<u8>,
    /// The seconds after which the client may try again, if the answer says so.
    pub retry_after: Option<u64>,
}

/// A field under so many aliases; `#` in it is the number, and `##` the number in two digits.
pub fn aliases(count: usize, field: &str) -> String {
    let numbered =
        |no: usize| field.replace("##", &format!("{no:02}")).replace('#', &no.to_string());
    (0..count).map(|no| format!("a{no}:{} ", numbered(no))).collect()
}

impl Attack {
    /// A query with variables that must be refused.
    pub fn new(what: &str, query: &str, variables: Value) -> Self {
        Self::raw(what, json!({ "query": query, "variables": variables }).to_string())
    }

    /// A query that must be refused.
    pub fn query(what: &str, query: &str) -> Self {
        Self::raw(what, json!({ "query": query }).to_string())
    }

    /// A body that must be refused.
    pub fn raw(what: &str, body: String) -> Self {
        let what = what.to_owned();
        Self { what, outcome: Outcome::Refused, body, is_get: false, sender: Sender::Stranger }
    }

    /// A query in an address, as of a picture on another site.
    pub fn get(what: &str, query: &str) -> Self {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        Self { is_get: true, ..Self::raw(what, escaped) }
    }

    /// May be answered, if the answer is short.
    pub fn bounded(self) -> Self {
        Self { outcome: Outcome::Bounded, ..self }
    }

    /// May be answered.
    pub fn answered(self) -> Self {
        Self { outcome: Outcome::Answered, ..self }
    }

    /// Must be answered without an error.
    pub fn served(self) -> Self {
        Self { outcome: Outcome::Served, ..self }
    }

    /// Is sent with the admin's token.
    pub fn as_admin(self) -> Self {
        Self { sender: Sender::Admin, ..self }
    }

    /// Is sent with a token.
    pub fn with_token(self, token: &str) -> Self {
        Self { sender: Sender::Client(token.to_owned()), ..self }
    }

    /// With other words in its body.
    pub fn in_words(&self, words: &[(&str, &str)]) -> Self {
        let replace = |body: String, (word, other): &(&str, &str)| body.replace(word, other);
        Self { body: words.iter().fold(self.body.clone(), replace), ..self.clone() }
    }

    /// True if a server may refuse the body unread.
    pub fn is_long(&self) -> bool {
        self.body.len() > LONG_BYTES
    }

    /// Its body; of a query in an address, the query with escapes.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Sends it; `admin` is the admin's token.
    pub async fn send(&self, client: &Client, url: &str, admin: &str) -> reqwest::Result<Reply> {
        let mut request = match self.is_get {
            true => client.get(format!("{url}/graphql?query={}", self.body)),
            false => client
                .post(format!("{url}/graphql"))
                .header(header::CONTENT_TYPE, "application/json")
                .body(self.body.clone()),
        };
        request = match &self.sender {
            Sender::Stranger => request,
            Sender::Admin => request.bearer_auth(admin),
            Sender::Client(token) => request.bearer_auth(token),
        };
        if self.is_subscription() {
            request = request.header(header::ACCEPT, "text/event-stream");
        }
        let answer = request.header("X-Laurel-Cost", "1").send().await?;
        Reply::read(answer).await
    }

    fn is_subscription(&self) -> bool {
        self.body.starts_with("{\"query\":\"subscription")
    }
}

impl Reply {
    /// Reads an answer; of a stream of events, the first one.
    async fn read(mut answer: Response) -> reqwest::Result<Self> {
        let status = answer.status();
        let retry_after = answer.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.map(|seconds| seconds.to_str().unwrap().parse().unwrap());
        if answer.headers().get(header::CONTENT_TYPE).is_none_or(|of| of != "text/event-stream") {
            return Ok(Self { status, bytes: answer.bytes().await?.to_vec(), retry_after });
        }
        let mut read = vec![];
        while !read.windows(2).any(|end| end == b"\n\n")
            && let Some(chunk) = answer.chunk().await?
        {
            read.extend_from_slice(&chunk);
        }
        let text = String::from_utf8_lossy(&read);
        let data = text.lines().find_map(|line| line.strip_prefix("data:"));
        let bytes = data.unwrap_or_default().trim().as_bytes().to_vec();
        Ok(Self { status, bytes, retry_after })
    }

    /// Its body; null if it is not JSON.
    pub fn body(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// The codes of its errors.
    pub fn codes(&self) -> Vec<String> {
        let body = self.body();
        let errors = body["errors"].as_array().into_iter().flatten();
        errors
            .map(|error| error["extensions"]["code"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The points that the server charged, if it executed the query.
    pub fn points(&self) -> Option<u64> {
        self.body()["extensions"]["cost"]["points"].as_u64()
    }

    /// Its beginning.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.bytes).chars().take(300).collect()
    }

    /// In which ways it differs from how an attack must be answered.
    pub fn faults(&self, outcome: Outcome) -> Vec<String> {
        let codes = self.codes();
        let is_refused = !codes.is_empty() || self.status.is_client_error();
        let may_be = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
        let mut faults = vec![];
        if self.status.is_server_error() && !may_be.contains(&self.status)
            || codes.iter().any(|code| code == "INTERNAL" || code.is_empty())
        {
            faults.push("a fault of the server");
        }
        match outcome {
            Outcome::Refused if !is_refused && !self.status.is_server_error() => {
                faults.push("it was not refused");
            }
            Outcome::Refused if !codes.iter().all(|code| REFUSALS.contains(&code.as_str())) => {
                faults.push("it was refused for another reason");
            }
            Outcome::Served if is_refused || !self.status.is_success() => {
                faults.push("an honest client was refused");
            }
            _ => {}
        }
        if matches!(outcome, Outcome::Refused | Outcome::Bounded)
            && self.bytes.len() > ECHO_BYTES_MAX
        {
            faults.push("the answer is too long");
        }
        faults.iter().map(|fault| format!("{fault}: {} {}", self.status, self.shown())).collect()
    }
}

//! The collector: its address, its secrets, and the posting of spans.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use engine::settings::redacted::Redacted;
use engine::settings::{CleartextSettings, TraceSettings};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client};
use url::Url;

/// The longest answer of a collector that is read, in bytes.
const COLLECTOR_ANSWER_BYTES_MAX: usize = 64 << 10;

/// The most headers in the file for the collector.
const COLLECTOR_HEADERS_MAX: usize = 16;

/// The media type of OTLP in binary.
const PROTOBUF: &str = "application/x-protobuf";

/// The accepted form of the address.
const EXPECTED: &str = "expected the address of a collector, such as http://127.0.0.1:4318";

/// The collector of spans.
pub struct Collector {
    client: Client,
    url: Url,
}

impl Collector {
    /// The collector that the settings name, if they name one. Nothing is sent.
    ///
    /// # Errors
    /// If its address is none, if the way there is in clear text and may leave this machine, or if
    /// a file cannot be used. No message shows a secret.
    pub fn new(settings: &TraceSettings, cleartext: &CleartextSettings) -> Result<Option<Self>> {
        let Some(url) = &settings.otlp_url else { return Ok(None) };
        let url = url_of(url.as_str(), cleartext)?;
        let mut client = Client::builder()
            .timeout(Duration::from_millis(settings.otlp_timeout_ms))
            .redirect(Policy::none());
        if let Some(file) = &settings.otlp_headers_file {
            client = client.default_headers(headers_of(file)?);
        }
        if let Some(file) = &settings.otlp_ca {
            let invalid =
                || format!("invalid LAUREL_OTLP_CA {}: expected a PEM file", file.display());
            let bytes = std::fs::read(file).with_context(invalid)?;
            let authorities = Certificate::from_pem_bundle(&bytes).with_context(invalid)?;
            ensure!(!authorities.is_empty(), invalid());
            client = client.tls_certs_only(authorities);
        }
        let client = client.build().context("no client of HTTP can be made for the collector")?;
        Ok(Some(Self { client, url }))
    }

    /// Sends spans. Returns how many of them the collector rejects.
    ///
    /// # Errors
    /// If it does not take them: it is away, gives no answer in time, or one that is not a success.
    pub async fn post(&self, spans: &ExportTraceServiceRequest) -> Result<u64> {
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, PROTOBUF);
        let answer = request.body(spans.encode_to_vec()).send().await;
        let mut answer = answer.map_err(reqwest::Error::without_url)?;
        ensure!(answer.status().is_success(), "it answers {}", answer.status());
        let mut body = vec![];
        while let Some(part) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
            body.extend_from_slice(&part);
            // It has the spans, whatever else it says.
            if body.len() > COLLECTOR_ANSWER_BYTES_MAX {
                return Ok(0);
            }
        }
        let told = ExportTraceServiceResponse::decode(body.as_slice()).unwrap_or_default();
        let rejected = told.partial_success.unwrap_or_default().rejected_spans;
        Ok(u64::try_from(rejected).unwrap_or_default())
    }
}

fn url_of(text: &str, cleartext: &CleartextSettings) -> Result<Url> {
    let invalid = |why: &str| format!("invalid LAUREL_OTLP_URL {}: {why}", Redacted(text));
    let mut url = Url::parse(text).ok().with_context(|| invalid(EXPECTED))?;
    ensure!(matches!(url.scheme(), "http" | "https"), invalid(EXPECTED));
    ensure!(
        url.username().is_empty() && url.password().is_none(),
        invalid("it has a name or a password: expected them in LAUREL_OTLP_HEADERS_FILE")
    );
    ensure!(
        url.scheme() == "https" || cleartext.permit(url.host_str().unwrap_or_default()),
        invalid(
            "spans would go in clear text: expected https://, a collector on this machine, or LAUREL_ALLOW_CLEARTEXT=true on a network that no stranger can read"
        )
    );
    if url.path() == "/" {
        url.set_path("/v1/traces");
    }
    Ok(url)
}

/// The headers in a file, one a line. Their values are secrets.
fn headers_of(file: &Path) -> Result<HeaderMap> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("LAUREL_OTLP_HEADERS_FILE {shown} cannot be read"))?;
    let mut headers = HeaderMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let Some((name, value)) = header_of(line) else {
            bail!(
                "invalid line {} of LAUREL_OTLP_HEADERS_FILE {shown}: expected a header, such as \"Authorization: Bearer …\"",
                index + 1
            );
        };
        headers.append(name, value);
    }
    ensure!(
        (1..=COLLECTOR_HEADERS_MAX).contains(&headers.len()),
        "LAUREL_OTLP_HEADERS_FILE {shown} has {} headers: expected 1 to {COLLECTOR_HEADERS_MAX}",
        headers.len()
    );
    Ok(headers)
}

fn header_of(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_safe_and_has_a_path() {
        let of = |text: &str, allow_cleartext| {
            url_of(text, &CleartextSettings { allow_cleartext }).map(|url| url.to_string())
        };
        let local = of("http://127.0.0.1:4318", false).unwrap();
        assert_eq!(local, "http://127.0.0.1:4318/v1/traces");
        let away = of("https://collector.example/x", false).unwrap();
        assert_eq!(away, "https://collector.example/x");
        assert!(of("http://collector.example:4318", true).is_ok());
        for wrong in
            ["http://collector.example:4318", "http://u:cret@127.0.0.1:4318", "collector", ""]
        {
            let error = of(wrong, false).unwrap_err().to_string();
            assert!(error.contains("expected") && !error.contains("cret"), "{error}");
        }
    }

    #[test]
    fn a_header_has_a_name_and_a_value_that_is_never_shown() {
        let (name, value) = header_of("Authorization: Bearer a:b").unwrap();
        assert_eq!((name.as_str(), value.as_bytes()), ("authorization", &b"Bearer a:b"[..]));
        assert!(!format!("{value:?}").contains("Bearer"));
        for wrong in ["Authorization", ": x", "a b: c", "a: \u{1}"] {
            assert!(header_of(wrong).is_none(), "{wrong}");
        }
    }
}

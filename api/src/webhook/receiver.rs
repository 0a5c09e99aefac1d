//! The receivers of webhooks: which addresses they may have, and one request to one of them.
//!
//! An address is checked where it is connected to: the client resolves a name itself, and connects
//! to nothing but the addresses that it has checked. So a name that changes its address between the
//! check and the connection gains nothing. It follows no redirect and no proxy of the environment.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result as AnyResult};
use engine::settings::webhooks::Allowed;
use engine::settings::{CleartextSettings, WebhookSettings};
use engine::webhook::delivery::{HANDOVER_TIMEOUT, Sent};
use engine::webhook::message::{MEDIA_TYPE, Message};
use entity::webhook::feed_name;
use ranking::store::server::address::is_loopback;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use tokio::net::lookup_host;
use tokio::time::timeout;
use url::{Host, Url};

use super::signature;
use crate::error::{Error, Result};

/// The longest address, in bytes.
pub(crate) const URL_BYTES_MAX: usize = 2048;

/// The most bytes of an answer that are read; more of them end the connection.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// The time that the addresses of a name may take when a webhook is made.
const NAME_TIMEOUT: Duration = Duration::from_secs(3);

/// The refusal of an address.
const NOT_PUBLIC: &str =
    "its address is not public: expected a public one, or one of LAUREL_WEBHOOK_ALLOW";

/// The forms of an address.
const EXPECTED: &str = "expected an address such as https://game.example/hooks, or feed: and a name of 1 to 64 small letters, digits, hyphens and underscores";

/// The longest error that is kept, in characters.
const ERROR_CHARS_MAX: usize = 500;

/// The receivers that are allowed, and the client that reaches them. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Receivers {
    allowed: Arc<Allowed>,
    cleartext: CleartextSettings,
    client: Client,
}

/// Resolves names to the addresses that are allowed.
struct Resolver(Arc<Allowed>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.0.clone();
        Box::pin(async move {
            let found = lookup_host((name.as_str(), 0)).await?;
            let permitted = permitted(&allowed, name.as_str(), found);
            if permitted.is_empty() {
                return Err(NOT_PUBLIC.into());
            }
            Ok(Box::new(permitted.into_iter()) as Addrs)
        })
    }
}

/// Those addresses of a host that are allowed.
fn permitted(
    allowed: &Allowed,
    host: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> Vec<SocketAddr> {
    found.filter(|found| allowed.permits(host, found.ip())).collect()
}

impl Receivers {
    /// The receivers by the settings.
    ///
    /// # Errors
    /// If the system has no roots of trust for TLS.
    pub(crate) fn new(
        settings: &WebhookSettings,
        cleartext: &CleartextSettings,
    ) -> AnyResult<Self> {
        let allowed = Arc::new(settings.webhook_allow.clone());
        let client = Client::builder()
            .timeout(HANDOVER_TIMEOUT)
            .redirect(Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(Resolver(allowed.clone())))
            .user_agent(concat!("laurel/", env!("CARGO_PKG_VERSION")))
            .build();
        let client = client.context("no client for webhooks can be made")?;
        Ok(Self { allowed, cleartext: cleartext.clone(), client })
    }

    /// Checks the address of a receiver, and gives its usual form.
    ///
    /// # Errors
    /// `BAD_USER_INPUT` if it is none, if events would travel in clear text, or if its host has an
    /// address that is not allowed.
    pub(crate) async fn check(&self, text: &str) -> Result<Url> {
        if is_feed(text) {
            return Url::parse(text).map_err(|_| invalid(EXPECTED));
        }
        let url = self.check_form(text)?;
        if let Some(Host::Domain(host)) = url.host() {
            // A name without an address may have one later, and each connection checks it.
            if let Ok(Ok(found)) = timeout(NAME_TIMEOUT, lookup_host((host, 0))).await
                && permitted(&self.allowed, host, found).is_empty()
            {
                return Err(invalid(NOT_PUBLIC));
            }
        }
        Ok(url)
    }

    /// The checks that need no look-up of a name.
    fn check_form(&self, text: &str) -> Result<Url> {
        if text.len() > URL_BYTES_MAX {
            return Err(invalid(&format!("expected at most {URL_BYTES_MAX} bytes")));
        }
        let url = Url::parse(text).map_err(|_| invalid(EXPECTED))?;
        let host = url.host().ok_or_else(|| invalid(EXPECTED))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(invalid(EXPECTED));
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(invalid("expected no name, password or fragment in it"));
        }
        let name = url.host_str().unwrap_or_default();
        if url.scheme() == "http" && !self.cleartext.permit(name) {
            return Err(invalid(
                "events would travel in clear text: expected https, or LAUREL_ALLOW_CLEARTEXT=true on a network that no stranger can read",
            ));
        }
        let address = match host {
            Host::Ipv4(address) => IpAddr::V4(address),
            Host::Ipv6(address) => IpAddr::V6(address),
            // A resolver may not know all names of this machine.
            Host::Domain(_) if is_loopback(name) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Host::Domain(_) => return Ok(url),
        };
        if !self.allowed.permits(name, address) {
            return Err(invalid(NOT_PUBLIC));
        }
        Ok(url)
    }

    /// Sends a message once, signed with each secret.
    pub(crate) async fn send(
        &self,
        url: &str,
        secrets: &[&str],
        message: &Message,
        now_ms: i64,
    ) -> Sent {
        // The settings may have changed since the webhook was made.
        let url = match self.check_form(url) {
            Ok(url) => url,
            Err(error) => return Sent::Failed(0, cut(&error.message)),
        };
        let timestamp = now_ms.div_euclid(1000);
        let request = self
            .client
            .post(url)
            .header("content-type", MEDIA_TYPE)
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", timestamp)
            .header(
                "webhook-signature",
                signature::header(secrets, &message.id, timestamp, &message.body),
            )
            .body(message.body.clone());
        let mut answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => return Sent::Failed(0, cut(&told(error.without_url()))),
        };
        let status = answer.status();
        let mut bytes = 0;
        while let Ok(Some(part)) = answer.chunk().await {
            bytes += part.len();
            if bytes > ANSWER_BYTES_MAX {
                break;
            }
        }
        match status {
            status if status.is_success() => Sent::All,
            StatusCode::GONE => Sent::Gone("the receiver answered 410 Gone".to_owned()),
            status => Sent::Failed(0, format!("the receiver answered {status}")),
        }
    }
}

/// True for the address of a feed, which a program of its own delivers to.
pub(crate) fn is_feed(url: &str) -> bool {
    feed_name(url).is_some()
}

fn invalid(why: &str) -> Error {
    Error::bad_input(format!("invalid url: {why}")).at("input.url")
}

/// An error with its causes.
fn told(error: reqwest::Error) -> String {
    format!("{:#}", anyhow::Error::from(error))
}

fn cut(text: &str) -> String {
    text.chars().take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receivers(allow: &str, allow_cleartext: bool) -> Receivers {
        let settings = WebhookSettings {
            webhook_allow: Allowed::parse(allow).unwrap(),
            webhook_retry_ms: 5000,
            webhook_fail_seconds: 1,
        };
        Receivers::new(&settings, &CleartextSettings { allow_cleartext }).unwrap()
    }

    #[tokio::test]
    async fn an_address_that_is_not_allowed_is_refused() {
        let none = receivers("", false);
        for url in [
            "ftp://1.1.1.1/",
            "1.1.1.1",
            "mailto:a@b.example",
            "https://",
            "http://1.1.1.1/",
            "https://ann@1.1.1.1/",
            "https://ann:pw@1.1.1.1/",
            "https://:pw@1.1.1.1/",
            "https://1.1.1.1/#part",
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://0177.0.0.1/",
            "https://10.0.0.1/",
            "https://169.254.169.254/",
            "https://100.64.0.1/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:7f00:1]/",
            "https://[fd00::1]/",
            "https://[fe80::1]/",
            "https://[64:ff9b::a00:1]/",
            "https://224.0.0.1/",
            "https://localhost/",
            "https://localhost./",
            "http://localhost/",
            "https://0.0.0.0/",
            "feed:",
            "feed:Lake",
            "feed:a/b",
            "feed://lake",
        ] {
            let refused = none.check(url).await.unwrap_err();
            assert_eq!(refused.argument.as_deref(), Some("input.url"), "{url}");
        }
        let long = format!("https://1.1.1.1/{}", "a".repeat(URL_BYTES_MAX));
        assert!(none.check(&long).await.unwrap_err().message.contains("2048 bytes"));
        for url in ["https://1.1.1.1/a?b=c", "https://[2606:4700::1111]:8443/", "feed:lake_1"] {
            assert_eq!(none.check(url).await.unwrap().as_str(), url);
        }
    }

    #[tokio::test]
    async fn a_setting_allows_hosts_networks_and_clear_text() {
        let some = receivers("127.0.0.0/8, localhost", false);
        for url in ["https://127.0.0.1:9/", "http://127.0.0.1:9/", "http://localhost:9/"] {
            assert!(some.check(url).await.is_ok(), "{url}");
        }
        assert!(some.check("https://10.0.0.1/").await.is_err());
        assert!(some.check("http://1.1.1.1/").await.is_err());
        assert!(receivers("", true).check("http://1.1.1.1/").await.is_ok());
    }

    #[tokio::test]
    async fn a_name_is_checked_again_when_it_is_connected_to() {
        let asked = receivers("", true).client.get("http://localhost:9/").send().await;
        let reason = told(asked.unwrap_err());
        assert!(reason.contains(NOT_PUBLIC), "{reason}");
    }
}

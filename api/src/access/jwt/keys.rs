//! The keys of players' tokens: a secret, or a set of public keys (RFC 7517) in a file or at an
//! address. A set is read again when a token names a key that it had not, and every few minutes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result as AnyResult, ensure};
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use ranking::shown;
use tokio::time::Instant;
use url::{Host, Url};

use super::refused;
use crate::error::{Error, ErrorCode, Result};

/// The longest key set, in bytes.
const JWKS_BYTES_MAX: usize = 256 << 10;

/// The most keys of a set.
const JWKS_KEYS_MAX: usize = 100;

/// The time that an address may take to send its key set.
const JWKS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a set that was read is good. A key that was withdrawn is believed so much longer.
const JWKS_AGE_MAX: Duration = Duration::from_secs(600);

/// The pause between two reads of a set, so that tokens with made-up keys cost the issuer nothing.
const JWKS_PAUSE: Duration = Duration::from_secs(10);

/// A key, and the only algorithm that it checks.
#[derive(Debug)]
pub(super) struct Key {
    /// The name by which tokens ask for it.
    id: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) decoding: DecodingKey,
}

/// The keys of players' tokens.
#[derive(Debug)]
pub(super) struct Keys {
    source: Arc<Source>,
    known: Arc<Mutex<Known>>,
}

/// Where the keys are.
#[derive(Debug)]
enum Source {
    /// In a setting, for good.
    Secret,
    File(PathBuf),
    Address(Url, reqwest::Client),
}

/// The keys that were read last.
#[derive(Debug)]
struct Known {
    keys: Vec<Arc<Key>>,
    read_at: Instant,
    /// When they were last asked for, also in vain.
    asked_at: Instant,
    /// True if they could not be had then.
    has_failed: bool,
}

impl Keys {
    /// A secret, of HS256.
    pub(super) fn of_secret(decoding: DecodingKey) -> Self {
        let key = Key { id: None, algorithm: Algorithm::HS256, decoding };
        Self::begin(Source::Secret, vec![Arc::new(key)])
    }

    /// The keys of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or has no key that can be used.
    pub(super) async fn of_file(path: &Path) -> AnyResult<Self> {
        let source = Source::File(path.to_owned());
        let keys = source.read().await.context("LAUREL_JWKS_FILE cannot be used")?;
        check_some(&keys)?;
        Ok(Self::begin(source, keys))
    }

    /// The keys at an address.
    ///
    /// # Errors
    /// If the address is not one of https, or of this machine, or if its keys cannot be had.
    pub(super) async fn of_url(text: &str) -> AnyResult<Self> {
        let url: Url = text.parse().context("LAUREL_JWKS_URL is no address")?;
        let is_here = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        ensure!(
            url.scheme() == "https" || (url.scheme() == "http" && is_here),
            "LAUREL_JWKS_URL is not safe: expected https, or http to this machine"
        );
        let client = reqwest::Client::builder()
            .timeout(JWKS_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let source = Source::Address(url, client);
        let keys = source.read().await.context("the keys at LAUREL_JWKS_URL cannot be had")?;
        check_some(&keys)?;
        Ok(Self::begin(source, keys))
    }

    fn begin(source: Source, keys: Vec<Arc<Key>>) -> Self {
        let now = Instant::now();
        let known = Known { keys, read_at: now, asked_at: now, has_failed: false };
        Self { source: Arc::new(source), known: Arc::new(Mutex::new(known)) }
    }

    /// The key that a token names, of the algorithm that it names. Reads the set again if it has no
    /// such key, or is old.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` if there is none; `UNAVAILABLE` if the set cannot be had.
    pub(super) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Result<Arc<Key>> {
        let unavailable = || {
            Error::new(ErrorCode::Unavailable, "the issuer's keys cannot be had; try again later")
        };
        let found = {
            let mut known = self.lock();
            let found = known.find(id, algorithm);
            let is_good = found.is_some() && known.read_at.elapsed() <= JWKS_AGE_MAX;
            let may_ask =
                !matches!(*self.source, Source::Secret) && known.asked_at.elapsed() > JWKS_PAUSE;
            if is_good || !may_ask {
                return found.ok_or_else(|| match known.has_failed {
                    true => unavailable(),
                    false => known.none(id),
                });
            }
            known.asked_at = Instant::now();
            found
        };
        // In a task of its own: a client that leaves must not end it, as none asks for a while.
        let reading = tokio::spawn(read_again(self.source.clone(), self.known.clone()));
        let is_read = reading.await.unwrap_or(false);
        let known = self.lock();
        match is_read {
            true => known.find(id, algorithm).ok_or_else(|| known.none(id)),
            false => found.ok_or_else(unavailable),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the keys again. Returns false if they cannot be had: those that were read last stay.
async fn read_again(source: Arc<Source>, known: Arc<Mutex<Known>>) -> bool {
    let read = source.read().await;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.has_failed = read.is_err();
    match read {
        Ok(keys) => {
            known.keys = keys;
            known.read_at = Instant::now();
            true
        }
        Err(error) => {
            let error = format!("{error:#}");
            tracing::warn!(error, "the keys of players' tokens cannot be read again");
            false
        }
    }
}

/// Fails if a start would leave all players out.
fn check_some(keys: &[Arc<Key>]) -> AnyResult<()> {
    ensure!(
        !keys.is_empty(),
        "no key can be used: expected one for RS256, ES256 or EdDSA that is for signatures"
    );
    Ok(())
}

impl Known {
    /// The key of a name; without a name, the only key of the algorithm.
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Arc<Key>> {
        let fits = |key: &&Arc<Key>| {
            let is_named = id.is_none() || key.id.is_none() || key.id.as_deref() == id;
            is_named && key.algorithm == algorithm
        };
        let mut fitting = self.keys.iter().filter(fits);
        let first = fitting.next()?;
        fitting.next().is_none().then(|| first.clone())
    }

    fn none(&self, id: Option<&str>) -> Error {
        let algorithms: BTreeSet<String> =
            self.keys.iter().map(|key| format!("{:?}", key.algorithm)).collect();
        let algorithms = algorithms.into_iter().collect::<Vec<_>>().join(" or ");
        refused(&match id {
            Some(id) => {
                format!("expected a key of the issuer's for {algorithms}, found {}", shown(id))
            }
            None => format!("expected {algorithms}, and kid where the issuer has several keys"),
        })
    }
}

impl Source {
    async fn read(&self) -> AnyResult<Vec<Arc<Key>>> {
        let too_long = || format!("too long: expected at most {JWKS_BYTES_MAX} bytes");
        let bytes = match self {
            Self::Secret => return Ok(vec![]),
            Self::File(path) => {
                let shown = || path.display().to_string();
                let length = tokio::fs::metadata(path).await.with_context(shown)?.len();
                ensure!(length <= JWKS_BYTES_MAX as u64, too_long());
                tokio::fs::read(path).await.with_context(shown)?
            }
            Self::Address(url, client) => {
                // The address may have a password.
                let without_url = reqwest::Error::without_url;
                let answer = client.get(url.clone()).send().await;
                let answer = answer.and_then(reqwest::Response::error_for_status);
                let mut answer = answer.map_err(without_url)?;
                let mut bytes = vec![];
                while let Some(part) = answer.chunk().await.map_err(without_url)? {
                    bytes.extend_from_slice(&part);
                    ensure!(bytes.len() <= JWKS_BYTES_MAX, too_long());
                }
                bytes
            }
        };
        keys_of(&bytes)
    }
}

/// The keys of a set that can check a token's signature; others are left out.
fn keys_of(bytes: &[u8]) -> AnyResult<Vec<Arc<Key>>> {
    let set: JwkSet = serde_json::from_slice(bytes).context("expected a JSON Web Key Set")?;
    ensure!(set.keys.len() <= JWKS_KEYS_MAX, "too many keys: expected at most {JWKS_KEYS_MAX}");
    Ok(set.keys.iter().filter_map(key_of).map(Arc::new).collect())
}

/// A key with its algorithm; `None` for one of another algorithm or for another use. A secret is
/// none: a set is public.
fn key_of(jwk: &Jwk) -> Option<Key> {
    let (algorithm, name) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
        }
        _ => return None,
    };
    let jsonwebtoken::jwk::CommonParameters { public_key_use, key_algorithm, key_id, .. } =
        &jwk.common;
    let is_for_signatures =
        public_key_use.as_ref().is_none_or(|what| *what == PublicKeyUse::Signature);
    let is_its = key_algorithm.is_none_or(|algorithm| algorithm == name);
    let decoding = DecodingKey::from_jwk(jwk).ok().filter(|_| is_its && is_for_signatures)?;
    Some(Key { id: key_id.clone(), algorithm, decoding })
}

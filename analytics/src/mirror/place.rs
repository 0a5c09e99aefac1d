//! The place of the lake: a directory, or a part of a bucket of an object store.

use std::fs::{self, File};
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use engine::settings::redacted::Redacted;
use futures::TryStreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, RetryConfig,
};
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::display_path;

/// The longest time in which a request that failed is sent again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(180);

/// The most times that a request is sent again.
const RETRIES_MAX: usize = 8;

/// The longest time until a store takes a connection.
const LAKE_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The most times that a file is put of which no answer came.
const PUTS_MAX: u32 = 5;

/// The pause before a file is put once more; it doubles each time.
const PUT_PAUSE: Duration = Duration::from_millis(250);

/// The address at which a machine of a cloud asks for its credentials.
const MACHINE_CREDENTIALS: &str = "169.254.169.254";

const EXPECTED_CREDENTIALS: &str =
    "; expected credentials in the environment that may list, read, write and delete there";

/// A place that files are put to, read from and removed from, by their paths below it.
pub(super) struct Place {
    /// Its URL, which has no secret.
    pub(super) url: String,
    kind: Kind,
}

enum Kind {
    Directory(PathBuf),
    Store { store: Box<dyn ObjectStore>, root: String },
}

impl Place {
    /// The place of a URL, with the credentials of the environment. Asks nothing of it.
    ///
    /// # Errors
    /// If it is no URL of a lake, or has a secret in it.
    pub(super) fn new(url: &str, timeout: Duration) -> Result<Self> {
        let url = url.trim_end_matches('/');
        let shown = Redacted(url);
        let expected =
            "expected file:///directory, s3://bucket/path, gs://bucket/path or az://container/path";
        ensure!(
            !url.contains(['@', '?', '#']),
            "invalid place of the lake {shown}: {expected}, and credentials by the environment"
        );
        let (scheme, rest) = url
            .split_once("://")
            .filter(|(_, rest)| !rest.is_empty())
            .with_context(|| format!("invalid place of the lake {shown}: {expected}"))?;
        if scheme == "file" {
            ensure!(
                rest.starts_with('/'),
                "invalid place of the lake {shown}: expected the whole path of a directory, as in file:///mnt/lake"
            );
            return Ok(Self { url: url.to_owned(), kind: Kind::Directory(rest.into()) });
        }
        let (bucket, root) = rest.split_once('/').unwrap_or((rest, ""));
        ensure!(
            Path::from(root).as_ref() == root,
            "invalid place of the lake {shown}: a store writes its path in another form: expected names without ~, %, *, brackets and other signs, and one slash between them"
        );
        let of_bucket = format!("{scheme}://{bucket}");
        let store = store(scheme, &of_bucket, timeout)
            .map_err(|error| anyhow::anyhow!("{}", without_parameters(&error.to_string())))
            .with_context(|| format!("the lake {shown} cannot be opened"))?
            .with_context(|| format!("invalid place of the lake {shown}: {expected}"))?;
        Ok(Self { url: url.to_owned(), kind: Kind::Store { store, root: root.to_owned() } })
    }

    /// Makes the directory of a path; a store has none.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn make(&self, below: &str) -> Result<()> {
        let Kind::Directory(directory) = &self.kind else { return Ok(()) };
        fs::create_dir_all(directory.join(below)).with_context(|| {
            format!("the lake's directory {} cannot be made", display_path(directory))
        })
    }

    /// Checks that the place answers, and returns true if there is a file below a path.
    ///
    /// # Errors
    /// If it does not, or does not let this program in.
    pub(super) async fn has_files(&self, below: &str) -> Result<bool> {
        match &self.kind {
            Kind::Directory(directory) => {
                // A disk that is not mounted is no empty lake.
                ensure!(
                    directory.join(below).is_dir(),
                    "the lake's directory {} is not here: expected {below} in it",
                    display_path(directory)
                );
                Ok(!self.list(below).await?.is_empty())
            }
            Kind::Store { store, root } => {
                let mut listed = store.list(Some(&joined(root, below)));
                let first = listed.try_next().await;
                Ok(first.map_err(|error| self.said("listed", below, &error))?.is_some())
            }
        }
    }

    /// The paths of all files below a path.
    ///
    /// # Errors
    /// If the place does not answer.
    pub(super) async fn list(&self, below: &str) -> Result<Vec<String>> {
        match &self.kind {
            Kind::Directory(directory) => block_in_place(|| {
                let mut paths = vec![];
                walk(&directory.join(below), below, &mut paths)
                    .with_context(|| format!("{} cannot be read", display_path(directory)))?;
                Ok(paths)
            }),
            Kind::Store { store, root } => {
                let listed: Vec<_> = store
                    .list(Some(&joined(root, below)))
                    .try_collect()
                    .await
                    .map_err(|error| self.said("listed", below, &error))?;
                let prefix = if root.is_empty() { String::new() } else { format!("{root}/") };
                let path = |path: &str| path.strip_prefix(&prefix).unwrap_or(path).to_owned();
                Ok(listed.iter().map(|object| path(object.location.as_ref())).collect())
            }
        }
    }

    /// Puts a new file, unless one of that path is there. Its content is not looked at.
    ///
    /// An answer that was lost makes no difference: the file is then there at the next attempt.
    ///
    /// # Errors
    /// If the place does not take it.
    pub(super) async fn put(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let (store, root) = match &self.kind {
            Kind::Directory(directory) => {
                let whole = directory.join(path);
                return block_in_place(|| put_in_directory(&whole, bytes))
                    .with_context(|| format!("{} cannot be written", display_path(&whole)));
            }
            Kind::Store { store, root } => (store, root),
        };
        let payload = PutPayload::from(bytes.to_vec());
        let (location, mut mode, mut pause) = (joined(root, path), PutMode::Create, PUT_PAUSE);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
            let error = match store.put_opts(&location, payload.clone(), options).await {
                Ok(_) | Err(Error::AlreadyExists { .. }) => return Ok(()),
                Err(error) => error,
            };
            if matches!(error, Error::NotImplemented { .. } | Error::NotSupported { .. }) {
                // A path means one content, so a store without conditions loses nothing.
                mode = PutMode::Overwrite;
            } else if is_final(&error) || attempts >= PUTS_MAX {
                return Err(self.said("written", path, &error));
            }
            sleep(pause).await;
            pause *= 2;
        }
    }

    /// The bytes of a file; `None` if it is not there.
    ///
    /// # Errors
    /// If the place does not answer, or the file has more than `bytes_max` bytes.
    pub(super) async fn get(&self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        let large = |bytes: u64| {
            format!("{}/{path} has {bytes} bytes, expected at most {bytes_max}", self.url)
        };
        match &self.kind {
            Kind::Directory(directory) => {
                let whole = directory.join(path);
                let read = block_in_place(|| match fs::metadata(&whole) {
                    Ok(found) if found.len() > bytes_max => Ok(Err(found.len())),
                    Ok(_) => fs::read(&whole).map(|bytes| Ok(Some(bytes))),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ok(None)),
                    Err(error) => Err(error),
                });
                let read = read.with_context(|| format!("{} cannot be read", display_path(&whole)));
                read?.or_else(|bytes| bail!(large(bytes)))
            }
            Kind::Store { store, root } => {
                let found = match store.get(&joined(root, path)).await {
                    Ok(found) => found,
                    Err(Error::NotFound { .. }) => return Ok(None),
                    Err(error) => return Err(self.said("read", path, &error)),
                };
                ensure!(found.meta.size <= bytes_max, large(found.meta.size));
                let bytes = found.bytes().await.map_err(|error| self.said("read", path, &error))?;
                Ok(Some(bytes.into()))
            }
        }
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(super) async fn remove(&self, path: &str) -> Result<()> {
        match &self.kind {
            Kind::Directory(directory) => {
                let whole = directory.join(path);
                match fs::remove_file(&whole) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error)
                        .with_context(|| format!("{} cannot be removed", display_path(&whole))),
                    _ => Ok(crate::frame::parquet::remove(&whole)?),
                }
            }
            Kind::Store { store, root } => match store.delete(&joined(root, path)).await {
                Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.said("removed", path, &error)),
            },
        }
    }

    /// Says what could not be done, and what would let it be done.
    fn said(&self, done: &str, path: &str, error: &Error) -> anyhow::Error {
        let text = without_parameters(&error.to_string());
        let is_missing = ["NoSuchBucket", "ContainerNotFound", "bucket does not exist"]
            .iter()
            .any(|sign| text.contains(sign));
        // Without credentials a store is asked by those of the machine, if it has some.
        let lacks = [MACHINE_CREDENTIALS, "403 Forbidden", "401 Unauthorized"];
        let has_none = lacks.iter().any(|sign| text.contains(sign));
        let hint = match error {
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => EXPECTED_CREDENTIALS,
            _ if has_none => EXPECTED_CREDENTIALS,
            _ if is_missing => "; expected a bucket that exists",
            _ => "",
        };
        anyhow::anyhow!("the lake {}: {path} cannot be {done}{hint}: {text}", self.url)
    }
}

/// The store of a URL; `None` if no store has such URLs.
fn store(
    scheme: &str,
    url: &str,
    timeout: Duration,
) -> object_store::Result<Option<Box<dyn ObjectStore>>> {
    let retry = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_TIMEOUT,
    };
    let seconds = |time: Duration| format!("{}s", time.as_secs());
    let connect = timeout.min(LAKE_CONNECT_TIMEOUT);
    // The environment sets all else, such as a proxy.
    macro_rules! built {
        ($builder:ty, $key:path) => {
            Box::new(
                <$builder>::from_env()
                    .with_url(url)
                    .with_retry(retry)
                    .with_config($key(ClientConfigKey::Timeout), seconds(timeout))
                    .with_config($key(ClientConfigKey::ConnectTimeout), seconds(connect))
                    .build()?,
            )
        };
    }
    Ok(Some(match scheme {
        "s3" => built!(AmazonS3Builder, AmazonS3ConfigKey::Client),
        "gs" => built!(GoogleCloudStorageBuilder, GoogleConfigKey::Client),
        "az" => built!(MicrosoftAzureBuilder, AzureConfigKey::Client),
        _ => return Ok(None),
    }))
}

/// True if the same request fails again.
fn is_final(error: &Error) -> bool {
    matches!(
        error,
        Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::NotFound { .. }
            | Error::InvalidPath { .. }
    )
}

fn joined(root: &str, path: &str) -> Path {
    Path::from(format!("{root}/{path}"))
}

/// A text in one line, without the parameters of URLs in it: some stores take signatures there.
fn without_parameters(text: &str) -> String {
    let (mut shown, mut is_parameter, mut last) = (String::new(), false, ' ');
    for sign in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        is_parameter = match sign {
            // Not that of XML.
            '?' => last != '<',
            ' ' | '"' | '\'' | ')' | '<' => false,
            _ => is_parameter,
        };
        if !is_parameter {
            shown.push(sign);
        }
        last = sign;
    }
    shown
}

/// Writes a file beside its path, and renames it once the disk has it.
fn put_in_directory(path: &FilePath, bytes: &[u8]) -> std::io::Result<()> {
    let Some(directory) = path.parent().filter(|_| !path.exists()) else { return Ok(()) };
    let beside = path.with_extension("parquet.part");
    fs::create_dir_all(directory)?;
    fs::write(&beside, bytes)?;
    File::open(&beside)?.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(directory)?.sync_all()
}

fn walk(directory: &FilePath, below: &str, paths: &mut Vec<String>) -> std::io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = format!("{below}/{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => walk(&entry.path(), &path, paths)?,
            false => paths.push(path),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_url_without_secrets() {
        let timeout = Duration::from_secs(1);
        for url in ["", "lake", "file://lake", "ftp://h/x", "s3://", "/mnt/lake"] {
            let error = Place::new(url, timeout).err().map(|error| format!("{error:#}"));
            let error = error.expect("it is no place");
            assert!(error.contains("expected"), "{url}: {error}");
        }
        for url in ["s3://key:cret@bucket/x", "az://c/x?sig=cret", "s3://b/#cret"] {
            let error = Place::new(url, timeout).err().map(|error| format!("{error:#}"));
            let error = error.expect("it has a secret");
            assert!(!error.contains("cret") && error.contains("environment"), "{url}: {error}");
        }
        assert_eq!(Place::new("file:///mnt/lake/", timeout).ok().unwrap().url, "file:///mnt/lake");
    }

    #[test]
    fn errors_show_no_parameters_of_urls() {
        let text =
            "Error \"https://a.blob.core.windows.net/c/x?sv=1&sig=cret\":\n <?xml a=1?>\n <b/>";
        let shown = "Error \"https://a.blob.core.windows.net/c/x\": <?xml a=1 <b/>";
        assert_eq!(without_parameters(text), shown);
    }
}

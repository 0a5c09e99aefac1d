//! A private redis-server in a directory: started as a child, adopted by every process that finds
//! it running, restarted when it dies, and stopped by the last process that uses it.
//!
//! ```text
//! <dir>/redis.sock     the Unix socket; elsewhere if this path is too long
//! <dir>/socket-dir     the path of that other directory
//! <dir>/password.conf  the password and what it permits, as Redis reads it
//! <dir>/id             a random name, by which processes tell this server from others
//! <dir>/users.lock     every process that uses the server holds it shared
//! <dir>/start.lock     held by the process that starts a server
//! <dir>/…              the append-only file
//! ```
//!
//! Its directories are this user's alone, and so is the process at the other end of its socket: a
//! server of another user is refused, whatever it answers.

mod start;

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ranking::store::server;
use ranking::{Error, Result};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use self::start::Started;
use super::files::{
    failed, is_private, keep_private, lock_file, lock_holders, own_user, write_private,
};

/// The longest path of a Unix socket, in bytes.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The name of the socket in its directory.
const SOCKET: &str = "redis.sock";

/// The longest time until a started server answers, loading included.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The longest wait for another process that stops the server.
const USERS_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A private redis-server. It counts as used while this value lives.
#[derive(Debug)]
pub struct PrivateRedis {
    dir: PathBuf,
    socket: PathBuf,
    url: String,
    users: File,
    /// Why the last revival failed; the log has it once.
    failure: Mutex<Option<String>>,
}

impl PrivateRedis {
    /// Starts the server of a directory, or adopts a running one.
    ///
    /// # Errors
    /// `Unavailable` if redis-server is not installed or does not start; `Invalid` if another user
    /// owns or runs some of it.
    pub async fn start(dir: &Path) -> Result<Self> {
        keep_private(dir)?;
        let dir = dir.canonicalize().map_err(|error| failed(dir, &error))?;
        let users = locked(&dir, "users.lock", File::try_lock_shared, USERS_TIMEOUT).await?;
        let (password, socket) = {
            let _start = locked(&dir, "start.lock", File::try_lock, START_TIMEOUT).await?;
            make_id(&dir)?;
            (password(&dir)?, socket_dir(&dir)?.join(SOCKET))
        };
        let url = format!("redis+unix://{}?pass={password}", socket.display());
        let server = Self { dir, socket, url, users, failure: Mutex::default() };
        server.ensure_running().await?;
        Ok(server)
    }

    /// The URL of the server, with its password.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Starts the server again unless it runs. Safe to call from many processes at once.
    ///
    /// # Errors
    /// `Unavailable` if it does not start; `Invalid` if a server of another user is in its place.
    pub async fn ensure_running(&self) -> Result<()> {
        if self.ask().await?.is_ok() {
            return Ok(());
        }
        let _start = locked(&self.dir, "start.lock", File::try_lock, START_TIMEOUT).await?;
        let mut started: Option<Started> = None;
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(error) = self.ask().await? {
            if let Some(started) = started.as_ref().filter(|started| started.has_ended()) {
                return Err(Error::Unavailable(started.failure()));
            }
            // A socket that refuses connections has no server; a server that answers LOADING is
            // starting.
            if started.is_none() && !self.listens().await? {
                started = Some(Started::spawn(&self.dir, &self.socket)?);
            }
            if Instant::now() >= deadline {
                return Err(Error::Unavailable(format!(
                    "redis-server in {} did not answer within {} s ({error}); its log is redis.log there",
                    self.dir.display(),
                    START_TIMEOUT.as_secs()
                )));
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// As [`Self::ensure_running`], for the background work: the log has a failure once, until
    /// another one follows.
    pub(crate) async fn revive(&self) {
        let failed = self.ensure_running().await.err().map(|error| error.to_string());
        let mut known = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failed) = failed.as_ref().filter(|failed| known.as_ref() != Some(*failed)) {
            tracing::error!("the private redis-server failed to start: {failed}");
        }
        *known = failed;
    }

    /// Makes the server save its data and stop, unless another process uses it.
    pub async fn stop(&self) {
        if self.users.unlock().is_err() || self.users.try_lock().is_err() {
            return;
        }
        if !self.listens().await.unwrap_or(false) {
            return;
        }
        // The server closes the connection instead of answering.
        let _ = server::shut_down(&self.url).await;
        for _ in 0..500 {
            if !self.listens().await.unwrap_or(false) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        tracing::warn!(dir = %self.dir.display(), "the private redis-server has not stopped within 5 s");
    }

    /// The server's answer to a ping; the outer error if a server of another user would give it.
    async fn ask(&self) -> Result<Result<()>> {
        match self.listens().await? {
            true => Ok(server::ping(&self.url).await),
            false => Ok(Err(Error::Unavailable("no server listens".into()))),
        }
    }

    /// True if a server of this user listens.
    ///
    /// # Errors
    /// `Invalid` if a server of another user listens.
    async fn listens(&self) -> Result<bool> {
        let Ok(connection) = UnixStream::connect(&self.socket).await else {
            return Ok(false);
        };
        let peer = connection.peer_cred().map_err(|error| failed(&self.socket, &error))?.uid();
        let own = own_user();
        if peer != own {
            return Err(Error::Invalid(format!(
                "the server at {} runs as user {peer}: expected a redis-server of user {own}; stop it",
                self.socket.display()
            )));
        }
        Ok(true)
    }
}

/// The name of the file with the password, a part of Redis' configuration.
const PASSWORD: &str = "password.conf";

/// The name of the file with the server's identity.
const ID: &str = "id";

/// The identity of the private Redis in a directory; empty if none has been started there.
pub(crate) fn known_id(dir: &Path) -> String {
    let known = std::fs::read_to_string(dir.join(ID)).unwrap_or_default();
    known.trim_end().to_owned()
}

/// Gives a directory an identity, unless it has one. The caller holds the lock of starts.
fn make_id(dir: &Path) -> Result<()> {
    if !known_id(dir).is_empty() {
        return Ok(());
    }
    let path = dir.join(ID);
    let line = format!("{}\n", entity::random_id());
    write_private(&path, &line).map_err(|error| failed(&path, &error))
}

/// The word before the password in its first line.
const REQUIRE: &str = "requirepass ";

/// The rights of a client with the password: all but to change the server itself, to load code into
/// it, or to send its data elsewhere.
const PERMITTED: &str = "~* +@all -acl -config +config|get +config|resetstat -debug -migrate -module -replicaof -slaveof";

/// The password of the server; the first call makes it. The caller holds the lock of starts.
fn password(dir: &Path) -> Result<String> {
    let path = dir.join(PASSWORD);
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let password = known.lines().find_map(|line| line.strip_prefix(REQUIRE)).map(str::to_owned);
    let password =
        password.unwrap_or_else(|| format!("{}{}", entity::random_id(), entity::random_id()));
    let lines = format!("{REQUIRE}{password}\nuser default on >{password} {PERMITTED}\n");
    if lines != known {
        write_private(&path, &lines).map_err(|error| failed(&path, &error))?;
    }
    Ok(password)
}

/// The directory of the socket: the server's own, or another one if the path would be too long. The
/// caller holds the lock of starts.
fn socket_dir(dir: &Path) -> Result<PathBuf> {
    let fits = |dir: &Path| dir.join(SOCKET).as_os_str().len() <= SOCKET_PATH_BYTES_MAX;
    if fits(dir) {
        return Ok(dir.to_owned());
    }
    let note = dir.join("socket-dir");
    if let Ok(known) = std::fs::read_to_string(&note) {
        let known = PathBuf::from(known.trim_end());
        if known.is_absolute() && is_private(&known)? {
            return Ok(known);
        }
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let places = runtime.into_iter().chain([std::env::temp_dir(), PathBuf::from("/tmp")]);
    // A variable may be empty, and a path must not depend on where the process began.
    let places = places.filter(|place| place.is_absolute());
    let name = format!("laurel-{}", &entity::random_id()[..16]);
    let mut refused = None;
    for made in places.map(|place| place.join(&name)).filter(|made| fits(made)) {
        // It fails if something is there, so no other user can have prepared it.
        match DirBuilder::new().mode(0o700).create(&made) {
            Ok(()) => {
                let line = format!("{}\n", made.display());
                write_private(&note, &line).map_err(|error| failed(&note, &error))?;
                return Ok(made);
            }
            Err(error) => refused = Some(failed(&made, &error)),
        }
    }
    Err(refused.unwrap_or_else(|| {
        let dir = dir.display();
        Error::Invalid(format!("the path of {dir} is too long for a Unix socket: expected a shorter LAUREL_DATA_DIR, XDG_RUNTIME_DIR or TMPDIR"))
    }))
}

/// A locked file; waits while other processes hold the lock.
///
/// # Errors
/// `Unavailable` after the timeout, with the holders.
async fn locked(
    dir: &Path,
    name: &str,
    try_lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
    timeout: Duration,
) -> Result<File> {
    let path = dir.join(name);
    let file = lock_file(&path)?;
    let deadline = Instant::now() + timeout;
    loop {
        match try_lock(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(failed(&path, &error)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(PAUSE).await,
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Unavailable(format!(
                    "{} was locked for {} s, by {}: expected it to be free; stop that process",
                    path.display(),
                    timeout.as_secs(),
                    lock_holders(&[&path])
                )));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_and_a_socket_directory_are_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let first = password(dir.path()).unwrap();
        assert_eq!((first.len(), password(dir.path()).unwrap()), (64, first));
        let long = dir.path().join("long".repeat(25));
        std::fs::create_dir(&long).unwrap();
        let made = socket_dir(&long).unwrap();
        assert!(!made.starts_with(&long) && is_private(&made).unwrap(), "{}", made.display());
        assert_eq!(socket_dir(&long).unwrap(), made);
        // Others could put a server there now.
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(socket_dir(&long).unwrap_err().to_string().contains("mode 777"));
        // A directory that was cleared away is made again, under another name.
        std::fs::remove_dir(&made).unwrap();
        let again = socket_dir(&long).unwrap();
        assert_ne!(again, made);
        std::fs::remove_dir(&again).unwrap();
    }

    #[tokio::test]
    async fn a_lock_that_stays_is_waited_for_and_its_holder_named() {
        let dir = tempfile::tempdir().unwrap();
        let held = locked(dir.path(), "a.lock", File::try_lock, Duration::ZERO).await.unwrap();
        let second = locked(dir.path(), "a.lock", File::try_lock_shared, PAUSE).await;
        let refused = second.unwrap_err().to_string();
        assert!(refused.contains("a.lock") && refused.contains("process"), "{refused}");
        drop(held);
        locked(dir.path(), "a.lock", File::try_lock_shared, Duration::ZERO).await.unwrap();
    }
}

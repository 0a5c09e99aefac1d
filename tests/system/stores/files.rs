//! The modes and owners of files.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;

use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program::signal;
use tests::wait::until;

/// The id of another user.
const OTHER_USER: u32 = 65_534;

/// A server on embedded stores, its output and its log.
struct Server {
    child: Child,
    printed: PathBuf,
    log: PathBuf,
}

impl Server {
    fn start(deployment: &Arc<Deployment>) -> Self {
        let (printed, log) = (deployment.new_file("out"), deployment.new_file("log"));
        let mut command = deployment.api(&["serve"]);
        command.env_remove("LAUREL_DATABASE_URL").env("LAUREL_LISTEN", "127.0.0.1:0");
        command.stdout(File::create(&printed).unwrap()).stderr(File::create(&log).unwrap());
        Self { child: command.spawn().unwrap(), printed, log }
    }

    async fn wait_until_started(&self) {
        until("the server prints its addresses", async || {
            let printed = fs::read_to_string(&self.printed).unwrap();
            printed.contains("token").then_some(())
        })
        .await;
    }

    /// Stops it; its log.
    fn stop(mut self) -> String {
        signal("TERM", self.child.id());
        assert!(self.child.wait().unwrap().success());
        fs::read_to_string(&self.log).unwrap()
    }
}

/// The modes of a directory and of all that is in it, by path.
fn modes(path: &Path) -> BTreeMap<PathBuf, u32> {
    let found = fs::symlink_metadata(path).unwrap();
    let mut modes = BTreeMap::from([(path.to_owned(), found.permissions().mode() & 0o777)]);
    if found.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            modes.extend(self::modes(&entry.unwrap().path()));
        }
    }
    modes
}

#[tokio::test]
async fn files_of_a_deployment_are_its_users_alone() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Private).await;
    let data = PathBuf::from(deployment.path("data"));
    let server = Server::start(&deployment);
    server.wait_until_started().await;
    let found = modes(&data);
    for name in [
        "admin-token",
        "laurel.sqlite",
        "laurel.sqlite-wal",
        "redis/appendonlydir",
        "redis/password.conf",
        "redis/redis.log",
        "redis/redis.sock",
        "redis/users.lock",
    ] {
        assert!(found.contains_key(&data.join(name)), "{name}: {found:?}");
    }
    assert!(found.values().all(|mode| mode & 0o077 == 0), "{found:?}");
    assert!(!server.stop().contains("other users had rights"));
    // An earlier version, or another program, left them open.
    for path in modes(&data).into_keys() {
        let wide = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, Permissions::from_mode(wide)).unwrap();
    }
    let server = Server::start(&deployment);
    server.wait_until_started().await;
    let found = modes(&data);
    assert!(found.values().all(|mode| mode & 0o077 == 0), "{found:?}");
    let log = server.stop();
    assert!(log.contains("other users had rights"), "{log}");
    // Only root can make a file of another user.
    if chown(data.join("laurel.sqlite"), Some(OTHER_USER), None).is_ok() {
        let mut server = Server::start(&deployment);
        assert!(!server.child.wait().unwrap().success());
        let log = fs::read_to_string(&server.log).unwrap();
        assert!(log.contains("belongs to user 65534"), "{log}");
    }
}

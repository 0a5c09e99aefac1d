//! A private Redis whose socket lies outside of its directory: other users cannot put theirs there.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use engine::deployment::private_redis::PrivateRedis;

use tests::servers::redis_server::RedisServer;
use tests::wait::until;

/// The id of another user.
const OTHER_USER: u32 = 65_534;

#[tokio::test]
async fn a_redis_in_a_directory_that_others_can_open_is_not_adopted() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("long".repeat(30));
    let server = PrivateRedis::start(&data).await.unwrap();
    server.stop().await;
    drop(server);
    let place = PathBuf::from(fs::read_to_string(data.join("socket-dir")).unwrap().trim_end());
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
    let fake = RedisServer::start(&place);
    fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
    let refused = PrivateRedis::start(&data).await.unwrap_err().to_string();
    assert!(refused.contains("mode 777"), "{refused}");
    // Only root can make files of another user.
    fs::set_permissions(&place, Permissions::from_mode(0o700)).unwrap();
    if chown(&place, Some(OTHER_USER), None).is_ok() {
        let refused = PrivateRedis::start(&data).await.unwrap_err().to_string();
        assert!(refused.contains("belongs to user 65534"), "{refused}");
    }
    drop(fake);
    fs::remove_dir_all(&place).unwrap();
    let again = PrivateRedis::start(&data).await.unwrap();
    again.stop().await;
    let place = fs::read_to_string(data.join("socket-dir")).unwrap();
    fs::remove_dir_all(place.trim_end()).unwrap();
}

#[tokio::test]
async fn a_redis_of_another_user_is_refused_even_in_a_directory_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o700)).unwrap();
    // Only root can start a process of another user.
    if chown(&data, Some(OTHER_USER), None).is_err() {
        return;
    }
    fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
    let socket = data.join("redis.sock");
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--unixsocketperm", "777", "--unixsocket"]);
    command.arg(&socket).arg("--dir").arg(&data).current_dir(&data).uid(OTHER_USER);
    let mut other = command.stdout(Stdio::null()).spawn().unwrap();
    until("the other server listens", async || {
        redis::Client::open(format!("redis+unix://{}", socket.display()))
            .unwrap()
            .get_connection()
            .ok()
            .map(|_| ())
    })
    .await;
    for path in [&data, &socket] {
        chown(path, Some(0), None).unwrap();
    }
    let refused = PrivateRedis::start(&data).await.map(|_| ());
    other.kill().unwrap();
    other.wait().unwrap();
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("runs as user 65534"), "{refused}");
}

#[tokio::test]
async fn a_private_redis_cannot_be_changed_by_its_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = PrivateRedis::start(dir.path()).await.unwrap();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut ask = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        redis::cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut connection)
    };
    for refused in [
        "CONFIG SET appendonly no",
        "CONFIG REWRITE",
        "REPLICAOF 127.0.0.1 1",
        "MIGRATE 127.0.0.1 1 a 0 1",
        "ACL SETUSER default +@all",
    ] {
        let error = ask(refused).unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"), "{refused}: {error}");
    }
    // Redis 7 refuses these by itself.
    for refused in ["MODULE LOAD /tmp/x.so", "DEBUG SLEEP 0"] {
        assert!(ask(refused).is_err(), "{refused}");
    }
    for allowed in ["CONFIG GET appendfsync", "SET a b", "INFO", "DUMP a"] {
        assert!(ask(allowed).is_ok(), "{allowed}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_private_redis_asks_for_its_password() {
    let dir = tempfile::tempdir().unwrap();
    let server = PrivateRedis::start(dir.path()).await.unwrap();
    let ask = |url: &str| {
        let mut connection = redis::Client::open(url).unwrap().get_connection()?;
        redis::cmd("PING").query::<String>(&mut connection)
    };
    let url = server.url();
    assert_eq!(ask(&url).unwrap(), "PONG");
    let (bare, _) = url.split_once('?').unwrap();
    assert!(ask(bare).unwrap_err().to_string().contains("NOAUTH"));
    server.stop().await;
}

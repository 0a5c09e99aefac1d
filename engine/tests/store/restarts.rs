//! Servers that restart, and private ones that processes share.

use std::time::Duration;

use engine::deployment::private_redis::PrivateRedis;
use ranking::Error;
use ranking::commit::ROOT_COMMIT;
use ranking::store::write::{Outcome, Writes};

use crate::server::{ALL, Server, commit_after, store};

#[tokio::test]
async fn a_restart_fences_until_it_is_recovered() {
    let mut server = Server::start(1).await;
    // From the next write on, every write is in the file.
    let () = server.raw(&["CONFIG", "SET", "appendfsync", "always"]).await;
    let () = server.raw(&["SET", "flushed", "1"]).await;
    let store = server.store.clone();
    let root = store.heads().await.unwrap()[0].clone().unwrap();
    let pid: String = server.raw(&["INFO", "server"]).await;
    let pid =
        pid.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap().trim().to_owned();
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    while server.redis.ensure_running().await.is_err()
        || store.run_id(ALL).await.is_ok_and(|run_id| *run_id == *root.run_id)
    {
        let _ = store.heads().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(store.heads().await.unwrap(), [Err(Error::NotLevel(0))]);
    assert_eq!(
        store.commit_writes(ALL, &root, &commit_after(&root, "one"), &Writes::default()).await,
        Ok(Outcome::Restarted)
    );

    let first = store.begin_recovery(ALL, "first").await.unwrap().unwrap();
    assert!(store.begin_recovery(ALL, "second").await.unwrap().is_none());
    let found = first.find(0, ROOT_COMMIT).await.unwrap();
    assert_eq!(found.head.map(|head| (head.seq, head.commit)), Some((0, ROOT_COMMIT.to_owned())));
    first.finish((0, ROOT_COMMIT), 1, 0, false).await.unwrap();
    let head = store.heads().await.unwrap()[0].clone().unwrap();
    assert_ne!(head.run_id, root.run_id);
    // Finishing a recovery gives up the right to recover.
    assert_eq!(first.apply(&Writes::default()).await, Err(Error::NotLevel(0)));
}

#[tokio::test]
async fn a_private_server_is_adopted_and_stopped_by_its_last_user() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) =
        tokio::join!(PrivateRedis::start(dir.path()), PrivateRedis::start(dir.path()));
    let (first, second) = (first.unwrap(), second.unwrap());
    let run_id = store(&first.url(), 1).run_id(ALL).await.unwrap();
    assert_eq!(store(&second.url(), 1).run_id(ALL).await.unwrap(), run_id);
    first.stop().await;
    assert_eq!(store(&second.url(), 1).run_id(ALL).await.unwrap(), run_id);
    let url = second.url();
    second.stop().await;
    assert!(redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.is_err());

    let deep = dir.path().join("d".repeat(120));
    let far = PrivateRedis::start(&deep).await.unwrap();
    assert!(store(&far.url(), 1).run_id(ALL).await.is_ok());
    far.stop().await;
}

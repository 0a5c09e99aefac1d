//! Commits: fast-forwards, or nothing.

use ranking::Error;
use ranking::store::write::{Outcome, Writes};

use crate::server::{ALL, Server, board, commit_after, key, member, standings};

#[tokio::test]
async fn a_commit_is_a_fast_forward_or_nothing() {
    let mut server = Server::start(1).await;
    let store = server.store.clone();
    let id = standings(&store, &board(1, 1)).id;
    let live = store.keys().standings(ALL, &id);
    let mut writes = Writes::default();
    writes.set_entries(&live, &[(member("a"), key(1))]);
    let root = store.heads().await.unwrap()[0].clone().unwrap();
    assert_eq!(
        store.commit_writes(ALL, &root, &commit_after(&root, "one"), &writes).await,
        Ok(Outcome::Done(vec![]))
    );
    let one = store.heads().await.unwrap()[0].clone().unwrap();
    assert_eq!((one.seq, &one.commit), (1, &commit_after(&root, "one").id));
    assert_eq!(
        store.commit_writes(ALL, &root, &commit_after(&root, "two"), &writes).await,
        Ok(Outcome::Stale)
    );

    let () = server.raw(&["SET", "test:{0}:foreign", "text"]).await;
    let mut into_foreign = Writes::default();
    into_foreign.set_entries(&live, &[(member("b"), key(2))]);
    into_foreign.set_entries("test:{0}:foreign", &[(member("b"), key(2))]);
    let refused = store.commit_writes(ALL, &one, &commit_after(&one, "two"), &into_foreign).await;
    assert!(matches!(refused, Ok(Outcome::Refused(Error::Corrupt(_)))), "{refused:?}");
    assert_eq!(server.raw::<u64>(&["ZCARD", &live]).await, 1);
    assert_eq!(store.log_after(ALL, 0, 10).await.unwrap().commits.len(), 1);

    // The scripts are gone, as after a restart: the commit is sent again, as the server did
    // nothing.
    let () = server.raw(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(
        store.commit_writes(ALL, &one, &commit_after(&one, "two"), &writes).await,
        Ok(Outcome::Done(vec![]))
    );

    let two = store.heads().await.unwrap()[0].clone().unwrap();
    assert_eq!(store.trim(ALL, &two.run_id, 1, 0).await, Ok(1));
    assert_eq!(store.trim(ALL, "another", 2, 0).await, Ok(0));
    assert_eq!(store.log_after(ALL, 0, 10).await.unwrap().commits.len(), 1);

    let () = server.raw(&["FLUSHALL"]).await;
    assert_eq!(
        store.commit_writes(ALL, &two, &commit_after(&two, "three"), &writes).await,
        Ok(Outcome::Restarted)
    );
    assert_eq!(store.size(&standings(&store, &board(1, 1))).await, Err(Error::NotLevel(0)));
}

#[tokio::test]
async fn out_of_memory_refuses_writes_and_changes_nothing() {
    let mut server = Server::start(1).await;
    let store = server.store.clone();
    let id = standings(&store, &board(1, 1)).id;
    let mut writes = Writes::default();
    writes.set_entries(&store.keys().standings(ALL, &id), &[(member("a"), key(1))]);
    let root = store.heads().await.unwrap()[0].clone().unwrap();
    let () = server.raw(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = store.commit_writes(ALL, &root, &commit_after(&root, "one"), &writes).await;
    assert!(matches!(refused, Ok(Outcome::Refused(Error::Overloaded(_)))), "{refused:?}");
    assert_eq!(store.size(&standings(&store, &board(1, 1))).await, Ok(0));
    let () = server.raw(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(
        store.commit_writes(ALL, &root, &commit_after(&root, "one"), &writes).await,
        Ok(Outcome::Done(vec![]))
    );
    let () = server.raw(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let health = store.health().await.unwrap().remove(0).unwrap();
    assert_eq!(health.eviction_policy.as_deref(), Some("allkeys-lru"));
    assert_eq!((health.appends, health.tells_config), (Some(true), true));
    assert_eq!(health.append_fsync.as_deref(), Some("everysec"));
    assert_eq!(health.expires_lazily, Some(true));
}

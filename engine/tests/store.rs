//! The store against a real redis-server: exact keys, reads over shards, and commits that are
//! fast-forwards or write nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "store/reads.rs"]
mod reads;

use std::sync::Arc;
use std::time::Duration;

use engine::deployment::private_redis::PrivateRedis;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use ranking::Error;
use ranking::board::rules::{Rules, RulesInput};
use ranking::board::{Board, Direction, Policy, TieBreak};
use ranking::commit::{Commit, Head, ROOT_COMMIT};
use ranking::id::{BoardNo, MemberId, Partition};
use ranking::rank_key::RankKey;
use ranking::shard::Partitions;
use ranking::standings_id::StandingsId;
use ranking::store::Store;
use ranking::store::key::KeySpace;
use ranking::store::read::{RankedEntry, Standings};
use ranking::store::stage::StageChange;
use ranking::store::stage::payload::{decode, encode};
use ranking::store::write::{Outcome, Writes};
use ranking::window::Window;

const ALL: Partition = Partition(0);

/// A private server with every partition level, and a raw connection to it.
struct Server {
    redis: PrivateRedis,
    store: Store,
    raw: redis::aio::MultiplexedConnection,
    _dir: tempfile::TempDir,
}

impl Server {
    async fn start(partitions: u16) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let redis = PrivateRedis::start(dir.path()).await.unwrap();
        let store = store(&redis, partitions);
        for partition in store.partitions().each() {
            store
                .begin_recovery(partition, "test")
                .await
                .unwrap()
                .unwrap()
                .finish(0, ROOT_COMMIT)
                .await
                .unwrap();
        }
        let raw = redis::Client::open(redis.url())
            .unwrap()
            .get_multiplexed_async_connection()
            .await
            .unwrap();
        Self { redis, store, raw, _dir: dir }
    }

    async fn raw<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.raw).await.unwrap()
    }

    async fn calls(&mut self, command: &str) -> u64 {
        let stats: String = self.raw(&["INFO", "commandstats"]).await;
        let line = stats.lines().find_map(|line| {
            line.strip_prefix(&format!("cmdstat_{command}:calls=")).map(str::to_owned)
        });
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }
}

fn store(redis: &PrivateRedis, partitions: u16) -> Store {
    let keys = KeySpace::new("test").unwrap();
    Store::new(&redis.url(), keys, Partitions::new(partitions).unwrap(), Duration::from_secs(10))
        .unwrap()
}

fn board(no: i64, shards: u16) -> Board {
    let rules = Rules::new(RulesInput {
        direction: Direction::HighFirst,
        policy: Policy::Sum,
        tie_break: TieBreak::Earliest,
        tick_ms: None,
        decimals: 0,
        min: 0,
        max: 999_999_999,
        zone: TimeZone::UTC,
        shards,
        windows: vec![],
    });
    Board {
        no: BoardNo(no),
        generation: 1,
        admission: Default::default(),
        added: Default::default(),
        layouts: Default::default(),
        rules: Arc::new(rules.unwrap()),
    }
}

fn standings(store: &Store, board: &Board) -> Standings {
    let period = Window::All.period_at(0, &board.rules.zone).unwrap();
    let id = StandingsId {
        board: board.no,
        generation: 1,
        segment: String::new(),
        window: Window::All,
        period: "all".into(),
    };
    Standings::new(store, board, id, period)
}

fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

fn key(key: i64) -> RankKey {
    RankKey::from_i64(key).unwrap()
}

fn commit_after(head: &Head, id: &str) -> Commit {
    Commit {
        seq: head.seq + 1,
        id: id.to_owned(),
        parent: head.commit.clone(),
        accepted_at_ms: 0,
        events: vec![],
    }
}

/// Loads entries into the shards of a board, each partition by a commit of its own.
async fn load(store: &Store, board: &Board, entries: &[RankedEntry]) {
    for shard in 0..board.rules.shards {
        let partition = store.partitions().of(board, shard);
        let own: Vec<_> = entries
            .iter()
            .filter(|entry| store.partitions().of_member(board, &entry.member) == partition)
            .map(|entry| (entry.member.clone(), entry.key))
            .collect();
        let head = store.heads().await.unwrap()[usize::from(partition.0)].clone().unwrap();
        let mut writes = Writes::default();
        writes.set_entries(&store.keys().standings(partition, &standings(store, board).id), &own);
        let commit = commit_after(&head, &format!("{}-{shard}", board.no));
        assert_eq!(
            store.commit_writes(partition, &head, &commit, &writes).await,
            Ok(Outcome::Done)
        );
    }
}

#[tokio::test]
async fn redis_orders_and_gives_back_every_key_exactly() {
    let mut server = Server::start(1).await;
    let mut runner = TestRunner::new(Config::with_cases(40));
    let keys = proptest::collection::vec(
        prop_oneof![0..1_i64 << 62, Just(0), Just((1 << 62) - 1), 0..3_i64],
        1..300,
    );
    for _ in 0..40 {
        let mut keys = keys.new_tree(&mut runner).unwrap().current();
        let mut command = redis::cmd("ZADD");
        command.arg("k");
        for (index, &number) in keys.iter().enumerate() {
            command.arg(key(number).to_redis()).arg(format!("{index:04}"));
        }
        let () = command.query_async(&mut server.raw).await.unwrap();
        let entries: Vec<(String, f64)> =
            server.raw(&["ZRANGE", "k", "0", "-1", "WITHSCORES"]).await;
        let read: Vec<i64> = entries
            .into_iter()
            .map(|(_, double)| RankKey::from_f64(double).unwrap().to_i64())
            .collect();
        keys.sort_unstable();
        assert_eq!(read, keys);
        let () = server.raw(&["DEL", "k"]).await;
    }
    server.redis.stop().await;
}

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
        Ok(Outcome::Done)
    );
    let one = store.heads().await.unwrap()[0].clone().unwrap();
    assert_eq!((one.seq, one.commit.as_str()), (1, "one"));
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
        Ok(Outcome::Done)
    );

    let two = store.heads().await.unwrap()[0].clone().unwrap();
    assert_eq!(store.trim(ALL, &two.run_id, 1).await, Ok(1));
    assert_eq!(store.trim(ALL, "another", 2).await, Ok(0));
    assert_eq!(store.log_after(ALL, 0, 10).await.unwrap().commits.len(), 1);

    let () = server.raw(&["FLUSHALL"]).await;
    assert_eq!(
        store.commit_writes(ALL, &two, &commit_after(&two, "three"), &writes).await,
        Ok(Outcome::Restarted)
    );
    assert_eq!(store.size(&standings(&store, &board(1, 1))).await, Err(Error::NotLevel(0)));
    server.redis.stop().await;
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
    assert!(matches!(refused, Ok(Outcome::Refused(Error::Unavailable(_)))), "{refused:?}");
    assert_eq!(store.size(&standings(&store, &board(1, 1))).await, Ok(0));
    let () = server.raw(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(
        store.commit_writes(ALL, &root, &commit_after(&root, "one"), &writes).await,
        Ok(Outcome::Done)
    );
    let () = server.raw(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    assert!(matches!(store.check_server().await, Err(Error::Invalid(_))));
    server.redis.stop().await;
}

#[tokio::test]
async fn redis_takes_payloads_and_gives_them_back() {
    let mut server = Server::start(1).await;
    let store = server.store.clone();
    let name = |index: usize| match index % 4 {
        // Redis writes numbers and repetitive text in forms of their own.
        0 => (index as i64 * 7_000_001 - 3_000_000_000).to_string(),
        1 => format!("{}{index}", "long".repeat(20)),
        2 => index.to_string(),
        _ => format!("ü{index}"),
    };
    for count in [1, 2, 500, 20_000] {
        let mut entries: Vec<(f64, Vec<u8>)> = (0..count)
            .map(|index| {
                let key = key((index as i64 % 97) * 47_000_000_000_000_000 + 1);
                (key.to_f64(), name(index).into_bytes())
            })
            .collect();
        entries
            .sort_unstable_by(|(a, a_name), (b, b_name)| a.total_cmp(b).then(a_name.cmp(b_name)));
        let entries: Vec<(Vec<u8>, f64)> =
            entries.into_iter().map(|(double, member)| (member, double)).collect();
        let pairs = entries.iter().map(|(member, double)| (member.as_slice(), *double));
        let key = format!("test:{{0}}:restored:{count}");
        let restore =
            redis::Cmd::new().arg("RESTORE").arg(&key).arg(0).arg(encode(pairs)).to_owned();
        let () = restore.query_async(&mut server.raw).await.unwrap();
        let read: Vec<(Vec<u8>, f64)> =
            server.raw(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await;
        assert_eq!(read, entries);
        let dumped = store.dump(&["test:{0}:nothing".to_owned(), key]).await.unwrap();
        let [None, Some(payload)] = &dumped[..] else {
            panic!("{dumped:?}");
        };
        // A small set of short members has a form of its own.
        let expected = (count > 1).then_some(entries);
        assert_eq!(decode(payload), Ok(expected));
    }
    server.redis.stop().await;
}

#[tokio::test]
async fn a_standings_of_any_size_is_staged_and_expires() {
    let mut server = Server::start(1).await;
    let store = server.store.clone();
    let id = |number: usize| StandingsId {
        period: number.to_string(),
        ..standings(&store, &board(1, 1)).id
    };
    let names: Vec<String> = (0..120_001).map(|index| format!("m{index:07}")).collect();
    let entry = |index: usize| (names[index].as_str(), key(index as i64 / 3));
    let stages = store.stages(ALL, "s".to_owned()).await.unwrap();
    let mut by_restore = 0;
    for (number, count) in [1, 300, 50_000, 50_001, 120_001, 120_001].into_iter().enumerate() {
        let is_exclusive = number == 5;
        if is_exclusive {
            store.load_exclusively();
        }
        let key = stages.load(&id(number), count, entry).await.unwrap();
        by_restore += u64::from(count <= 50_000 || is_exclusive);
        assert_eq!(server.calls("restore").await, by_restore);
        let mut read: Vec<(String, f64)> = vec![];
        while read.len() < count {
            let (from, to) = (read.len().to_string(), (read.len() + 9999).to_string());
            let part: Vec<(String, f64)> =
                server.raw(&["ZRANGE", &key, &from, &to, "WITHSCORES"]).await;
            read.extend(part);
        }
        let expected = (0..count).map(entry);
        let expected = expected.map(|(name, key)| (name.to_owned(), key.to_f64()));
        assert!(read.into_iter().eq(expected), "{count}");
        let lives_ms: i64 = server.raw(&["PTTL", &key]).await;
        assert!((200_000..=300_000).contains(&lives_ms), "{lives_ms}");
    }
    // A user may be forbidden to use RESTORE.
    let () = server.raw(&["ACL", "SETUSER", "default", "-restore"]).await;
    let added = stages.load(&id(7), 5, entry).await.unwrap();
    assert_eq!(server.raw::<u64>(&["ZCARD", &added]).await, 5);
    let nothing = stages.load(&id(9), 0, entry).await.unwrap();
    assert_eq!(server.raw::<u64>(&["EXISTS", &nothing]).await, 0);

    let change = |set: &[&str], gone: &[&str]| StageChange {
        key: stages.key(&id(1)),
        set: set.iter().map(|name| (member(name), key(7))).collect(),
        gone: gone.iter().map(|name| member(name)).collect(),
    };
    let changes = [change(&["m0000000", "new"], &["m0000001", "nobody"])];
    assert_eq!(stages.change(&changes).await, Ok(vec![300]));
    let names = ["m0000000", "m0000001", "new", "m0000299"].map(member);
    let wanted = [(&*stages.key(&id(1)), names.to_vec()), (&*nothing, vec![member("a")])];
    let expected = vec![vec![Some(key(7)), None, Some(key(7)), Some(key(99))], vec![None]];
    assert_eq!(stages.rank_keys(&wanted).await, Ok(expected));

    // Nothing is renamed into place once a part may be missing.
    let root = store.heads().await.unwrap()[0].clone().unwrap();
    let mut writes = Writes::default();
    stages.guard(&mut writes);
    writes.swap_in(&stages.key(&id(1)), &store.keys().standings(ALL, &id(1)));
    assert_eq!(stages.is_whole().await, Ok(true));
    let () = server.raw(&["DEL", &store.keys().stage_mark(ALL, "s")]).await;
    assert_eq!(stages.is_whole().await, Ok(false));
    let commit = commit_after(&root, "one");
    let refused = store.commit_writes(ALL, &root, &commit, &writes).await;
    assert!(matches!(refused, Ok(Outcome::Refused(Error::Corrupt(_)))), "{refused:?}");
    assert_eq!(store.heads().await.unwrap()[0], Ok(root));

    let () = server.raw(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for count in [10, 60_000] {
        let refused = stages.load(&id(8), count, entry).await;
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    }
    stages.discard().await.unwrap();
    let left: Vec<String> = server.raw(&["KEYS", "test:*stage*"]).await;
    assert_eq!(left, [""; 0]);
    server.redis.stop().await;
}

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
    first.finish(0, ROOT_COMMIT).await.unwrap();
    let head = store.heads().await.unwrap()[0].clone().unwrap();
    assert_ne!(head.run_id, root.run_id);
    // Finishing a recovery gives up the right to recover.
    assert_eq!(first.apply(&Writes::default()).await, Err(Error::NotLevel(0)));
    server.redis.stop().await;
}

#[tokio::test]
async fn a_private_server_is_adopted_and_stopped_by_its_last_user() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) =
        tokio::join!(PrivateRedis::start(dir.path()), PrivateRedis::start(dir.path()));
    let (first, second) = (first.unwrap(), second.unwrap());
    let run_id = store(&first, 1).run_id(ALL).await.unwrap();
    assert_eq!(store(&second, 1).run_id(ALL).await.unwrap(), run_id);
    first.stop().await;
    assert_eq!(store(&second, 1).run_id(ALL).await.unwrap(), run_id);
    let url = second.url();
    second.stop().await;
    assert!(redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.is_err());

    let deep = dir.path().join("d".repeat(120));
    let far = PrivateRedis::start(&deep).await.unwrap();
    assert!(store(&far, 1).run_id(ALL).await.is_ok());
    far.stop().await;
}

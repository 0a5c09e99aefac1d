//! Payloads and staged standings.

use ranking::Error;
use ranking::standings_id::StandingsId;
use ranking::store::stage::StageChange;
use ranking::store::stage::payload::{decode, encode};
use ranking::store::write::{Outcome, Writes};

use crate::server::{ALL, Server, board, commit_after, key, member, standings};

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
}

#[tokio::test]
async fn standings_of_any_size_are_staged_and_expire() {
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
        assert!(matches!(refused, Err(Error::Overloaded(_))), "{refused:?}");
    }
    stages.discard().await.unwrap();
    let left: Vec<String> = server.raw(&["KEYS", "test:*stage*"]).await;
    assert_eq!(left, [""; 0]);
}

//! Reads over shards.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use ranking::board::Board;
use ranking::id::MemberId;
use ranking::rank_key::RankKey;
use ranking::store::Store;
use ranking::store::read::merge::Start;
use ranking::store::read::{RankedEntry, Standings};
use ranking::store::write::{Outcome, Writes};

use crate::server::{Server, board, commit_after, key, member, standings};

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

/// Entries with few distinct keys and members of every kind of bytes, so that runs of equal keys
/// span shards.
fn entries() -> impl Strategy<Value = Vec<RankedEntry>> {
    let name =
        prop_oneof!["[a-c]{1,2}", "[ü-ÿ]{1,2}", "[A-Z][a-z]", "\u{1F3C6}[0-9]{1,2}", "m[0-9]{1,3}"];
    let key_strategy = prop_oneof![3 => 0..4_i64, 1 => 0..1_i64 << 62];
    proptest::collection::btree_map(name, key_strategy, 0..120).prop_map(|entries| {
        entries
            .into_iter()
            .map(|(name, number)| RankedEntry { key: key(number), member: member(&name) })
            .collect()
    })
}

#[tokio::test]
async fn reads_over_shards_are_those_of_one_sorted_list() {
    let server = Server::start(16).await;
    let mut runner = TestRunner::new(Config::default());
    for (round, shards) in [1, 2, 4, 16].into_iter().cycle().take(32).enumerate() {
        let board = board(round as i64 + 1, shards);
        let entries = entries().new_tree(&mut runner).unwrap().current();
        load(&server.store, &board, &entries).await;
        check_reads(&server.store, &standings(&server.store, &board), entries).await;
    }
    server.redis.stop().await;
}

async fn check_reads(store: &Store, standings: &Standings, unsorted: Vec<RankedEntry>) {
    let mut list = unsorted.clone();
    list.sort_unstable();
    assert_eq!(store.size(standings).await, Ok(list.len() as u64));
    let members: Vec<MemberId> =
        unsorted.iter().map(|entry| entry.member.clone()).chain([member("nobody")]).collect();
    let mut expected: Vec<Option<RankKey>> = unsorted.iter().map(|entry| Some(entry.key)).collect();
    expected.push(None);
    assert_eq!(store.rank_keys(standings, &members).await.unwrap(), expected);
    let position = |entry: &RankedEntry| {
        list.iter().position(|other| other == entry).map(|position| position as u64)
    };
    assert_eq!(
        store.positions(standings, &unsorted).await.unwrap(),
        unsorted.iter().map(position).collect::<Vec<_>>()
    );
    let keys: Vec<RankKey> = list.iter().map(|entry| entry.key).collect();
    let below = |key: &RankKey| list.iter().filter(|entry| entry.key < *key).count() as u64;
    assert_eq!(
        store.counts_below(standings, &keys).await.unwrap(),
        keys.iter().map(below).collect::<Vec<_>>()
    );
    for at in (0..=list.len() + 1).step_by(7) {
        let split = store.split_at_position(standings, at as u64).await.unwrap();
        let rest = list.get(at..).unwrap_or_default();
        let at = at.min(split.position() as usize);
        let start = Start::Split(split.clone());
        for limit in [0, 1, 5, 1000] {
            assert_eq!(
                store.forward(standings, &start, limit).await.unwrap(),
                (at as u64, rest[..limit.min(rest.len())].to_vec())
            );
        }
        if at <= list.len() {
            assert_eq!(split.position(), at as u64);
            for limit in [1, 5, 1000] {
                assert_eq!(
                    store.backward(standings, &start, limit).await.unwrap(),
                    (at as u64, list[at.saturating_sub(limit)..at].to_vec())
                );
            }
        }
    }
    for (at, entry) in list.iter().enumerate().step_by(5) {
        let (first, around) =
            store.neighbors(standings, &entry.member, 3, 2).await.unwrap().unwrap();
        let start = at.saturating_sub(3);
        assert_eq!(
            (first, around.as_slice()),
            (start as u64, &list[start..(at + 3).min(list.len())])
        );
        // A place without an entry: right behind the entry.
        let behind = RankedEntry { key: entry.key, member: member(&format!("{}!", entry.member)) };
        let before = list.iter().filter(|other| **other < behind).count();
        for place in [behind, entry.clone()] {
            let before = before - usize::from(place == *entry);
            let start = Start::Place(place);
            for limit in [0, 1, 7, 1000] {
                let on = list[before..].iter().take(limit).cloned().collect();
                assert_eq!(
                    store.forward(standings, &start, limit).await.unwrap(),
                    (before as u64, on)
                );
                let back = list[before.saturating_sub(limit)..before].to_vec();
                assert_eq!(
                    store.backward(standings, &start, limit).await.unwrap(),
                    (before as u64, back)
                );
            }
        }
    }
    assert_eq!(store.neighbors(standings, &member("nobody"), 3, 2).await, Ok(None));
}

#[tokio::test]
async fn a_place_in_a_run_of_equal_keys_costs_a_bisection() {
    let mut server = Server::start(2).await;
    let board = board(1, 2);
    let run: Vec<RankedEntry> = (0..40_000)
        .map(|index| RankedEntry { key: key(7), member: member(&format!("m{index:05}")) })
        .collect();
    for part in run.chunks(20_000) {
        load(&server.store, &board, part).await;
    }
    let standings = standings(&server.store, &board);
    let () = server.raw(&["CONFIG", "RESETSTAT"]).await;
    assert_eq!(
        server.store.positions(&standings, &run[31_234..31_235]).await,
        Ok(vec![Some(31_234)])
    );
    let steps = server.calls("zrange").await;
    assert!((10..=16).contains(&steps), "{steps} steps for a run of 20,000");
    server.redis.stop().await;
}

//! Reads over shards: each is that of one sorted list, also where many are read together.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use ranking::board::Board;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::store::Store;
use ranking::store::read::merge::Start;
use ranking::store::read::{Range, RankedEntry, Standings};
use ranking::store::write::{Outcome, Writes};
use ranking::window::Window;

use crate::server::{Server, board, commit_after, key, member, standings};

/// A day, in milliseconds.
const DAY_MS: i64 = 86_400_000;

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
            Ok(Outcome::Done(vec![]))
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
        let standings = standings(&server.store, &board);
        check_reads(&server.store, &standings, entries.clone()).await;
        check_batches(&server.store, &standings, entries, AROUND[round % AROUND.len()]).await;
    }
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

/// Entries above and below in neighborhoods.
const AROUND: [[usize; 2]; 6] = [[0, 0], [0, 3], [2, 0], [5, 5], [30, 1], [1000, 1000]];

/// Reads of many places at once, each as the sorted list or a read of one place has it.
async fn check_batches(
    store: &Store,
    standings: &Standings,
    unsorted: Vec<RankedEntry>,
    [above, below]: [usize; 2],
) {
    let mut list = unsorted.clone();
    list.sort_unstable();
    let positions: Vec<u64> = (0..list.len() as u64 + 2).rev().chain([0, 1, 1]).collect();
    let found = store.at_positions(standings, &positions).await.unwrap();
    for (&position, found) in positions.iter().zip(&found) {
        let at = list.len().min(position as usize);
        assert_eq!(found.split.position(), at as u64);
        assert_eq!(found.entry, list.get(at).cloned());
        let start = Start::Split(found.split.clone());
        let (_, rest) = store.forward(standings, &start, 3).await.unwrap();
        assert_eq!(rest, list[at..list.len().min(at + 3)]);
    }
    let pages: Vec<(u64, usize)> =
        positions.into_iter().zip([0, 1, 5, 1].into_iter().cycle()).collect();
    let page = |&(position, limit): &(u64, usize)| {
        let at = list.len().min(position as usize);
        list[at..list.len().min(at + limit)].to_vec()
    };
    assert_eq!(
        store.pages_from(standings, &pages).await.unwrap(),
        pages.iter().map(page).collect::<Vec<_>>()
    );
    let members: Vec<MemberId> =
        unsorted.iter().map(|entry| entry.member.clone()).chain([member("nobody")]).collect();
    let mut alone = vec![];
    for member in &members {
        alone.push(store.neighbors(standings, member, above, below).await.unwrap());
    }
    let together = store.neighborhoods(standings, &members, above, below).await.unwrap();
    assert_eq!(together, alone, "{above} above, {below} below");
}

/// Entries of one key, named so that their order is that of their numbers.
fn run(count: usize) -> Vec<RankedEntry> {
    let entry = |index| RankedEntry { key: key(7), member: member(&format!("m{index:05}")) };
    (0..count).map(entry).collect()
}

#[tokio::test]
async fn places_in_a_run_of_equal_keys_are_counted_together() {
    let mut server = Server::start(4).await;
    let board = board(1, 4);
    let run = run(20_000);
    load(&server.store, &board, &run).await;
    let standings = standings(&server.store, &board);
    let some: Vec<RankedEntry> = run.iter().step_by(20).rev().cloned().collect();
    let expected: Vec<Option<u64>> =
        (0..20_000_u32).step_by(20).rev().map(|place| Some(place.into())).collect();
    let () = server.raw(&["CONFIG", "RESETSTAT"]).await;
    assert_eq!(server.store.positions(&standings, &some).await.unwrap(), expected);
    let steps = server.calls("zrange").await;
    assert!(steps <= 1500, "{steps} steps for 1,000 places in 4 runs of 5,000");
    let positions: Vec<u64> = (0..20_000).step_by(100).collect();
    let () = server.raw(&["CONFIG", "RESETSTAT"]).await;
    let found = server.store.at_positions(&standings, &positions).await.unwrap();
    let found: Vec<Option<RankedEntry>> = found.into_iter().map(|found| found.entry).collect();
    assert_eq!(found, run.iter().step_by(100).cloned().map(Some).collect::<Vec<_>>());
    let scripts = server.calls("evalsha").await;
    assert!(scripts <= 88, "{scripts} scripts for 200 positions in 4 shards");
}

#[tokio::test]
async fn a_position_far_down_is_found_in_a_few_rounds() {
    let mut server = Server::start(16).await;
    let board = board(1, 16);
    let entry = |index: i64| RankedEntry { key: key(index), member: member(&index.to_string()) };
    let list: Vec<RankedEntry> = (0..30_000).map(entry).collect();
    load(&server.store, &board, &list).await;
    let standings = standings(&server.store, &board);
    for position in [17, 5000, 15_000, 29_970] {
        let () = server.raw(&["CONFIG", "RESETSTAT"]).await;
        let found = server.store.at_positions(&standings, &[position]).await.unwrap();
        assert_eq!(found[0].entry.as_ref(), list.get(position as usize));
        let scripts = server.calls("evalsha").await;
        assert!(scripts <= 12 * 16, "{scripts} scripts for position {position}");
    }
}

#[tokio::test]
async fn a_place_in_a_run_of_equal_keys_costs_a_bisection() {
    let mut server = Server::start(2).await;
    let board = board(1, 2);
    let run = run(40_000);
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
    assert!((8..=16).contains(&steps), "{steps} steps for a run of 20,000");
}

#[tokio::test]
async fn periods_are_counted_as_they_are_listed() {
    let mut server = Server::start(4).await;
    let store = server.store.clone();
    let board = board(1, 4);
    let daily = |day: i64| Window::Daily.period_at(day * DAY_MS, &board.rules.calendar).unwrap();
    let id = |day: i64| {
        let all = standings(&store, &board).id;
        StandingsId { window: Window::Daily, period: daily(day).label, ..all }
    };
    for day in 0..300 {
        let (id, from) = (id(day), daily(day).present_from_ms.to_string());
        for partition in store.partitions().each() {
            let number = i64::from(partition.0);
            if day % 4 <= number {
                let list = store.keys().periods(partition, &id);
                let () = server.raw(&["ZADD", &list, &from, &id.period]).await;
            }
            // Some periods have lost their entries in a shard, some in all.
            if day % 4 <= number && day % 5 != number && day % 7 != 0 {
                let () =
                    server.raw(&["ZADD", &store.keys().standings(partition, &id), "1", "a"]).await;
            }
        }
    }
    let read = Standings::new(&store, &board, id(0), daily(0));
    for [from, before] in [[0, 300], [0, 150], [100, 101], [299, 400], [20, 20]] {
        let [from_ms, before_ms] = [from, before].map(|day| daily(day).present_from_ms);
        let listed = store.periods(&read, Range::Before(before_ms), 1000).await.unwrap();
        let expected = listed.iter().filter(|listed| listed.present_from_ms >= from_ms).count();
        assert_eq!(store.count_periods(&read, from_ms, before_ms).await, Ok(expected as u64));
    }
}

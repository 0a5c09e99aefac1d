//! Snapshots: however many marks a batch wants, and whatever stands in the place of its standings.

use ranking::Error;
use ranking::board::mark::BoardMark;
use ranking::id::BoardNo;
use ranking::store::write::{Dedup, Outcome, Writes};
use ranking::submission::Wanted;
use ranking::window::Window;
use ranking::window::seal::{SealMark, SealName};

use crate::server::{ALL, Server, board, commit_after, key, member, standings};

const DEDUP: Dedup = Dedup { window_ms: 3_600_000 };

#[tokio::test]
async fn a_snapshot_reads_more_marks_than_one_command_of_lua_takes() {
    let server = Server::start(1).await;
    let store = &server.store;
    let name =
        |board, generation| SealName { board: BoardNo(board), generation, window: Window::Daily };
    let (boards, generations) = (1000, 16);
    let seals = (1..=boards).flat_map(|no| (1..=generations).map(move |since| name(no, since)));
    let wanted = Wanted {
        boards: (1..=boards).map(BoardNo).collect(),
        seals: seals.collect(),
        ..Wanted::default()
    };
    let sealed = SealMark { sealing_before_ms: 7, dropped_before_ms: 7, seq: 1 };
    let mut writes = Writes::default();
    writes.mark_board(store.keys(), ALL, BoardNo(boards), BoardMark::Deleted);
    writes.mark_seal(store.keys(), ALL, name(boards, generations), sealed);
    let root = store.heads().await.unwrap()[0].clone().unwrap();
    let written = store.commit_writes(ALL, &root, &commit_after(&root, "one"), &writes).await;
    assert_eq!(written, Ok(Outcome::Done(vec![])));

    let snapshot = store.snapshot(ALL, &wanted, DEDUP).await.unwrap();
    assert_eq!(snapshot.boards.len(), wanted.boards.len());
    assert_eq!(snapshot.boards[0], BoardMark::Generation(1));
    assert_eq!(snapshot.boards.last(), Some(&BoardMark::Deleted));
    assert_eq!(snapshot.seals.len(), wanted.seals.len());
    assert_eq!(snapshot.seals[0], SealMark::default());
    assert_eq!(snapshot.seals.last(), Some(&sealed));
    // One that wants nothing has only the head and the log.
    let snapshot = store.snapshot(ALL, &Wanted::default(), DEDUP).await.unwrap();
    assert_eq!((snapshot.head.seq, snapshot.log_len), (1, 1));
}

#[tokio::test]
async fn a_foreign_key_in_the_place_of_standings_hides_no_other_standings() {
    let mut server = Server::start(1).await;
    let store = server.store.clone();
    let ids = [1, 2].map(|no| standings(&store, &board(no, 1)).id);
    let [own, foreign] = ids.clone().map(|id| store.keys().standings(ALL, &id));
    let mut writes = Writes::default();
    writes.set_entries(&own, &[(member("a"), key(5))]);
    let root = store.heads().await.unwrap()[0].clone().unwrap();
    let written = store.commit_writes(ALL, &root, &commit_after(&root, "one"), &writes).await;
    assert_eq!(written, Ok(Outcome::Done(vec![])));
    let () = server.raw(&["SET", &foreign, "text"]).await;

    let members = vec![member("a"), member("b")];
    let wanted = Wanted {
        boards: vec![BoardNo(1), BoardNo(2)],
        standings: ids.map(|id| (id, members.clone())).into(),
        ..Wanted::default()
    };
    let snapshot = store.snapshot(ALL, &wanted, DEDUP).await.unwrap();
    assert_eq!(snapshot.keys[0], [Ok(Some(key(5))), Ok(None)]);
    for refused in &snapshot.keys[1] {
        let Err(Error::Corrupt(reason)) = refused else {
            panic!("{refused:?} is no refusal");
        };
        assert!(reason.contains(&foreign) && reason.contains("delete"), "{reason}");
    }
}

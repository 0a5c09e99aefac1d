//! The agenda of the background work: it learns of every change of a board, by any process, and one
//! bad board, a late mark or a wrong clock keeps no board from its work.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::board::agenda::Agenda;
use engine::board::windows;
use engine::deployment::Deployment as Stores;
use engine::{roll, seal};
use entity::board::{self, WindowRow, WindowState, windows_text};
use ranking::board::Board;
use ranking::id::PartitionNo;
use ranking::submission::Verdict;
use ranking::window::Window;
use sea_orm::{ConnectionTrait, DatabaseConnection};

use tests::boards::in_process::{point, submit_at, summing_board};
use tests::boards::many::insert_many;
use tests::boards::rolling::stores;
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};

const MINUTE_MS: i64 = 60_000;

async fn refresh(agenda: &Agenda, stores: &Stores) {
    agenda.refresh(stores).await.unwrap();
}

/// The boards that the agenda knows of as deleted.
fn deleted(agenda: &Agenda) -> usize {
    agenda.deleted_before(i64::MAX).len()
}

/// Inserts deleted boards, all the numbers of a range.
async fn insert_deleted(db: &DatabaseConnection, from: usize, to: usize) {
    insert_many(db, from..to, |row| row.deleted_at_ms = Some(1)).await;
}

async fn execute(db: &DatabaseConnection, statement: &str) {
    db.execute_unprepared(statement).await.unwrap();
}

/// Stores in this process, and a connection of another one.
async fn two_processes(sql: Sql) -> (Arc<Deployment>, Stores, DatabaseConnection) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let (stores, db) = (deployment.open_stores().await, deployment.sql().await);
    (deployment, stores, db)
}

async fn check_changes(sql: Sql) {
    let (_deployment, stores, db) = two_processes(sql).await;
    let agenda = Agenda::default();
    refresh(&agenda, &stores).await;
    insert_many(&db, 0..3, |_| {}).await;
    refresh(&agenda, &stores).await;
    assert_eq!((agenda.unfinished(), agenda.has_moves(), deleted(&agenda)), (vec![], false, 0));

    let filling = windows_text(&[WindowRow::new(Window::Daily, 2, WindowState::Filling)]);
    execute(&db, &format!("UPDATE board SET windows = '{filling}' WHERE no = 2")).await;
    execute(&db, "UPDATE board SET reshard = '{}' WHERE no = 1").await;
    execute(&db, "UPDATE board SET deleted_at_ms = 5 WHERE no = 3").await;
    assert!(agenda.unfinished().is_empty());
    refresh(&agenda, &stores).await;
    assert_eq!((agenda.unfinished(), agenda.has_moves()), (vec![2], true));
    assert_eq!((agenda.deleted_before(5), agenda.deleted_before(6)), (vec![], vec![3]));

    execute(&db, "UPDATE board SET windows = '[]', reshard = NULL WHERE no < 3").await;
    execute(&db, "UPDATE board SET purged_at_ms = 6 WHERE no = 3").await;
    refresh(&agenda, &stores).await;
    assert_eq!((agenda.unfinished(), agenda.has_moves(), deleted(&agenda)), (vec![], false, 0));
    stores.close().await;
}

#[tokio::test]
async fn changes_by_another_process_are_seen_on_sqlite() {
    check_changes(Sql::Sqlite).await;
}

#[tokio::test]
async fn changes_by_another_process_are_seen_on_postgresql() {
    check_changes(Sql::Postgres).await;
}

#[tokio::test]
async fn changes_by_another_process_are_seen_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_changes(sql).await;
    }
}

const HIGH_FIRST: &str = "UPDATE board SET direction = 'HIGH_FIRST' WHERE no = 1500";

async fn check_pages(sql: Sql) {
    let (_deployment, stores, db) = two_processes(sql).await;
    // A page has a thousand rows: a part of one, whole ones, and one row more.
    let (agenda, mut there) = (Agenda::default(), 0);
    for boards in [999, 1000, 2000, 2001, 4500] {
        insert_deleted(&db, there, boards).await;
        there = boards;
        refresh(&agenda, &stores).await;
        assert_eq!(deleted(&agenda), boards);
        let new = Agenda::default();
        refresh(&new, &stores).await;
        assert_eq!(deleted(&new), boards);
    }

    // A failure between two pages: the next refresh begins again.
    let (spoil, mend) = match sql {
        Sql::Sqlite => (
            "UPDATE board SET created_at_ms = 'x' WHERE no = 1500",
            "UPDATE board SET created_at_ms = 0 WHERE no = 1500",
        ),
        Sql::Postgres => (
            "ALTER TABLE board DROP CONSTRAINT board_direction_check;
            UPDATE board SET direction = 'x' WHERE no = 1500",
            HIGH_FIRST,
        ),
        Sql::Mariadb => (
            "SET STATEMENT check_constraint_checks = 0
            FOR UPDATE board SET direction = 'x' WHERE no = 1500",
            HIGH_FIRST,
        ),
    };
    execute(&db, spoil).await;
    let new = Agenda::default();
    new.refresh(&stores).await.unwrap_err();
    assert_eq!(deleted(&new), 1000);
    execute(&db, mend).await;
    refresh(&new, &stores).await;
    assert_eq!(deleted(&new), there);
    stores.close().await;
}

#[tokio::test]
async fn all_pages_of_boards_are_read_on_sqlite() {
    check_pages(Sql::Sqlite).await;
}

#[tokio::test]
async fn all_pages_of_boards_are_read_on_postgresql() {
    check_pages(Sql::Postgres).await;
}

#[tokio::test]
async fn all_pages_of_boards_are_read_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_pages(sql).await;
    }
}

async fn check_earlier_states(sql: Sql) {
    let (_deployment, stores, db) = two_processes(sql).await;
    insert_deleted(&db, 0, 5).await;
    let agenda = Agenda::default();
    refresh(&agenda, &stores).await;
    assert_eq!(deleted(&agenda), 5);

    // The database went back: its last change is an earlier one, and the next takes its number.
    execute(&db, "DELETE FROM board WHERE no = 5").await;
    execute(&db, "UPDATE board_change SET changes = changes - 1").await;
    refresh(&agenda, &stores).await;
    assert_eq!(agenda.deleted_before(i64::MAX), [1, 2, 3, 4]);
    insert_deleted(&db, 10, 11).await;
    refresh(&agenda, &stores).await;
    assert_eq!(agenda.deleted_before(i64::MAX), [1, 2, 3, 4, 6]);

    // It was away, and came back in another state with the same last change.
    execute(&db, "ALTER TABLE board_change RENAME TO away").await;
    agenda.refresh(&stores).await.unwrap_err();
    assert_eq!(deleted(&agenda), 5, "what was known stays until then");
    execute(&db, "ALTER TABLE away RENAME TO board_change").await;
    execute(&db, "DELETE FROM board WHERE no = 4").await;
    refresh(&agenda, &stores).await;
    assert_eq!(agenda.deleted_before(i64::MAX), [1, 2, 3, 6]);
    stores.close().await;
}

#[tokio::test]
async fn an_earlier_state_of_the_database_is_read_whole_on_sqlite() {
    check_earlier_states(Sql::Sqlite).await;
}

#[tokio::test]
async fn an_earlier_state_of_the_database_is_read_whole_on_postgresql() {
    check_earlier_states(Sql::Postgres).await;
}

#[tokio::test]
async fn an_earlier_state_of_the_database_is_read_whole_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_earlier_states(sql).await;
    }
}

/// The instant from which on the only series of a board is at the present.
async fn mark_ms(stores: &Stores, board: &Board) -> i64 {
    let marks = stores.partition(PartitionNo(0)).rolls(board.no).await.unwrap();
    let marks: Vec<i64> = marks.values().map(|mark| mark.begun_ms).collect();
    assert_eq!(marks.len(), 1);
    marks[0]
}

/// Submits a score to a board at an instant.
async fn score(stores: &Stores, board: &Board, at_ms: i64) {
    stores.clock.set(at_ms);
    let verdicts = submit_at(stores, vec![point(board, "m", None)], at_ms).await.unwrap();
    assert!(matches!(verdicts[..], [Verdict::Accepted { .. }]), "{verdicts:?}");
}

/// Lets the daily window of a board seal all but the last period.
async fn seal_daily(stores: &Stores, board: &Board) {
    let retained = BTreeMap::from([(Window::Daily, Some(1))]);
    let windows = windows_text(&board::first_windows(&board.rules, &retained));
    let update = format!("UPDATE board SET windows = '{windows}' WHERE no = {}", board.no);
    execute(&stores.db, &update).await;
}

/// The boards that have something to seal at an instant.
async fn due(stores: &Stores, agenda: &Agenda, at_ms: i64) -> Vec<i64> {
    let due = seal::due::boards(stores, agenda, at_ms).await.unwrap();
    due.iter().map(|row| row.no).collect()
}

/// The last midnight of UTC.
fn midnight_ms() -> i64 {
    now_ms() / DAY_MS * DAY_MS
}

#[tokio::test]
async fn one_bad_board_keeps_no_other_from_its_work() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let today_ms = midnight_ms();
    let (bad, good) = (
        summing_board(&stores, "bad", &["7d"]).await,
        summing_board(&stores, "good", &["7d"]).await,
    );
    for board in [&bad, &good] {
        score(&stores, board, today_ms).await;
    }
    let marks = stores.store.keys().rolls(PartitionNo(0), bad.no);
    deployment.ask_redis::<i64>(&["HSET", &marks, "1::7d", "no mark"]).await;
    let agenda = Agenda::default();
    refresh(&agenda, &stores).await;
    let tomorrow_ms = today_ms + DAY_MS;
    roll::roll_due(&stores, &agenda, tomorrow_ms).await.unwrap_err();
    assert_eq!(mark_ms(&stores, &good).await, tomorrow_ms);
    roll::roll(&stores, tomorrow_ms + DAY_MS).await.unwrap_err();
    assert_eq!(mark_ms(&stores, &good).await, tomorrow_ms + DAY_MS);

    let filling = windows_text(&[WindowRow::new(Window::Daily, 2, WindowState::Filling)]);
    for (board, windows) in [(&bad, "[{}]"), (&good, &*filling)] {
        let update = format!("UPDATE board SET windows = '{windows}' WHERE no = {}", board.no);
        execute(&stores.db, &update).await;
    }
    let (found, failed) = windows::unfinished(&stores, &[bad.no.0, good.no.0]).await.unwrap();
    assert_eq!(found.iter().map(|row| row.no).collect::<Vec<_>>(), [good.no.0]);
    assert!(failed.is_some());
    stores.close().await;
}

#[tokio::test]
async fn a_mark_that_comes_after_its_period_is_rolled_some_minutes_later() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let (today_ms, agenda) = (midnight_ms(), Agenda::default());
    let board = summing_board(&stores, "b", &["7d"]).await;
    stores.clock.set(today_ms + 1000);
    refresh(&agenda, &stores).await;
    roll::roll_due(&stores, &agenda, today_ms + 1000).await.unwrap();
    // A score of yesterday, whose commit took some seconds.
    score(&stores, &board, today_ms - 1000).await;
    assert_eq!(mark_ms(&stores, &board).await, today_ms - DAY_MS);
    roll::roll_due(&stores, &agenda, today_ms + 6 * MINUTE_MS).await.unwrap();
    assert_eq!(mark_ms(&stores, &board).await, today_ms);
    stores.close().await;
}

#[tokio::test]
async fn boards_roll_and_seal_after_a_clock_that_was_ahead() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let (today_ms, agenda) = (midnight_ms(), Agenda::default());
    let ahead_ms = today_ms + 40 * DAY_MS;
    let rolls = summing_board(&stores, "rolls", &["7d"]).await;
    let seals = summing_board(&stores, "seals", &["daily"]).await;
    seal_daily(&stores, &seals).await;

    // By the clock that is ahead, one has nothing to roll, and the other one has to seal.
    stores.clock.set(ahead_ms);
    refresh(&agenda, &stores).await;
    roll::roll_due(&stores, &agenda, ahead_ms).await.unwrap();
    assert_eq!(due(&stores, &agenda, ahead_ms).await, [seals.no.0]);
    // It goes back.
    assert_eq!(due(&stores, &agenda, today_ms).await, [seals.no.0]);
    stores.clock.set(today_ms + MINUTE_MS);
    refresh(&agenda, &stores).await;
    roll::roll_due(&stores, &agenda, today_ms + MINUTE_MS).await.unwrap();
    score(&stores, &rolls, today_ms + MINUTE_MS).await;
    assert_eq!(mark_ms(&stores, &rolls).await, today_ms);
    let tomorrow_ms = today_ms + DAY_MS;
    roll::roll_due(&stores, &agenda, tomorrow_ms).await.unwrap();
    assert_eq!(mark_ms(&stores, &rolls).await, tomorrow_ms);
    stores.close().await;
}

#[tokio::test]
async fn a_seal_that_waits_for_a_roll_goes_on_after_a_clock_that_was_ahead() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let (today_ms, agenda) = (midnight_ms(), Agenda::default());
    let ahead_ms = today_ms + 40 * DAY_MS;
    let board = summing_board(&stores, "b", &["daily", "7d"]).await;
    score(&stores, &board, today_ms).await;
    seal_daily(&stores, &board).await;
    // Sealed are the days that the rolling window no longer needs, and it did not roll.
    seal::seal(&stores, ahead_ms).await.unwrap();
    stores.clock.set(ahead_ms);
    refresh(&agenda, &stores).await;
    assert!(due(&stores, &agenda, ahead_ms).await.is_empty());
    // The clock goes back, and the window rolls.
    let later_ms = today_ms + 2 * DAY_MS;
    roll::roll(&stores, later_ms).await.unwrap();
    assert_eq!(due(&stores, &agenda, later_ms).await, [board.no.0]);
    stores.close().await;
}

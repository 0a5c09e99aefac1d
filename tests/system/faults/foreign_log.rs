//! A partition's log in Redis that another program writes to, trims or replaces: the partition
//! heals by itself.

use engine::deployment::Deployment as Stores;
use entity::history::score_event;
use ranking::board::Board;
use ranking::id::{MemberId, PartitionNo};
use ranking::standings_id::StandingsId;
use ranking::store::read::Standings;
use ranking::submission::Verdict;
use ranking::window::{Period, Window};
use sea_orm::{EntityTrait, PaginatorTrait};

use tests::boards::in_process::{point, submit_at, summing_board};
use tests::boards::rolling::stores;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};

const ALL: PartitionNo = PartitionNo(0);

/// Submits one score, which must be accepted.
async fn submit(stores: &Stores, board: &Board, member: &str) {
    let verdicts = submit_at(stores, vec![point(board, member, None)], now_ms()).await.unwrap();
    assert!(matches!(verdicts[..], [Verdict::Accepted { .. }]), "{member}: {verdicts:?}");
}

/// The number of scores that SQL has, once it has all of the log.
async fn persisted(stores: &Stores) -> u64 {
    stores.partition(ALL).settle().await.unwrap();
    score_event::Entity::find().count(&stores.db).await.unwrap()
}

/// The scores of the board's only member that Redis has in `all`.
async fn scores(stores: &Stores, board: &Board) -> Vec<i64> {
    let id = StandingsId::all_time(board, String::new());
    let standings = Standings::new(&stores.store, board, id, Period::all());
    let members = [MemberId::new("ann").unwrap()];
    let keys = stores.store.rank_keys(&standings, &members).await.unwrap();
    let score = |key| board.rules.state(Window::All, &Period::all(), key).score;
    keys.into_iter().flatten().map(score).collect()
}

#[tokio::test]
async fn a_log_that_another_program_wrote_to_is_replaced_and_no_commit_in_it_is_lost() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let board = summing_board(&stores, "b", &["daily"]).await;
    let log = stores.store.keys().log(ALL);
    let end = "18446744073709551615-18446744073709551615";
    let strange: [&[&str]; 6] = [
        // At the end, where no further commit fits.
        &["XADD", &log, "*", "foo", "bar"],
        &["XSETID", &log, end],
        &["XADD", &log, end, "foo", "bar"],
        // Between two commits.
        &["XADD", &log, "LAST-3", "foo", "bar"],
        &["XADD", &log, "LAST-3", "c", "text"],
        // In the place of the next commit.
        &["XADD", &log, "NEXT-0", "c", "text"],
    ];
    let mut sent = 0;
    for words in strange {
        for _ in 0..3 {
            submit(&stores, &board, "ann").await;
        }
        let seq = stores.store.heads().await.unwrap()[0].as_ref().unwrap().seq;
        let words: Vec<String> = words
            .iter()
            .map(|word| word.replace("LAST", &seq.to_string()))
            .map(|word| word.replace("NEXT", &(seq + 1).to_string()))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let _: redis::Value = deployment.ask_redis(&words).await;
        for _ in 0..2 {
            submit(&stores, &board, "ann").await;
        }
        sent += 5;
        assert_eq!(persisted(&stores).await, sent, "{words:?}");
        assert_eq!(scores(&stores, &board).await, [sent as i64], "{words:?}");
    }
    stores.close().await;
}

#[tokio::test]
async fn a_log_that_another_program_trimmed_or_replaced_loses_what_sql_had_not_and_heals() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let board = summing_board(&stores, "b", &["daily"]).await;
    let log = stores.store.keys().log(ALL);
    let mut kept = 0;
    // The number of commits that still lead on from SQL, of three.
    let harmful: [(&[&str], u64); 3] = [
        (&["XDEL", &log, "MIDDLE-0"], 1),
        (&["XTRIM", &log, "MAXLEN", "=", "1"], 0),
        (&["SET", &log, "text"], 0),
    ];
    for (words, leads_on) in harmful {
        for _ in 0..3 {
            submit(&stores, &board, "ann").await;
        }
        let seq = stores.store.heads().await.unwrap()[0].as_ref().unwrap().seq;
        let middle = (seq - 1).to_string();
        let words: Vec<String> = words.iter().map(|word| word.replace("MIDDLE", &middle)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let _: redis::Value = deployment.ask_redis(&words).await;
        // The persister sees a gap; a log of another type is seen by the next commit.
        if words[0] != "SET" {
            stores.partition(ALL).settle().await.unwrap();
        }
        submit(&stores, &board, "ann").await;
        kept += leads_on + 1;
        assert_eq!(persisted(&stores).await, kept, "{words:?}");
        assert_eq!(scores(&stores, &board).await, [kept as i64], "{words:?}");
    }
    stores.close().await;
}

//! Keys of Redis that another program overwrites: they harm their own board at most.

use ranking::id::PartitionNo;
use ranking::store::key::KeySpace;
use ranking::submission::{Periods, Verdict};
use ranking::window::roll::Rolls;
use sea_orm::{EntityTrait, PaginatorTrait};

use tests::boards::in_process::{point, submit_at, summing_board};
use tests::boards::rolling::stores;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};

const ALL: PartitionNo = PartitionNo(0);

#[tokio::test]
async fn a_key_that_another_program_overwrote_harms_its_own_board_alone() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let stores = stores(&deployment, 1).await;
    let healthy = summing_board(&stores, "healthy", &["daily", "7d"]).await;
    let harmed = summing_board(&stores, "harmed", &["daily", "7d"]).await;
    let keys: KeySpace = stores.store.keys().clone();
    let present = Periods::default().standings(&harmed, &[], now_ms(), &Rolls::to(now_ms()));
    let ids: Vec<_> = present.unwrap().into_iter().map(|(id, _)| id).collect();
    let daily = ids.iter().find(|id| id.window.to_string() == "daily").unwrap();
    let overwritten = [
        // It is found when the snapshot reads entries, when it reads marks, and by the commit.
        keys.standings(ALL, &ids[0]),
        keys.rolls(ALL, harmed.no),
        keys.periods(ALL, daily),
    ];
    let mut sent = 0;
    let mut batch = || {
        sent += 1;
        let one = |number: i32| {
            let board = if number == 4 { &harmed } else { &healthy };
            point(board, &format!("m{number}"), Some(&sent.to_string()))
        };
        (0..9).map(one).collect::<Vec<_>>()
    };
    for key in overwritten {
        let () = deployment.ask_redis(&["SET", &key, "text"]).await;
        let verdicts = submit_at(&stores, batch(), now_ms()).await.unwrap();
        for (number, verdict) in verdicts.iter().enumerate() {
            match verdict {
                Verdict::Rejected(error) if number == 4 => {
                    let reason = error.to_string();
                    assert!(reason.contains(&key) && reason.contains("delete"), "{reason}");
                }
                Verdict::Accepted { .. } if number != 4 => {}
                other => panic!("{key}: score {number}: {other:?}"),
            }
        }
        // As the error says.
        let () = deployment.ask_redis(&["DEL", &key, &keys.head(ALL)]).await;
        let verdicts = submit_at(&stores, batch(), now_ms()).await.unwrap();
        let is_accepted = |verdict: &Verdict| matches!(verdict, Verdict::Accepted { .. });
        assert!(verdicts.iter().all(is_accepted), "{key}: {verdicts:?}");
    }
    let last = submit_at(&stores, batch(), now_ms()).await.unwrap();
    let seq = last.iter().find_map(|verdict| match verdict {
        Verdict::Accepted { seq, .. } => Some(*seq),
        _ => None,
    });
    stores.partition(ALL).settle_to(seq.unwrap()).await.unwrap();
    // Each accepted score counts once: eight a batch of those with a foreign key, nine of others.
    let scores = entity::history::score_event::Entity::find();
    let count = scores.count(&stores.db).await.unwrap();
    assert_eq!(count, 3 * 8 + 4 * 9);
    stores.close().await;
}

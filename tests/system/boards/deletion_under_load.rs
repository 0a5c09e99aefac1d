//! Boards that are deleted while others write to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::events;
use tests::boards::deletion::{board_no, check_gone, check_marks, create, wait_until_purged};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;
use tests::wait::until;

const SUBMIT: &str = "
    mutation($scores: [ScoreInput!]!) {
        submitScores(input: { board: \"b\", scores: $scores }) { results { status error { code } } }
    }";

/// An acknowledged event: the life of the slug in which it was sent at the earliest, and answered
/// at the latest.
struct Acknowledged {
    id: String,
    sent: usize,
    answered: usize,
}

/// Sends scores until it is stopped, each with an id of its own; returns the accepted ones.
async fn send(api: &Api, name: &str, lives: &AtomicUsize, stop: &AtomicBool) -> Vec<Acknowledged> {
    let mut acknowledged = vec![];
    let mut round = 0;
    while !stop.load(Ordering::SeqCst) {
        round += 1;
        let id = |number: usize| format!("{name}-{round}-{number}");
        let score = |number: usize| {
            json!({
                "member": format!("m{number}"), "score": 1, "eventId": id(number),
                "at": "2025-09-03T12:00:00Z",
            })
        };
        let scores: Vec<Value> = (0..8).map(score).collect();
        let sent = lives.load(Ordering::SeqCst);
        let answer = api.ask(Some(api.token()), SUBMIT, json!({ "scores": scores })).await;
        let answered = lives.load(Ordering::SeqCst);
        if answer.body.get("errors").is_some() {
            assert_eq!(answer.codes(), ["NOT_FOUND"], "{:?}", answer.body);
            continue;
        }
        let results = answer.body["data"]["submitScores"]["results"].as_array().unwrap().clone();
        for (number, result) in results.iter().enumerate() {
            match (result["status"].as_str().unwrap(), result["error"]["code"].as_str()) {
                ("APPLIED", None) => {
                    acknowledged.push(Acknowledged { id: id(number), sent, answered })
                }
                ("REJECTED", Some("NOT_FOUND")) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    acknowledged
}

/// The number of boards that have the slug one after the other.
const LIVES: usize = 6;

async fn check_under_load(sql: Sql, flush: bool) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let (lives, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    // A life begins before its board is created, and ends before the next one is: an even number is
    // a board, an odd one its end.
    let live = async || {
        let mut old = vec![];
        for life in 0..LIVES {
            let api = &apis[life % 2];
            create(api).await;
            lives.fetch_add(1, Ordering::SeqCst);
            old.push(board_no(&deployment).await);
            until("the board is written to", async || {
                let count = format!(
                    "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event WHERE board_no = {}",
                    old[life]
                );
                (deployment.number(&count).await > 100).then_some(())
            })
            .await;
            if life + 1 < LIVES {
                lives.fetch_add(1, Ordering::SeqCst);
                apis[life / 2 % 2].delete_board("b").await;
                if flush {
                    deployment.flush_redis().await;
                }
            }
        }
        stop.store(true, Ordering::SeqCst);
        old
    };
    let (old, a, b, c, d) = futures::join!(
        live(),
        send(&apis[0], "a", &lives, &stop),
        send(&apis[1], "b", &lives, &stop),
        send(&apis[0], "c", &lives, &stop),
        send(&apis[1], "d", &lives, &stop),
    );
    let acknowledged: Vec<Acknowledged> = [a, b, c, d].into_iter().flatten().collect();
    // The process that did not create the last board may keep for a moment that there is none.
    let id = async |api: &Api| {
        let id = api.data("{ board(slug: \"b\") { id } }", json!({})).await["board"]["id"].take();
        (!id.is_null()).then_some(id)
    };
    until("both know the last board", async || {
        let [one, other] = [id(&apis[0]).await?, id(&apis[1]).await?];
        (one == other).then_some(())
    })
    .await;
    check_last_life(&apis, &acknowledged).await;
    for no in &old[..LIVES - 1] {
        wait_until_purged(&deployment, *no).await;
        check_gone(&deployment, *no).await;
    }
    check_marks(&deployment, &old[..LIVES - 1]).await;
    check_diff(&deployment);
}

/// Checks that the last board has the events that it acknowledged, and none of another board.
async fn check_last_life(apis: &[Api; 2], acknowledged: &[Acknowledged]) {
    let deployment = apis[0].deployment();
    let last = 2 * LIVES - 1;
    let (mut counted, mut sums) = (BTreeSet::new(), BTreeMap::new());
    let surely = acknowledged.iter().filter(|event| event.sent == last);
    let surely: BTreeSet<&str> = surely.map(|event| &*event.id).collect();
    until("the last board's events are in SQL", async || {
        let text = "SELECT event_id FROM score_event WHERE board_no = (SELECT no FROM board \
            WHERE slug = 'b')";
        let ids: BTreeSet<String> = deployment.column(text).await.into_iter().collect();
        surely.iter().all(|id| ids.contains(*id)).then_some(())
    })
    .await;
    for number in 0..8 {
        let member = format!("m{number}");
        let seen = events(&apis[0], "b", &member).await;
        sums.insert(member, seen.len().to_string());
        counted.extend(seen.iter().map(|event| event["eventId"].as_str().unwrap().to_owned()));
    }
    let all: BTreeMap<&str, &Acknowledged> =
        acknowledged.iter().map(|event| (&*event.id, event)).collect();
    for id in &counted {
        let event =
            all.get(&**id).unwrap_or_else(|| panic!("{id} counts and was not acknowledged"));
        assert!(event.answered + 1 >= last, "{id} was acknowledged for another board");
    }
    let missing: Vec<&&str> = surely.iter().filter(|id| !counted.contains(**id)).collect();
    assert_eq!(missing, [&""; 0], "acknowledged by the last board and not there");
    let text = "
        { board(slug: \"b\") { standings { top(first: 10) { nodes { score member { key } } } } } }";
    let data = apis[1].data(text, json!({})).await;
    let nodes = data["board"]["standings"]["top"]["nodes"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let seen: BTreeMap<String, String> =
        nodes.iter().map(|node| (text(&node["member"]["key"]), text(&node["score"]))).collect();
    assert_eq!(seen, sums);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_deleted_again_and_again_under_load_holds_what_its_last_life_acknowledged() {
    check_under_load(Sql::any(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_deleted_under_load_on_postgres_holds_what_its_last_life_acknowledged() {
    check_under_load(Sql::Postgres, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_deleted_under_load_on_mariadb_holds_what_its_last_life_acknowledged() {
    if let Some(sql) = Sql::mariadb() {
        check_under_load(sql, false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_writers_of_a_deleted_board_are_refused_when_redis_is_emptied_too() {
    check_under_load(Sql::any(), true).await;
}

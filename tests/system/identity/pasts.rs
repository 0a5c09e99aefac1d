//! Stores that go back in time: a Redis that lost what SQL has without a restart, a Redis that was
//! replaced, a database that was restored from a backup.

use std::sync::Arc;

use ranking::id::PartitionNo;
use ranking::store::write::{Outcome, Writes};
use redis::AsyncCommands;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{submit, submit_durably, submit_events};
use tests::boards::regional::{random_games, regional, snapshot};
use tests::deployment::{CHANGES, Deployment, Redis, Sql};
use tests::documents::CREATE_BOARD;
use tests::jobs::diff::check_diff;
use tests::jobs::seal::{retain, wait_until_sealed};
use tests::model::game::seeded;
use tests::model::oracle::Oracle;
use tests::servers::postgres_node::PostgresNode;
use tests::servers::program::signal;
use tests::wait::until;

const EVENTS: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event";

const FIRST: PartitionNo = PartitionNo(0);

fn score(id: &str) -> Value {
    json!([{ "member": id, "score": 1, "eventId": id }])
}

async fn execute(deployment: &Deployment, statement: &str) {
    let db = deployment.sql().await;
    let statement = Statement::from_string(db.get_database_backend(), statement);
    db.execute_raw(statement).await.unwrap();
    db.close().await.unwrap();
}

/// Submits scores of some ids, each in a commit of its own; SQL has them then.
async fn submit_all(api: &Api, ids: impl Iterator<Item = String>) {
    for id in ids {
        assert_eq!(submit_durably(api, "b", score(&id)).await["accepted"], 1);
    }
}

#[tokio::test]
async fn a_redis_that_goes_back_without_a_restart_confirms_nothing_that_sql_lacks() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let worker = Api::start(&deployment).await;
    let silent = Api::start_with(&deployment, &["--no-workers"]).await;
    worker.create_board(json!({ "slug": "b" })).await;
    submit_all(&silent, ["x0".to_owned()].into_iter()).await;
    let mut redis = deployment.redis().await;
    let contents = deployment.redis_contents().await;
    submit_all(&silent, (1..4).map(|number| format!("x{number}"))).await;
    // As if a replica that lagged had taken over and handed back, unseen by any process.
    signal("STOP", worker.pid());
    deployment.flush_redis().await;
    for (key, dump) in contents {
        let mut restore = redis::cmd("RESTORE");
        let () = restore.arg(key).arg(0).arg(dump).query_async(&mut redis).await.unwrap();
    }
    for id in ["y0", "y1", "y2"] {
        assert_eq!(submit(&silent, "b", score(id)).await["accepted"], 1);
    }
    // SQL has another commit of that seq.
    let told = submit_durably(&silent, "b", score("y0")).await;
    assert_eq!(told["results"][0]["status"], "UNKNOWN", "{told}");
    signal("CONT", worker.pid());
    until("the worker sees that Redis is not level", async || {
        let told = submit_durably(&silent, "b", score("y0")).await;
        (told["results"][0]["status"] == "APPLIED").then_some(())
    })
    .await;
    assert_eq!(deployment.number(EVENTS).await, 5);
    let told = submit_durably(&silent, "b", score("x3")).await;
    assert_eq!(told["duplicates"], 1);
    check_diff(&deployment);
}

#[tokio::test]
async fn a_commit_that_was_folded_before_a_recovery_is_stale_after_it() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let stores = deployment.open_stores().await;
    let partition = stores.partition(FIRST);
    partition.settle().await.unwrap();
    let head = async || stores.store.heads().await.unwrap()[0].clone().unwrap();
    let before = head().await;
    // The head is taken away and set again, in the same run of Redis.
    let recovery = stores.store.begin_recovery(FIRST, "test").await.unwrap().unwrap();
    recovery.close().await.unwrap();
    recovery.abandon().await.unwrap();
    partition.recover().await.unwrap();
    let after = head().await;
    assert_eq!((after.seq, &after.commit, &after.run_id), (0, &before.commit, &before.run_id));
    assert!(after.epoch > before.epoch, "{before:?} {after:?}");
    let commit = before.next([7; 32], 0, vec![]);
    let committed = stores.store.commit_writes(FIRST, &before, &commit, &Writes::default()).await;
    assert_eq!(committed, Ok(Outcome::Stale));
    stores.close().await;
}

#[tokio::test]
async fn a_redis_that_was_replaced_does_not_come_back_by_itself() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let stores = deployment.open_stores().await;
        stores.partition(FIRST).settle().await.unwrap();
        // SQL went on with another run, which this one knows nothing of.
        execute(
            &deployment,
            "UPDATE log_cursor SET retired_runs = run_id, run_id = 'next', epoch = epoch + 1, \
             seq = 7, commit_id = 'seventh' WHERE \"partition\" = 0",
        )
        .await;
        let refused = stores.partition(FIRST).settle().await.unwrap_err().to_string();
        assert!(refused.contains("was replaced") && refused.contains("laurel adopt"), "{refused}");
        let run: Vec<String> =
            deployment.column("SELECT run_id FROM log_cursor WHERE \"partition\" = 0").await;
        assert_eq!(run, ["next"]);
        // A restart makes another run of it, which may be an old copy that is brought up to date.
        execute(&deployment, "UPDATE log_cursor SET retired_runs = '' WHERE \"partition\" = 0")
            .await;
        stores.partition(FIRST).settle().await.unwrap();
        assert_eq!(stores.store.heads().await.unwrap()[0].clone().unwrap().seq, 7);
        stores.close().await;
    }
}

#[tokio::test]
async fn a_master_that_became_a_replica_does_not_take_a_partition_from_its_successor() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let stores = deployment.open_stores().await;
    stores.partition(FIRST).settle().await.unwrap();
    execute(
        &deployment,
        "UPDATE log_cursor SET retired_runs = run_id, run_id = 'next', epoch = epoch + 1 \
         WHERE \"partition\" = 0",
    )
    .await;
    let mut redis = deployment.redis().await;
    let replica_of = |host: &str, port: &str| {
        let mut command = redis::cmd("REPLICAOF");
        command.arg(host).arg(port);
        command
    };
    let () = replica_of("127.0.0.1", "1").query_async(&mut redis).await.unwrap();
    stores.partition(FIRST).recover().await.unwrap_err();
    let run = "SELECT run_id FROM log_cursor WHERE \"partition\" = 0";
    assert_eq!(deployment.column::<String>(run).await, ["next"]);
    let () = replica_of("NO", "ONE").query_async(&mut redis).await.unwrap();
    // A master that has all that SQL has may go on.
    stores.partition(FIRST).settle().await.unwrap();
    assert_ne!(deployment.column::<String>(run).await, ["next"]);
    stores.close().await;
}

/// A deployment with ten scores in SQL, and a copy of the database from when it had five.
async fn with_a_backup() -> Arc<Deployment> {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit_all(&api, (0..5).map(|number| format!("e{number}"))).await;
    back_up(&deployment).await;
    submit_all(&api, (5..10).map(|number| format!("e{number}"))).await;
    api.stop().await;
    deployment
}

/// Puts the copy in the place of the database.
fn restore(deployment: &Deployment) {
    let database = deployment.path("test.sqlite");
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{database}{suffix}"));
    }
    std::fs::copy(deployment.path("backup"), database).unwrap();
}

#[tokio::test]
async fn a_database_that_went_back_gets_from_the_log_what_it_lost() {
    let deployment = with_a_backup().await;
    restore(&deployment);
    assert_eq!(deployment.number(EVENTS).await, 5);
    let api = Api::start(&deployment).await;
    for number in 0..10 {
        let told = submit_durably(&api, "b", score(&format!("e{number}"))).await;
        assert_eq!(told["duplicates"], 1, "{number}");
    }
    assert_eq!(deployment.number(EVENTS).await, 10);
    check_diff(&deployment);
}

/// Copies the database.
async fn back_up(deployment: &Deployment) {
    execute(deployment, &format!("VACUUM INTO '{}'", deployment.path("backup"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_went_back_beside_an_idle_process_gets_from_the_log_what_it_lost() {
    let mut server = PostgresNode::start(|_| ());
    let deployment = Deployment::on_database(PostgresNode::url(server.port()), Redis::Own);
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit_all(&api, (0..5).map(|number| format!("e{number}"))).await;
    server.back_up();
    submit_all(&api, (5..10).map(|number| format!("e{number}"))).await;
    server.restore();
    // No score follows.
    until("the database has all events", async || {
        (deployment.number(EVENTS).await == 10).then_some(())
    })
    .await;
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_went_back_behind_a_seal_seals_again() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let game = random_games(&mut seeded(), 1, 1).remove(0);
    let members = regional(&api, &game).await;
    submit_events(&api, &game.board, &game.events).await;
    let mut oracle = Oracle::new(game.board.clone());
    game.events.iter().for_each(|event| {
        oracle.submit(event);
    });
    let before = snapshot(&api, &oracle, &members).await;
    deployment.settle().await;
    back_up(&deployment).await;
    retain(&api, &game.board, 0).await;
    wait_until_sealed(&api, &game.board).await;
    api.stop().await;
    restore(&deployment);
    let api = Api::start(&deployment).await;
    // Pages read while Redis is loaded from SQL do not fit each other.
    let last = deployment.number("SELECT changes FROM board_change").await;
    until("Redis is loaded from the backup", async || {
        let noted: i64 = deployment.ask_redis(&["GET", &format!("laurel:{{0}}{CHANGES}")]).await;
        (noted == last).then_some(())
    })
    .await;
    until("the periods are live again", async || {
        let after = snapshot(&api, &oracle, &members).await;
        (after == before).then_some(())
    })
    .await;
    check_diff(&deployment);
    retain(&api, &game.board, 0).await;
    wait_until_sealed(&api, &game.board).await;
    let sealed = snapshot(&api, &oracle, &members).await;
    let values = |said: Vec<(Value, Value)>| -> Vec<Value> {
        said.into_iter().map(|(_, value)| value).collect()
    };
    assert_eq!(values(sealed), values(before));
    check_diff(&deployment);
}

/// A board that was changed after the backup takes scores again, in its state of then.
#[tokio::test]
async fn a_database_that_went_back_behind_a_board_s_change_accepts_its_scores() {
    let deployment = with_a_backup().await;
    let api = Api::start(&deployment).await;
    api.update_board(json!({ "slug": "b", "windows": [{ "name": "daily" }] })).await;
    until("the window is ready", async || {
        let ready = "{ board(slug: \"b\") { windows { ready } } }";
        let board = api.data(ready, json!({})).await;
        let windows = board["board"]["windows"].as_array().unwrap();
        (windows.len() == 2 && windows.iter().all(|window| window["ready"] == true)).then_some(())
    })
    .await;
    api.stop().await;
    restore(&deployment);
    let api = Api::start(&deployment).await;
    until("scores are accepted", async || {
        let told = submit(&api, "b", score("late")).await;
        (told["accepted"] == 1 || told["duplicates"] == 1).then_some(())
    })
    .await;
    deployment.settle().await;
    assert_eq!(deployment.number(EVENTS).await, 11);
    check_diff(&deployment);
}

/// The scores of a board that was made after the backup become those of no other board.
#[tokio::test]
async fn a_database_that_went_back_gives_out_no_number_that_redis_knows() {
    let deployment = with_a_backup().await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "x" })).await;
    assert_eq!(submit_durably(&api, "x", score("of-x")).await["accepted"], 1);
    api.stop().await;
    restore(&deployment);
    let token = deployment.admin_token().await.to_owned();
    let api = Api::spawn(&deployment, &[], token).await;
    until("the process says so", async || {
        api.log().contains("which this database never gave out").then_some(())
    })
    .await;
    let input = json!({ "input": { "slug": "y" } });
    let told = api.ask(Some(api.token()), CREATE_BOARD, input).await;
    assert_eq!(told.codes(), ["UNAVAILABLE"], "{}", told.body);
    signal("KILL", api.pid());
    drop(api);
    let shown = deployment.api_output(&["adopt"]).await;
    assert!(shown.contains("would be cleared"), "{shown}");
    deployment.api_output(&["adopt", "--yes"]).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "y" })).await;
    assert_eq!(submit_durably(&api, "y", score("of-y")).await["accepted"], 1);
    let size = "{ board(slug: \"y\") { standings { size } } }";
    assert_eq!(api.data(size, json!({})).await["board"]["standings"]["size"], 1);
    check_diff(&deployment);
}

#[tokio::test]
async fn a_database_that_went_back_further_than_the_log_stops_and_asks() {
    let deployment = with_a_backup().await;
    let mut redis = deployment.redis().await;
    let logs: Vec<String> = redis.keys("laurel:*:log").await.unwrap();
    for log in logs {
        let mut trim = redis::cmd("XTRIM");
        let () = trim.arg(log).arg("MAXLEN").arg(0).query_async(&mut redis).await.unwrap();
    }
    restore(&deployment);
    let token = deployment.admin_token().await.to_owned();
    let api = Api::spawn(&deployment, &[], token).await;
    until("the process says so", async || {
        api.log().contains("the database has gone back").then_some(())
    })
    .await;
    signal("KILL", api.pid());
    drop(api);
    let standings: Vec<String> = redis.keys("laurel:*:z:*::all:all").await.unwrap();
    let size: usize = redis.zcard(&standings[0]).await.unwrap();
    assert_eq!((standings.len(), size), (1, 10));
    let shown = deployment.api_output(&["adopt"]).await;
    assert!(shown.contains("5 commits are in neither"), "{shown}");
    deployment.api_output(&["adopt", "--yes"]).await;
    let api = Api::start(&deployment).await;
    let told = submit_durably(&api, "b", score("e9")).await;
    assert_eq!(told["accepted"], 1, "{told}");
    assert_eq!(deployment.number(EVENTS).await, 6);
    check_diff(&deployment);
}

#[tokio::test]
async fn events_of_a_board_that_sql_never_gave_out_stay_in_the_log() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.stop().await;
    let api = Api::start_with(&deployment, &["--no-workers"]).await;
    api.create_board(json!({ "slug": "b" })).await;
    assert_eq!(submit(&api, "b", score("ann")).await["accepted"], 1);
    execute(&deployment, "DELETE FROM board").await;
    let stores = deployment.open_stores().await;
    let mut refused = vec![];
    for partition in stores.partitions() {
        if let Err(error) = partition.settle().await {
            refused.push((partition.no, error.to_string()));
        }
    }
    let [(no, error)] = &refused[..] else { panic!("{refused:?}") };
    assert!(error.contains("board number 1, which this database never gave out"), "{error}");
    assert_eq!(stores.store.log_after(*no, 0, 10).await.unwrap().commits.len(), 1);
    stores.close().await;
}

//! Members who were overtaken while processes end at each step, several of them look, and Redis is
//! emptied: each pass is told once.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use tests::api::Api;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{MERGE_MEMBERS, SUBMIT_SCORES};
use tests::model::game::seeded;
use tests::receiver::{Manner, Receiver, SETTINGS};
use tests::wait::until;

use super::circle::{order, passes, submit, wait_for_order, wait_for_passes};

/// The steps of a look after which a process can be killed.
const STEPS: [&str; 3] = ["overtaken-looked", "overtaken-settled", "overtaken-told"];

/// The members of the game, all of whom an event can name.
const MEMBERS: [&str; 8] = ["ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal"];

/// The batches of the game, and the most scores of one.
const BATCHES: usize = 60;
const SCORES_MAX: usize = 3;

async fn check_crashes(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let mut api = Api::start_with_settings(&deployment, &SETTINGS).await;
    api.create_board(json!({ "slug": "b", "policy": "BEST" })).await;
    submit(&api, &[("ann", 20), ("bob", 10)]).await;
    let receiver = Receiver::start(Manner::FailsHalf).await;
    let id = receiver.subscribe_circle(&api, json!({ "top": 2 })).await;
    wait_for_order(&deployment, &id, &["ann", "bob"]).await;
    let (mut last, mut first, mut told) = ("bob", "ann", vec![]);
    for (number, step) in STEPS.into_iter().enumerate() {
        api.stop().await;
        let killed =
            Api::start_with_settings(&deployment, &[&SETTINGS[..], &[("CRASH_AT", step)]].concat())
                .await;
        let scores = json!([{ "member": last, "score": 100 + number }]);
        // The process may end before it answers.
        let variables = json!({ "board": "b", "scores": scores, "ack": "DURABLE" });
        let _ = killed.try_ask(Some(killed.token()), SUBMIT_SCORES, variables).await;
        assert!(!killed.wait_until_stopped().await.success(), "{step}");
        if number == 0 {
            deployment.flush_redis().await;
        }
        api = Api::start_with_settings(&deployment, &SETTINGS).await;
        // A score that only the killed process had is sent again.
        submit(&api, &[(last, 100 + number as i64)]).await;
        wait_for_order(&deployment, &id, &[last, first]).await;
        told.push((first, last));
        (first, last) = (last, first);
        let told: Vec<(&str, [&str; 1])> = told.iter().map(|(own, by)| (*own, [*by])).collect();
        let told: Vec<(&str, &[&str])> = told.iter().map(|(own, by)| (*own, &by[..])).collect();
        wait_for_passes(&receiver, &told).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_in_a_look_tells_each_pass_once_on_sqlite() {
    check_crashes(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_in_a_look_tells_each_pass_once_on_postgres() {
    check_crashes(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_in_a_look_tells_each_pass_once_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_crashes(sql).await;
    }
}

/// A process that is killed in a merge leaves copies beside their origins for seconds, in which
/// another process looks.
async fn check_merges(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start_with_settings(&deployment, &SETTINGS).await;
    api.create_board(json!({ "slug": "b", "policy": "SUM", "shards": 2 })).await;
    submit(&api, &[("ann", 10), ("bob", 30), ("cid", 25), ("dan", 20), ("eve", 8)]).await;
    let (of_top, of_group) =
        (Receiver::start(Manner::Takes).await, Receiver::start(Manner::Takes).await);
    let group = json!({ "members": ["ann", "bob", "cid", "dan", "eve", "fay"] });
    let webhooks = [
        of_top.subscribe_circle(&api, json!({ "top": 5 })).await,
        of_group.subscribe_circle(&api, group).await,
    ];
    let wait_for = async |expected: &[&str]| {
        for webhook in &webhooks {
            wait_for_order(&deployment, webhook, expected).await;
        }
    };
    wait_for(&["bob", "cid", "dan", "ann", "eve"]).await;
    let merges: [(&str, &str, &[&str]); 2] = [
        ("bob", "fay", &["fay", "cid", "dan", "ann", "eve"]),
        ("eve", "dan", &["fay", "dan", "cid", "ann"]),
    ];
    for (source, target, expected) in merges {
        let settings = [&SETTINGS[..], &[("CRASH_AT", "copied")]].concat();
        let killed = Api::start_with_settings(&deployment, &settings).await;
        let variables = json!({ "source": source, "target": target });
        let answer = killed.try_ask(Some(killed.token()), MERGE_MEMBERS, variables).await;
        assert!(answer.is_err(), "{:?}", answer.unwrap().body);
        wait_for(expected).await;
    }
    submit(&api, &[("ann", 50)]).await;
    let (dan, ann): (&[&str], &[&str]) = (&["dan"], &["ann"]);
    let told = [("cid", dan), ("fay", ann), ("dan", ann), ("cid", ann)];
    wait_for_passes(&of_top, &told).await;
    wait_for_passes(&of_group, &told).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_a_look_sees_half_done_overtakes_none_but_by_its_end_on_sqlite() {
    check_merges(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_a_look_sees_half_done_overtakes_none_but_by_its_end_on_postgres() {
    check_merges(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_a_look_sees_half_done_overtakes_none_but_by_its_end_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_merges(sql).await;
    }
}

/// Waits until a look has left the circle of all members as the standings are, and returns those.
async fn looked(api: &Api, webhook: &str) -> Vec<String> {
    let text =
        "{ board(slug: \"b\") { standings { top(first: 100) { nodes { member { key } } } } } }";
    let data = api.data(text, json!({})).await;
    let nodes = data["board"]["standings"]["top"]["nodes"].as_array().unwrap().clone();
    let key = |node: &Value| node["member"]["key"].as_str().unwrap().to_owned();
    let present: Vec<String> = nodes.iter().map(key).collect();
    until("the circle is looked at", async || {
        (order(api.deployment(), webhook).await == present).then_some(())
    })
    .await;
    present
}

/// Plays with better and better scores. For each two members, the passes of one less those of the
/// other are then 1 if their order has changed, and else 0.
async fn check_game(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let mut rng = seeded();
    let mut apis = vec![
        Api::start_with_settings(&deployment, &SETTINGS).await,
        Api::start_with_settings(&deployment, &SETTINGS).await,
    ];
    apis[0].create_board(json!({ "slug": "b", "policy": "BEST", "shards": 4 })).await;
    let first: Vec<(&str, i64)> =
        MEMBERS[..6].iter().enumerate().map(|(no, key)| (*key, 100 - no as i64)).collect();
    submit(&apis[0], &first).await;
    let receiver = Receiver::start(Manner::FailsHalf).await;
    let group = receiver.subscribe_circle(&apis[0], json!({ "members": MEMBERS })).await;
    let of_top = Receiver::start(Manner::FailsHalf).await;
    of_top.subscribe_circle(&apis[0], json!({ "top": 3 })).await;
    wait_for_order(&deployment, &group, &MEMBERS[..6]).await;
    for batch in 0..BATCHES {
        if batch % 20 == 10 {
            // Dropped, a process is killed.
            apis.remove(0);
            apis.push(Api::start_with_settings(&deployment, &SETTINGS).await);
        }
        if batch % 20 == 15 {
            deployment.flush_redis().await;
        }
        let members: Vec<&str> = MEMBERS.sample(&mut rng, SCORES_MAX).copied().collect();
        let api = apis.choose(&mut rng).unwrap();
        let scores: Vec<(&str, i64)> =
            members.iter().map(|key| (*key, rng.random_range(60..110 + batch as i64))).collect();
        submit(api, &scores).await;
        if rng.random_bool(0.3) {
            looked(&apis[1], &group).await;
        }
    }
    let last = looked(&apis[0], &group).await;
    let waiting = "SELECT CAST(COUNT(*) AS BIGINT) FROM outbox";
    until("all is told", async || (deployment.number(waiting).await == 0).then_some(())).await;
    let mut counts: BTreeMap<(String, String), i32> = BTreeMap::new();
    for (own, by) in passes(&receiver) {
        for by in by {
            *counts.entry((own.clone(), by)).or_default() += 1;
        }
    }
    assert!(!counts.is_empty());
    let place = |order: &[String], key: &str| order.iter().position(|own| own == key);
    let began: Vec<String> = MEMBERS[..6].iter().map(|key| (*key).to_owned()).collect();
    for own in &began {
        for by in last.iter().filter(|by| *by != own) {
            let was_below = place(&began, by).is_none_or(|by| by > place(&began, own).unwrap());
            let is_above = place(&last, by) < place(&last, own);
            let count = |own: &String, by: &String| {
                counts.get(&(own.clone(), by.clone())).copied().unwrap_or(0)
            };
            if was_below {
                let more = count(own, by) - count(by, own);
                assert_eq!(more, i32::from(is_above), "{own} by {by}: {counts:?}");
            }
        }
    }
    assert!(!of_top.taken().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_processes_are_killed_and_redis_is_emptied_each_pass_is_told_once_on_sqlite() {
    check_game(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_processes_are_killed_and_redis_is_emptied_each_pass_is_told_once_on_postgres() {
    check_game(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_processes_are_killed_and_redis_is_emptied_each_pass_is_told_once_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_game(sql).await;
    }
}

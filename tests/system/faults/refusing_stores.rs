//! Stores that refuse writes: SQL one event for its content, Redis all of them for lack of memory.
//! No other client suffers.

use std::time::Duration;

use engine::deployment::watch::Check;
use engine::partition::persist::Progress;
use engine::settings::Settings;
use engine::settings::stores::Missing;
use ranking::id::PartitionNo;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};
use tokio::time::timeout;

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::boards::in_process::{point, submit_at, summing_board};
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::{figures, run};
use tests::jobs::diff::check_diff;
use tests::jobs::erasure::erase;
use tests::wait::until;

fn score(member: &str, event_id: &str) -> Value {
    json!({ "member": member, "score": 1, "eventId": event_id })
}

async fn check_refused(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let first = Api::start(&deployment).await;
    first.stop().await;
    let silent = Api::start_with(&deployment, &["--no-workers"]).await;
    silent.create_board(json!({ "slug": "b" })).await;
    let db = deployment.sql().await;
    let constraint = "ALTER TABLE score_event ADD CONSTRAINT poison CHECK (member <> 'poison')";
    db.execute_raw(Statement::from_string(db.get_database_backend(), constraint)).await.unwrap();
    // Several commits wait in the log; the poison is in the middle one, between others.
    for number in 0..9 {
        let members =
            if number == 4 { vec!["before", "poison", "after"] } else { vec!["ann", "bob"] };
        let scores: Value =
            members.iter().map(|member| score(member, &format!("{member}-{number}"))).collect();
        assert_eq!(submit(&silent, "b", scores).await["accepted"], members.len());
    }
    assert_eq!(deployment.number("SELECT count(*) FROM score_event").await, 0);

    let api = Api::start(&deployment).await;
    assert_eq!(submit_durably(&api, "b", json!([score("cid", "c")])).await["accepted"], 1);
    assert_eq!(deployment.number("SELECT count(*) FROM score_event").await, 8 * 2 + 2 + 1);
    let reasons: Vec<String> =
        deployment.column("SELECT reason FROM dead_letter WHERE payload LIKE '%poison-4%'").await;
    assert!(reasons.len() == 1 && reasons[0].contains("poison"), "{reasons:?}");
    assert_eq!(deployment.number("SELECT count(*) FROM dead_letter").await, 1);
    let told =
        submit_durably(&api, "b", json!([score("poison", "again"), score("ann", "again")])).await;
    let statuses: Vec<&Value> =
        told["results"].as_array().unwrap().iter().map(|result| &result["status"]).collect();
    assert_eq!(statuses, ["REJECTED", "APPLIED"]);

    // Nothing of the refused event stays, in Redis either, and its id is free again.
    let ask = r#"
        { board(slug: "b") { standings {
            entry(member: "poison") { score } entries(members: ["before", "after"]) { score }
        } } }"#;
    let data = until("what SQL refused is voided", async || {
        let data = api.data(ask, json!({})).await;
        data["board"]["standings"]["entry"].is_null().then_some(data)
    })
    .await;
    let others = json!([{ "score": "1" }, { "score": "1" }]);
    assert_eq!(data["board"]["standings"]["entries"], others);
    let are_voided = async |count: i64| {
        until("all are known to be voided", async || {
            let voided = "SELECT count(*) FROM dead_letter WHERE state = 'VOIDED'";
            (deployment.number(voided).await == count).then_some(())
        })
        .await;
    };
    are_voided(2).await;
    check_diff(&deployment);
    let again = submit(&api, "b", json!([score("poison", "poison-4")])).await;
    assert_eq!(again["accepted"], 1);
    are_voided(3).await;
    // Their content goes with the member, and what is gone of the history stays explained.
    api.upsert_members(vec![json!({ "key": "poison" })]).await;
    let erased = erase(&deployment, "poison", None).await;
    assert!(erased.status.success(), "{erased:?}");
    let blank = "SELECT count(*) FROM dead_letter WHERE payload = '' AND reason = ''";
    assert_eq!(deployment.number(blank).await, 3);
    let (code, found, error) = run(&deployment, &["diff", "--full"]);
    assert_eq!(code, 0, "{found} {error}");
}

#[tokio::test]
async fn an_event_that_postgresql_refuses_goes_to_the_dead_letters_and_holds_up_no_other() {
    check_refused(Sql::Postgres).await;
}

#[tokio::test]
async fn an_event_that_mariadb_refuses_goes_to_the_dead_letters_and_holds_up_no_other() {
    if let Some(sql) = Sql::mariadb() {
        check_refused(sql).await;
    }
}

#[tokio::test]
async fn one_refused_event_among_a_thousand_is_found_in_a_slow_database() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let db = deployment.sql().await;
    for statement in [
        "ALTER TABLE score_event ADD CONSTRAINT poison CHECK (member <> 'poison')",
        "CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END'",
        "CREATE TRIGGER slow BEFORE INSERT ON score_event
            FOR EACH STATEMENT EXECUTE FUNCTION pause()",
    ] {
        db.execute_unprepared(statement).await.unwrap();
    }
    let member = |number| match number {
        700 => "poison".to_owned(),
        _ => format!("member-{number}"),
    };
    let scores: Value = (0..1000).map(|number| score(&member(number), "first")).collect();
    assert_eq!(submit(&api, "b", scores).await["accepted"], 1000);
    until("SQL has all others", async || {
        let events = deployment.number("SELECT count(*) FROM score_event").await;
        (events == 999).then_some(())
    })
    .await;
    assert_eq!(deployment.number("SELECT count(*) FROM dead_letter").await, 1);
    db.close().await.unwrap();
}

#[tokio::test]
async fn many_refused_events_are_found_by_calls_that_each_end_early() {
    let deployment = Deployment::new(Sql::Postgres, Redis::Own).await;
    let settings = Settings { partitions: Some(1), ..deployment.settings() };
    let db = settings.connect_sql(Missing::Create).await.unwrap();
    let stores = settings.open(db).await.unwrap();
    let board = summing_board(&stores, "b", &[]).await;
    for statement in [
        "ALTER TABLE score_event ADD CONSTRAINT poison CHECK (member NOT LIKE 'poison%')",
        "CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END'",
        "CREATE TRIGGER slow BEFORE INSERT ON score_event
            FOR EACH STATEMENT EXECUTE FUNCTION pause()",
    ] {
        stores.db.execute_unprepared(statement).await.unwrap();
    }
    let member = |number| match number {
        300..400 => format!("poison-{number}"),
        _ => format!("member-{number}"),
    };
    let scores = (0..1000).map(|number| point(&board, &member(number), None)).collect();
    submit_at(&stores, scores, now_ms()).await.unwrap();
    // The clock of the persister must not hide from the watch that SQL refused them.
    stores.clock.set(now_ms() - 10 * DAY_MS);
    let mut calls = 0;
    until("SQL has all others", async || {
        calls += 1;
        let partition = stores.partition(PartitionNo(0));
        // Much less than the whole search takes.
        let persisted = timeout(Duration::from_secs(3), partition.persist()).await;
        matches!(persisted, Ok(Ok(Progress::Level { .. }))).then_some(())
    })
    .await;
    assert!(calls > 2, "the search took {calls} calls");
    assert_eq!(deployment.number("SELECT count(*) FROM score_event").await, 900);
    assert_eq!(deployment.number("SELECT count(*) FROM dead_letter").await, 100);
    stores.look().await;
    let warnings = stores.watch.warnings();
    let told = warnings.iter().find(|warning| warning.check == Check::DeadLetters);
    assert!(told.is_some_and(|told| told.text.contains("refused 100 events")), "{warnings:?}");
    stores.close().await;
}

#[tokio::test]
async fn a_corrupted_standing_costs_no_event() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit_durably(&api, "b", json!([score("ann", "1"), score("bob", "1")])).await;
    let db = deployment.sql().await;
    for key in ["9223372036854775807", "0"] {
        let statement = format!("UPDATE standing SET rank_key = {key} WHERE member = 'ann'");
        db.execute_raw(Statement::from_string(db.get_database_backend(), statement)).await.unwrap();
        let told = submit_durably(&api, "b", json!([score("ann", key), score("bob", key)])).await;
        assert_eq!(told["accepted"], 2);
    }
    assert_eq!(deployment.number("SELECT count(*) FROM score_event").await, 6);
    assert_eq!(deployment.number("SELECT count(*) FROM dead_letter").await, 0);
    assert_eq!(deployment.analytics(&["diff"]).status.code(), Some(3));
    figures(&deployment, &["rebuild", "--board", "b"]);
    check_diff(&deployment);
}

#[tokio::test]
async fn without_memory_redis_takes_no_scores_and_says_so_at_once() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit_durably(&api, "b", json!([score("ann", "1")])).await;
    let mut redis = deployment.redis().await;
    let mut limit = async |bytes: &str| {
        let () = redis::cmd("CONFIG")
            .arg("SET")
            .arg("maxmemory")
            .arg(bytes)
            .query_async(&mut redis)
            .await
            .unwrap();
    };
    limit("1").await;
    let began = std::time::Instant::now();
    let told = submit(&api, "b", json!([score("ann", "2")])).await;
    assert_eq!(
        (&told["results"][0]["status"], &told["results"][0]["error"]["code"]),
        (&json!("REJECTED"), &json!("UNAVAILABLE"))
    );
    assert!(began.elapsed() < tests::wait::PATIENCE, "it waits for no deadline of its own");
    let read = api
        .data(
            "{ board(slug: \"b\") { standings { entry(member: \"ann\") { score } } } }",
            json!({}),
        )
        .await;
    assert_eq!(read["board"]["standings"]["entry"]["score"], "1");
    limit("0").await;
    let told = until("scores are taken again", async || {
        Some(submit(&api, "b", json!([score("ann", "2")])).await)
            .filter(|told| told["accepted"] == 1)
    })
    .await;
    assert_eq!(told["results"][0]["status"], "APPLIED");
}

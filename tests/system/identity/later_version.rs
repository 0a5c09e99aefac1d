//! A program beside data of a later version: it leaves them as they are, and says so.

use std::process::Output;
use std::sync::Arc;

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use sea_orm::ConnectionTrait;
use serde_json::json;

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;
use tests::wait::until;

/// The entries of a log: ids and texts.
async fn entries(redis: &mut MultiplexedConnection, log: &str) -> Vec<(String, String)> {
    let range = redis::cmd("XRANGE").arg(log).arg("-").arg("+").query_async(redis).await;
    let entries: Vec<(String, Vec<String>)> = range.unwrap();
    entries.into_iter().map(|(id, fields)| (id, fields[1].clone())).collect()
}

/// Replaces a part of each entry of a log.
async fn rewrite(redis: &mut MultiplexedConnection, log: &str, part: &str, other: &str) {
    let before = entries(redis, log).await;
    let () = redis.del(log).await.unwrap();
    for (id, text) in before {
        let rewritten = text.replacen(part, other, 1);
        assert_ne!(rewritten, text);
        let mut add = redis::cmd("XADD");
        let _: String =
            add.arg(log).arg(id).arg("c").arg(rewritten).query_async(redis).await.unwrap();
    }
}

/// Starts a process, and waits until its log has some words; it is not ready then.
async fn check_held(deployment: &Arc<Deployment>, words: &str) -> Api {
    let token = deployment.admin_token().await.to_owned();
    let api = Api::spawn(deployment, &[], token).await;
    until("the log says why", async || api.log().contains(words).then_some(())).await;
    until("it waits for recovery", async || {
        let ready = reqwest::get(format!("{}/readyz", api.url())).await.unwrap();
        let is_refused = ready.status() == 503;
        (is_refused && ready.text().await.unwrap().contains("waits for recovery")).then_some(())
    })
    .await;
    api
}

#[tokio::test]
async fn keys_of_a_later_layout_are_held() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit_durably(&api, "b", json!([{ "member": "ann", "score": 7 }])).await;
    api.stop().await;
    let mut redis = deployment.redis().await;
    let heads: Vec<String> = redis.keys("laurel:*:head").await.unwrap();
    let mut later = vec![];
    for head in &heads {
        let text: String = redis.get(head).await.unwrap();
        let mut parts: Vec<&str> = text.split(' ').collect();
        parts[2] = "99";
        let () = redis.set(head, parts.join(" ")).await.unwrap();
        later.push((head, text.clone(), parts.join(" ")));
    }
    let standings: Vec<String> = redis.keys("laurel:*:z:*").await.unwrap();
    assert!(!standings.is_empty());
    let api = check_held(&deployment, "keys of layout 99").await;
    drop(api);
    for (head, own, there) in later {
        let text: String = redis.get(head).await.unwrap();
        assert_eq!(text, there, "{head} was replaced");
        let () = redis.set(head, own).await.unwrap();
    }
    let left: usize = redis.exists(&standings).await.unwrap();
    assert_eq!(left, standings.len());
    let _api = Api::start(&deployment).await;
    check_diff(&deployment);
}

#[tokio::test]
async fn log_entries_of_a_later_version_are_held_until_their_program_comes() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let token = deployment.admin_token().await.to_owned();
    // Without workers the entry stays in the log alone.
    let api = Api::spawn(&deployment, &["--no-workers"], token).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit(&api, "b", json!([{ "member": "ann", "score": 7 }])).await;
    drop(api);
    let mut redis = deployment.redis().await;
    let logs: Vec<String> = redis.keys("laurel:*:log").await.unwrap();
    let [log] = &logs[..] else { panic!("{logs:?}") };
    rewrite(&mut redis, log, "\"v\":2", "\"v\":9").await;
    let written = entries(&mut redis, log).await;
    // As after a restart of Redis: the partition has to be recovered.
    let head = log.replace(":log", ":head");
    let text: String = redis.get(&head).await.unwrap();
    let () = redis.del(&head).await.unwrap();
    let api = check_held(&deployment, "of version 9").await;
    drop(api);
    assert_eq!(entries(&mut redis, log).await, written, "the log was dropped");
    // Once the entry can be read, it reaches SQL.
    rewrite(&mut redis, log, "\"v\":9", "\"v\":2").await;
    let () = redis.set(&head, text).await.unwrap();
    let _api = Api::start(&deployment).await;
    let count = "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event";
    until("the event is in SQL", async || (deployment.number(count).await == 1).then_some(()))
        .await;
}

/// The version of an entry that the program of the feature `later` writes.
const LATER_ENTRY: &str = "version 102";

/// Runs where `LAUREL_TEST_LATER` names a program of a later version, as `make test-later` does.
#[tokio::test]
async fn a_program_of_a_later_version_beside_this_one_loses_nothing() {
    let Ok(later) = std::env::var("LAUREL_TEST_LATER") else {
        println!("not run: make test-later runs it");
        return;
    };
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let ours = Api::start(&deployment).await;
        ours.create_board(json!({ "slug": "b" })).await;
        submit_durably(&ours, "b", json!([{ "member": "ann", "score": 1 }])).await;
        // All of it is in one partition. The later program leaves the log to ours, which cannot
        // read the entry, and both go on to write.
        let token = deployment.admin_token().await.to_owned();
        let beside = Api::spawn_program(&deployment, &later, &["--no-workers"], token.clone());
        let theirs = beside.await;
        theirs.wait_until_ready().await;
        for (api, score) in [(&theirs, 10), (&ours, 100), (&theirs, 1000)] {
            let told = submit(api, "b", json!([{ "member": "ann", "score": score }])).await;
            assert_eq!(told["accepted"], 1, "{told}");
        }
        let top = "{ board(slug: \"b\") { standings { entry(member: \"ann\") { score } } } }";
        for api in [&ours, &theirs] {
            let data = api.data(top, json!({})).await;
            assert_eq!(data["board"]["standings"]["entry"]["score"], "1111");
        }
        let says = async || ours.log().contains(LATER_ENTRY).then_some(());
        until("the log names the version", says).await;
        let count = "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event";
        assert_eq!(deployment.number(count).await, 1, "ours wrote what it cannot read");
        // Ours restarts as well, and holds what it finds.
        drop(ours);
        let held = Api::spawn(&deployment, &[], token.clone()).await;
        let says = async || held.log().contains(LATER_ENTRY).then_some(());
        until("the log names the version", says).await;
        drop(held);
        drop(theirs);
        let theirs = Api::spawn_program(&deployment, &later, &[], token).await;
        theirs.wait_until_ready().await;
        until("all events are in SQL", async || {
            (deployment.number(count).await == 4).then_some(())
        })
        .await;
        theirs.stop().await;
        // SQL has it all, so the older program may come back.
        let ours = Api::start(&deployment).await;
        submit_durably(&ours, "b", json!([{ "member": "ann", "score": 10_000 }])).await;
        let data = ours.data(top, json!({})).await;
        assert_eq!(data["board"]["standings"]["entry"]["score"], "11111");
        check_diff(&deployment);
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_in_words() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        Api::start(&deployment).await.stop().await;
        let db = deployment.sql().await;
        db.execute_unprepared(
            "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m20990101_000001_later', 0)",
        )
        .await
        .unwrap();
        let backup = deployment.path("backup");
        for arguments in [
            &["serve", "--listen", "127.0.0.1:0"][..],
            &["migrate", "status"],
            &["migrate", "time-zones"],
            &["backup", "create", &backup],
        ] {
            let mut command = deployment.api(arguments);
            let output: Output =
                tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
            assert!(error.contains("the schema is of a newer program"), "{arguments:?}: {error}");
            assert!(error.contains("m20990101_000001_later"), "{arguments:?}: {error}");
        }
    }
}

#[tokio::test]
async fn the_program_says_its_version_and_its_schema() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    Api::start(&deployment).await.stop().await;
    let steps: Vec<String> =
        deployment.column("SELECT version FROM seaql_migrations ORDER BY version DESC").await;
    let said = deployment.api_output(&["--version"]).await;
    assert!(said.starts_with("laurel "), "{said}");
    assert!(said.contains(&format!("SQL schema {}", steps[0])), "{said}");
}

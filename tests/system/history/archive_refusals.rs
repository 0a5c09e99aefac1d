//! Refusals around archives: damaged files, boards that need their events, changes that would need
//! them.

use std::collections::BTreeMap;

use ranking::id::MemberId;
use ranking::shard::shard_of;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, void};
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::UPDATE_BOARD;
use tests::jobs::analytics::{figures, run};
use tests::jobs::archive::{age, archive, archived, check_files, delete, paths, rows};
use tests::jobs::seal::wait_until_dropped;

/// The contents of Redis and the tables of a deployment, except jobs.
async fn all_there_is(deployment: &Deployment) -> BTreeMap<String, String> {
    // Partitions with undamaged files are rebuilt to the same standings: their heads move.
    let steps = [":head", ":log", ":sizes", ":settled"];
    let is_step = |key: &String| steps.iter().any(|step| key.ends_with(step));
    let contents = deployment.redis_contents().await.into_iter().filter(|(key, _)| !is_step(key));
    let mut all: BTreeMap<String, String> =
        contents.map(|(key, dump)| (key, format!("{dump:?}"))).collect();
    for (table, columns) in [
        ("standing", "board_no, segment, member, score, rank_key, seq"),
        ("score_event", "score_event.partition, seq, event_index"),
        ("archive_file", "path, sha256, state"),
        ("archived_entry", "member, segment, through_seq, COALESCE(score, 0), events"),
    ] {
        let select = format!("SELECT CONCAT_WS('/', {columns}) FROM {table}");
        let mut rows: Vec<String> = deployment.column(&select).await;
        rows.sort();
        all.insert(table.to_owned(), rows.join(","));
    }
    all
}

/// Checks that every job that reads the archive names the file, and changes nothing.
async fn check_named(deployment: &Deployment, file: &str) {
    let before = all_there_is(deployment).await;
    let output = deployment.analytics(&["diff", "--board", "b"]);
    let found = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{found}");
    assert!(found.contains(file), "{found}");
    for arguments in [&["rebuild", "--board", "b"][..], &["restore", "--board", "b"]] {
        let output = deployment.analytics(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(error.contains(file), "{arguments:?}: {error}");
        assert!(error.contains("artition was not changed"), "{error}");
    }
    assert_eq!(all_there_is(deployment).await, before);
}

#[tokio::test]
async fn a_file_that_is_not_as_it_was_is_named_and_nothing_is_touched() {
    for sql in Sql::all() {
        let (deployment, api) = archived(sql).await;
        let files = paths(&deployment);
        assert!(files.len() >= 2, "{files:?}");
        let path = deployment.archive_dir().join(&files[0]);
        let whole = std::fs::read(&path).unwrap();
        let mut bit = whole.clone();
        bit[whole.len() / 2] ^= 1;
        let shorter = &whole[..whole.len() - 1];
        let other = std::fs::read(deployment.archive_dir().join(&files[1])).unwrap();
        for broken in [&bit[..], shorter, &other, &[]] {
            std::fs::write(&path, broken).unwrap();
            check_named(&deployment, &files[0]).await;
        }
        std::fs::remove_file(&path).unwrap();
        check_named(&deployment, &files[0]).await;
        // Neither the server nor the recovery of Redis needs the file.
        deployment.flush_redis().await;
        figures(&deployment, &["restore"]);
        let text =
            "{ board(slug: \"b\") { standings { size top(first: 1) { nodes { score } } } } }";
        let data = api.data(text, json!({})).await;
        assert_eq!(
            data["board"]["standings"],
            json!({ "size": 10, "top": { "nodes": [{ "score": "204" }] } })
        );
        std::fs::write(&path, &whole).unwrap();
        figures(&deployment, &["rebuild", "--board", "b"]);
        assert_eq!(figures(&deployment, &["diff"])["findings"], json!([]));
    }
}

#[tokio::test]
async fn what_would_need_archived_events_is_refused() {
    let (deployment, api) = archived(Sql::any()).await;
    let windows = json!([{ "name": "daily", "retain": 1 }, { "name": "monthly" }]);
    let input = json!({ "slug": "b", "windows": windows });
    let answer = api.ask(Some(api.token()), UPDATE_BOARD, json!({ "input": input })).await;
    assert_eq!(answer.codes(), ["BAD_USER_INPUT"], "{}", answer.body);
    assert!(answer.body.to_string().contains("archived"), "{}", answer.body);
    let windows = json!([{ "name": "daily", "retain": 3 }]);
    api.update_board(json!({ "slug": "b", "windows": windows })).await;
    assert_eq!(void(&api, "event:0:1:0").await.codes().len(), 1);
    let of_m1 = events(&api, "b", "m1").await;
    assert_eq!(of_m1.len(), 1);
    let answer = void(&api, of_m1[0]["id"].as_str().unwrap()).await;
    assert_eq!(answer.codes(), [""; 0], "{}", answer.body);
    // The event is known by its id, archived or not.
    let file = deployment.new_file("known.csv");
    std::fs::write(
        &file,
        "member,score,at,event_id\nm7,7,2025-03-08T12:00:00Z,e7\nm7,8,2025-03-08T12:00:00Z,new\n",
    )
    .unwrap();
    let told = figures(&deployment, &["import", "--board", "b", file.to_str().unwrap()]);
    assert_eq!((&told["known"], &told["accepted"]), (&json!(1), &json!(1)));
    std::fs::write(&file, "member,score,at,event_id\nm7,9,2025-03-08T12:00:00Z,e7\n").unwrap();
    let output = deployment.analytics(&["import", "--board", "b", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(figures(&deployment, &["diff"])["findings"], json!([]));
}

/// An archive announces itself before all partitions know; a void in the meantime, or where nothing
/// is archived, folds the events again.
#[tokio::test]
async fn a_void_where_nothing_is_archived_corrects_what_is_sealed() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let input = json!({ "slug": "b", "shards": 2, "windows": [{ "name": "daily", "retain": 1 }] });
    api.create_board(input).await;
    let [old, young] = [0, 1].map(|shard| {
        let mut members = (0..).map(|number| MemberId::new(&format!("m{number}")).unwrap());
        members.find(|member| shard_of(member, 2) == shard).unwrap()
    });
    let score = |member: &MemberId, score: i64| {
        json!({
            "member": member.as_str(), "score": score, "at": "2025-03-08T12:00:00Z",
        })
    };
    submit_durably(&api, "b", json!([score(&old, 1)])).await;
    wait_until_dropped(&api, "b").await;
    age(&deployment, 100).await;
    submit_durably(&api, "b", json!([score(&young, 1), score(&young, 4)])).await;
    assert_eq!(archive(&deployment, &[])["events"], 1);
    let newest = events(&api, "b", young.as_str()).await;
    let answer = void(&api, newest[0]["id"].as_str().unwrap()).await;
    assert_eq!(answer.codes(), [""; 0], "{}", answer.body);
    let sealed = format!("SELECT score FROM sealed_entry WHERE member = '{young}'");
    assert_eq!(deployment.number(&sealed).await, 1);
    assert_eq!(figures(&deployment, &["diff"])["findings"], json!([]));
}

#[tokio::test]
async fn boards_that_need_their_events_are_left_alone() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    for (slug, window) in [("kept", "daily"), ("decaying", "decay:7d"), ("young", "")] {
        let windows: Value = match window {
            "" => json!([]),
            name => json!([{ "name": name }]),
        };
        api.create_board(json!({ "slug": slug, "windows": windows })).await;
        let scores = json!([{ "member": "a", "score": 1, "at": "2025-03-01T12:00:00Z" }]);
        submit_durably(&api, slug, scores).await;
        if slug != "young" {
            age(&deployment, 100).await;
        }
    }
    // The events of all boards are old now.
    let told = archive(&deployment, &[]);
    let reasons: BTreeMap<&str, &str> = told["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skipped| (skipped["board"].as_str().unwrap(), skipped["reason"].as_str().unwrap()))
        .collect();
    assert!(reasons["kept"].contains("daily"), "{told}");
    assert!(reasons["decaying"].contains("decay:7d"), "{told}");
    assert!(reasons["young"].contains("no more events that old"), "{told}");
    assert_eq!(told["events"], 0);
    assert_eq!(paths(&deployment), [""; 0]);
    for wrong in ["yesterday", "2026-13-01", ""] {
        let output = deployment.analytics(&["archive", "--before", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
}

#[tokio::test]
async fn two_archives_are_not_made_at_once() {
    let (deployment, _api) = archived(Sql::any()).await;
    let lock =
        std::fs::File::options().write(true).open(deployment.archive_dir().join("lock")).unwrap();
    lock.lock().unwrap();
    let output = deployment.analytics(&["archive", "--before", "2025-01-01"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("another archive is running"), "{error}");
    drop(lock);
    figures(&deployment, &["archive", "--before", "2025-01-01"]);
}

#[tokio::test]
async fn a_deleted_board_s_files_go_with_the_next_archive() {
    for sql in Sql::all() {
        let (deployment, api) = archived(sql).await;
        delete(&deployment, &api, "b").await;
        assert_eq!(rows(&deployment, "b").await, 0);
        assert_ne!(paths(&deployment), [""; 0]);
        archive(&deployment, &[]);
        assert_eq!(paths(&deployment), [""; 0]);
        check_files(&deployment).await;
        let left = "SELECT CAST(COUNT(*) AS BIGINT) FROM archived_entry";
        assert_eq!(deployment.number(left).await, 0);
        // The files of the commits say that these events are gone.
        let (code, found, error) = run(&deployment, &["diff", "--full"]);
        assert_eq!(code, 0, "{found}{error}");
    }
}

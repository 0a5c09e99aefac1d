//! Archives: events old enough to leave SQL, and the files that hold them afterwards.

use std::path::Path;
use std::sync::Arc;

use entity::archive::{archive_file, commit_file};
use entity::history::{commit, log_cursor};
use ranking::commit::Head;
use ranking::id::PartitionNo;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};
use serde_json::{Value, json};

use crate::api::Api;
use crate::api::submission::submit_durably;
use crate::clock::{DAY_MS, now_ms};
use crate::deployment::{Deployment, Redis, Sql};
use crate::jobs::analytics::figures;
use crate::jobs::seal::wait_until_dropped;
use crate::model::history::History;
use crate::wait::until;

/// Waits until SQL has everything, then makes all recently accepted events so many days older. It
/// takes more than a year until an event of a yearly window can be archived. The commits get the
/// ids that follow, in SQL and in the heads.
pub async fn age(deployment: &Deployment, days: i64) {
    deployment.settle().await;
    let db = deployment.sql().await;
    let (ms, lately_ms) = (days * DAY_MS, now_ms() - 2 * DAY_MS);
    let mut redis = deployment.redis().await;
    for cursor in log_cursor::all(&db).await.unwrap() {
        let partition = PartitionNo(cursor.partition.try_into().unwrap());
        let mut last: Option<String> = None;
        for mut row in commit::page_after(&db, partition, 0, 1_000_000).await.unwrap() {
            if row.accepted_at_ms > lately_ms {
                row.accepted_at_ms -= ms;
                row.clock_ms -= ms;
            }
            row.parent = last.unwrap_or(row.parent);
            row.id = row.computed_id().unwrap();
            last = Some(row.id.clone());
            let row = row.into_active_model().reset_all();
            commit::Entity::update(row).exec_without_returning(&db).await.unwrap();
        }
        let Some(last) = last else { continue };
        let key = format!("laurel:{{{partition}}}:head");
        let get = redis::cmd("GET").arg(&key).query_async(&mut redis).await;
        let text: Option<String> = get.unwrap();
        let head = Head::parse(&text.expect("the partition is level")).unwrap();
        assert_eq!(head.commit, cursor.commit_id, "a commit came in between");
        // Its clock stays: the next commit comes so many days later.
        let head = Head { commit: last.clone(), ..head };
        let moved = log_cursor::ActiveModel {
            partition: Set(cursor.partition),
            commit_id: Set(last),
            ..Default::default()
        };
        log_cursor::Entity::update(moved).exec_without_returning(&db).await.unwrap();
        let set = redis::cmd("SET").arg(&key).arg(head.to_text()).query_async(&mut redis).await;
        let () = set.unwrap();
    }
    db.close().await.unwrap();
}

/// Archives the events accepted until two days ago.
pub fn archive(deployment: &Deployment, arguments: &[&str]) -> Value {
    let before = jiff::Timestamp::from_millisecond(now_ms() - 2 * DAY_MS).unwrap();
    let before = before.to_string();
    let arguments = [&["archive", "--before", &*before], arguments].concat();
    figures(deployment, &arguments)
}

/// Deletes a board, and waits until its rows are gone.
pub async fn delete(deployment: &Deployment, api: &Api, slug: &str) {
    api.delete_board(slug).await;
    until("the board is purged", async || {
        let left = "SELECT CAST(COUNT(*) AS BIGINT) FROM board \
            WHERE deleted_at_ms IS NOT NULL AND purged_at_ms IS NULL";
        (deployment.number(left).await == 0).then_some(())
    })
    .await;
}

/// The number of a board's events in `score_event`.
pub async fn rows(deployment: &Deployment, slug: &str) -> i64 {
    let of_board = format!("board_no = (SELECT no FROM board WHERE slug = '{slug}')");
    let count = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM score_event WHERE {of_board}");
    deployment.number(&count).await
}

/// Checks that the history of a board has each event once: in files up to the marks, in SQL after
/// them.
pub async fn check_kept(deployment: &Deployment, history: &History) {
    let of_board =
        format!("board_no = (SELECT no FROM board WHERE slug = '{}')", history.board.slug);
    let beyond = format!(
        "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event AS e WHERE {of_board} AND seq > \
            COALESCE((SELECT archived_seq FROM archive_mark AS m WHERE m.board_no = e.board_no \
            AND m.partition = e.partition), 0)"
    );
    let filed = format!(
        "SELECT CAST(COALESCE(SUM(events), 0) AS BIGINT) FROM archive_file WHERE {of_board} \
            AND state IN ('ARCHIVED', 'DROPPED')"
    );
    let (beyond, filed) = (deployment.number(&beyond).await, deployment.number(&filed).await);
    assert_eq!(beyond + filed, history.items().len() as i64, "{beyond} and {filed}");
}

/// Checks that the archive has just the files that SQL names.
pub async fn check_files(deployment: &Deployment) {
    let db = deployment.sql().await;
    let files = archive_file::Entity::find().all(&db).await.unwrap();
    let of_commits = commit_file::Entity::find().all(&db).await.unwrap();
    db.close().await.unwrap();
    let mut named: Vec<String> = files.into_iter().map(|file| file.path).collect();
    named.extend(of_commits.into_iter().map(|file| file.path));
    let mut there = paths_in(&deployment.archive_dir());
    named.sort();
    there.sort();
    assert_eq!(there, named);
}

/// The paths of the archive's files of events.
pub fn paths(deployment: &Deployment) -> Vec<String> {
    let mut paths = paths_in(&deployment.archive_dir());
    paths.retain(|path| !path.starts_with("commits/"));
    paths
}

/// Checks that a directory has a copy of each file of the archive, and nothing else.
pub fn check_copies(deployment: &Deployment, copies: &Path) {
    let archive = deployment.archive_dir();
    let [mut there, mut copied] = [&*archive, copies].map(paths_in);
    there.sort();
    copied.sort();
    assert_eq!(copied, there);
    for path in &there {
        let [file, copy] = [&*archive, copies].map(|root| std::fs::read(root.join(path)).unwrap());
        assert!(copy == file, "{path}");
    }
}

/// The paths in a directory of the archive or of its copies, without the lock.
fn paths_in(root: &Path) -> Vec<String> {
    let mut paths = vec![];
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.map(Result::unwrap) {
            let path = entry.path();
            match path.is_dir() {
                true => left.push(path),
                false => paths.push(path.strip_prefix(root).unwrap().display().to_string()),
            }
        }
    }
    paths.retain(|path| path != "lock");
    paths
}

/// A board whose daily window retains one day, with scores of a month of 2025 that can be archived.
pub async fn old(sql: Sql) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let input = json!({ "slug": "b", "shards": 2, "windows": [{ "name": "daily", "retain": 1 }] });
    api.create_board(input).await;
    let score = |member: i64| {
        json!({
            "member": format!("m{}", member % 10), "score": member,
            "at": format!("2025-03-{:02}T12:00:00Z", 1 + member % 28), "eventId": format!("e{member}"),
        })
    };
    submit_durably(&api, "b", (0..60).map(score).collect()).await;
    wait_until_dropped(&api, "b").await;
    age(&deployment, 100).await;
    (deployment, api)
}

/// The board of [`old`] with its scores archived, and one score that is not archived.
pub async fn archived(sql: Sql) -> (Arc<Deployment>, Api) {
    let (deployment, api) = old(sql).await;
    let told = archive(&deployment, &[]);
    assert_eq!((&told["events"], &told["boards"]), (&json!(60), &json!(1)));
    submit_durably(&api, "b", json!([{ "member": "m1", "score": 5 }])).await;
    (deployment, api)
}

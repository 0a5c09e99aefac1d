//! An exported history, verified against checkpoints without any store.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::remove;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::analytics::{figures, run};
use tests::jobs::archive::archived;

/// A written history, and checkpoints of it.
struct Shown {
    deployment: Arc<Deployment>,
    history: String,
    checkpoints: String,
    key: String,
}

impl Shown {
    /// Signs checkpoints, and writes the history.
    async fn of(deployment: Arc<Deployment>) -> Self {
        let statements = deployment.api_output(&["checkpoint"]).await;
        let key = statements.lines().find_map(|line| line.strip_prefix("key: ")).unwrap();
        let (key, checkpoints) = (key.to_owned(), deployment.path("checkpoints.txt"));
        fs::write(&checkpoints, &statements).unwrap();
        let history = deployment.path("history.ndjson");
        figures(&deployment, &["history", "--out", &history]);
        Self { deployment, history, checkpoints, key }
    }

    /// Verifies a file: the exit status, and what was found.
    fn verify(&self, file: &str, key: &str) -> (i32, Value, String) {
        let arguments = ["verify", "--checkpoints", &self.checkpoints, "--key", key, file];
        run(&self.deployment, &arguments)
    }

    /// Verifies the history with a change.
    fn changed(&self, change: impl Fn(String) -> String) -> (i32, Value) {
        let changed = self.deployment.path("changed.ndjson");
        let text = fs::read_to_string(&self.history).unwrap();
        let other = change(text.clone());
        assert_ne!(other, text);
        fs::write(&changed, other).unwrap();
        let (code, found, _) = self.verify(&changed, &self.key);
        (code, found)
    }
}

async fn played(sql: Sql) -> Arc<Deployment> {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "shards": 2 })).await;
    for score in [700, 800] {
        let scores = ["ann", "bob", "cid"].map(|member| {
            json!({ "member": member, "score": score, "eventId": format!("{member}-{score}") })
        });
        submit_durably(&api, "b", json!(scores)).await;
    }
    remove(&api, "b", "bob").await;
    deployment.settle().await;
    deployment
}

#[tokio::test]
async fn an_outsider_tells_a_true_history_from_every_other_one() {
    for sql in Sql::all() {
        let shown = Shown::of(played(sql).await).await;
        let (code, found, error) = shown.verify(&shown.history, &shown.key);
        assert_eq!((code, &found["found"], &found["events"]), (0, &json!(0), &json!(7)), "{error}");
        assert_eq!(found["unsigned"], 0, "{found}");

        let (code, found) =
            shown.changed(|text| text.replacen("\"score\":700", "\"score\":701", 1));
        assert_eq!((code, &found["faults"][0]["kind"]), (3, &json!("ALTERED")), "{found}");

        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (code, found) = shown.changed(|text| {
            let mut lines = lines(text);
            lines.pop();
            lines.join("\n") + "\n"
        });
        assert_eq!((code, &found["faults"][0]["kind"]), (3, &json!("MISSING")), "{found}");
        let (code, found) = shown.changed(|text| lines(text)[1..].join("\n") + "\n");
        assert_eq!((code, &found["faults"][0]["kind"]), (3, &json!("MISSING")), "{found}");

        let another = "0".repeat(64);
        let (code, _, error) = shown.verify(&shown.history, &another);
        assert!(code == 1 && error.contains("is signed by"), "{code} {error}");
        let statements = fs::read_to_string(&shown.checkpoints).unwrap();
        fs::write(&shown.checkpoints, statements.replacen("seq: ", "seq: 1", 1)).unwrap();
        let (code, _, error) = shown.verify(&shown.history, &shown.key);
        assert!(code == 1 && error.contains("did not sign"), "{code} {error}");
    }
}

#[tokio::test]
async fn a_row_that_was_altered_before_the_export_is_named() {
    let deployment = played(Sql::any()).await;
    let shown = Shown::of(deployment.clone()).await;
    let db = deployment.sql().await;
    let altered = "UPDATE score_event SET score = 900 WHERE event_id = 'ann-700'";
    db.execute_unprepared(altered).await.unwrap();
    db.close().await.unwrap();
    figures(&deployment, &["history", "--out", &shown.history]);
    let (code, found, _) = shown.verify(&shown.history, &shown.key);
    assert_eq!(code, 3, "{found}");
    assert_eq!(found["faults"][0]["member"], "ann", "{found}");

    let db = deployment.sql().await;
    let deleted = "DELETE FROM score_event WHERE event_id = 'cid-700'";
    db.execute_unprepared(deleted).await.unwrap();
    db.close().await.unwrap();
    figures(&deployment, &["history", "--out", &shown.history]);
    let (code, found, _) = shown.verify(&shown.history, &shown.key);
    let kinds = found["faults"].as_array().unwrap().iter().map(|fault| &fault["kind"]);
    assert!(code == 3 && kinds.into_iter().any(|kind| kind == "MISSING"), "{found}");
}

#[tokio::test]
async fn a_history_in_files_is_written_and_verified_as_well() {
    let (deployment, _api) = archived(Sql::any()).await;
    let of_commits = "SELECT CAST(COUNT(*) AS BIGINT) FROM commit_file";
    assert!(deployment.number(of_commits).await > 0, "no commit left SQL");
    for path in deployment.column::<String>("SELECT path FROM commit_file").await {
        assert!(Path::new(&deployment.archive_dir()).join(path).is_file());
    }
    let shown = Shown::of(deployment.clone()).await;
    let (code, found, error) = shown.verify(&shown.history, &shown.key);
    assert_eq!((code, &found["events"]), (0, &json!(61)), "{found}{error}");
}

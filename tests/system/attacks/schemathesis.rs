//! schemathesis sends queries and mutations that it makes of the schema. Runs where
//! `LAUREL_TEST_SCHEMATHESIS` names its program, as `make test-schemathesis` does.

use std::path::Path;

use serde_json::json;
use tokio::process::Command;

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::model::game::random_seed;

/// The cases of each field of Query and Mutation.
const CASES: &str = "50";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_fault() {
    let Ok(program) = std::env::var("LAUREL_TEST_SCHEMATHESIS") else {
        println!("not run: make test-schemathesis runs it");
        return;
    };
    let seed = random_seed().to_string();
    for sql in [Sql::Sqlite, Sql::Postgres] {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        api.create_board(json!({ "slug": "b", "windows": [{ "name": "daily" }] })).await;
        let scores = json!([{ "member": "ann", "score": 3 }, { "member": "bob", "score": 4 }]);
        submit_durably(&api, "b", scores).await;
        for token in [None, Some(api.token())] {
            let mut command = Command::new(&program);
            command
                .args(["run", &format!("{}/graphql", api.url()), "--phases", "fuzzing"])
                .args(["--checks", "answers_in_words", "--max-examples", CASES, "--seed", &seed])
                .args(["--no-color"])
                .env("SCHEMATHESIS_HOOKS", "laurel_hooks")
                .env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis"))
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .current_dir(deployment.path(""));
            if let Some(token) = token {
                command.args(["-H", &format!("Authorization: Bearer {token}")]);
            }
            let output = command.kill_on_drop(true).output().await.unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{said}");
            println!("{said}");
        }
        assert!(api.is_ready().await, "it serves as before");
    }
}

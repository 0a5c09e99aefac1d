//! Logs that were emptied, and processes that never read them.

use std::sync::Arc;

use serde_json::json;

use tests::api::Api;
use tests::api::submission::submit_durably;
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::diff::check_diff;
use tests::servers::command_counts::{counts, reset_counts};
use tests::wait::until;

/// Starts a process that has read no log, and checks that it reads metadata without a recovery.
async fn check_a_new_reader(deployment: &Arc<Deployment>) {
    let api = Api::start_with(deployment, &["--no-workers"]).await;
    let ask = async |fields: &str| {
        let text = format!(
            "{{ board(slug: \"b\") {{ standings {{ entry(member: \"ann\") {{ {fields} }} }} }} }}"
        );
        api.data(&text, json!({})).await["board"]["standings"]["entry"].take()
    };
    // Until its partition is level.
    assert_eq!(ask("score").await, json!({ "score": "1" }));
    reset_counts(deployment).await;
    assert_eq!(ask("metadata").await, json!({ "metadata": { "r": "a" } }));
    let counts = counts(deployment).await;
    // The right to recover a partition is asked for with this command.
    assert_eq!(counts.get("exists"), None, "{counts:?}");
    api.stop().await;
}

#[tokio::test]
async fn an_emptied_log_is_read_by_those_who_never_read_it() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "metadata": true })).await;
    submit_durably(&api, "b", json!([{ "member": "ann", "score": 1, "metadata": { "r": "a" } }]))
        .await;
    check_a_new_reader(&deployment).await;
    deployment.flush_redis().await;
    check_a_new_reader(&deployment).await;
    // Another program writes to the logs, so new ones take their place.
    submit_durably(&api, "b", json!([{ "member": "bob", "score": 2 }])).await;
    let logs: Vec<String> = deployment.ask_redis(&["KEYS", "laurel:{*}:log"]).await;
    for log in &logs {
        let _: String = deployment.ask_redis(&["XADD", log, "99999-0", "x", "y"]).await;
    }
    // A new persister looks at all logs.
    let _other = Api::start(&deployment).await;
    until("it drops them", async || {
        let left: Vec<String> = deployment.ask_redis(&["KEYS", "laurel:{*}:log"]).await;
        left.is_empty().then_some(())
    })
    .await;
    check_a_new_reader(&deployment).await;
    check_diff(&deployment);
}

//! `/metrics`: counts of what was done, the state of the stores, and few labels.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program;
use tests::wait::until;

#[tokio::test]
async fn what_was_done_is_counted() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    // Two answers of one query differ in age only.
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "maxScore": 100 })).await;
    let score =
        |member: &str, score: i64| json!({ "member": member, "score": score, "eventId": "e" });
    let scores = json!([score("m", 1), score("n", 2), score("o", 200)]);
    submit_durably(&api, "b", scores).await;
    submit(&api, "b", json!([score("m", 1)])).await;
    api.query("{ nonsense }", json!({})).await;
    let top = "{ board(slug: \"b\") { standings { top { nodes { rank } } } } }";
    until("an answer is served twice", async || {
        for _ in 0..2 {
            api.ask(None, top, json!({})).await;
        }
        let measured = metrics_of(&api).await;
        let hits = measured["laurel_cache_lookups_total{cache=\"answers\",outcome=\"hit\"}"];
        (hits > 0.0).then_some(())
    })
    .await;
    let measured = metrics_of(&api).await;
    for (name, value) in [
        ("laurel_submissions_total{outcome=\"accepted\"}", 2.0),
        ("laurel_submissions_total{outcome=\"duplicate\"}", 1.0),
        ("laurel_submissions_total{outcome=\"rejected\"}", 1.0),
        ("laurel_submissions_total{outcome=\"unavailable\"}", 0.0),
        ("laurel_submissions_total{outcome=\"unknown\"}", 0.0),
        ("laurel_graphql_errors_total{code=\"BAD_USER_INPUT\"}", 1.0),
        ("laurel_graphql_errors_total{code=\"INTERNAL\"}", 0.0),
        ("laurel_graphql_seconds_count{operation=\"mutation\"}", 3.0),
        ("laurel_up{store=\"sql\"}", 1.0),
        ("laurel_up{store=\"redis\"}", 1.0),
    ] {
        assert_eq!(measured.get(name), Some(&value), "{name}");
    }
    // The members are in one partition, or in several.
    let commits = measured["laurel_commit_seconds_count"];
    assert!((1.0..=2.0).contains(&commits), "{commits}");
    assert!(measured["laurel_commit_scores_sum"] >= 2.0);
    assert!(measured["laurel_graphql_seconds_count{operation=\"query\"}"] >= 1.0);
    assert!(measured["laurel_cache_lookups_total{cache=\"pages\",outcome=\"miss\"}"] >= 1.0);
    // No labels name boards or members.
    assert!(measured.len() < 320, "{}", measured.len());
}

#[tokio::test]
async fn stores_that_are_away_are_down_and_commits_wait_in_the_log() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    // Without workers the log is not written to SQL.
    let token = deployment.admin_token().await.to_owned();
    let api = Api::spawn(&deployment, &["--no-workers"], token).await;
    api.create_board(json!({ "slug": "b" })).await;
    submit(&api, "b", json!([{ "member": "m", "score": 1 }])).await;
    let sum = |measured: &BTreeMap<String, f64>, prefix: &str| -> f64 {
        let of_prefix = measured.iter().filter(|(name, _)| name.starts_with(prefix));
        of_prefix.map(|(_, value)| value).sum()
    };
    let measured = until("the commit is seen", async || {
        let measured = metrics_of(&api).await;
        (sum(&measured, "laurel_log_commits{") == 1.0).then_some(measured)
    })
    .await;
    assert_eq!(sum(&measured, "laurel_sql_lag_commits{"), 1.0);
    assert!(!measured.keys().any(|name| name.starts_with("laurel_integrity_schedule")));
    let mut redis = deployment.redis().await;
    let _: redis::RedisResult<()> =
        redis::cmd("SHUTDOWN").arg("NOSAVE").query_async(&mut redis).await;
    until("Redis is down", async || {
        let measured = metrics_of(&api).await;
        (measured["laurel_up{store=\"redis\"}"] == 0.0).then_some(())
    })
    .await;
    assert_eq!(metrics_of(&api).await["laurel_up{store=\"sql\"}"], 1.0);
}

#[tokio::test]
async fn it_is_open_metrics_and_needs_no_token() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start_with(&deployment, &["--public-reads", "false"]).await;
    let answer = reqwest::get(format!("{}/metrics", api.url())).await.unwrap();
    assert_eq!(answer.status(), 200);
    let media_type = answer.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
    assert!(media_type.starts_with("application/openmetrics-text"));
    let text = answer.text().await.unwrap();
    assert!(text.ends_with("# EOF\n"));
    let types = text.lines().filter(|line| line.starts_with("# TYPE "));
    let described = text.lines().filter(|line| line.starts_with("# HELP "));
    assert_eq!(types.count(), described.count());
}

#[tokio::test]
async fn the_page_of_metrics_lists_each_by_its_name() {
    let page = program::root().join("docs/reference/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let listed: BTreeSet<&str> = rows.map(|name| name.trim_end_matches("_total")).collect();
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    // Those of the stores are there once each store has been asked.
    until("every metric of the page is there", async || {
        let answer = reqwest::get(format!("{}/metrics", api.url())).await.unwrap();
        let text = answer.text().await.unwrap();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let names: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
        let unlisted: Vec<_> = names.difference(&listed).collect();
        assert!(unlisted.is_empty(), "not in docs/reference/metrics.md: {unlisted:?}");
        (names.len() == listed.len()).then_some(())
    })
    .await;
}

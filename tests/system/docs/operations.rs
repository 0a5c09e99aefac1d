//! The files for operators: Prometheus' own tool takes every expression, each names metrics that a
//! server gives, and each alert leads to a section of the runbook.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::deployment::{Deployment, Redis, Sql};
use tests::servers::program;
use tests::wait::until;

const ALERTS: &str = "operations/alerts.yml";
const DASHBOARD: &str = "operations/grafana.json";
const RUNBOOK: &str = "docs/how-to/runbook.md";

/// The text of a file of the repository.
fn read(path: &str) -> String {
    fs::read_to_string(program::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The values of a key in the alerts, which has each on one line.
fn alert_values(key: &str) -> Vec<String> {
    let text = read(ALERTS);
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines.filter_map(|line| Some(line.strip_prefix(key)?.strip_prefix(": ")?.to_owned())).collect()
}

/// The expressions of the dashboard, with an interval in the place of Grafana's own.
fn dashboard_expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    expressions.map(|text| text.replace("$__rate_interval", "5m")).collect()
}

/// Runs `promtool check rules` on a file.
fn check_rules(path: &Path) {
    run_promtool("check", path);
}

/// Runs `promtool check rules` or `promtool test rules` on a file.
fn run_promtool(word: &str, path: &Path) {
    let output = Command::new("promtool").args([word, "rules"]).arg(path).output();
    let output = output.expect("promtool can be started: `make test` installs Debian's prometheus");
    assert!(
        output.status.success(),
        "{}: {}{}",
        path.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The metrics that an expression names.
fn metrics_in(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("laurel_"))
}

/// The anchor of a heading, as forges make it.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn prometheus_takes_every_expression() {
    check_rules(&program::root().join(ALERTS));
    let rules = dashboard_expressions().into_iter().enumerate().map(
        |(index, expression)| json!({ "record": format!("panel:{index}"), "expr": expression }),
    );
    let rules: Vec<Value> = rules.collect();
    assert!(rules.len() > 10, "{rules:?}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dashboard.yml");
    // JSON is YAML.
    let groups = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    fs::write(&file, groups.to_string()).unwrap();
    check_rules(&file);
}

/// The jobs of Prometheus for which an alert fires after 48 hours are just these.
fn firing(alert: &str, jobs: &[&str]) -> Value {
    let sample = |job: &&str| json!({ "labels": format!("{{job=\"{job}\"}}"), "value": 1 });
    let samples: Vec<Value> = jobs.iter().map(sample).collect();
    let expression =
        format!("max by (job) (ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})");
    json!({ "expr": expression, "eval_time": "48h", "exp_samples": samples })
}

#[test]
fn alerts_tell_deployments_apart_and_a_new_one_is_not_late_with_its_diff() {
    // A value each ten minutes from 1970 on. The schedule is on, off, or lacks the program.
    let (always, lately) = ("x288", "_x282");
    let series = |job: &str, name: &str, label: &str, values: String| {
        let series = format!("laurel_{name}{{job=\"{job}\"{label}}}");
        json!({ "series": series, "values": values })
    };
    let mut input = vec![];
    for (job, state, since, clean_at) in [
        ("good", "on", always, 150_000),
        ("stale", "on", always, 3600),
        ("never", "on", always, 0),
        ("new", "on", lately, 0),
        ("off", "off", always, 3600),
        ("off and new", "off", lately, 0),
        ("lacking", "no_program", always, 150_000),
    ] {
        let values = |value: i64| match since == always {
            true => format!("{value}{always}"),
            false => format!("{lately} {value}x6"),
        };
        for other in ["on", "off", "no_program"] {
            let label = format!(",state=\"{other}\"");
            let value = values((other == state).into());
            input.push(series(job, "integrity_schedule", &label, value));
        }
        let clean = values(clean_at);
        input.push(series(job, "integrity_last_clean_timestamp_seconds", "", clean));
        let up = i64::from(job != "good");
        input.push(series(job, "up", ",store=\"sql\"", values(up)));
    }
    let tests = json!({
        "rule_files": [program::root().join(ALERTS)],
        "evaluation_interval": "10m",
        "tests": [{
            "interval": "10m",
            "input_series": input,
            "promql_expr_test": [
                firing("LaurelNoCleanDiff", &["lacking", "never", "stale"]),
                firing("LaurelSqlAway", &["good"]),
            ],
        }],
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tests.yml");
    fs::write(&file, tests.to_string()).unwrap();
    run_promtool("test", &file);
}

#[tokio::test]
async fn a_server_gives_every_metric_that_alerts_and_dashboard_name() {
    let deployment = Deployment::new(Sql::Sqlite, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let given = until("the stores were asked", async || {
        let measured = metrics_of(&api).await;
        // The last one that the stores are asked for.
        measured.contains_key("laurel_sql_lag_commits{partition=\"0\"}").then_some(measured)
    })
    .await;
    let given: BTreeSet<&str> =
        given.keys().filter_map(|sample| sample.split('{').next()).collect();
    let page = read("docs/reference/metrics.md");
    let expressions = [alert_values("expr"), dashboard_expressions()].concat();
    let mut wrong = vec![];
    for expression in &expressions {
        assert!(metrics_in(expression).next().is_some(), "{expression} names no metric");
        for metric in metrics_in(expression) {
            let family = ["_bucket", "_sum", "_count"].into_iter();
            let family = family.filter_map(|end| metric.strip_suffix(end)).next().unwrap_or(metric);
            if !given.contains(metric) || !page.contains(&format!("| `{family}` |")) {
                wrong.push(format!("{metric} in {expression}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not on /metrics, or not in its page: {wrong:#?}");
}

#[test]
fn each_alert_leads_to_a_section_of_the_runbook() {
    let runbook = read(RUNBOOK);
    let sections: BTreeSet<String> =
        runbook.lines().filter(|line| line.starts_with("## ")).map(anchor).collect();
    let links = alert_values("runbook_url");
    let count = |key| alert_values(key).len();
    assert_eq!([count("alert"), count("expr"), links.len()], [links.len(); 3], "{ALERTS}");
    assert!(!links.is_empty());
    for link in links {
        let (page, section) = link.split_once('#').unwrap();
        assert_eq!(page, RUNBOOK);
        assert!(sections.contains(section), "{link}: no such section");
    }
}

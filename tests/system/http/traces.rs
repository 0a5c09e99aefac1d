//! Traces: the spans that the page of traces names go to a collector, and none of its troubles
//! reach a client.

mod collector;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::Arc;

use futures::future::join_all;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::metrics::metrics_of;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::SUBMIT_SCORES;
use tests::servers::program;
use tests::wait::until;

use collector::{Collector, Manner, Span};

/// The caller's trace and span, and the header that has them.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// The kind of a server's span.
const SERVER: i32 = 2;

fn caller(trace: &str, flags: &str) -> String {
    format!("00-{trace}-{CALLER}-{flags}")
}

fn post(api: &Api, query: &str, variables: Value) -> RequestBuilder {
    reqwest::Client::new()
        .post(format!("{}/graphql", api.url()))
        .json(&json!({ "query": query, "variables": variables }))
}

fn submission(api: &Api) -> RequestBuilder {
    let scores = json!([{ "member": "mia-77", "score": 4711, "eventId": "event-1" }]);
    let text = SUBMIT_SCORES.replace("mutation(", "mutation Submit(");
    let variables = json!({ "board": "b", "scores": scores, "ack": "DURABLE" });
    post(api, &text, variables).bearer_auth(api.token())
}

async fn send(request: RequestBuilder) -> Value {
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let answer: Value = answer.json().await.unwrap();
    assert!(answer.get("errors").is_none(), "{answer}");
    answer
}

async fn start(settings: &[(&str, &str)]) -> Api {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start_with_settings(&deployment, settings).await;
    api.create_board(json!({ "slug": "b" })).await;
    api
}

/// The names of spans in the table of the page.
fn documented() -> BTreeSet<String> {
    let page = fs::read_to_string(program::root().join("docs/how-to/tracing.md")).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with("| span |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect()
}

/// The name under which the page has a span.
fn documented_name(span: &Span) -> &str {
    if span.name.contains('/') { "POST /graphql" } else { &span.name }
}

/// The only span of a name in a trace.
fn only<'s>(spans: &'s [Span], trace: &str, name: &str) -> &'s Span {
    let mut found = spans.iter().filter(|span| span.trace == trace && span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no {name} in {spans:#?}"));
    assert!(found.next().is_none(), "two {name} in {spans:#?}");
    span
}

#[tokio::test]
async fn a_submission_is_traced_from_its_caller_to_its_commit_without_what_it_names() {
    let collector = Collector::start(Manner::Take).await;
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let headers = deployment.new_file("headers");
    fs::write(&headers, "Authorization: Bearer cret-of-collector\n\nX-Tenant: laurel\n").unwrap();
    let settings = [
        ("LAUREL_OTLP_URL", collector.url.as_str()),
        ("LAUREL_OTLP_HEADERS_FILE", headers.to_str().unwrap()),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        ("LAUREL_LOG", "trace"),
    ];
    let api = Api::start_with_settings(&deployment, &settings).await;
    api.create_board(json!({ "slug": "b" })).await;
    let request = submission(&api).header("traceparent", caller(TRACE, "01"));
    send(request.header("X-Request-Id", "edge/7")).await;
    // A request in turns, one of an event stream, one that fails, and one of another place.
    let long = format!("{{ board(slug: \"b\") {{ title {} }} }}", " ".repeat(5000));
    send(post(&api, &long, json!({}))).await;
    let neighbors = "{ board(slug: \"b\") { standings { neighbors(member: \"mia-77\") { member { name } } } } }";
    send(post(&api, neighbors, json!({})).bearer_auth(api.token())).await;
    let events = post(&api, "query Live { __typename }", json!({}));
    let events = events.header("accept", "text/event-stream").send().await.unwrap();
    assert!(events.text().await.unwrap().contains("next"));
    let failed = post(&api, "{ nonsense }", json!({})).send().await.unwrap();
    assert!(failed.text().await.unwrap().contains("BAD_USER_INPUT"));
    reqwest::get(format!("{}/members/mia-77", api.url())).await.unwrap();
    let (token, log) = (api.token().to_owned(), api.log());
    api.stop().await;

    let spans = collector.spans();
    let request = only(&spans, TRACE, "POST /graphql");
    assert_eq!((request.parent.as_str(), request.kind), (CALLER, SERVER));
    for (name, value) in [
        ("http.request.method", "POST"),
        ("url.path", "/graphql"),
        ("http.response.status_code", "200"),
        ("laurel.request.id", "edge/7"),
        ("graphql.operation.type", "mutation"),
        ("graphql.operation.name", "Submit"),
    ] {
        assert_eq!(request.attribute(name), value, "{name} of {request:?}");
    }
    assert!(request.attribute("laurel.points").parse::<u64>().unwrap() > 0, "{request:?}");
    for (name, value) in [
        ("service.name", "laurel"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("deployment.environment.name", "test"),
    ] {
        assert_eq!(request.process[name], value, "{:?}", request.process);
    }
    assert!(!request.process["laurel.deployment"].is_empty());
    for (child, parent) in [
        ("execute", "POST /graphql"),
        ("submit", "execute"),
        ("commit", "submit"),
        ("snapshot", "commit"),
        ("write", "commit"),
        ("durable", "execute"),
    ] {
        let (child, parent) = (only(&spans, TRACE, child), only(&spans, TRACE, parent));
        assert_eq!(child.parent, parent.id, "{spans:#?}");
    }
    assert_eq!(only(&spans, TRACE, "commit").attribute("scores"), "1");
    let persist = spans.iter().find(|span| span.name == "persist").unwrap();
    assert_eq!((persist.parent.as_str(), persist.attribute("events")), ("", "1"), "{persist:?}");
    assert_eq!(only(&spans, &persist.trace, "transaction").parent, persist.id);
    let codes: Vec<&str> = spans.iter().map(|span| span.attribute("laurel.error.codes")).collect();
    assert!(codes.contains(&"BAD_USER_INPUT"), "{codes:?}");

    let mut names: BTreeSet<String> =
        spans.iter().map(|span| documented_name(span).to_owned()).collect();
    // A server that has room lets no request wait.
    names.insert("admission".to_owned());
    assert_eq!(names, documented());
    let all = format!("{spans:?}");
    for private in ["mia-77", "4711", "event-1", "cret-of-collector", &token] {
        assert!(!all.contains(private), "{private}: {all}");
        assert!(!log.contains("cret-of-collector"), "{log}");
    }
    assert!(!log.contains("graphql.operation"), "the log has spans: {log}");
    for headers in collector.headers() {
        assert!(headers.contains("x-tenant"), "{headers}");
        assert!(headers.contains("Bearer cret-of-collector"), "{headers}");
    }
}

#[tokio::test]
async fn a_commit_of_several_requests_is_linked_to_those_that_it_is_not_under() {
    let collector = Collector::start(Manner::Take).await;
    let api = start(&[("LAUREL_OTLP_URL", &collector.url)]).await;
    until("a commit has several requests", async || {
        join_all((0..30).map(|_| send(submission(&api)))).await;
        collector.spans().iter().any(|span| span.name == "commit" && span.links > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_is_not_sampled_is_not_traced_and_a_broken_header_is_passed_over() {
    let collector = Collector::start(Manner::Take).await;
    let api = start(&[("LAUREL_OTLP_URL", &collector.url)]).await;
    let named = |name: &str| post(&api, &format!("query {name} {{ __typename }}"), json!({}));
    send(named("Unsampled").header("traceparent", caller(TRACE, "00"))).await;
    send(named("Broken").header("traceparent", caller("0af7", "01"))).await;
    send(named("Sampled").header("traceparent", caller(TRACE, "01"))).await;
    api.stop().await;
    let spans = collector.spans();
    let of =
        |name: &str| spans.iter().find(|span| span.attribute("graphql.operation.name") == name);
    assert!(of("Unsampled").is_none(), "{spans:?}");
    let broken = of("Broken").unwrap();
    assert!(broken.parent.is_empty() && broken.trace != TRACE, "{broken:?}");
    assert_eq!(of("Sampled").map(|span| span.parent.as_str()), Some(CALLER));
}

#[tokio::test]
async fn a_ratio_of_nothing_sends_nothing_even_for_callers_that_are_sampled() {
    let collector = Collector::start(Manner::Take).await;
    let url = ("LAUREL_OTLP_URL", collector.url.as_str());
    let api = start(&[url, ("LAUREL_OTLP_RATIO", "0")]).await;
    send(submission(&api).header("traceparent", caller(TRACE, "01"))).await;
    api.stop().await;
    assert!(collector.headers().is_empty());
    // Of a part, a trace is sent or not by its id.
    let api = start(&[url, ("LAUREL_OTLP_RATIO", "0.5")]).await;
    let (low, high) = ("1".repeat(32), "f".repeat(32));
    for trace in [&low, &high] {
        send(submission(&api).header("traceparent", caller(trace, "01"))).await;
    }
    api.stop().await;
    let traces: BTreeSet<String> = collector.spans().into_iter().map(|span| span.trace).collect();
    assert!(traces.contains(&low) && !traces.contains(&high), "{traces:?}");
}

#[tokio::test]
async fn a_worker_traces_its_transactions() {
    let collector = Collector::start(Manner::Take).await;
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let token = deployment.admin_token().await.to_owned();
    let api = Api::spawn(&deployment, &["--no-workers"], token).await;
    api.create_board(json!({ "slug": "b" })).await;
    let mut worker = deployment.api(&["worker"]);
    let mut worker = worker.env("LAUREL_OTLP_URL", &collector.url).spawn().unwrap();
    send(submission(&api)).await;
    let spans = until("a span of the worker arrives", async || {
        Some(collector.spans()).filter(|spans| !spans.is_empty())
    })
    .await;
    program::signal("TERM", worker.id());
    assert!(worker.wait().unwrap().success());
    assert!(spans.iter().all(|span| span.process["service.name"] == "laurel-worker"), "{spans:?}");
    assert!(spans.iter().any(|span| span.name == "persist"), "{spans:?}");
}

/// Sends submissions until spans are dropped.
async fn until_dropped(api: &Api) {
    until("spans are dropped", async || {
        send(submission(api)).await;
        let dropped = metrics_of(api).await["laurel_spans_total{outcome=\"dropped\"}"];
        (dropped > 0.0).then_some(())
    })
    .await;
}

/// The lines of the log that tell of dropped spans.
fn told(api: &Api) -> usize {
    api.log().matches("spans are dropped").count()
}

#[tokio::test]
async fn a_collector_that_fails_or_is_not_there_loses_spans_and_nothing_else() {
    let collector = Collector::start(Manner::Fail).await;
    for (url, reason) in [(collector.url.as_str(), "500"), ("http://127.0.0.1:1", "error")] {
        let api = start(&[("LAUREL_OTLP_URL", url)]).await;
        until_dropped(&api).await;
        for _ in 0..20 {
            send(submission(&api)).await;
        }
        until("the log tells of it", async || (told(&api) > 0).then_some(())).await;
        assert!(api.log().contains(reason), "{}", api.log());
        assert_eq!(told(&api), 1, "{}", api.log());
        api.stop().await;
    }
}

#[tokio::test]
async fn a_collector_that_hangs_holds_up_neither_requests_nor_the_stop() {
    let collector = Collector::start(Manner::Hang).await;
    let settings = [
        ("LAUREL_OTLP_URL", collector.url.as_str()),
        ("LAUREL_OTLP_QUEUE", "10"),
        ("LAUREL_OTLP_TIMEOUT_MS", "60000"),
    ];
    let api = start(&settings).await;
    until_dropped(&api).await;
    // The exporter waits for a minute, which the test does not.
    program::signal("TERM", api.pid());
    let log = {
        let log = || api.log();
        until("the stop gives up the spans", async || {
            Some(log()).filter(|log| log.contains("some spans were not sent"))
        })
        .await
    };
    assert!(api.wait_until_stopped().await.success(), "{log}");
}

#[tokio::test]
async fn spans_arrive_again_once_a_collector_does() {
    let collector = Collector::start(Manner::Fail).await;
    let api = start(&[("LAUREL_OTLP_URL", &collector.url)]).await;
    until_dropped(&api).await;
    collector.set(Manner::Take);
    until("spans arrive", async || {
        send(submission(&api)).await;
        (!collector.spans().is_empty()).then_some(())
    })
    .await;
    assert!(metrics_of(&api).await["laurel_spans_total{outcome=\"sent\"}"] > 0.0);
}

fn refused(deployment: &Arc<Deployment>, settings: &[(&str, &str)]) -> String {
    let mut command: Command = deployment.api(&["serve"]);
    let output = command.env("LAUREL_LISTEN", "127.0.0.1:0").envs(settings.iter().copied());
    let output = output.output().unwrap();
    assert!(!output.status.success(), "{settings:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn settings_that_do_not_hold_are_refused_in_words_without_their_secrets() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let headers = deployment.new_file("headers");
    fs::write(&headers, "Authorization Bearer cret\n").unwrap();
    let headers = headers.to_str().unwrap();
    let here = ("LAUREL_OTLP_URL", "http://127.0.0.1:4318");
    for (settings, message) in [
        (vec![("LAUREL_OTLP_URL", "http://collector.example:4318")], "LAUREL_ALLOW_CLEARTEXT=true"),
        (vec![("LAUREL_OTLP_URL", "collector:4318")], "expected the address of a collector"),
        (vec![("LAUREL_OTLP_URL", "http://u:cret@127.0.0.1:4318")], "LAUREL_OTLP_HEADERS_FILE"),
        (vec![("LAUREL_OTLP_HEADERS_FILE", headers)], "--otlp-url"),
        (vec![here, ("LAUREL_OTLP_HEADERS_FILE", headers)], "expected a header"),
        (vec![here, ("LAUREL_OTLP_HEADERS_FILE", "/none")], "cannot be read"),
        (vec![here, ("LAUREL_OTLP_CA", headers)], "expected a PEM file"),
        (vec![here, ("LAUREL_OTLP_RATIO", "1.5")], "expected a number from 0 to 1"),
        (vec![here, ("LAUREL_OTLP_QUEUE", "0")], "LAUREL_OTLP_QUEUE"),
    ] {
        let refused = refused(&deployment, &settings);
        assert!(refused.contains(message), "{settings:?}: {refused}");
        assert!(!refused.contains("cret\n") && !refused.contains("u:cret"), "{refused}");
    }
}

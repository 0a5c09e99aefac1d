//! Erasures of members with archived events: the files of the archive are written again, whenever
//! that is killed, and the history is still proven.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::{submit, submit_durably};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::ERASE_MEMBER;
use tests::jobs::analytics::{figures, output_beside, run};
use tests::jobs::archive::{age, archive, check_copies, check_files, delete};
use tests::jobs::erasure::{erase, erase_with, starred, traces};
use tests::jobs::seal::wait_until_dropped;
use tests::wait::until;

/// The key, which no other text contains.
const MEMBER: &str = "yan-8c1d";

/// Every step after which an erasure of archived events can be killed.
const STEPS: [&str; 10] = [
    "erasure-removed",
    "file-written",
    "file-renamed",
    "erased-file",
    "erased-file:2",
    "erased-files",
    "erased-switched",
    "erasure-events",
    "erasure-deleted",
    "erasure-trimmed",
];

/// Steps after which an erasure that keeps archived scores can be killed.
const STEPS_OF_ANONYMOUS: [&str; 8] = [
    "erasure-held",
    "held",
    "copied",
    "board-copied",
    "source-removed",
    "erasure-anonymized",
    "erased-file",
    "erased-switched",
];

const STANDINGS: &str = "query($window: String!, $period: String, $segment: String) {
    board(slug: \"b\") { standings(of: { window: $window, period: $period, segment: $segment }) {
        top(first: 100) { nodes { score member { key } } }
    } } }";

/// A board with two shards whose daily periods are sealed, with segments.
async fn start(sql: Sql) -> (Arc<Deployment>, Api) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "daily", "retain": 1 }]);
    let input = json!({
        "slug": "b", "shards": 2, "windows": windows, "segmentBy": ["region"], "metadata": true,
    });
    api.create_board(input).await;
    let members = ["ann", "bob", "cid", "dan"].map(|key| json!({ "key": key, "region": "eu" }));
    api.upsert_members(members.to_vec()).await;
    (deployment, api)
}

/// Accepts scores of the member and of others that are old enough to be archived.
async fn grow(deployment: &Deployment, api: &Api, turn: usize, run: usize) {
    let score = |(index, member): (usize, &str)| {
        json!({
            "member": member, "score": 10 + index + run,
            "at": format!("2025-03-{:02}T12:00:00Z", 1 + run + index % 3),
            "eventId": format!("{member}-{turn}-{run}-{index}"),
            "metadata": { "by": member },
        })
    };
    let members = [MEMBER, "ann", "bob", MEMBER, "cid", "dan"];
    submit_durably(api, "b", members.into_iter().enumerate().map(score).collect()).await;
    wait_until_dropped(api, "b").await;
    age(deployment, 100).await;
}

/// Archives scores of the member and of others in two runs, and so in two files at least; then the
/// member plays on.
async fn play(deployment: &Deployment, api: &Api, turn: usize) {
    api.upsert_members(vec![json!({ "key": MEMBER, "name": "Yan", "region": "eu" })]).await;
    for run in 0..2 {
        grow(deployment, api, turn, run).await;
        let archived = archive(deployment, &[]);
        assert!(archived["events"].as_u64() >= Some(6), "{archived}");
    }
    submit_durably(api, "b", json!([{ "member": MEMBER, "score": 3, "eventId": "late" }])).await;
    deployment.settle().await;
}

/// The standings of all, of a sealed day and of a segment.
async fn entries(api: &Api) -> Vec<Value> {
    let mut all = vec![];
    for of in [
        json!({ "window": "all" }),
        json!({ "window": "daily", "period": "2025-03-02" }),
        json!({ "window": "all", "segment": "region:eu" }),
    ] {
        let data = api.data(STANDINGS, of).await;
        all.extend(data["board"]["standings"]["top"]["nodes"].as_array().unwrap().iter().cloned());
    }
    assert!(all.len() >= 9, "{all:?}");
    all
}

/// As [`entries`], without the member.
async fn others(api: &Api) -> Vec<Value> {
    let mut others = entries(api).await;
    others.retain(|node| node["member"]["key"] != MEMBER);
    others
}

/// As [`entries`], with a star for the member and for those that were anonymized. They may change
/// places with equal ones.
async fn anonymous(api: &Api) -> Vec<(String, String)> {
    let star = |node: &Value| {
        let key = starred(node["member"]["key"].as_str().unwrap(), MEMBER);
        (node["score"].to_string(), key.to_owned())
    };
    let mut all: Vec<_> = entries(api).await.iter().map(star).collect();
    all.sort_unstable();
    all
}

/// The traces of the member that are left. Redis still has the ids of events that a test made
/// older: those that can be archived are so old that it has forgotten them.
async fn left(deployment: &Deployment) -> Vec<String> {
    let mut found = traces(deployment, MEMBER).await;
    found.retain(|place| !place.contains(":seen:"));
    found
}

/// Checks that nothing of the member is left in SQL, Redis or the history, and everything else is.
async fn check_erased(deployment: &Arc<Deployment>, api: &Api, before: &[Value], when: &str) {
    assert_eq!(left(deployment).await, Vec::<String>::new(), "{when}");
    // Not even the process that took its scores knows it any more.
    let known =
        api.data("query($key: String!) { member(key: $key) { key } }", json!({ "key": MEMBER }));
    assert_eq!(known.await["member"], Value::Null, "{when}");
    check_files(deployment).await;
    let path = deployment.path("history.ndjson");
    figures(deployment, &["history", "--out", &path]);
    let history = fs::read_to_string(&path).unwrap();
    assert!(history.contains("ann") && !history.contains(MEMBER), "{when}");
    assert_eq!(others(api).await, before, "{when}");
    let (code, found, error) = run(deployment, &["diff", "--full"]);
    assert_eq!(code, 0, "{when}: {found} {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_events_of_an_erased_member_leave_no_trace_whenever_that_is_killed() {
    let all = Sql::all();
    for (turn, &sql) in all.iter().enumerate() {
        let (deployment, api) = start(sql).await;
        let steps = STEPS.iter().skip(turn).step_by(all.len());
        for (turn, step) in steps.enumerate() {
            play(&deployment, &api, turn).await;
            let before = others(&api).await;
            let killed = erase(&deployment, MEMBER, Some(step)).await;
            assert!(!killed.status.success(), "{step}: {killed:?}");
            assert_eq!(others(&api).await, before, "{step}");
            let output = erase(&deployment, MEMBER, None).await;
            let error = String::from_utf8_lossy(&output.stderr);
            // The background work may have been first.
            let is_over = output.status.success() || error.contains("no such member");
            assert!(is_over, "{step}: {error}");
            check_erased(&deployment, &api, &before, &format!("{sql:?} {step}")).await;
        }
        let before = others(&api).await;
        figures(&deployment, &["rebuild", "--board", "b"]);
        assert_eq!(others(&api).await, before);
        check_receipt(&deployment).await;
    }
}

/// Checks that the newest receipt counts files and events.
async fn check_receipt(deployment: &Arc<Deployment>) {
    let receipts = deployment.api_output(&["erase", "receipts"]).await;
    let newest: Value = serde_json::from_str(receipts.lines().next().unwrap()).unwrap();
    let counts = &newest["counts"];
    assert_eq!((&newest["done"], &counts["archived_event"]), (&json!(true), &json!(4)), "{newest}");
    assert!(counts["archive_file"].as_u64() >= Some(2), "{newest}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_scores_stay_under_a_random_key_whenever_that_is_killed() {
    let all = Sql::all();
    for (step, &sql) in STEPS_OF_ANONYMOUS.iter().zip(all.iter().cycle()) {
        // A copy of a score of today keeps its partition from being archived further.
        let (deployment, api) = start(sql).await;
        play(&deployment, &api, 0).await;
        let before = anonymous(&api).await;
        let arguments = [MEMBER, "--anonymize"];
        let killed = erase_with(&deployment, &arguments, Some(step)).await;
        assert!(!killed.status.success(), "{step}: {killed:?}");
        let output = erase_with(&deployment, &arguments, None).await;
        let error = String::from_utf8_lossy(&output.stderr);
        // The background work may have been first.
        let is_over = output.status.success() || error.contains("no such member");
        assert!(is_over, "{step}: {error}");
        assert_eq!(left(&deployment).await, Vec::<String>::new(), "{step}");
        assert_eq!(anonymous(&api).await, before, "{sql:?} {step}");
        check_files(&deployment).await;
        let (code, found, error) = run(&deployment, &["diff", "--full"]);
        assert_eq!(code, 0, "{sql:?} {step}: {found} {error}");
        figures(&deployment, &["rebuild", "--board", "b"]);
        assert_eq!(anonymous(&api).await, before, "{sql:?} {step}");
        deployment.flush_redis().await;
        assert_eq!(anonymous(&api).await, before, "{sql:?} {step}");
        check_receipt(&deployment).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_archived_scores_stay_is_held_until_the_files_are_read() {
    let (deployment, api) = start(Sql::any()).await;
    play(&deployment, &api, 0).await;
    let before = anonymous(&api).await;
    let text = format!(
        "mutation {{ eraseMember(input: {{ member: \"{MEMBER}\", mode: ANONYMIZE }}) {{ erased waitsForFiles receipt {{ step }} }} }}"
    );
    let begun = api.data(&text, json!({})).await["eraseMember"].take();
    let expected = json!({ "erased": false, "waitsForFiles": true, "receipt": { "step": "HELD" } });
    assert_eq!(begun, expected);
    assert_eq!(anonymous(&api).await, before);
    let again = json!([{ "member": MEMBER, "score": 5 }]);
    let refused = submit(&api, "b", again).await;
    assert_eq!(refused["results"][0]["error"]["code"], "UNAVAILABLE", "{refused}");
    let erased = figures(&deployment, &["erase-files"]);
    assert_eq!((&erased["erasures"], &erased["events"]), (&json!(1), &json!(4)), "{erased}");
    assert_eq!(left(&deployment).await, Vec::<String>::new());
    assert_eq!(anonymous(&api).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_the_archive_leaves_its_files_to_the_command() {
    let (deployment, api) = start(Sql::any()).await;
    play(&deployment, &api, 0).await;
    let before = others(&api).await;
    let begun = api.data(ERASE_MEMBER, json!({ "member": MEMBER })).await["eraseMember"].take();
    let told = json!([begun["erased"], begun["waitsForFiles"], begun["receipt"]["step"]]);
    assert_eq!(told, json!([false, true, "ERASING"]), "{begun}");
    // It is off its boards, and no score of it is taken meanwhile.
    let data = api.data(STANDINGS, json!({ "window": "all" })).await;
    assert!(!data.to_string().contains(MEMBER), "{data}");
    let erased = figures(&deployment, &["erase-files"]);
    assert_eq!(erased["events"], 4, "{erased}");
    // The server may have been first to do the rest, and may be at it.
    erase(&deployment, MEMBER, None).await;
    check_erased(&deployment, &api, &before, "by erase-files").await;
    // A board's files are in the way until they are gone.
    play(&deployment, &api, 1).await;
    delete(&deployment, &api, "b").await;
    let output = erase(&deployment, MEMBER, None).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(left(&deployment).await, Vec::<String>::new());
    check_files(&deployment).await;
    let (code, found, error) = run(&deployment, &["diff", "--full"]);
    assert_eq!(code, 0, "{found} {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_the_archive_writes_its_files_and_their_copies_again() {
    let (deployment, without) = start(Sql::any()).await;
    play(&deployment, &without, 0).await;
    let before = others(&without).await;
    drop(without);
    let copies = deployment.path("copies");
    let copied = Command::new("cp").arg("-r").arg(deployment.archive_dir()).arg(&copies).status();
    assert!(copied.unwrap().success());
    let settings = [("LAUREL_DIFF_AT", "03:30"), ("LAUREL_ARCHIVE_COPY_DIR", &*copies)];
    let api = Api::start_with_settings(&deployment, &settings).await;
    let begun = api.data(ERASE_MEMBER, json!({ "member": MEMBER })).await["eraseMember"].take();
    assert_eq!(begun["waitsForFiles"], true, "{begun}");
    until("the server has erased the member", async || {
        let receipts = deployment.api_output(&["erase", "receipts"]).await;
        let newest: Value = serde_json::from_str(receipts.lines().next().unwrap()).unwrap();
        (newest["done"] == true).then_some(())
    })
    .await;
    check_receipt(&deployment).await;
    check_erased(&deployment, &api, &before, "by the server").await;
    check_copies(&deployment, Path::new(&copies));
}

/// Submits scores of another member until it is stopped, and returns how often.
async fn write(api: &Api, stop: &AtomicBool) -> usize {
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) || sent == 0 {
        for board in ["b", "d"] {
            let told = submit(api, board, json!([{ "member": "eve", "score": 1 }])).await;
            assert_eq!(told["accepted"], 1, "{told}");
        }
        sent += 1;
    }
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_erasure_beside_scores_an_archive_and_a_move_leaves_no_trace() {
    let sql = *Sql::all().last().unwrap();
    let (deployment, api) = start(sql).await;
    api.create_board(json!({ "slug": "d" })).await;
    submit_durably(&api, "d", json!([{ "member": MEMBER, "score": 3, "eventId": "e" }])).await;
    play(&deployment, &api, 0).await;
    grow(&deployment, &api, 1, 0).await;
    let before = others(&api).await;
    let (stop, day) = (AtomicBool::new(false), jiff::SignedDuration::from_hours(48));
    let until_day = (jiff::Timestamp::now() - day).to_string();
    let of_archive = ["archive", "--before", &*until_day];
    let of_move = ["rebuild", "--board", "d", "--shards", "2"];
    let (sent, archived, moved, ()) = tokio::join!(
        write(&api, &stop),
        output_beside(&deployment, &of_archive),
        output_beside(&deployment, &of_move),
        async {
            until("the member is erased", async || {
                let output = erase(&deployment, MEMBER, None).await;
                let error = String::from_utf8_lossy(&output.stderr).into_owned();
                (output.status.success() || error.contains("no such member")).then_some(())
            })
            .await;
            stop.store(true, Ordering::Relaxed);
        }
    );
    let said = [archived, moved].map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    archive(&deployment, &[]);
    let without_eve: Vec<Value> =
        others(&api).await.into_iter().filter(|node| node["member"]["key"] != "eve").collect();
    assert_eq!(without_eve, before, "{said:?}");
    let data = api.data(STANDINGS, json!({ "window": "all" })).await;
    let nodes = data["board"]["standings"]["top"]["nodes"].as_array().unwrap();
    let eve = nodes.iter().find(|node| node["member"]["key"] == "eve").unwrap();
    assert_eq!(eve["score"], json!(sent.to_string()), "{said:?}");
    let before = others(&api).await;
    check_erased(&deployment, &api, &before, &format!("{said:?}")).await;
}

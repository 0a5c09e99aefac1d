//! Imports at once (`--bulk`): the same events, standings and refusals as an ordinary import, on
//! boards that have no history, and nothing lost or counted twice by a kill in the middle.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::playthrough::check;
use tests::api::submission::{create_board, submit_durably};
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::analytics::{figures, run};
use tests::jobs::diff::check_diff;
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::history::History;
use tests::model::oracle::Verdict;
use tests::wait::until;

/// The steps at which an import at once is killed.
const STEPS: [&str; 9] = [
    "append-closed",
    "append-closed:2",
    "append-written",
    "append-written:7",
    "append-written:23",
    "append-loaded",
    "append-loaded:2",
    "share-appended",
    "share-appended:3",
];

/// The members of a board with rolling and decaying windows.
const MEMBERS: usize = 9;

/// The outcome of an import in a deployment: its figures and the lines of its bad rows.
fn import(deployment: &Deployment, slug: &str, file: &str, how: &[&str]) -> (Value, String) {
    let rejects = deployment.new_file("csv");
    let rejects = rejects.to_str().unwrap();
    let arguments = [&["import", "--board", slug, "--skip-bad", rejects], how, &[file]].concat();
    let told = figures(deployment, &arguments);
    (told, std::fs::read_to_string(rejects).unwrap_or_default())
}

/// All that the stores have of a board, without its number and its partitions.
async fn contents(deployment: &Deployment, slug: &str) -> BTreeMap<String, Vec<String>> {
    deployment.settle().await;
    let no = deployment.number(&format!("SELECT no FROM board WHERE slug = '{slug}'")).await;
    let mut contents = BTreeMap::new();
    let (of_event, of_standing) = ("ORDER BY member, seq, event_index", "ORDER BY segment, member");
    for (table, columns, order) in [
        ("score_event", &["member", "kind", "event_id", "segments"][..], of_event),
        ("standing", &["segment", "member"], of_standing),
    ] {
        for column in columns {
            let select = format!("SELECT {column} FROM {table} WHERE board_no = {no} {order}");
            let column = format!("{table}.{column}");
            contents.insert(column, deployment.column::<String>(&select).await);
        }
    }
    let metadata =
        format!("SELECT COALESCE(metadata, '') FROM score_event WHERE board_no = {no} {of_event}");
    contents.insert("metadata".to_owned(), deployment.column::<String>(&metadata).await);
    for (table, columns, order) in [
        ("score_event", ["score", "at_ms"], of_event),
        ("standing", ["score", "rank_key"], of_standing),
    ] {
        for column in columns {
            let select = format!("SELECT {column} FROM {table} WHERE board_no = {no} {order}");
            let numbers = deployment.column::<i64>(&select).await;
            let numbers = numbers.iter().map(ToString::to_string).collect();
            contents.insert(format!("{table}.{column}"), numbers);
        }
    }
    for (key, value) in deployment.redis_contents().await {
        let (_, name) = key.split_once("}:").unwrap();
        let is_of_board = |of: &str| name.strip_prefix(&format!("{of}:{no}."));
        if let Some(rest) = is_of_board("z").or(is_of_board("periods")) {
            let of_shard: &mut Vec<String> = contents.entry(rest.to_owned()).or_default();
            of_shard.push(format!("{value:?}"));
            of_shard.sort();
        }
    }
    contents
}

/// Rows of a file of a game.
fn rows(game: &Game) -> String {
    let row = |event| {
        let input = game.board.score_input(event);
        let row = json!({
            "member": input["member"], "score": input["score"], "at": input["at"],
            "event_id": input["eventId"], "metadata": input["metadata"],
        });
        format!("{row}\n")
    };
    game.events.iter().map(row).collect()
}

/// Imports a file in both ways onto two boards, which then have the same.
async fn compare(deployment: &Deployment, boards: [&str; 2], file: &str) {
    let [one_by_one, at_once] = boards;
    let (ordinary, bad) = import(deployment, one_by_one, file, &[]);
    let (bulk, bulk_bad) = import(deployment, at_once, file, &["--bulk"]);
    for figure in ["accepted", "known", "bad"] {
        assert_eq!(bulk[figure], ordinary[figure], "{figure} of {boards:?}");
    }
    assert_eq!(bulk_bad, bad, "{boards:?}");
    let [expected, found] =
        [contents(deployment, one_by_one).await, contents(deployment, at_once).await];
    for (name, expected) in &expected {
        assert_eq!(found.get(name), Some(expected), "{name} of {boards:?}");
    }
    assert_eq!(found.len(), expected.len(), "{boards:?}");
    // Again, and the ordinary way: nothing is new. A row that was refused may fit by now.
    let is_good = bulk["bad"] == 0;
    for how in [&["--bulk"][..], &[]].into_iter().take(if is_good { 2 } else { 1 }) {
        let (again, _) = import(deployment, at_once, file, how);
        let known = bulk["accepted"].as_u64().unwrap() + bulk["known"].as_u64().unwrap();
        assert_eq!((&again["accepted"], &again["known"]), (&json!(0), &json!(known)), "{how:?}");
    }
}

/// The board of a game with another slug.
fn renamed(game: &Game, slug: &str) -> Game {
    let mut game = game.clone();
    game.board.slug = slug.to_owned();
    game
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_at_once_leaves_what_an_ordinary_one_does_on_every_board() {
    let mut rng = seeded();
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let api = Api::start(&deployment).await;
        let mut games = every_game(&mut rng, 4, Range::Wide, 150);
        games.extend(every_game(&mut rng, 1, Range::Narrow, 150));
        games.shuffle(&mut rng);
        for game in games.into_iter().take(extent::boards([8, 32])) {
            let slug = game.board.slug.clone();
            let [one, other] = ["one", "other"].map(|of| format!("{slug}-{of}"));
            for slug in [&one, &other] {
                create_board(&api, &renamed(&game, slug).board).await;
            }
            let file = deployment.path(&format!("{slug}.ndjson"));
            std::fs::write(&file, rows(&game)).unwrap();
            compare(&deployment, [&one, &other], &file).await;
            if slug.starts_with("wide") {
                let mut history = History::new(renamed(&game, &other).board);
                for event in &game.events {
                    let verdict = history.submit(event);
                    assert_ne!(verdict, Verdict::Rejected);
                }
                check(&api, &history).await;
            }
        }
        check_diff(&deployment);
    }
}

/// Rows of the last days of some members, with regions and amounts that reach the end of a range.
fn recent_rows(rng: &mut StdRng, count: usize) -> String {
    let mut rows = "member,score,at,event_id,region\n".to_owned();
    for number in 0..count {
        let member = rng.random_range(0..MEMBERS);
        let at_ms = now_ms() - rng.random_range(1000..20 * DAY_MS);
        let at = jiff::Timestamp::from_millisecond(at_ms).unwrap();
        let id = if rng.random_bool(0.5) { number.to_string() } else { String::new() };
        let region = ["", "eu", "us"][rng.random_range(0..3)];
        rows += &format!("m{member},{},{at},{id},{region}\n", rng.random_range(0..40));
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_and_decaying_windows_and_segments_are_as_if_scores_had_come_one_by_one() {
    let mut rng = seeded();
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        for (policy, windows) in [
            ("SUM", &["daily", "7d", "decay:7d"][..]),
            ("BEST", &["24h", "weekly"]),
            ("LATEST", &["7d"]),
        ] {
            let windows: Vec<Value> = windows.iter().map(|name| json!({ "name": name })).collect();
            let slugs =
                ["zero", "one", "other"].map(|of| format!("{}-{of}", policy.to_lowercase()));
            for slug in &slugs {
                api.create_board(json!({
                    "slug": slug, "policy": policy, "windows": windows, "segmentBy": ["region"],
                    "maxScore": "700", "shards": 2,
                }))
                .await;
            }
            let file = deployment.path(&format!("{policy}.csv"));
            std::fs::write(&file, recent_rows(&mut rng, 400)).unwrap();
            // A row without a region counts in that of its member, which the first import sets.
            import(&deployment, &slugs[0], &file, &[]);
            compare(&deployment, [&slugs[1], &slugs[2]], &file).await;
        }
        check_diff(&deployment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_imported_event_id_is_known_and_scores_go_on_from_what_was_imported() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    for slug in ["before", "b"] {
        api.create_board(json!({ "slug": slug, "windows": [{ "name": "daily" }] })).await;
        if slug == "before" {
            submit_durably(&api, slug, json!([{ "member": "ann", "score": "1" }])).await;
        }
    }
    let file = deployment.path("b.csv");
    std::fs::write(&file, "member,score,at,event_id,region\nann,3,1767323045,one,eu\nann,4,1767323046,two,\nbob,5,1767323047,,us\n").unwrap();
    let told = figures(&deployment, &["import", "--board", "b", "--bulk", &file]);
    assert_eq!(told["accepted"], 3);
    let scores = json!([
        { "member": "ann", "score": "3", "at": "2026-01-02T03:04:05Z", "eventId": "one" },
        { "member": "ann", "score": "10", "eventId": "three" },
    ]);
    let told = submit_durably(&api, "b", scores).await;
    assert_eq!((&told["duplicates"], &told["accepted"]), (&json!(1), &json!(1)), "{told}");
    submit_durably(&api, "before", json!([{ "member": "ann", "score": "1" }])).await;
    let top =
        "{ board(slug: \"b\") { standings { top { nodes { score member { key region } } } } } }";
    let expected = json!([
        { "score": "17", "member": { "key": "ann", "region": "eu" } },
        { "score": "5", "member": { "key": "bob", "region": "us" } },
    ]);
    assert_eq!(api.data(top, json!({})).await["board"]["standings"]["top"]["nodes"], expected);
    check_diff(&deployment);
    deployment.settle().await;
    deployment.flush_redis().await;
    let again = async || api.data(top, json!({})).await["board"]["standings"]["top"].take();
    assert_eq!(again().await["nodes"], expected);
}

/// Runs an import at once that kills itself at a step.
fn import_until(deployment: &Deployment, slug: &str, file: &str, step: &str) {
    let mut command = deployment.analytics_command(&["import", "--board", slug, "--bulk", file]);
    let output = command.env("CRASH_AT", step).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    // Killed by a signal, so there is no exit code.
    assert_eq!(output.status.code(), None, "{step}: {error}");
}

/// Submits scores with event ids until all of them count: a partition that is closed waits until
/// the right to recover it expires.
async fn submit_all(api: &Api, slug: &str, scores: Value) {
    let count = scores.as_array().unwrap().len();
    until("the scores count", async || {
        let told = submit_durably(api, slug, scores.clone()).await;
        let counted = told["accepted"].as_u64().unwrap() + told["duplicates"].as_u64().unwrap();
        (counted == count as u64).then_some(())
    })
    .await;
}

/// A deployment with a board of 16 shards, and a file of so many rows.
async fn with_file(sql: Sql, rows: usize) -> (Arc<Deployment>, Api, String) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "beside", "shards": 16 })).await;
    let file = deployment.path("rows.csv");
    std::fs::write(&file, recent_rows(&mut seeded(), rows)).unwrap();
    (deployment, api, file)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_at_once_that_is_killed_goes_on_where_it_was() {
    let mut rng = seeded();
    for sql in Sql::all() {
        let (deployment, api, file) = with_file(sql, 60).await;
        let numbered: Vec<(usize, &str)> = STEPS.into_iter().enumerate().collect();
        for (number, step) in extent::steps(&mut rng, 4, &numbered) {
            let slugs = ["one", "other", "zero"].map(|of| format!("{of}-{number}"));
            for slug in &slugs {
                api.create_board(json!({
                    "slug": slug, "shards": 4, "segmentBy": ["region"], "maxScore": "3000",
                    "windows": [{ "name": "daily" }, { "name": "7d" }],
                }))
                .await;
            }
            import(&deployment, &slugs[2], &file, &[]);
            let (ordinary, _) = import(&deployment, &slugs[0], &file, &[]);
            assert_eq!(ordinary["bad"], 0, "{ordinary}");
            import_until(&deployment, &slugs[1], &file, step);
            // The partitions open by themselves.
            let score =
                |member| json!({ "member": format!("m{member}"), "score": "1", "eventId": step });
            submit_all(&api, "beside", (0..32).map(score).collect()).await;
            let (bulk, _) = import(&deployment, &slugs[1], &file, &["--bulk"]);
            let sum =
                |told: &Value| told["accepted"].as_u64().unwrap() + told["known"].as_u64().unwrap();
            assert_eq!(sum(&bulk), sum(&ordinary), "{step}: {bulk}");
            assert_eq!(
                contents(&deployment, &slugs[1]).await,
                contents(&deployment, &slugs[0]).await,
                "{step}"
            );
            check_diff(&deployment);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_import_that_others_wrote_after_ends_the_ordinary_way() {
    let (deployment, api, file) = with_file(Sql::any(), 40).await;
    api.create_board(json!({ "slug": "b" })).await;
    import_until(&deployment, "b", &file, "append-written:20");
    let score = json!([{ "member": "m1", "score": "1", "eventId": "of-another" }]);
    submit_all(&api, "b", score).await;
    let (code, _, error) = run(&deployment, &["import", "--board", "b", "--bulk", &file]);
    assert_eq!(code, 1);
    assert!(error.contains("an import without --bulk skips"), "{error}");
    assert!(error.contains("nothing was written"), "{error}");
    let told = figures(&deployment, &["import", "--board", "b", &file]);
    assert_eq!((&told["accepted"], &told["known"]), (&json!(20), &json!(20)), "{told}");
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_that_cannot_take_a_history_at_once_is_refused_and_gets_nothing() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "joined", "joining": true })).await;
    api.create_board(json!({ "slug": "begun", "shards": 16 })).await;
    submit_durably(&api, "begun", json!([{ "member": "zoe", "score": "1" }])).await;
    let file = deployment.path("rows.csv");
    let rows: String = (0..40).map(|member| format!("m{member},1,1\n")).collect();
    std::fs::write(&file, format!("member,score,at\n{rows}")).unwrap();
    for (slug, says) in [
        ("joined", "members join board joined: expected an import without --bulk"),
        ("begun", "expected a board without events"),
        ("none", "there is no board \"none\""),
    ] {
        let (code, _, error) = run(&deployment, &["import", "--board", slug, "--bulk", &file]);
        assert_eq!(code, 1, "{slug}: {error}");
        assert!(error.contains(says), "{slug}: {error}");
    }
    assert_eq!(run(&deployment, &["import", "--bulk", &file]).0, 2);
    assert_eq!(deployment.number("SELECT count(*) FROM score_event").await, 1);
    // A bad row refuses the file as a whole.
    api.create_board(json!({ "slug": "b", "maxScore": "1" })).await;
    std::fs::write(&file, "member,score,at,event_id\nann,1,1,a\nann,1,2,b\nbob,1,1,\nann,0,1,a\n")
        .unwrap();
    let (code, _, error) = run(&deployment, &["import", "--board", "b", "--bulk", &file]);
    assert_eq!(code, 1);
    for says in [
        "2 bad rows; nothing was written",
        "line 3: the window all would hold 2: expected 0 to 1",
        "line 5: its event id \"a\" was used with another score, time or metadata",
    ] {
        assert!(error.contains(says), "{says} in {error}");
    }
    assert_eq!(deployment.number("SELECT count(*) FROM score_event").await, 1);
}

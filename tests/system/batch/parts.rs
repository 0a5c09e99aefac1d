//! Rebuilds and diffs that several processes share: parts and whole are equal, and a part that died
//! is run again alone.

use std::collections::BTreeSet;
use std::process::Output;
use std::sync::Arc;

use engine::job::part::Part;
use engine::job::shared::{self, Begun, RunningPart, SILENCE_MS};
use entity::deployment::clock::Clock;
use entity::job::State;
use entity::job::part::Terms;
use rand::seq::SliceRandom;
use sea_orm::{ConnectionTrait, DatabaseConnection, EntityTrait, QueryOrder};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::playthrough::{check, play};
use tests::api::submission::create_board;
use tests::boards::corruption::CorruptedBoard;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::analytics::{figures, output_beside, run, with_json};
use tests::jobs::diff::{check_diff, findings};
use tests::jobs::rebuild::{corrupt, stages};
use tests::jobs::reshard::reshard;
use tests::model::game::{Range, every_game, seeded};
use tests::model::history::History;

/// Runs all parts of a command at once, and returns their outputs.
async fn parts(deployment: &Arc<Deployment>, command: &[&str], count: u16) -> Vec<Output> {
    let each = (0..count).map(|index| async move {
        let part = format!("{index}/{count}");
        output_beside(deployment, &[&with_json(command)[..], &["--part", &part]].concat()).await
    });
    futures::future::join_all(each).await
}

/// The JSON that parts print, which must end with one of some statuses.
fn told(outputs: &[Output], statuses: &[i32]) -> Vec<Value> {
    let each = outputs.iter().map(|output| {
        let text = [&output.stdout[..], &output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let code = output.status.code();
        assert!(code.is_some_and(|code| statuses.contains(&code)), "{code:?}: {text}");
        serde_json::from_slice(&output.stdout).unwrap()
    });
    each.collect()
}

/// The figures of all parts, which one of them tells.
fn all(told: &[Value]) -> Value {
    let all: Vec<&Value> =
        told.iter().map(|part| &part["all"]).filter(|all| !all.is_null()).collect();
    assert_eq!(all.len(), 1, "{told:?}");
    all[0].clone()
}

async fn jobs(db: &DatabaseConnection) -> Vec<(State, Option<i32>, f64)> {
    let jobs =
        entity::job::Entity::find().order_by_asc(entity::job::Column::Id).all(db).await.unwrap();
    jobs.into_iter().map(|job| (job.state, job.parts, job.progress)).collect()
}

async fn part_rows(deployment: &Deployment) -> i64 {
    deployment.number("SELECT COUNT(*) FROM job_part").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parts_of_a_rebuild_make_what_the_whole_makes() {
    for sql in Sql::all() {
        let mut board = CorruptedBoard::new(sql, 4).await;
        let whole = figures(&board.deployment, &["rebuild", "--board", "b"]);
        let picture = board.picture().await;
        corrupt(&board.deployment, "b").await;
        let outputs = parts(&board.deployment, &["rebuild", "--board", "b"], 4).await;
        let told = told(&outputs, &[0]);
        let all = all(&told);
        for figure in ["events", "standings", "entries"] {
            assert_eq!(all[figure], whole[figure], "{figure}: {told:?}");
            let sum: i64 = told.iter().map(|part| part["own"][figure].as_i64().unwrap()).sum();
            assert_eq!(all[figure], sum, "{figure}");
        }
        assert_eq!(all["mendedMembers"], 1);
        board.is_as(&picture).await;
        check_diff(&board.deployment);
        assert_eq!(stages(&board.deployment).await, []);
        let jobs = jobs(&board.deployment.sql().await).await;
        let done = |parts| (State::Done, parts, 1.0);
        assert_eq!(jobs, [done(None), done(Some(4)), done(None)]);
        assert_eq!(part_rows(&board.deployment).await, 0);
    }
}

/// Rebuilds boards of random rules and histories in parts, beside players.
async fn check_beside(sql: Sql) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut games = every_game(&mut rng, 4, Range::Wide, 60);
    games.shuffle(&mut rng);
    for game in games.into_iter().take(extent::boards([2, 6])) {
        create_board(&api, &game.board).await;
        let mut history = History::new(game.board);
        let slug = history.board.slug.clone();
        let (before, meanwhile) = game.events.split_at(30);
        play(&mut rng, &api, &mut history, before).await;
        corrupt(&deployment, &slug).await;
        let playing = play(&mut rng, &api, &mut history, meanwhile);
        let command = ["rebuild", "--board", &slug];
        let (outputs, ()) = futures::join!(parts(&deployment, &command, 4), playing);
        assert_eq!(all(&told(&outputs, &[0]))["mendedMembers"], 1);
        check(&api, &history).await;
        check_diff(&deployment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_are_right_beside_players_under_all_rules() {
    for sql in Sql::all() {
        check_beside(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_is_killed_is_run_again_alone() {
    for (sql, step) in Sql::all_with(["part-rebuilt", "standings-put"]) {
        let mut board = CorruptedBoard::new(sql, 4).await;
        let picture = board.picture().await;
        corrupt(&board.deployment, "b").await;
        let part = |index: u16| {
            let text = format!("{index}/4");
            board
                .deployment
                .analytics_command(&["rebuild", "--json", "--board", "b", "--part", &text])
        };
        let each = (0..4).map(|index| {
            let mut command = part(index);
            if index == 2 {
                command.env("CRASH_AT", step);
            }
            tokio::task::spawn_blocking(move || command.output().unwrap())
        });
        let outputs = futures::future::join_all(each).await;
        let outputs: Vec<Output> = outputs.into_iter().map(Result::unwrap).collect();
        let codes: Vec<Option<i32>> = outputs.iter().map(|output| output.status.code()).collect();
        assert_eq!(codes, [Some(0), Some(0), None, Some(0)]);
        let db = &board.deployment.sql().await;
        assert_eq!(jobs(db).await.last().unwrap().0, State::Running);

        // Nothing else takes the board meanwhile.
        for command in [
            &["rebuild", "--board", "b"][..],
            &["rebuild", "--board", "b", "--shards", "2"],
            &["restore", "--board", "b"],
        ] {
            let (code, _, error) = run(&board.deployment, command);
            assert_eq!(code, 1, "{error}");
            assert!(
                error.contains("in 4 parts") && error.contains("expected --part K/4"),
                "{error}"
            );
        }
        // A part that is done stays so.
        let (code, told, _) = run(&board.deployment, &["rebuild", "--board", "b", "--part", "0/4"]);
        assert_eq!((code, &told["earlier"], &told["all"]), (0, &json!(true), &Value::Null));
        let (code, told, error) =
            run(&board.deployment, &["rebuild", "--board", "b", "--part", "2/4"]);
        assert_eq!((code, &told["earlier"]), (0, &json!(false)), "{error}");
        assert!(told["all"]["entries"].as_i64() > told["own"]["entries"].as_i64(), "{told}");
        assert_eq!(jobs(db).await.last().unwrap(), &(State::Done, Some(4), 1.0));
        for (key, lives_ms) in stages(&board.deployment).await {
            assert!((1..=300_000).contains(&lives_ms), "{key} lives {lives_ms}");
            let () = board.redis(&["DEL", &key]).await;
        }
        board.is_as(&picture).await;
        check_diff(&board.deployment);
        // The next call is a job of its own.
        let (_, told, _) = run(&board.deployment, &["rebuild", "--board", "b", "--part", "0/1"]);
        assert_eq!((&told["earlier"], told["all"].is_null()), (&json!(false), false));
    }
}

/// Begins a part of a rebuild of the first board, which never moved.
async fn begun(db: &DatabaseConnection, part: &str) -> Box<RunningPart> {
    let terms = Terms { options: String::new(), layouts: String::new(), run_id: None };
    let part: Part = part.parse().unwrap();
    match shared::begin(db, &Clock::default(), "REBUILD", Some(1), part, &terms).await.unwrap() {
        Begun::Running(running) => running,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_has_one_process_and_all_parts_one_number() {
    for sql in Sql::all() {
        let board = CorruptedBoard::new(sql, 4).await;
        let db = &board.deployment.sql().await;
        let running = begun(db, "1/2").await;
        let rebuild = |arguments: &[&str]| {
            let (code, told, error) =
                run(&board.deployment, &[&["rebuild", "--board", "b"], arguments].concat());
            (code, told, error)
        };
        for (arguments, said) in [
            (&["--part", "1/2"][..], "another process runs part 1/2"),
            (&["--part", "0/4"], "expected --part K/2"),
            (&["--part", "0/2", "--window", "daily"], "of the options that change its work none"),
            (&["--part", "0/5"], "board b has 4 partitions: expected at most as many parts"),
            (&[], "expected --part K/2"),
        ] {
            let (code, _, error) = rebuild(arguments);
            assert_eq!(code, 1, "{arguments:?}: {error}");
            assert!(error.contains(said), "{arguments:?}: {error}");
        }
        let (code, _, error) = rebuild(&["--part", "2/2"]);
        assert_eq!(code, 2);
        assert!(error.contains("expected K/N"), "{error}");
        assert_eq!(rebuild(&["--part", "0/2"]).0, 0);
        // A move that is decided while a part runs leaves its work in doubt.
        let transaction = entity::sql::begin(db).await.unwrap();
        let ended = running.end_in(&transaction, "{}", "other layouts").await;
        assert!(ended.unwrap_err().to_string().contains("a board moved"));
        transaction.rollback().await.unwrap();
        // No process runs a part that failed, and another number of parts begins another job.
        running.fail("tired", "").await.unwrap();
        drop(running);
        let (code, told, error) = rebuild(&["--part", "0/1"]);
        assert_eq!((code, told["all"].is_null()), (0, false), "{error}");
        let states: Vec<State> = jobs(db).await.into_iter().map(|job| job.0).collect();
        assert_eq!(states, [State::Failed, State::Done]);
        assert_eq!(part_rows(&board.deployment).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_parts_stays_open_for_the_next_process_and_not_for_ever() {
    for sql in Sql::all() {
        let board = CorruptedBoard::new(sql, 4).await;
        let db = &board.deployment.sql().await;
        let whole =
            async || engine::job::begin(db, &Clock::default(), "REBUILD", Some(1)).await.unwrap();
        let silent = async |ms: i64| {
            let at_ms = now_ms() - ms;
            for table in ["job", "job_part"] {
                let set = format!(
                    "UPDATE {table} SET heartbeat_at_ms = {at_ms} WHERE heartbeat_at_ms IS NOT NULL"
                );
                db.execute_unprepared(&set).await.unwrap();
            }
        };
        // Dropped, it renews nothing. Its own process is alive, so that the silence alone counts.
        drop(begun(db, "1/2").await);
        silent(SILENCE_MS - 30_000).await;
        assert!(matches!(whole().await, engine::job::Begun::Taken(_)));
        // Another process takes the part, and the silent one can no longer end it.
        let woken = begun(db, "1/2").await;
        silent(SILENCE_MS + 30_000).await;
        let engine::job::Begun::Running(running) = whole().await else { panic!("it is taken") };
        let transaction = entity::sql::begin(db).await.unwrap();
        let ended = woken.end_in(&transaction, "{}", "").await;
        assert!(ended.unwrap_err().to_string().contains("was ended before part 1/2"));
        transaction.rollback().await.unwrap();
        running.end(Ok("done")).await.unwrap();
        let states: Vec<State> = jobs(db).await.into_iter().map(|job| job.0).collect();
        assert_eq!(states, [State::Failed, State::Done]);
    }
}

/// Spoils entries of all shards, and adds keys that belong to no board, one beyond all partitions.
async fn spoil(board: &mut CorruptedBoard) {
    let mut partitions = BTreeSet::from(["laurel:{700}:".to_owned()]);
    for number in (0..40).step_by(3) {
        let member = format!("m{number:02}");
        let (key, _) = board.entry(&member, "all:all").await;
        board.set(&key, 1.5 + f64::from(number) / 64.0, &member).await;
        partitions.insert(key.split_once("z:").unwrap().0.to_owned());
    }
    assert_eq!(partitions.len(), 5);
    for partition in partitions {
        board.set(&format!("{partition}z:99.1::all:all"), 1.5, "stray").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parts_of_a_diff_find_what_the_whole_finds_and_are_one_run() {
    for (sql, of) in Sql::all_with([&["diff", "--full"][..], &["diff", "--board", "b"]]) {
        let mut board = CorruptedBoard::new(sql, 4).await;
        let picture = board.picture().await;
        spoil(&mut board).await;
        let (code, whole) = board.run(of);
        assert_eq!(code, 3, "{whole}");
        let outputs = parts(&board.deployment, of, 4).await;
        let told = told(&outputs, &[0, 3]);
        let mut union = BTreeSet::new();
        let mut count = 0;
        for (part, output) in told.iter().zip(&outputs) {
            let is_clean = part["own"]["found"] == 0;
            assert_eq!(output.status.code() == Some(0), is_clean, "{part}");
            count += part["own"]["findings"].as_array().unwrap().len();
            union.extend(findings(&part["own"]));
        }
        assert_eq!(union, findings(&whole));
        let all = all(&told);
        for figure in ["checked", "found", "repaired", "left"] {
            assert_eq!(all[figure], whole[figure], "{figure}");
        }
        assert_eq!(count, whole["findings"].as_array().unwrap().len());

        // One run, with the findings of all.
        let api = Api::start(&board.deployment).await;
        let query = "{ integrityRuns(first: 5) { totalCount nodes { checked found finishedAt
            findings(first: 100) { totalCount nodes { kind member } } } } }";
        let runs = api.data(query, json!({})).await["integrityRuns"].take();
        assert_eq!(runs["totalCount"], 2);
        let run = &runs["nodes"][0];
        assert_eq!((&run["checked"], &run["found"]), (&whole["checked"], &whole["found"]));
        assert_eq!(run["findings"]["totalCount"], whole["found"]);
        assert!(run["finishedAt"].is_string());

        // No repair touches what lies in no partition.
        let () = board.redis(&["DEL", "laurel:{700}:z:99.1::all:all"]).await;
        let outputs = parts(&board.deployment, &[of, &["--repair"]].concat(), 4).await;
        for part in self::told(&outputs, &[0]) {
            assert_eq!(part["own"]["left"], 0, "{part}");
        }
        if of.contains(&"--full") {
            board.is_as(&picture).await;
        }
        assert_eq!(board.run(of).0, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_a_diff_that_died_leaves_no_finding_twice() {
    let mut board = CorruptedBoard::new(Sql::any(), 4).await;
    let (key, _) = board.entry("m05", "all:all").await;
    board.set(&key, 1.5, "m05").await;
    for part in ["0/2", "1/2"] {
        let mut command =
            board.deployment.analytics_command(&["diff", "--board", "b", "--part", part]);
        let output = command.env("CRASH_AT", "part-compared").output().unwrap();
        assert_eq!(output.status.code(), None);
    }
    let mut codes = vec![];
    for part in ["0/2", "1/2", "0/2"] {
        codes.push(run(&board.deployment, &["diff", "--board", "b", "--part", part]).0);
    }
    // The last call is the first part of another run.
    assert_eq!(codes[0], codes[2]);
    codes.sort_unstable();
    assert!(codes.starts_with(&[0]) && codes.ends_with(&[3]), "{codes:?}");
    let found = board.deployment.number("SELECT COUNT(*) FROM integrity_finding WHERE run_id = 1");
    assert_eq!(found.await, 1);
    let run = "SELECT found FROM integrity_run WHERE id = 1 AND finished_at_ms IS NOT NULL";
    assert_eq!(board.deployment.number(run).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parts_of_a_diff_do_not_outlive_a_move() {
    for (sql, of) in Sql::all_with([&["diff"][..], &["diff", "--board", "b"]]) {
        let board = CorruptedBoard::new(sql, 2).await;
        let part = |part: &str| run(&board.deployment, &[of, &["--part", part]].concat());
        assert_eq!(part("1/2").0, 0);
        reshard(&board.deployment, "b", 4);
        let (code, _, error) = part("0/2");
        assert_eq!(code, 1);
        assert!(error.contains("a board moved to another number of shards"), "{error}");
        assert!(error.contains("expected all parts again"), "{error}");
        let db = &board.deployment.sql().await;
        assert_eq!(jobs(db).await[0].0, State::Failed);
        assert_eq!((part("0/2").0, part("1/2").0), (0, 0));
        assert_eq!(jobs(db).await.last().unwrap(), &(State::Done, Some(2), 1.0));
    }
}

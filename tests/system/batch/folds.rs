//! Folds on an engine: its states make what a rebuild makes, beside players, for every kind of
//! window, and for histories in the archive or of another number of shards.

use std::path::Path;

use rand::seq::SliceRandom;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::playthrough::{begun, check, play};
use tests::api::submission::submit_durably;
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::engine::{ENGINES, Engine, check_states, load};
use tests::extent;
use tests::jobs::analytics::figures;
use tests::jobs::archive::archived;
use tests::jobs::diff::check_diff;
use tests::jobs::rebuild::{corrupt, stages};
use tests::jobs::reshard::reshard;
use tests::model::game::seeded;

/// Loads an engine's states of boards whose players go on after the plan.
async fn check_beside(sql: Sql, dialect: &'static str) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut engine = Engine::start(dialect);
    for (game, mut history) in begun(&mut rng, &api, 60, 4, extent::boards([2, 16])).await {
        let slug = game.board.slug.clone();
        let plan = Engine::plan(&deployment, &slug, &format!("plan-{slug}"));
        let states = engine.run(&deployment, &plan);
        let checked = check_states(&deployment, &plan, &states);
        assert!(checked["members"].as_u64().unwrap() > 0, "{checked}");
        play(&mut rng, &api, &mut history, &game.events[30..]).await;
        corrupt(&deployment, &slug).await;
        let rebuilt = load(&deployment, &slug, &plan, &states).unwrap();
        assert!(rebuilt["entries"].as_u64().unwrap() > 0, "{rebuilt}");
        assert_eq!(rebuilt["mendedMembers"], 1, "{rebuilt}");
        check(&api, &history).await;
        check_diff(&deployment);
    }
    assert_eq!(stages(&deployment).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_s_states_make_what_a_rebuild_makes_on_sqlite() {
    check_beside(Sql::Sqlite, "datafusion").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sail_s_states_make_what_a_rebuild_makes_on_postgres() {
    check_beside(Sql::Postgres, "sail").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_folds_windows_that_roll_decay_and_count_attempts() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let windows = json!([
        { "name": "daily", "attemptsMax": 50 }, { "name": "3d" }, { "name": "5h" },
        { "name": "2mo" }, { "name": "decay:1d" },
    ]);
    let board = json!({ "slug": "b", "shards": 2, "segmentBy": ["platform"], "windows": windows });
    api.create_board(board).await;
    let score = |number: i64| {
        let at = jiff::Timestamp::from_millisecond(now_ms() - number * DAY_MS / 7).unwrap();
        let attributes = json!([{ "name": "platform", "value": format!("r{}", number % 3) }]);
        json!({
            "member": format!("m{}", number % 9), "score": number, "at": at.to_string(),
            "attributes": attributes,
        })
    };
    let scores: Vec<Value> = (0..80).map(score).collect();
    let told = submit_durably(&api, "b", scores.into()).await;
    assert_eq!(told["accepted"], 80, "{told}");
    let plan = Engine::plan(&deployment, "b", "plan");
    submit_durably(&api, "b", (0..9).map(score).collect()).await;
    let mut rng = seeded();
    let mut engines = ENGINES;
    engines.shuffle(&mut rng);
    for dialect in engines {
        let states = Engine::start(dialect).run(&deployment, &plan);
        check_states(&deployment, &plan, &states);
        corrupt(&deployment, "b").await;
        let rebuilt = load(&deployment, "b", &plan, &states).unwrap();
        assert_eq!(rebuilt["laterEvents"], 9, "{rebuilt}");
        check_diff(&deployment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_folds_a_history_of_several_numbers_of_shards() {
    let mut rng = seeded();
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut engine = Engine::start("datafusion");
    let (game, mut history) = begun(&mut rng, &api, 90, 2, 1).await.remove(0);
    let slug = game.board.slug.clone();
    reshard(&deployment, &slug, 8);
    play(&mut rng, &api, &mut history, &game.events[45..70]).await;
    let old = Engine::plan(&deployment, &slug, "old");
    let of_old = engine.run(&deployment, &old);
    reshard(&deployment, &slug, 4);
    let refused = load(&deployment, &slug, &old, &of_old).unwrap_err();
    assert!(refused.contains("moved to another number of shards"), "{refused}");
    let plan = Engine::plan(&deployment, &slug, "plan");
    play(&mut rng, &api, &mut history, &game.events[70..]).await;
    let states = engine.run(&deployment, &plan);
    corrupt(&deployment, &slug).await;
    load(&deployment, &slug, &plan, &states).unwrap();
    check(&api, &history).await;
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_folds_the_archive_and_what_came_after_it() {
    let (deployment, api) = archived(Sql::Sqlite).await;
    let plan = Engine::plan(&deployment, "b", "plan");
    let files = std::fs::read_dir(Path::new(&plan).join("events")).unwrap();
    let names: Vec<String> =
        files.map(|file| file.unwrap().file_name().display().to_string()).collect();
    assert!(names.iter().any(|name| name.contains("archived")), "{names:?}");
    submit_durably(&api, "b", json!([{ "member": "m2", "score": 7 }])).await;
    for dialect in ENGINES {
        let states = Engine::start(dialect).run(&deployment, &plan);
        corrupt(&deployment, "b").await;
        let rebuilt = load(&deployment, "b", &plan, &states).unwrap();
        assert_eq!((&rebuilt["events"], &rebuilt["laterEvents"]), (&json!(61), &json!(1)));
        check_diff(&deployment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_board_without_events_can_be_planned() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "windows": [{ "name": "daily" }, { "name": "3d" }] }))
        .await;
    let plan = Engine::plan(&deployment, "b", "plan");
    for dialect in ENGINES {
        let states = Engine::start(dialect).run(&deployment, &plan);
        let checked = check_states(&deployment, &plan, &states);
        assert_eq!((&checked["entries"], &checked["members"]), (&json!(0), &json!(0)));
        load(&deployment, "b", &plan, &states).unwrap();
    }
    let figures = figures(&deployment, &["rebuild", "--board", "b"]);
    assert_eq!(figures["entries"], 0, "{figures}");
}

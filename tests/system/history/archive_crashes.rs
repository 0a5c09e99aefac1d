//! Archives that are killed at any step: each event is in the history once at all times, and the
//! next run finishes the work.

use std::time::Duration;

use rand::RngExt;
use rand::seq::SliceRandom;
use sea_orm::ConnectionTrait;

use tests::api::Api;
use tests::api::amendment::remove;
use tests::api::playthrough::{check, play};
use tests::api::submission::{create_board, submit_events};
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::analytics::run;
use tests::jobs::archive::{age, archive, check_files, check_kept, delete, old, rows};
use tests::jobs::diff::check_diff;
use tests::jobs::seal::seal;
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::history::{Amended, History, Item};

/// Every step after which an archive can be killed; some happen for each file.
const STEPS: [&str; 11] = [
    "closed",
    "file-written",
    "file-written:2",
    "file-renamed",
    "file-named",
    "file-named:2",
    "staged",
    "decided",
    "rows-dropped",
    "file-dropped",
    "file-dropped:2",
];

/// Runs an archive that kills itself at a step, as by kill -9.
fn archive_until(deployment: &Deployment, step: &str) {
    let before = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(48);
    let mut command = deployment.analytics_command(&["archive", "--before", &before.to_string()]);
    let output = command.env("CRASH_AT", step).output().unwrap();
    // Killed by a signal, so there is no exit code.
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), None, "{step}: {said}");
}

/// Kills archives at one of so many steps, or at every step if everything is wanted.
async fn check_steps(sql: Sql, shards: u16, one_of: usize) {
    let mut rng = seeded();
    let steps = extent::steps(&mut rng, one_of, &STEPS);
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut games = every_game(&mut rng, shards, Range::Wide, 40);
    games.shuffle(&mut rng);
    for (step, game) in steps.into_iter().zip(&games) {
        create_board(&api, &game.board).await;
        let mut history = History::new(game.board.clone());
        // The events lie in two months.
        let (first, second) = game.events.split_at(20);
        play(&mut rng, &api, &mut history, first).await;
        age(&deployment, 800).await;
        // Redis remembers the ids of events that SQL now takes for old: none is sent again.
        let mut second = second.to_vec();
        for event in &mut second {
            event.id = event.id.take().map(|id| format!("second-{id}"));
        }
        play(&mut rng, &api, &mut history, &second).await;
        seal(&api, &history.board).await;
        age(&deployment, 400).await;

        archive_until(&deployment, step);
        if step == "decided" {
            // As if it had been killed in the middle of the next step.
            let db = deployment.sql().await;
            let archived = "SELECT archived_seq FROM archive_mark AS m \
                WHERE m.board_no = score_event.board_no AND m.partition = score_event.partition";
            let some =
                format!("DELETE FROM score_event WHERE event_index = 0 AND seq <= ({archived})");
            db.execute_unprepared(&some).await.unwrap();
            db.close().await.unwrap();
        }
        check(&api, &history).await;
        check_kept(&deployment, &history).await;
        check_diff(&deployment);
        deployment.flush_redis().await;
        check(&api, &history).await;

        let mut late = first[0].clone();
        late.id = Some("late".to_owned());
        submit_events(&api, &history.board, &[late.clone()]).await;
        history.submit(&late);
        let gone = history.member(0).to_owned();
        let removed = remove(&api, &history.board.slug, &gone).await["removed"] == true;
        assert_eq!(removed, history.remove(&gone) == Amended::Done);
        check(&api, &history).await;

        archive(&deployment, &[]);
        check_files(&deployment).await;
        check_kept(&deployment, &history).await;
        // Later events are too young to be archived.
        let later = rows(&deployment, &history.board.slug).await;
        assert!(later <= 2, "{step}: {later} rows");
        check(&api, &history).await;
        check_diff(&deployment);
        deployment.flush_redis().await;
        check(&api, &history).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_may_end_at_any_step_on_sqlite() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_steps(sql, 1, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_may_end_at_any_step_on_postgres() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_steps(sql, 2, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_may_end_at_any_step_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_steps(sql, 2, 1).await;
    }
}

/// Archives that are killed at any moment beside scores, removals and voids; voids may be refused
/// once their events are archived.
async fn check_beside(sql: Sql) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut games = every_game(&mut rng, 2, Range::Wide, 120);
    games.shuffle(&mut rng);
    let Game { mut board, mut events } = games.swap_remove(0);
    // Ids are forgotten with old events.
    for (number, event) in events.iter_mut().enumerate() {
        event.id = Some(format!("b{number}"));
    }
    // Without windows voids are refused for what is archived alone.
    if rng.random_bool(0.5) {
        board.windows.clear();
    }
    create_board(&api, &board).await;
    seal(&api, &board).await;
    let mut history = History::new(board);
    let (mut refused, mut killed) = (0, 0);
    for (number, batch) in events.chunks(10).enumerate() {
        age(&deployment, 500 - number as i64).await;
        let before = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(48);
        let mut archiving = deployment
            .analytics_command(&["archive", "--before", &before.to_string()])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let told = submit_events(&api, &history.board, batch).await;
        let expected: Vec<_> = batch.iter().map(|event| history.submit(event)).collect();
        assert_eq!(told, expected);
        for _ in 0..3 {
            refused += usize::from(!amend_or_be_refused(&mut rng, &api, &mut history).await);
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..1500))).await;
        if archiving.try_wait().unwrap().is_none() {
            killed += 1;
            archiving.kill().unwrap();
        }
        archiving.wait().unwrap();
        check(&api, &history).await;
        check_kept_at_last(&deployment, &history).await;
        if number % 4 == 3 {
            check_diff(&deployment);
            deployment.flush_redis().await;
            check(&api, &history).await;
        }
    }
    println!("{refused} voids refused, {killed} archives killed");
    archive(&deployment, &[]);
    check_files(&deployment).await;
    check_kept_at_last(&deployment, &history).await;
    check(&api, &history).await;
    check_diff(&deployment);
}

async fn check_kept_at_last(deployment: &Deployment, history: &History) {
    deployment.settle().await;
    check_kept(deployment, history).await;
}

/// A removal, or a void of any event; whether it was not refused.
async fn amend_or_be_refused(
    rng: &mut rand::rngs::StdRng,
    api: &Api,
    history: &mut History,
) -> bool {
    use rand::seq::IndexedRandom;
    let slug = history.board.slug.clone();
    let all: Vec<usize> = (0..history.items().len()).collect();
    let Some(&number) = all.choose(rng) else {
        return true;
    };
    let member = history.member(number).to_owned();
    if rng.random_bool(0.3) {
        let removed = remove(api, &slug, &member).await["removed"] == true;
        assert_eq!(removed, history.remove(&member) == Amended::Done);
        return true;
    }
    if matches!(history.items()[number], Item::Void(_)) {
        return true;
    }
    // The newest ones are listed, in the same order.
    let numbers = history.of_member(&member);
    let place = numbers.iter().position(|other| *other == number).unwrap();
    let listed = tests::api::amendment::member_events(&slug, &member);
    let page = listed.page(api, serde_json::json!({ "first": 100 })).await;
    let nodes = page["nodes"].as_array().unwrap();
    let all_are_listed = nodes.first().is_some_and(|node| {
        let newest = &history.items()[numbers[0]];
        let kind = match newest {
            Item::Score(_) => "SCORE",
            Item::Removal(_) => "REMOVAL",
            Item::Void(_) => "VOID",
        };
        let id = match newest {
            Item::Score(event) => event.id.clone(),
            _ => None,
        };
        node["kind"] == kind && node["eventId"] == serde_json::json!(id) && id.is_some()
    });
    let Some(node) = nodes.get(place).filter(|_| all_are_listed) else {
        return true;
    };
    let answer = tests::api::amendment::void(api, node["id"].as_str().unwrap()).await;
    if answer.codes() == ["BAD_USER_INPUT"] {
        return false;
    }
    assert_eq!(answer.codes(), [""; 0], "{}", answer.body);
    let voided = answer.body["data"]["voidEvent"]["voided"] == true;
    assert_eq!(voided, history.void(number) == Amended::Done);
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_may_be_killed_beside_writers_on_sqlite() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_beside(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_may_be_killed_beside_writers_on_postgres() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_beside(sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archive_may_be_killed_beside_writers_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_beside(sql).await;
    }
}

#[tokio::test]
async fn events_of_a_board_deleted_amid_an_archive_are_counted_as_gone_once() {
    // With files that do not count yet, and with rows that do not count any more.
    for step in ["staged", "decided"] {
        let (deployment, api) = old(Sql::any()).await;
        archive_until(&deployment, step);
        delete(&deployment, &api, "b").await;
        archive(&deployment, &[]);
        let (code, found, error) = run(&deployment, &["diff", "--full"]);
        assert_eq!(code, 0, "{step}: {found}{error}");
        check_files(&deployment).await;
    }
}

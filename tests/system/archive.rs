//! The archive: events that have left SQL count as ever, in whatever is made of them afterwards.

use std::sync::Arc;

use entity::archive::archive_file;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use sea_orm::{ConnectionTrait, EntityTrait, Statement};
use serde_json::{Value, json};

use crate::amendments::{check_diff, history as list, remove, void};
use crate::api::Api;
use crate::deployment::{Deployment, Redis, Sql};
use crate::game::{Game, Range, every_game, seeded};
use crate::histories::{amend, check};
use crate::history::{Amended, History, Item};
use crate::load::{create_board, submit_events};
use crate::oracle::{Board, Event};
use crate::seals::{retain, wait_until_sealed};
use crate::wait::until;

/// A day, in milliseconds.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// Waits until SQL has all there is, and then makes all that was accepted lately so many days older.
pub(crate) async fn age(deployment: &Deployment, days: i64) {
    let stores = deployment.open_stores().await;
    for partition in stores.store.partitions().each() {
        engine::partition::recovery::settle(&stores, partition).await.unwrap();
    }
    stores.close().await;
    let db = deployment.sql().await;
    let (ms, lately_ms) = (days * DAY_MS, entity::now_ms() - 2 * DAY_MS);
    let text = format!(
        "UPDATE \"commit\" SET accepted_at_ms = accepted_at_ms - {ms} WHERE accepted_at_ms > {lately_ms}"
    );
    let older = Statement::from_string(db.get_database_backend(), text);
    db.execute_raw(older).await.unwrap();
    db.close().await.unwrap();
}

/// Archives what was accepted until some days ago.
pub(crate) fn archive(deployment: &Deployment, arguments: &[&str]) -> Value {
    let before = jiff::Timestamp::from_millisecond(entity::now_ms() - 2 * DAY_MS).unwrap();
    let before = before.to_string();
    let arguments = [&["--json", "archive", "--before", &*before], arguments].concat();
    run(deployment, &arguments)
}

/// What `analytics` says with `--json`; it must succeed.
pub(crate) fn run(deployment: &Deployment, arguments: &[&str]) -> Value {
    let output = deployment.analytics(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// How many events of a board are in `score_event`.
pub(crate) async fn rows(deployment: &Deployment, slug: &str) -> i64 {
    let of_board = format!("board_no = (SELECT no FROM board WHERE slug = '{slug}')");
    let count = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM score_event WHERE {of_board}");
    deployment.number(&count).await
}

/// The history of a board has each event once: in files up to the marks, in SQL after them; and on the disk are these files, whole.
pub(crate) async fn check_kept(deployment: &Deployment, history: &History) {
    let of_board =
        format!("board_no = (SELECT no FROM board WHERE slug = '{}')", history.board.slug);
    let beyond = format!(
        "SELECT CAST(COUNT(*) AS BIGINT) FROM score_event AS e WHERE {of_board} AND seq > COALESCE((SELECT archived_seq FROM archive_mark AS m WHERE m.board_no = e.board_no AND m.partition = e.partition), 0)"
    );
    let filed = format!(
        "SELECT CAST(COALESCE(SUM(events), 0) AS BIGINT) FROM archive_file WHERE {of_board} AND state IN ('ARCHIVED', 'DROPPED')"
    );
    let (beyond, filed) = (deployment.number(&beyond).await, deployment.number(&filed).await);
    assert_eq!(beyond + filed, history.items().len() as i64, "{beyond} and {filed}");
}

/// The files of the archive are those that SQL names, and nothing else.
pub(crate) async fn check_files(deployment: &Deployment) {
    let db = deployment.sql().await;
    let files = archive_file::Entity::find().all(&db).await.unwrap();
    db.close().await.unwrap();
    let mut named: Vec<String> = files.into_iter().map(|file| file.path).collect();
    let mut there = paths(deployment);
    named.sort();
    there.sort();
    assert_eq!(there, named);
}

/// What lies in the archive's directory, besides its lock.
pub(crate) fn paths(deployment: &Deployment) -> Vec<String> {
    let root = deployment.archive_dir();
    let mut paths = vec![];
    let mut left = vec![root.clone()];
    while let Some(directory) = left.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.map(Result::unwrap) {
            let path = entry.path();
            match path.is_dir() {
                true => left.push(path),
                false => paths.push(path.strip_prefix(&root).unwrap().display().to_string()),
            }
        }
    }
    paths.retain(|path| path != "lock");
    paths
}

/// Sends events in batches, with amendments between them.
pub(crate) async fn play(rng: &mut StdRng, api: &Api, history: &mut History, events: &[Event]) {
    for batch in events.chunks(8) {
        let told = submit_events(api, &history.board, batch).await;
        let expected: Vec<_> = batch.iter().map(|event| history.submit(event)).collect();
        assert_eq!(told, expected, "{batch:?} to {:?}", history.board);
        amend(rng, api, history).await;
    }
}

/// Everything of a board can be sealed, and is up to now.
pub(crate) async fn seal(api: &Api, board: &Board) {
    if !board.windows.is_empty() {
        retain(api, board, 0).await;
        wait_until_sealed(api, board).await;
    }
}

/// Random events of another game, with ids of their own; every other one of a moment ago.
fn later(rng: &mut StdRng, game: &Game) -> Vec<Event> {
    let mut events = game.events.clone();
    events.shuffle(rng);
    events.truncate(24);
    let now_ms = entity::now_ms();
    for (index, event) in events.iter_mut().enumerate() {
        event.id = Some(format!("later{index}"));
        if rng.random_bool(0.5) {
            event.at_ms = now_ms - rng.random_range(0..100_000);
        }
    }
    events
}

/// Whether a void must be refused: something that it concerns was folded into a sealed period with events that are archived.
fn is_fixed(history: &History, number: usize, archived: usize) -> bool {
    let is_old = |event: &Event| event.at_ms < entity::now_ms() - DAY_MS;
    let has_windows = !history.board.windows.is_empty();
    match &history.items()[number] {
        Item::Score(event) => has_windows && is_old(event),
        _ => {
            let of_member = history.of_member(history.member(number));
            let of_member = of_member.into_iter().filter(|&other| other < number);
            let fixed = |other: usize| match &history.items()[other] {
                _ if other < archived => true,
                Item::Score(event) => is_old(event),
                _ => false,
            };
            has_windows && of_member.into_iter().any(fixed)
        }
    }
}

/// A removal, or a void of an event that is not archived: done, or refused where it must be.
async fn amend_later(rng: &mut StdRng, api: &Api, history: &mut History, archived: usize) {
    let slug = history.board.slug.clone();
    let later: Vec<usize> = (archived..history.items().len()).collect();
    let Some(&number) = later.choose(rng) else {
        return;
    };
    let member = history.member(number).to_owned();
    if rng.random_bool(0.3) {
        let removed = remove(api, &slug, &member).await["removed"] == true;
        assert_eq!(removed, history.remove(&member) == Amended::Done);
        return;
    }
    let mut numbers = history.of_member(&member);
    let all = numbers.len();
    numbers.retain(|&number| number >= archived);
    until("the member's events are in SQL", async || {
        let page = list(&slug, &member).page(api, json!({})).await;
        (page["totalCount"] == numbers.len()).then_some(())
    })
    .await;
    let page = list(&slug, &member).page(api, json!({ "first": 100 })).await;
    let count = "query($member: String!, $board: String!) { member(key: $member) { events(board: $board, first: 1) { archivedCount } } }";
    let data = api.data(count, json!({ "member": member, "board": slug })).await;
    assert_eq!(data["member"]["events"]["archivedCount"], all - numbers.len());
    let place = numbers.iter().position(|other| *other == number).unwrap();
    let id = page["nodes"][place]["id"].as_str().unwrap();
    let answer = void(api, id).await;
    if matches!(history.items()[number], Item::Void(_)) {
        assert_eq!(answer.codes(), ["BAD_USER_INPUT"]);
    } else if !history.is_voided(number) && is_fixed(history, number, archived) {
        assert_eq!(answer.codes(), ["BAD_USER_INPUT"], "{:?}", history.items()[number]);
    } else {
        assert_eq!(answer.codes(), [""; 0], "{}", answer.body);
        let voided = answer.body["data"]["voidEvent"]["voided"] == true;
        assert_eq!(voided, history.void(number) == Amended::Done);
    }
}

/// Everything that can be asked, then the same of standings that are made anew in each way there is.
pub(crate) async fn check_anew(deployment: &Arc<Deployment>, api: &Api, histories: &[History]) {
    check_diff(deployment);
    for history in histories {
        check(api, history).await;
        check_kept(deployment, history).await;
    }
    deployment.flush_redis().await;
    for history in histories {
        check(api, history).await;
    }
    deployment.flush_redis().await;
    run(deployment, &["restore"]);
    for history in histories {
        let slug = &*history.board.slug;
        check(api, history).await;
        run(deployment, &["rebuild", "--board", slug]);
        check(api, history).await;
        run(deployment, &["restore", "--board", slug]);
        check(api, history).await;
    }
    check_diff(deployment);
}

async fn check_games(sql: Sql, shards: u16) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut games = every_game(&mut rng, shards, Range::Wide, 60);
    games.shuffle(&mut rng);
    games.truncate(3);
    games[0].board.windows.clear();
    let mut histories = vec![];
    for game in &games {
        create_board(&api, &game.board).await;
        let mut history = History::new(game.board.clone());
        play(&mut rng, &api, &mut history, &game.events).await;
        seal(&api, &history.board).await;
        histories.push(history);
    }
    age(&deployment, 200).await;
    assert_eq!(archive(&deployment, &[])["boards"], 3);
    check_files(&deployment).await;
    for history in &histories {
        assert_eq!(rows(&deployment, &history.board.slug).await, 0);
        check(&api, history).await;
    }
    check_anew(&deployment, &api, &histories).await;
    for (game, history) in games.iter().zip(&mut histories) {
        let archived = history.items().len();
        for batch in later(&mut rng, game).chunks(4) {
            let told = submit_events(&api, &history.board, batch).await;
            let expected: Vec<_> = batch.iter().map(|event| history.submit(event)).collect();
            assert_eq!(told, expected);
            for _ in 0..2 {
                amend_later(&mut rng, &api, history, archived).await;
            }
        }
    }
    check_anew(&deployment, &api, &histories).await;
    // Of these those go that came before the first one that was earned a moment ago.
    age(&deployment, 100).await;
    println!("{}", archive(&deployment, &[]));
    check_files(&deployment).await;
    check_anew(&deployment, &api, &histories).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_events_count_as_ever_on_sqlite() {
    check_games(Sql::Sqlite, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_events_count_as_ever_in_four_shards_on_postgres() {
    check_games(Sql::Postgres, 4).await;
}

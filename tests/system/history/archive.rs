//! Archives: events that have left SQL still count, in every reader of history.

use std::sync::Arc;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use ranking::window::Window;
use serde_json::json;

use tests::api::Api;
use tests::api::amendment::{member_events, remove, void};
use tests::api::playthrough::{check, play};
use tests::api::submission::{create_board, submit_events};
use tests::clock::{self, DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::extent;
use tests::jobs::analytics::figures;
use tests::jobs::archive::{age, archive, check_files, check_kept, rows};
use tests::jobs::diff::check_diff;
use tests::jobs::seal::seal;
use tests::model::game::{Game, Range, every_game, seeded};
use tests::model::history::{Amended, History, Item};
use tests::model::oracle::Event;
use tests::wait::until;

/// Random events of another game with ids of their own, every other one earned a moment ago.
fn later(rng: &mut StdRng, game: &Game) -> Vec<Event> {
    let mut events = game.events.clone();
    events.shuffle(rng);
    events.truncate(24);
    let now_ms = clock::now_ms();
    for (index, event) in events.iter_mut().enumerate() {
        event.id = Some(format!("later{index}"));
        if rng.random_bool(0.5) {
            event.at_ms = now_ms - rng.random_range(0..100_000);
        }
    }
    events
}

/// True if a void must be refused: it concerns a sealed period that archived events count in.
fn is_fixed(history: &History, number: usize, archived: usize) -> bool {
    let is_old = |event: &Event| event.at_ms < now_ms() - DAY_MS;
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

/// Makes a removal, or a void of an event that is not archived, which may have to be refused.
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
        let page = member_events(&slug, &member).page(api, json!({})).await;
        (page["totalCount"] == numbers.len()).then_some(())
    })
    .await;
    let page = member_events(&slug, &member).page(api, json!({ "first": 100 })).await;
    let count = "
        query($member: String!, $board: String!) { member(key: $member) {
            events(board: $board, first: 1) { archivedCount }
        } }";
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

/// Checks every answer, then the same after each way to rebuild the standings.
async fn check_anew(deployment: &Arc<Deployment>, api: &Api, histories: &[History]) {
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
    figures(deployment, &["restore"]);
    for history in histories {
        let slug = &*history.board.slug;
        check(api, history).await;
        figures(deployment, &["rebuild", "--board", slug]);
        check(api, history).await;
        figures(deployment, &["restore", "--board", slug]);
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
    // An old score between two seasons is in no sealed period.
    games.retain(|game| game.board.windows != [Window::Season]);
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
    age(&deployment, 800).await;
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
    // Of these, the events before the first one that was earned a moment ago are archived.
    age(&deployment, 400).await;
    println!("{}", archive(&deployment, &[]));
    check_files(&deployment).await;
    check_anew(&deployment, &api, &histories).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_events_count_as_ever_on_sqlite() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_games(sql, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_events_count_as_ever_in_four_shards_on_postgres() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_games(sql, 4).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_events_count_as_ever_in_four_shards_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_games(sql, 4).await;
    }
}

//! Bans: random histories against the oracle, processes that are killed at each step, and what is
//! refused.

use std::sync::Arc;

use entity::member::ban as stored;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::listing::{check_all_time_in_sql, check_standings};
use tests::api::moderation::{
    BAN_MEMBER, LIFT_BAN, ban, lift, numbers, quarantine, release, release_or_die, statuses,
};
use tests::api::playthrough::begun;
use tests::api::submission::{submit, submit_events};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{MERGE_MEMBERS, SUBMIT_SCORES};
use tests::extent;
use tests::jobs::analytics::figures;
use tests::jobs::diff::check_diff;
use tests::jobs::seal::{retain, wait_until_sealed};
use tests::model::game::{Game, seeded};
use tests::model::history::History;
use tests::model::oracle::{Event, Oracle, Verdict};
use tests::wait::until;

/// How many boards are played on, of the kinds that there are: few and many.
const BOARDS: [usize; 2] = [1, 3];

/// The number of events for each board.
const EVENTS: usize = 48;

/// Every step after which a ban, and after which a lift can be killed.
const BAN_STEPS: [&str; 5] =
    ["ban-recorded", "ban-told", "ban-removed", "ban-removed:2", "ban-advanced"];
const LIFT_STEPS: [&str; 7] = [
    "ban-told",
    "ban-voided",
    "ban-voided:2",
    "ban-advanced",
    "ban-untold",
    "releasing",
    "released",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_banned_member_is_nowhere_and_back_after_the_lift_on_sqlite() {
    check_games(Sql::Sqlite, 1, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_banned_member_is_nowhere_and_back_after_the_lift_in_sealed_periods_on_sqlite() {
    check_games(Sql::Sqlite, 4, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_banned_member_is_nowhere_and_back_after_the_lift_on_postgres() {
    check_games(Sql::Postgres, 4, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_banned_member_is_nowhere_and_back_after_the_lift_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_games(sql, 4, true).await;
    }
}

/// A member with scores that count.
fn counting_member(rng: &mut StdRng, games: &[(Game, History)]) -> String {
    let counting = games.iter().flat_map(|(_, history)| history.oracle().accepted().to_vec());
    let members: Vec<String> = counting.map(|event| event.member).collect();
    members.choose(rng).unwrap().clone()
}

/// Checks the standings of a board on which a member is banned.
async fn check_without(api: &Api, history: &History, banned: Option<&str>) {
    let mut counting = history.oracle().accepted().to_vec();
    counting.retain(|event| Some(event.member.as_str()) != banned);
    let oracle = Oracle::of(history.board.clone(), counting);
    check_standings(api, &oracle).await;
    check_all_time_in_sql(api, &oracle).await;
}

/// Checks all boards, on some of which a member is banned.
async fn check_all(api: &Api, games: &[(Game, History)], banned: &[Option<&str>]) {
    for ((_, history), banned) in games.iter().zip(banned) {
        check_without(api, history, *banned).await;
    }
}

/// Some of a game's events, as those of a member, with new ids.
fn of_member(game: &Game, member: &str, name: &str) -> Vec<Event> {
    let mut events = game.events[EVENTS / 2..EVENTS / 2 + 4].to_vec();
    for (place, event) in events.iter_mut().enumerate() {
        event.member = member.to_owned();
        event.id = Some(format!("{name} {place}"));
    }
    events
}

/// Submits events of a banned member; all of them must be quarantined.
async fn submit_banned(api: &Api, history: &History, events: &[Event]) {
    let scores: Vec<Value> = events.iter().map(|of| history.board.score_input(of)).collect();
    let told = submit(api, &history.board.slug, json!(scores)).await;
    let expected = vec![("QUARANTINED", "MEMBER_BANNED"); events.len()];
    assert_eq!(statuses(&told), expected, "{told}");
}

async fn check_games(sql: Sql, shards: u16, is_sealed: bool) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let mut games = begun(&mut rng, &apis[0], EVENTS, shards, extent::boards(BOARDS)).await;
    if is_sealed {
        for (_, history) in &games {
            retain(&apis[0], &history.board, 0).await;
            for api in &apis {
                wait_until_sealed(api, &history.board).await;
            }
        }
    }
    for round in 0..2 {
        let cheat = counting_member(&mut rng, &games);
        // In the first round from all boards; in the second one from the first board, and while
        // that lasts from all of them.
        let first = games[0].1.board.slug.clone();
        let mut banned = vec![None; games.len()];
        if round == 1 {
            ban(&apis[0], &cheat, Some(&first)).await;
            banned[0] = Some(cheat.as_str());
            check_all(&apis[1], &games, &banned).await;
        }
        ban(&apis[1], &cheat, None).await;
        banned.fill(Some(cheat.as_str()));
        check_all(&apis[0], &games, &banned).await;
        let mut later = vec![];
        for (game, history) in &mut games {
            let events = of_member(game, &cheat, &format!("later {round}"));
            submit_banned(&apis[0], history, &events[..2]).await;
            // Again, by another process: they are kept once.
            submit_banned(&apis[1], history, &events).await;
            later.push(events);
            let mut others = game.events[EVENTS / 2..][round * 8..][..8].to_vec();
            others.retain(|event| event.member != cheat);
            let told = submit_events(&apis[1], &history.board, &others).await;
            let expected: Vec<_> = others.iter().map(|event| history.submit(event)).collect();
            assert_eq!(told, expected);
        }
        check_all(&apis[1], &games, &banned).await;
        check_diff(&deployment);
        deployment.flush_redis().await;
        check_all(&apis[0], &games, &banned).await;
        for ((_, history), events) in games.iter().zip(&later) {
            submit_banned(&apis[0], history, &events[..1]).await;
            figures(&deployment, &["rebuild", "--board", &history.board.slug]);
        }
        check_all(&apis[1], &games, &banned).await;
        lift(&apis[0], &cheat, None).await;
        banned.fill(None);
        if round == 1 {
            banned[0] = Some(cheat.as_str());
        }
        for ((_, history), events) in games.iter_mut().zip(&later).skip(round) {
            for event in events {
                assert_eq!(history.submit(event), Verdict::Applied);
            }
        }
        check_all(&apis[1], &games, &banned).await;
        if round == 1 {
            lift(&apis[1], &cheat, Some(&first)).await;
            for event in &later[0] {
                assert_eq!(games[0].1.submit(event), Verdict::Applied);
            }
            banned[0] = None;
            check_all(&apis[0], &games, &banned).await;
        }
        check_diff(&deployment);
        deployment.flush_redis().await;
        check_all(&apis[1], &games, &banned).await;
        for (_, history) in &games {
            figures(&deployment, &["rebuild", "--board", &history.board.slug]);
        }
        check_all(&apis[0], &games, &banned).await;
    }
    check_diff(&deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ban_and_a_lift_that_are_killed_at_any_step_go_on_on_sqlite() {
    check_steps(Sql::Sqlite, 1, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ban_and_a_lift_that_are_killed_at_any_step_go_on_on_postgres() {
    check_steps(Sql::Postgres, 4, 3).await;
}

/// Asks for a change of bans in a process that is killed at a step of it.
async fn die_at(deployment: &Arc<Deployment>, step: &str, document: &str, input: &Value) {
    let killed = Api::start_with_settings(deployment, &[("CRASH_AT", step)]).await;
    let variables = json!({ "input": input });
    let answer = killed.try_ask(Some(killed.token()), document, variables).await;
    assert!(answer.is_err(), "{step}: {:?}", answer.unwrap().body);
    assert!(!killed.wait_until_stopped().await.success(), "{step}");
}

/// Waits until the background work has finished a change of bans.
async fn wait_until_settled(deployment: &Deployment) {
    let left = "SELECT CAST(COUNT(*) AS BIGINT) FROM member_ban WHERE step <> 'SETTLED'";
    until("the ban is settled", async || (deployment.number(left).await == 0).then_some(())).await;
}

/// Kills processes at one of so many steps, or at every step if everything is wanted.
async fn check_steps(sql: Sql, shards: u16, one_of: usize) {
    let mut rng = seeded();
    let numbered: Vec<(usize, &str)> = LIFT_STEPS.into_iter().enumerate().collect();
    let steps = extent::steps(&mut rng, one_of, &numbered);
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut games = begun(&mut rng, &api, EVENTS, shards, 2).await;
    for (number, step) in steps {
        let cheat = format!("c{number}");
        for (game, history) in &mut games {
            let events = of_member(game, &cheat, "before");
            let told = submit_events(&api, &history.board, &events).await;
            let expected: Vec<_> = events.iter().map(|event| history.submit(event)).collect();
            assert_eq!(told, expected);
        }
        let input = json!({ "member": cheat });
        match BAN_STEPS.get(number) {
            Some(step) => {
                die_at(&deployment, step, BAN_MEMBER, &input).await;
                if number % 2 == 0 {
                    deployment.flush_redis().await;
                }
                match number % 3 {
                    0 => ban(&api, &cheat, None).await,
                    _ => wait_until_settled(&deployment).await,
                }
            }
            None => ban(&api, &cheat, None).await,
        }
        if number % 3 == 0 {
            check_all(&api, &games, &[Some(cheat.as_str()); 2]).await;
        }
        let mut later = vec![];
        for (game, history) in &games {
            let events = of_member(game, &cheat, "later");
            submit_banned(&api, history, &events).await;
            later.push(events);
        }
        die_at(&deployment, step, LIFT_BAN, &input).await;
        if number % 3 == 0 {
            deployment.flush_redis().await;
        }
        wait_until_settled(&deployment).await;
        for ((_, history), events) in games.iter_mut().zip(&later) {
            for event in events {
                assert_eq!(history.submit(event), Verdict::Applied);
            }
        }
        check_all(&api, &games, &[None; 2]).await;
    }
    check_diff(&deployment);
    deployment.flush_redis().await;
    check_all(&api, &games, &[None; 2]).await;
}

#[tokio::test]
async fn of_two_first_bans_of_a_member_one_is_written() {
    for sql in Sql::all() {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let _api = Api::start(&deployment).await;
        let db = deployment.open_stores().await.db;
        let none = stored::Model::none("ann");
        let next = |changed_at_ms| stored::Model { version: 1, changed_at_ms, ..none.clone() };
        let written = [1, 2].map(next);
        assert!(stored::replace(&db, &none, &written[0]).await.unwrap(), "{sql:?}");
        assert!(!stored::replace(&db, &none, &written[1]).await.unwrap(), "{sql:?}");
        assert_eq!(stored::of(&db, "ann").await.unwrap().as_ref(), Some(&written[0]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_killed_is_continued_and_counts_once() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b", "fairPlay": { "deltaMax": 10 } })).await;
    let mut sum = 0;
    for (round, step) in ["releasing", "released"].into_iter().enumerate() {
        let scores: Vec<Value> = (0..3).map(|_| json!({ "member": "ann", "score": 100 })).collect();
        let told = submit(&api, "b", json!(scores)).await;
        assert_eq!(statuses(&told), vec![("QUARANTINED", "DELTA_EXCEEDED"); 3]);
        let held = numbers(&quarantine(&api, "b", &["HELD"], None).await);
        let killed = Api::start_with_settings(&deployment, &[("CRASH_AT", step)]).await;
        assert!(!release_or_die(&killed, &held).await);
        if round == 0 {
            deployment.flush_redis().await;
        }
        let told = release(&api, &held).await;
        assert_eq!(told["released"], if step == "releasing" { 3 } else { 0 }, "{told}");
        sum += 300;
        let variables = json!({ "board": "b", "member": "ann" });
        let shown = api.data(tests::documents::SCORE, variables).await;
        assert_eq!(shown["board"]["standings"]["entry"]["score"], sum.to_string());
        check_diff(&deployment);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_ban_stands_in_the_way_of_is_refused() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let scores = json!([{ "member": "ann", "score": 1 }, { "member": "bob", "score": 2 }]);
    assert_eq!(submit(&api, "b", scores).await["accepted"], 2);
    ban(&api, "ann", Some("b")).await;
    // The removal of a ban is lifted, and not voided.
    deployment.settle().await;
    let newest = tests::api::amendment::events(&api, "b", "ann").await.remove(0);
    assert_eq!(newest["kind"], "REMOVAL", "{newest}");
    let answer = tests::api::amendment::void(&api, newest["id"].as_str().unwrap()).await;
    assert_eq!(answer.codes(), ["BAD_USER_INPUT"]);
    assert!(answer.message().contains("liftBan"), "{}", answer.message());
    for (source, target) in [("ann", "bob"), ("bob", "ann")] {
        let variables = json!({ "source": source, "target": target });
        let answer = api.ask(Some(api.token()), MERGE_MEMBERS, variables).await;
        assert_eq!(answer.codes(), ["BAD_USER_INPUT"], "{:?}", answer.body);
    }
    let lift_of = |board: Option<&str>| json!({ "input": { "member": "ann", "board": board } });
    let lifted = &api.data(LIFT_BAN, lift_of(None)).await["liftBan"];
    assert_eq!(lifted["lifted"], false);
    lift(&api, "ann", Some("b")).await;
    tests::api::amendment::merge(&api, "ann", "bob").await;
    let input = json!({ "input": { "member": "ann" } });
    let answer = api.ask(Some(api.token()), BAN_MEMBER, input).await;
    assert_eq!(answer.codes(), ["MEMBER_MERGED"]);
    // Only who moderates may ban.
    let token = deployment.new_token(&["--scope", "submit"]).await;
    let input = json!({ "input": { "member": "bob" } });
    for (document, variables) in [(BAN_MEMBER, input), (LIFT_BAN, lift_of(None))] {
        let answer = api.ask(Some(&token), document, variables).await;
        assert_eq!(answer.codes(), ["FORBIDDEN"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_banned_in_silence_is_answered_as_if_its_scores_counted() {
    let deployment = Deployment::new(Sql::any(), Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(json!({ "slug": "b" })).await;
    let input = json!({ "member": "ann", "shadow": true, "reason": "a bot" });
    api.data(BAN_MEMBER, json!({ "input": input })).await;
    let document = SUBMIT_SCORES.replace("status", "status event { id } entry { rank }");
    let scores = json!([{ "member": "ann", "score": 5 }, { "member": "bob", "score": 2 }]);
    let variables = json!({ "board": "b", "scores": scores, "ack": "APPLIED" });
    let told = &api.data(&document, variables).await["submitScores"];
    assert_eq!(statuses(told), [("APPLIED", ""), ("APPLIED", "")]);
    assert_eq!(told["accepted"], 2);
    let (ann, bob) = (&told["results"][0], &told["results"][1]);
    assert_eq!((&ann["event"], &ann["entry"]), (&Value::Null, &Value::Null));
    assert_eq!(bob["entry"]["rank"], 1);
    assert_eq!(quarantine(&api, "b", &["HELD"], Some("ann")).await.len(), 1);
    lift(&api, "ann", None).await;
    let variables = json!({ "board": "b", "member": "ann" });
    let shown = api.data(tests::documents::SCORE, variables).await;
    assert_eq!(shown["board"]["standings"]["entry"]["score"], "5");
    check_diff(&deployment);
}

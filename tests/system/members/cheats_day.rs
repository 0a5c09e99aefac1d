//! A cheat's day: 10,000 submissions by one member beyond the limits of a board, quarantined,
//! released in part, banned, lifted. At each step the standings are those of the oracle, in Redis,
//! in SQL, and rebuilt from the history.

use std::sync::Arc;

use jiff::Timestamp;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::listing::{check_all_time_in_sql, check_standings};
use tests::api::moderation::{
    ban, lift, numbers, outcomes, quarantine, release, statuses, void_quarantined,
};
use tests::api::submission::submit;
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::jobs::rebuild::rebuild;
use tests::model::game::seeded;
use tests::model::oracle::{Board, Event, Oracle};

/// The submissions of the cheat.
const SUBMISSIONS: usize = 10_000;

/// The scores of one request.
const AT_ONCE: usize = 1000;

/// The most scores of a member that are ranked in a minute.
const PER_MINUTE_MAX: usize = 120;

/// The largest change of a score.
const DELTA_MAX: i64 = 100;

const CHEAT: &str = "cheat";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cheat_s_day_is_exact_at_each_step_on_sqlite() {
    check_day(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cheat_s_day_is_exact_at_each_step_on_postgres() {
    check_day(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cheat_s_day_is_exact_at_each_step_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_day(sql).await;
    }
}

/// An event of a member at a random time of the last ten days.
fn event(rng: &mut StdRng, member: &str, score: i64, number: usize) -> Event {
    Event {
        member: member.to_owned(),
        score,
        at_ms: now_ms() / DAY_MS * DAY_MS - rng.random_range(0..10 * DAY_MS),
        id: Some(format!("{member} {number}")),
        metadata: None,
    }
}

/// Checks that the standings are those of these events, however they are made.
async fn check(deployment: &Arc<Deployment>, api: &Api, board: &Board, counting: &[Event]) {
    let oracle = Oracle::of(board.clone(), counting.to_vec());
    check_standings(api, &oracle).await;
    check_all_time_in_sql(api, &oracle).await;
    let output = deployment.analytics(&["diff", "--full"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    rebuild(deployment, &board.slug).await;
    check_standings(api, &oracle).await;
}

/// Submits events, and returns those that are applied and those that are quarantined, each with the
/// code of its reason.
async fn play(api: &Api, board: &Board, events: &[Event]) -> (Vec<Event>, Vec<(Event, String)>) {
    let (mut applied, mut suspects) = (vec![], vec![]);
    for some in events.chunks(AT_ONCE) {
        let scores: Vec<Value> = some.iter().map(|event| board.score_input(event)).collect();
        let told = submit(api, &board.slug, json!(scores)).await;
        for (event, status) in some.iter().zip(statuses(&told)) {
            match status {
                ("APPLIED", "") => applied.push(event.clone()),
                ("QUARANTINED", code) => suspects.push((event.clone(), code.to_owned())),
                other => panic!("{other:?}: {event:?}"),
            }
        }
    }
    (applied, suspects)
}

async fn check_day(sql: Sql) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let windows = ["daily", "weekly", "monthly"].map(|name| name.parse().unwrap()).into();
    let board = Board { max: 900_000_000, windows, shards: 4, ..Board::default() };
    let mut input = board.input();
    input["fairPlay"] = json!({ "perMinuteMax": PER_MINUTE_MAX, "deltaMax": DELTA_MAX });
    api.create_board(input).await;
    let honest: Vec<Event> = (0..100)
        .map(|number| {
            let score = rng.random_range(1..=DELTA_MAX);
            event(&mut rng, &format!("m{}", number % 20), score, number)
        })
        .collect();
    let (applied, suspects) = play(&api, &board, &honest).await;
    assert_eq!((applied.len(), suspects.len()), (honest.len(), 0));

    // The cheat submits, and most of it is quarantined.
    let sent: Vec<Event> = (0..SUBMISSIONS)
        .map(|number| {
            let score = rng.random_range(1..=3 * DELTA_MAX);
            event(&mut rng, CHEAT, score, number)
        })
        .collect();
    let began_ms = now_ms();
    let (applied, suspects) = play(&api, &board, &sent).await;
    let minutes = (now_ms() / 60_000 - began_ms / 60_000 + 1) as usize;
    assert!(applied.len() >= PER_MINUTE_MAX, "{}", applied.len());
    assert!(applied.len() <= PER_MINUTE_MAX * minutes, "{} in {minutes}", applied.len());
    assert!(applied.iter().all(|event| event.score <= DELTA_MAX));
    for (event, code) in &suspects {
        let is_too_far = event.score > DELTA_MAX;
        assert_eq!(code, if is_too_far { "DELTA_EXCEEDED" } else { "PER_MINUTE_EXCEEDED" });
    }
    let mut counting = [honest.clone(), applied].concat();
    check(&deployment, &api, &board, &counting).await;

    // Moderators see all of it, with its reason, in the order of arrival.
    let held = quarantine(&api, &board.slug, &["HELD"], None).await;
    assert_eq!(held.len(), suspects.len());
    for (node, (event, code)) in held.iter().zip(&suspects) {
        let at = Timestamp::from_millisecond(event.at_ms).unwrap();
        assert_eq!(node["score"], event.score.to_string());
        assert_eq!(node["at"].as_str().unwrap().parse::<Timestamp>().unwrap(), at);
        assert_eq!(node["eventId"], event.id.clone().unwrap());
        let suspicion = node["suspicion"].as_str().unwrap();
        assert_eq!(code, &suspicion.replace("_MAX", "_EXCEEDED"));
    }

    // A part is released, a part is voided, each once.
    let mut places: Vec<usize> = (0..held.len()).collect();
    places.shuffle(&mut rng);
    let of = |places: &[usize]| places.iter().map(|at| held[*at].clone()).collect::<Vec<Value>>();
    let (released, voided) = (&places[..1500], &places[1500..1800]);
    for some in released.chunks(600) {
        let told = release(&api, &numbers(&of(some))).await;
        assert_eq!(told["released"], some.len());
        let again = release(&api, &numbers(&of(some))).await;
        assert_eq!(again["released"], 0);
        assert!(outcomes(&again).iter().all(|outcome| *outcome == "COUNTED"));
    }
    let told = void_quarantined(&api, &numbers(&of(voided))).await;
    assert_eq!(told["voided"], voided.len());
    let told = release(&api, &numbers(&of(voided))).await;
    assert!(outcomes(&told).iter().all(|outcome| *outcome == "VOIDED"), "{told}");
    counting.extend(released.iter().map(|at| suspects[*at].0.clone()));
    check(&deployment, &api, &board, &counting).await;

    // Banned, it is nowhere, and what it submits meanwhile is quarantined.
    ban(&api, CHEAT, Some(&board.slug)).await;
    let without: Vec<Event> =
        counting.iter().filter(|event| event.member != CHEAT).cloned().collect();
    check(&deployment, &api, &board, &without).await;
    let later: Vec<Event> =
        (0..100).map(|number| event(&mut rng, CHEAT, 7, SUBMISSIONS + number)).collect();
    let told = play(&api, &board, &later).await;
    assert!(told.0.is_empty() && told.1.iter().all(|(_, code)| code == "MEMBER_BANNED"));
    let told = release(&api, &numbers(&of(&places[1800..1810]))).await;
    assert_eq!(told["results"][0]["error"]["code"], "MEMBER_BANNED", "{told}");
    check(&deployment, &api, &board, &without).await;
    deployment.flush_redis().await;
    check(&deployment, &api, &board, &without).await;

    // Lifted, all is as if it had not been banned.
    lift(&api, CHEAT, Some(&board.slug)).await;
    counting.extend(later);
    check(&deployment, &api, &board, &counting).await;
    let left = quarantine(&api, &board.slug, &["HELD"], Some(CHEAT)).await;
    assert_eq!(left.len(), held.len() - 1800);
    assert!(left.iter().all(|node| node["suspicion"] != "BANNED"));
    deployment.flush_redis().await;
    check(&deployment, &api, &board, &counting).await;
}

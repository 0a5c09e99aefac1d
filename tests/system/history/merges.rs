//! Merges of members: random histories against the oracle, and processes that are killed at each
//! step.

use std::fs;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::merge;
use tests::api::playthrough::{begun, check, play};
use tests::api::submission::submit_events;
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::MERGE_MEMBERS;
use tests::extent;
use tests::jobs::analytics::{figures, run};
use tests::jobs::diff::check_diff;
use tests::jobs::seal::{retain, wait_until_sealed};
use tests::model::game::{Game, seeded};
use tests::model::history::History;
use tests::wait::until;

/// How many boards are played on, of the kinds that there are: few and many.
const BOARDS: [usize; 2] = [2, 3];

/// The number of events for each board.
const EVENTS: usize = 60;

/// Every step after which a merge can be killed.
const STEPS: [&str; 10] = [
    "recorded",
    "held",
    "decided",
    "copied",
    "copied:3",
    "board-copied",
    "source-removed",
    "moved",
    "merged",
    "told",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_histories_are_folded_together_on_sqlite() {
    check_games(Sql::Sqlite, 1, Seals::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_histories_are_folded_together_in_four_shards_on_postgres() {
    check_games(Sql::Postgres, 4, Seals::InBetween).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_histories_are_folded_together_in_four_shards_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_games(sql, 4, Seals::InBetween).await;
    }
}

/// The state of past periods while a game is played.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seals {
    None,
    InBetween,
}

/// A member with scores that count, and another member, who may have none.
fn pair(rng: &mut StdRng, games: &[(Game, History)]) -> (String, String) {
    let counting = games.iter().flat_map(|(_, history)| history.oracle().accepted().to_vec());
    let mut members: Vec<String> = counting.map(|event| event.member).collect();
    members.sort_unstable();
    members.dedup();
    let source = members.choose(rng).unwrap().clone();
    members.push("never seen".to_owned());
    members.retain(|member| {
        *member != source && !games.iter().any(|(_, history)| history.is_merged(member))
    });
    (source, members.choose(rng).unwrap().clone())
}

async fn check_all(api: &Api, games: &[(Game, History)]) {
    for (_, history) in games {
        check(api, history).await;
    }
}

async fn check_games(sql: Sql, shards: u16, seals: Seals) {
    let mut rng = seeded();
    let deployment = Deployment::new(sql, Redis::Own).await;
    let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
    let mut games = begun(&mut rng, &apis[0], EVENTS, shards, extent::boards(BOARDS)).await;
    if seals == Seals::InBetween {
        for (_, history) in &games {
            retain(&apis[0], &history.board, 0).await;
            for api in &apis {
                wait_until_sealed(api, &history.board).await;
            }
        }
    }
    for number in 0..3 {
        let (source, target) = pair(&mut rng, &games);
        merge(&apis[number % 2], &source, &target).await;
        for (game, history) in &mut games {
            history.merge(&source, &target);
            let part = EVENTS / 2 + number * EVENTS / 8;
            play(&mut rng, &apis[0], history, &game.events[part..part + EVENTS / 8]).await;
        }
        check_all(&apis[1], &games).await;
    }
    check_everywhere(&deployment, &apis[0], &games).await;
}

/// Checks that Redis, an empty Redis that was filled again, and a rebuild say what the oracle says,
/// and that the proofs of the history hold.
async fn check_everywhere(deployment: &Arc<Deployment>, api: &Api, games: &[(Game, History)]) {
    let output = deployment.analytics(&["diff", "--full"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let statements = deployment.api_output(&["checkpoint"]).await;
    let key = statements.lines().find_map(|line| line.strip_prefix("key: ")).unwrap();
    let (signed, file) = (deployment.path("checkpoints.txt"), deployment.path("history.ndjson"));
    fs::write(&signed, &statements).unwrap();
    figures(deployment, &["history", "--out", &file]);
    let verified = run(deployment, &["verify", "--checkpoints", &signed, "--key", key, &file]);
    assert_eq!(verified.0, 0, "{verified:?}");
    deployment.flush_redis().await;
    check_all(api, games).await;
    for (_, history) in games {
        figures(deployment, &["rebuild", "--board", &history.board.slug]);
    }
    check_all(api, games).await;
    check_diff(deployment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_is_killed_at_any_step_goes_on_on_sqlite() {
    if let Some(sql) = extent::drawn(Sql::Sqlite) {
        check_steps(sql, 1, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_is_killed_at_any_step_goes_on_on_postgres() {
    if let Some(sql) = extent::drawn(Sql::Postgres) {
        check_steps(sql, 4, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_that_is_killed_at_any_step_goes_on_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check_steps(sql, 2, 1).await;
    }
}

/// Kills merges at one of so many steps, or at every step if everything is wanted.
async fn check_steps(sql: Sql, shards: u16, one_of: usize) {
    let mut rng = seeded();
    let steps = extent::steps(&mut rng, one_of, &STEPS);
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    let mut games = begun(&mut rng, &api, EVENTS, shards, 2).await;
    for (number, step) in steps.into_iter().enumerate() {
        let (source, target) = (format!("s{number}"), format!("t{number}"));
        for (game, history) in &mut games {
            // Four scores of the source, so that there are several commits of copies.
            let mut events = game.events[EVENTS / 2..EVENTS / 2 + 6].to_vec();
            for (place, event) in events.iter_mut().enumerate() {
                event.member = if place < 4 { source.clone() } else { target.clone() };
                event.id = Some(format!("{number}-{place}"));
            }
            let told = submit_events(&api, &history.board, &events).await;
            let expected: Vec<_> = events.iter().map(|event| history.submit(event)).collect();
            assert_eq!(told, expected);
        }
        let settings = [("CRASH_AT", step)];
        let killed = Api::start_with_settings(&deployment, &settings).await;
        let variables = json!({ "source": source, "target": target });
        let answer = killed.try_ask(Some(killed.token()), MERGE_MEMBERS, variables).await;
        assert!(answer.is_err(), "{step}: {:?}", answer.unwrap().body);
        assert!(!killed.wait_until_stopped().await.success(), "{step}");
        if number % 3 == 0 {
            // Redis loses what it had.
            deployment.flush_redis().await;
        }
        if number % 2 == 0 {
            merge(&api, &source, &target).await;
        } else {
            wait_until_merged(&deployment, &source).await;
        }
        for (_, history) in &mut games {
            history.merge(&source, &target);
        }
        check_all(&api, &games).await;
    }
    check_everywhere(&deployment, &api, &games).await;
}

/// Waits until the background work has finished a merge.
async fn wait_until_merged(deployment: &Arc<Deployment>, source: &str) {
    let left = format!(
        "SELECT CAST(COUNT(*) AS BIGINT) FROM member_merge WHERE source = '{source}' AND step <> 'DONE'"
    );
    until("the merge is over", async || (deployment.number(&left).await == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_score_is_lost_beside_a_merge() {
    for sql in [Sql::Sqlite, Sql::Postgres] {
        let deployment = Deployment::new(sql, Redis::Own).await;
        let apis = [Api::start(&deployment).await, Api::start(&deployment).await];
        apis[0].create_board(json!({ "slug": "b", "shards": 4 })).await;
        let submit = async |api: &Api, member: &str| {
            let (mut sum, mut is_merged) = (0, false);
            for number in 1..=60 {
                let scores = json!([{ "member": member, "score": number }]);
                let variables = json!({ "board": "b", "scores": scores, "ack": "APPLIED" });
                let data = api.data(tests::documents::SUBMIT_SCORES, variables).await;
                let result = &data["submitScores"]["results"][0];
                match result["error"]["code"].as_str() {
                    None => {
                        assert!(!is_merged, "a score was accepted after the merge");
                        sum += number;
                    }
                    Some(code) => {
                        assert_eq!(code, "MEMBER_MERGED", "{result}");
                        is_merged = true;
                    }
                }
            }
            (sum, is_merged)
        };
        submit(&apis[0], "old").await;
        let first: i64 = 60 * 61 / 2;
        let both = async { futures::join!(submit(&apis[0], "old"), submit(&apis[1], "new")) };
        let (((old, _), (new, is_merged)), ()) =
            futures::join!(both, merge(&apis[1], "old", "new"));
        assert!(!is_merged);
        assert!(submit(&apis[0], "old").await.1);
        let variables = json!({ "board": "b", "member": "new" });
        let shown = apis[0].data(tests::documents::SCORE, variables).await;
        let total: Value = (first + old + new).to_string().into();
        assert_eq!(shown["board"]["standings"]["entry"]["score"], total);
        check_diff(&deployment);
    }
}

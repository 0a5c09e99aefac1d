//! The limit of a member's attempts in a period: exact, however the counts came to be.

use serde_json::{Value, json};

use tests::api::Api;
use tests::api::amendment::{events, remove, void};
use tests::api::attempts::attempts;
use tests::api::submission::{submit, submit_durably};
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Redis, Sql};
use tests::documents::{ADD_SEASON, CREATE_BOARD, SEASONS, UPDATE_BOARD};
use tests::jobs::analytics::{figures, run};
use tests::jobs::diff::check_diff;
use tests::jobs::rebuild::rebuild;
use tests::wait::until;

/// A score at an hour of a day in London, whose clocks go back on October 26.
fn score(member: &str, day: &str, hour: u32) -> Value {
    json!({ "member": member, "score": 1, "at": format!("2025-10-{day}T{hour:02}:30:00Z") })
}

fn statuses(payload: &Value) -> Vec<&str> {
    let results = payload["results"].as_array().unwrap();
    results.iter().map(|result| result["status"].as_str().unwrap()).collect()
}

fn refusal(payload: &Value, index: usize) -> (&str, &str) {
    let error = &payload["results"][index]["error"];
    (error["code"].as_str().unwrap(), error["message"].as_str().unwrap())
}

/// A board in London with at most three scores of a member a day and six in all.
fn board() -> Value {
    json!({
        "slug": "b", "timeZone": "Europe/London", "policy": "BEST", "shards": 4,
        "windows": [
            { "name": "daily", "attemptsMax": 3 }, { "name": "all", "attemptsMax": 6 },
            { "name": "7d" },
        ],
    })
}

async fn used_and_left(api: &Api, window: &str, period: Option<&str>, member: &str) -> Value {
    attempts(api, "b", window, period, &[member]).await[0].take()
}

/// Waits for a member's attempts, as an answer may be a moment old.
async fn wait_for(api: &Api, window: &str, period: Option<&str>, member: &str, expected: Value) {
    until(&format!("the attempts of {member} are {expected}"), async || {
        (used_and_left(api, window, period, member).await == expected).then_some(())
    })
    .await;
}

async fn check_limit(sql: Sql) {
    let deployment = Deployment::new(sql, Redis::Own).await;
    let api = Api::start(&deployment).await;
    api.create_board(board()).await;
    // In a batch, scores count in their order; the day has 25 hours.
    let batch: Vec<Value> = [0, 23, 12, 5].map(|hour| score("ann", "26", hour)).into();
    let told = submit(&api, "b", json!(batch)).await;
    assert_eq!(statuses(&told), ["APPLIED", "APPLIED", "APPLIED", "REJECTED"]);
    let (code, says) = refusal(&told, 3);
    assert_eq!(code, "ATTEMPTS_EXHAUSTED");
    let expected = "member \"ann\" has used its 3 attempts in the window daily, period 2025-10-26; \
        the next one begins at 2025-10-27T00:00:00Z";
    assert_eq!(says, expected);
    assert_eq!(used_and_left(&api, "daily", Some("2025-10-26"), "ann").await, json!([3, 0]));
    assert_eq!(used_and_left(&api, "daily", Some("2025-10-25"), "ann").await, json!([0, 3]));
    assert_eq!(used_and_left(&api, "all", None, "ann").await, json!([3, 3]));
    assert_eq!(used_and_left(&api, "7d", None, "ann").await, Value::Null);
    // A score of the day before is late and counts there; a duplicate uses no attempt.
    let mut late = score("ann", "25", 9);
    late["eventId"] = "late".into();
    let told = submit_durably(&api, "b", json!([late, late])).await;
    assert_eq!(statuses(&told), ["APPLIED", "DUPLICATE"]);
    let told = submit(&api, "b", json!([late, score("bob", "26", 9)])).await;
    assert_eq!(statuses(&told), ["DUPLICATE", "APPLIED"]);
    wait_for(&api, "daily", Some("2025-10-25"), "ann", json!([1, 2])).await;
    check_recovery(&deployment, &api).await;

    // A score that is out of range uses no attempt, and all time has a limit of its own.
    let mut bad = score("ann", "24", 1);
    bad["score"] = (-1).into();
    let told = submit(
        &api,
        "b",
        json!([bad, score("ann", "24", 1), score("ann", "24", 2), score("ann", "23", 2)]),
    )
    .await;
    assert_eq!(statuses(&told), ["REJECTED", "APPLIED", "APPLIED", "REJECTED"]);
    assert_eq!(refusal(&told, 0).0, "SCORE_OUT_OF_RANGE");
    let says =
        "member \"ann\" has used its 6 attempts in the window all, which has no other period";
    assert_eq!(refusal(&told, 3), ("ATTEMPTS_EXHAUSTED", says));

    // A void gives the attempt back; after a removal the member has all of them again.
    let told = submit_durably(&api, "b", json!([score("bob", "26", 1)])).await;
    assert_eq!(told["accepted"], 1);
    deployment.settle().await;
    let newest = events(&api, "b", "ann").await.remove(0)["id"].as_str().unwrap().to_owned();
    assert_eq!(void(&api, &newest).await.codes(), [""; 0]);
    wait_for(&api, "all", None, "ann", json!([5, 1])).await;
    let told = submit(&api, "b", json!([score("ann", "23", 2), score("ann", "23", 3)])).await;
    assert_eq!(statuses(&told), ["APPLIED", "REJECTED"]);
    remove(&api, "b", "bob").await;
    wait_for(&api, "daily", Some("2025-10-26"), "bob", json!([0, 3])).await;
    check_diff(&deployment);
}

/// However the counts come back, they are those of the history.
async fn check_recovery(deployment: &std::sync::Arc<Deployment>, api: &Api) {
    deployment.settle().await;
    for how in ["flush", "rebuild", "restore", "repair"] {
        match how {
            "flush" => deployment.flush_redis().await,
            "rebuild" => {
                rebuild(deployment, "b").await;
            }
            "restore" => {
                figures(deployment, &["restore"]);
            }
            _ => {
                corrupt(deployment, "bob").await;
                let (status, found, _) = run(deployment, &["diff"]);
                let finding = &found["findings"][0];
                assert_eq!((status, &finding["kind"]), (3, &json!("WRONG_SCORE")), "{found}");
                assert_eq!(finding["member"], "bob", "{found}");
                assert_eq!(finding["window"], "attempts:daily", "{found}");
                figures(deployment, &["diff", "--repair"]);
            }
        }
        wait_for(api, "daily", Some("2025-10-26"), "bob", json!([1, 2])).await;
        wait_for(api, "daily", Some("2025-10-26"), "ann", json!([3, 0])).await;
        wait_for(api, "all", None, "ann", json!([4, 2])).await;
        let told = submit(api, "b", json!([score("ann", "26", 7)])).await;
        assert_eq!(refusal(&told, 0).0, "ATTEMPTS_EXHAUSTED", "after {how}");
        check_diff(deployment);
    }
}

/// Gives a member another number of attempts in Redis.
async fn corrupt(deployment: &Deployment, member: &str) {
    let mut redis = deployment.redis().await;
    let pattern = "laurel:*:z:*attempts%3Adaily:2025-10-26";
    let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query_async(&mut redis).await.unwrap();
    let mut wrong = 0;
    for key in keys {
        let double: Option<f64> =
            redis::cmd("ZSCORE").arg(&key).arg(member).query_async(&mut redis).await.unwrap();
        let Some(double) = double else { continue };
        let next = f64::from_bits(double.to_bits() - 1);
        let () = redis::cmd("ZADD")
            .arg(&key)
            .arg(next)
            .arg(member)
            .query_async(&mut redis)
            .await
            .unwrap();
        wrong += 1;
    }
    assert_eq!(wrong, 1);
}

#[tokio::test]
async fn a_member_has_so_many_attempts_in_a_period_on_sqlite() {
    check_limit(Sql::Sqlite).await;
}

#[tokio::test]
async fn a_member_has_so_many_attempts_in_a_period_on_postgres() {
    check_limit(Sql::Postgres).await;
}

#[tokio::test]
async fn a_member_has_so_many_attempts_in_a_period_on_mariadb() {
    check_limit(Sql::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_holds_beside_any_number_of_processes() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let apis =
        futures::join!(Api::start(&deployment), Api::start(&deployment), Api::start(&deployment));
    let apis = [apis.0, apis.1, apis.2];
    let windows = json!([{ "name": "daily", "attemptsMax": 20 }]);
    apis[0].create_board(json!({ "slug": "b", "windows": windows })).await;
    let sends = (0..60).map(async |number: usize| {
        let one = json!([score("ann", "26", 1)]);
        submit(&apis[number % apis.len()], "b", one).await["accepted"].as_i64().unwrap()
    });
    let accepted: i64 = futures::future::join_all(sends).await.into_iter().sum();
    assert_eq!(accepted, 20);
    check_diff(&deployment);
}

#[tokio::test]
async fn a_sealed_period_takes_no_more_attempts_and_tells_those_it_had() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "daily", "retain": 1, "attemptsMax": 2 }, { "name": "3d" }]);
    api.create_board(json!({ "slug": "b", "windows": windows })).await;
    let at = |days: i64| {
        let at = jiff::Timestamp::from_millisecond(now_ms() - days * DAY_MS).unwrap();
        json!({ "member": "ann", "score": 1, "at": at.to_string() })
    };
    let day = |days: i64| at(days)["at"].as_str().unwrap()[..10].to_owned();
    // The rolling window still has the day before yesterday, and so its attempts still count.
    let told = submit_durably(&api, "b", json!([at(40), at(40), at(2), at(0)])).await;
    assert_eq!(told["accepted"], 4, "{told}");
    let sealed = day(40);
    until("the day is sealed", async || {
        let told = submit(&api, "b", json!([at(40)])).await;
        (refusal(&told, 0).0 == "TOO_LATE").then_some(())
    })
    .await;
    let told = submit(&api, "b", json!([at(40), at(2), at(2)])).await;
    assert_eq!(statuses(&told), ["REJECTED", "APPLIED", "REJECTED"]);
    let says = format!(
        "the period {sealed} of the window daily is sealed, and its attempts are no longer counted: \
        expected a score of a later period"
    );
    assert_eq!(refusal(&told, 0), ("TOO_LATE", says.as_str()));
    assert_eq!(refusal(&told, 2).0, "ATTEMPTS_EXHAUSTED");
    wait_for(&api, "daily", Some(&sealed), "ann", json!([2, 0])).await;
    // SQL corrects what it has of sealed periods.
    deployment.settle().await;
    let oldest = events(&api, "b", "ann").await.pop().unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(void(&api, &oldest).await.codes(), [""; 0]);
    wait_for(&api, "daily", Some(&sealed), "ann", json!([1, 1])).await;
    check_diff(&deployment);
    deployment.flush_redis().await;
    wait_for(&api, "daily", Some(&day(2)), "ann", json!([2, 0])).await;
    check_diff(&deployment);
}

#[tokio::test]
async fn a_season_counts_the_attempts_from_before_it_was_listed() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let windows = json!([{ "name": "season", "attemptsMax": 2 }]);
    api.create_board(json!({ "slug": "b", "windows": windows })).await;
    let one = json!([{ "member": "ann", "score": 1 }]);
    // Between seasons nothing is counted.
    for _ in 0..3 {
        assert_eq!(submit_durably(&api, "b", one.clone()).await["accepted"], 1);
    }
    let text = |at_ms: i64| jiff::Timestamp::from_millisecond(at_ms).unwrap().to_string();
    let input = json!({
        "board": "b", "name": "first", "startsAt": text(now_ms() - DAY_MS),
        "endsAt": text(now_ms() + DAY_MS),
    });
    api.data(ADD_SEASON, json!({ "input": input })).await;
    until("the season is ready", async || {
        let data = api.data(SEASONS, json!({ "slug": "b" })).await;
        (data["board"]["seasons"][0]["ready"] == true).then_some(())
    })
    .await;
    wait_for(&api, "season", None, "ann", json!([3, 0])).await;
    let told = submit(&api, "b", json!([one[0], { "member": "bob", "score": 1 }])).await;
    assert_eq!(statuses(&told), ["REJECTED", "APPLIED"]);
    let (code, says) = refusal(&told, 0);
    assert_eq!(code, "ATTEMPTS_EXHAUSTED");
    assert!(says.contains("season first, which ends at"), "{says}");
    check_diff(&deployment);
}

#[tokio::test]
async fn a_limit_that_cannot_be_is_refused() {
    let deployment = Deployment::new(Sql::any(), Redis::Private).await;
    let api = Api::start(&deployment).await;
    let refused = async |document: &str, windows: Value| {
        let input = json!({ "input": { "slug": "b", "windows": windows } });
        let answer = api.ask(Some(api.token()), document, input).await;
        let error = answer.body["errors"][0].clone();
        let extensions = &error["extensions"];
        (
            extensions["code"].as_str().unwrap_or_default().to_owned(),
            extensions["argument"].as_str().unwrap_or_default().to_owned(),
            error["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let max = "input.windows[0].attemptsMax";
    for (name, attempts, code, argument, says) in [
        ("7d", json!(3), "BAD_USER_INPUT", max, "counts in many of its periods"),
        ("decay:7d", json!(3), "BAD_USER_INPUT", max, "expected it of all, hourly"),
        ("daily", json!(0), "BAD_USER_INPUT", max, "expected 1 to 1000000"),
        ("daily", json!(-1), "BAD_USER_INPUT", max, "expected 1 to 1000000"),
        ("daily", json!(1_000_001), "LIMIT_EXCEEDED", max, "at most 1000000"),
        ("attempts:daily", json!(3), "BAD_USER_INPUT", "input.windows[0].name", "invalid window"),
        (
            "attempts:daily",
            Value::Null,
            "BAD_USER_INPUT",
            "input.windows[0].name",
            "invalid window",
        ),
    ] {
        let window = json!([{ "name": name, "attemptsMax": attempts }]);
        let told = refused(CREATE_BOARD, window).await;
        assert_eq!((told.0.as_str(), told.1.as_str()), (code, argument), "{name} {attempts}");
        assert!(told.2.contains(says), "{}", told.2);
    }
    let windows = json!([{ "name": "daily", "attemptsMax": 3 }, { "name": "weekly" }]);
    api.create_board(json!({ "slug": "b", "windows": windows })).await;
    for window in [
        json!({ "name": "daily", "attemptsMax": 4 }),
        json!({ "name": "weekly", "attemptsMax": 4 }),
        json!({ "name": "all", "attemptsMax": 4 }),
        json!({ "name": "monthly", "attemptsMax": 4 }),
    ] {
        let told = refused(UPDATE_BOARD, json!([window])).await;
        assert_eq!((told.0.as_str(), told.1.as_str()), ("BAD_USER_INPUT", max), "{window}");
        assert!(told.2.contains("fixed when the board is created"), "{}", told.2);
    }
    let query = "{ board(slug: \"b\") { windows { name attemptsMax } } }";
    let listed = async || api.data(query, json!({})).await["board"]["windows"].take();
    let all = json!({ "name": "all", "attemptsMax": null });
    let daily = json!({ "name": "daily", "attemptsMax": 3 });
    let weekly = json!({ "name": "weekly", "attemptsMax": null });
    assert_eq!(listed().await, json!([all, daily, weekly]));
    // The limit goes with its window, and no client sees the window that counts.
    api.update_board(json!({ "slug": "b", "windows": [{ "name": "daily", "attemptsMax": 3 }] }))
        .await;
    assert_eq!(listed().await, json!([all, daily]));
    assert_eq!(submit_durably(&api, "b", json!([score("ann", "26", 1)])).await["accepted"], 1);
    let of_counts =
        "{ board(slug: \"b\") { standings(of: { window: \"attempts:daily\" }) { size } } }";
    let answer = api.ask(Some(api.token()), of_counts, json!({})).await;
    assert_eq!(answer.codes(), ["WINDOW_NOT_FOUND"]);
    api.update_board(json!({ "slug": "b", "windows": [] })).await;
    let no_keys = "the counts are gone";
    until(no_keys, async || {
        let keys: Vec<String> = deployment.ask_redis(&["KEYS", "laurel:*attempts*"]).await;
        keys.is_empty().then_some(())
    })
    .await;
    api.update_board(json!({ "slug": "b", "windows": [{ "name": "daily" }] })).await;
    assert_eq!(listed().await[1]["attemptsMax"], Value::Null);
    let scores: Vec<Value> = (0..5).map(|hour| score("ann", "26", hour)).collect();
    assert_eq!(submit_durably(&api, "b", json!(scores)).await["accepted"], 5);
    check_diff(&deployment);
}

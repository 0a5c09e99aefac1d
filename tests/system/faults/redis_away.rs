//! Redis dead or silent under a running server: reads are answered from SQL as they were from
//! Redis, submissions are refused, and Redis answers again by itself.

use std::time::{Duration, Instant};

use futures::future::join_all;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::friends::change_friends;
use tests::api::submission::{submit, submit_durably};
use tests::clock::{DAY_MS, now_ms};
use tests::deployment::{Deployment, Sql};
use tests::documents::{ADD_FRIEND, REMOVE_ENTRY, SUBMIT_SCORES};
use tests::jobs::diff::check_diff;
use tests::servers::redis_node::RedisNode;
use tests::wait::until;
use tokio::time::sleep;

const READS: &str = "
    query($window: String!, $at: DateTime!, $segment: String, $exact: Boolean!) {
        board(slug: \"b\") {
        newest: periods(window: $window, first: 3) {
            totalCount pageInfo { hasNextPage endCursor } nodes { label start end sealed }
        }
        oldest: periods(window: $window, last: 2) {
            pageInfo { hasPreviousPage startCursor } nodes { label }
        }
        standings(of: { window: $window, at: $at, segment: $segment }) {
            source asOf size
            top(first: 7) { totalCount pageInfo { hasNextPage } nodes { ...entry } }
            far: top(first: 5, offset: 11) { nodes { ...entry } }
            last: top(last: 3) { nodes { ...entry } }
            entry(member: \"m8\") { ...entry }
            entries(members: [\"m3\", \"m4\", \"gone\", \"m20\"]) { ...entry }
            entryAt(rank: 2) { ...entry }
            neighbors(member: \"m8\", above: 2, below: 3) { ...entry }
            friends(member: \"m8\") { nodes { position entry { ...entry } } }
            scoreFor(percentile: 50) @include(if: $exact)
            distribution(buckets: 4) @include(if: $exact) { count }
        } }
    }
    fragment entry on Entry { rank score @include(if: $exact) member { key } }";

/// A decaying score is another one at each instant, though its rank is not.
const WINDOWS: [(&str, bool); 6] = [
    ("all", true),
    ("daily", true),
    ("weekly", true),
    ("monthly", true),
    ("3d", true),
    ("decay:7d", false),
];

const SEGMENTS: [Option<&str>; 2] = [None, Some("region:eu")];

/// The time in which a process looks at Redis and at SQL.
const LOOKED_AT: Duration = Duration::from_secs(3);

/// The longest time of a read while Redis is away. A debug program on a busy machine needs some of
/// it.
pub(super) const SLOWEST: Duration = Duration::from_millis(2500);

/// The longest time of a submission while Redis is known to be away.
const REFUSED_MAX: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy)]
enum Away {
    Dead,
    Silent,
}

impl Away {
    fn start(self, redis: &mut RedisNode) {
        match self {
            Self::Dead => redis.kill(),
            Self::Silent => redis.signal("STOP"),
        }
    }

    fn end(self, redis: &mut RedisNode) {
        match self {
            Self::Dead => redis.launch(),
            Self::Silent => redis.signal("CONT"),
        }
    }
}

fn text(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).unwrap().to_string()
}

/// A server with a board of 30 members in four shards, some of them friends; SQL has all of it.
pub(super) async fn start(sql: Sql) -> (Api, RedisNode) {
    start_with(sql, &[]).await
}

/// As [`start`], with settings.
async fn start_with(sql: Sql, settings: &[(&str, &str)]) -> (Api, RedisNode) {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("redis");
    std::fs::create_dir(&files).unwrap();
    let redis = RedisNode::start(&files, vec![]);
    let database_url = sql.new_database(dir.path()).await;
    let redis_url = format!("redis://127.0.0.1:{}", redis.port());
    let deployment = Deployment::elsewhere(dir, database_url, redis_url);
    let api = Api::start_with_settings(&deployment, settings).await;
    let windows = WINDOWS.iter().map(|(name, _)| *name).filter(|name| *name != "all");
    let windows: Vec<Value> = windows.map(|name| json!({ "name": name })).collect();
    api.create_board(json!({
        "slug": "b", "policy": "SUM", "shards": 4, "windows": windows, "segmentBy": ["region"],
    }))
    .await;
    let member = |number: i64| {
        let region = if number % 3 == 0 { "eu" } else { "us" };
        json!({ "key": format!("m{number}"), "region": region })
    };
    api.upsert_members((0..30).map(member).chain([json!({ "key": "gone" })]).collect::<Vec<_>>())
        .await;
    for friend in ["m1", "m9", "m15"] {
        change_friends(&api, ADD_FRIEND, ("m8", friend)).await;
    }
    let now = now_ms();
    for round in 0..4_i64 {
        // Ties, and scores of several days.
        let score = |number: i64| {
            let at = text(now - number % 5 * DAY_MS);
            json!({ "member": format!("m{number}"), "score": (number * 7 + round) % 12, "at": at })
        };
        let scores: Vec<Value> = (0..30).map(score).collect();
        assert_eq!(submit_durably(&api, "b", json!(scores)).await["accepted"], 30);
    }
    submit(&api, "b", json!([{ "member": "gone", "score": 99 }])).await;
    let variables = json!({ "board": "b", "member": "gone" });
    assert_eq!(api.data(REMOVE_ENTRY, variables).await["removeEntry"]["removed"], true);
    deployment.settle().await;
    (api, redis)
}

/// The answers about every window and segment without their sources and instants, and each source.
async fn read(api: &Api, at_ms: i64) -> (Vec<Value>, Vec<String>) {
    read_within(Duration::MAX, api, at_ms).await
}

/// As [`read`], and none of them takes longer.
async fn read_within(longest: Duration, api: &Api, at_ms: i64) -> (Vec<Value>, Vec<String>) {
    let (mut answers, mut sources) = (vec![], vec![]);
    for (window, exact) in WINDOWS {
        for segment in SEGMENTS {
            let variables = json!({
                "window": window, "at": text(at_ms), "segment": segment, "exact": exact,
            });
            let began = Instant::now();
            let mut data = api.data(READS, variables).await;
            assert!(began.elapsed() < longest, "{window}: {:?}", began.elapsed());
            let standings = data["board"]["standings"].as_object_mut().unwrap();
            let as_of = standings.remove("asOf").unwrap();
            assert!(as_of.is_string(), "{window}: {as_of}");
            sources.push(standings.remove("source").unwrap().as_str().unwrap().to_owned());
            answers.push(data);
        }
    }
    (answers, sources)
}

/// Submits a score while Redis is known to be away, which is refused soon and in words.
async fn check_refused(api: &Api, away: Away, number: i64) {
    let scores = json!([{ "member": format!("m{number}"), "score": 1000 }]);
    let variables = json!({ "board": "b", "scores": scores, "ack": "APPLIED" });
    let began = Instant::now();
    let refused = api.ask(Some(api.token()), SUBMIT_SCORES, variables).await;
    assert!(began.elapsed() < REFUSED_MAX, "{away:?}: {:?}", began.elapsed());
    let error = &refused.body["data"]["submitScores"]["results"][0]["error"];
    assert_eq!(error["code"], "UNAVAILABLE", "{away:?}: {:?}", refused.body);
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("nothing of this was written"), "{away:?}: {said}");
}

async fn check(sql: Sql) {
    let (api, mut redis) = start(sql).await;
    // A process that has just started does not know how old SQL's answers are.
    sleep(LOOKED_AT).await;
    let at_ms = now_ms();
    let (live, sources) = read(&api, at_ms).await;
    assert!(sources.iter().all(|source| source == "LIVE"), "{sources:?}");
    assert_eq!(live[0]["board"]["standings"]["size"], 30);
    for away in [Away::Dead, Away::Silent] {
        away.start(&mut redis);
        // The very first reads may be the ones that find it out.
        let (answers, _) = read_within(SLOWEST, &api, at_ms).await;
        assert_eq!(answers, live, "{away:?}");
        let (answers, sources) = read_within(SLOWEST, &api, at_ms).await;
        assert_eq!(answers, live, "{away:?}");
        assert!(sources.iter().all(|source| source == "FALLBACK"), "{away:?}: {sources:?}");
        // A load balancer goes on to send reads.
        until("it is degraded", async || {
            let ready = reqwest::get(format!("{}/readyz", api.url())).await.unwrap();
            assert_eq!(ready.status(), 200, "{away:?}");
            let reasons = ready.text().await.unwrap();
            reasons.starts_with("degraded\nRedis does not answer: ").then_some(())
        })
        .await;
        assert!(!api.is_ready().await);
        // Behind each other, then at once.
        for number in 0..3 {
            check_refused(&api, away, number).await;
        }
        join_all((0..24).map(|number| check_refused(&api, away, number % 6))).await;
        away.end(&mut redis);
        until("Redis answers again", async || {
            let (answers, sources) = read(&api, at_ms).await;
            assert_eq!(answers, live, "{away:?}");
            sources.iter().all(|source| source == "LIVE").then_some(())
        })
        .await;
        api.wait_until_ready().await;
        check_diff(api.deployment());
    }
}

/// The first field asked is the source, though the others find it out.
const RANK: &str =
    "query($window: String!) { board(slug: \"b\") { standings(of: { window: $window }) {
    source asOf entry(member: \"m5\") { score }
} } }";

pub(super) async fn rank(api: &Api, window: &str) -> Value {
    api.data(RANK, json!({ "window": window })).await["board"]["standings"].clone()
}

/// Waits until SQL is known to have all that there is.
pub(super) async fn settle(api: &Api) {
    api.deployment().settle().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_from_sql_says_so_and_of_which_instant_it_is() {
    let (api, _redis) = start(Sql::Sqlite).await;
    settle(&api).await;
    // The present day has a score of that member, too.
    let before: Vec<Value> = vec![rank(&api, "all").await, rank(&api, "daily").await];
    // SQL gets nothing from here on, and a recovery cannot end.
    let db = api.deployment().sql().await;
    let held = entity::sql::begin(&db).await.unwrap();
    held.execute_unprepared("UPDATE log_cursor SET seq = seq").await.unwrap();
    let sent_ms = now_ms();
    let told = submit(&api, "b", json!([{ "member": "m5", "score": 1000 }])).await;
    assert_eq!(told["accepted"], 1);
    for window in ["all", "daily"] {
        assert_eq!(rank(&api, window).await["source"], "LIVE");
    }
    let () = api.deployment().ask_redis(&["FLUSHALL"]).await;
    for (window, before) in ["all", "daily"].into_iter().zip(before) {
        // The answer of a moment ago may be given once more.
        let now = until("SQL answers", async || {
            let now = rank(&api, window).await;
            (now["source"] == "FALLBACK").then_some(now)
        })
        .await;
        assert_eq!(now["entry"], before["entry"], "{now}");
        let as_of: jiff::Timestamp = now["asOf"].as_str().unwrap().parse().unwrap();
        assert!(as_of.as_millisecond() < sent_ms, "{now}: {sent_ms}");
    }
    held.rollback().await.unwrap();
    api.wait_until_ready().await;
    until("Redis answers again", async || {
        (rank(&api, "all").await["source"] == "LIVE").then_some(())
    })
    .await;
}

/// The events of an open period that are folded for a read.
const FOLDED_MAX: i64 = 200_000;

/// Adds so many events like a score of today to those in SQL, without any work of the server's.
async fn add_events(deployment: &Deployment, sql: Sql, count: i64) {
    let db = deployment.sql().await;
    let numbers = sql.numbers(count);
    let insert = format!(
        "INSERT INTO score_event (\"partition\", seq, event_index, board_no, generation, member,
            kind, score, at_ms, at_sent, segments, salt)
        SELECT \"partition\", seq, 1000 + n.i, board_no, generation, member,
            kind, score, at_ms, at_sent, segments, salt
        FROM (SELECT * FROM score_event WHERE member = 'm5' ORDER BY seq DESC LIMIT 1) AS event
        CROSS JOIN {numbers}"
    );
    assert_eq!(db.execute_unprepared(&insert).await.unwrap().rows_affected(), count as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_of_more_events_than_a_read_folds_is_unavailable_and_all_is_answered() {
    // A debug build takes longer than SQL has by default.
    let patient = [("LAUREL_SQL_READ_TIMEOUT_MS", "60000"), ("LAUREL_QUERY_TIMEOUT_MS", "60000")];
    for (count, is_answered) in [(FOLDED_MAX - 200, true), (FOLDED_MAX + 1, false)] {
        let (api, mut redis) = start_with(Sql::Sqlite, &patient).await;
        settle(&api).await;
        add_events(api.deployment(), Sql::Sqlite, count).await;
        redis.kill();
        until("SQL answers", async || {
            (rank(&api, "all").await["source"] == "FALLBACK").then_some(())
        })
        .await;
        let answer = api.ask(None, RANK, json!({ "window": "daily" })).await;
        if is_answered {
            let standings = &answer.body["data"]["board"]["standings"];
            assert_eq!(standings["source"], "FALLBACK", "{}", answer.body);
            assert!(standings["entry"]["score"].is_string(), "{}", answer.body);
        } else {
            assert_eq!(answer.codes(), ["UNAVAILABLE"], "{}", answer.body);
            assert!(answer.message().contains("over 200000 events"), "{}", answer.message());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_score_between_two_outages_is_in_the_answers_of_the_second_one() {
    let (api, mut redis) = start(Sql::Sqlite).await;
    for round in 0..3 {
        redis.kill();
        let before = until("SQL answers", async || {
            let now = rank(&api, "daily").await;
            (now["source"] == "FALLBACK").then_some(now)
        })
        .await;
        until("the probe knows", async || (!api.is_ready().await).then_some(())).await;
        redis.launch();
        api.wait_until_ready().await;
        let score = json!([{ "member": "m5", "score": 1, "eventId": format!("between{round}") }]);
        let told = submit_durably(&api, "b", score).await;
        assert_eq!(told["accepted"], 1, "{told}");
        redis.kill();
        let score =
            |entry: &Value| entry["entry"]["score"].as_str().unwrap().parse::<i64>().unwrap();
        let now = rank(&api, "daily").await;
        assert_eq!(score(&now), score(&before) + 1, "{now}");
        redis.launch();
        api.wait_until_ready().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_answers_while_redis_is_away() {
    check(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_answers_while_redis_is_away() {
    check(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_answers_while_redis_is_away() {
    check(Sql::Mariadb).await;
}

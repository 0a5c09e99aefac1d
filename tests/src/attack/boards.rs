//! Boards large enough to be costly, made without a history for most of them: reads need none.

use std::collections::BTreeMap;

use entity::board;
use entity::sql::begin;
use entity::standings::{sealed_entry, sealed_period};
use ranking::board::{State, TieBreak};
use ranking::id::MemberId;
use ranking::shard::shard_of;
use ranking::standings_id::StandingsId;
use ranking::window::{Period, Window};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use crate::api::Api;
use crate::api::submission::submit;
use crate::deployment::Deployment;
use crate::wait::until;

/// The members of the boards `big`, `big16` and `tie`.
pub const MEMBERS: usize = 20_000;

/// The hourly periods of `hour`.
pub const HOURS: usize = 2000;

/// The sealed period of `sealed`: each member has an entry with a score of its own.
pub const SEALED_HOUR: &str = "2025-01-01T00+00:00";

/// The events of the first member on `events`.
pub const EVENTS: usize = 5000;

/// The friends of the first member, and of each of the fifty after it.
pub const FRIENDS: [usize; 2] = [5000, 1000];

/// 2025-01-01, in Unix milliseconds.
const START_MS: i64 = 1_735_689_600_000;

/// An hour, in milliseconds.
const HOUR_MS: usize = 3_600_000;

/// The pairs of one command.
const PAIRS: usize = 1000;

/// The key of the member with a number.
pub fn key(number: usize) -> String {
    format!("m{number:05}")
}

/// Creates all of them, the members and their friendships.
pub async fn build(api: &Api) {
    create(api).await;
    befriend(api.deployment()).await;
    for slug in ["big", "big16", "tie"] {
        fill(api.deployment(), slug).await;
    }
    for (slug, scores) in histories() {
        for some in scores.chunks(PAIRS) {
            let told = submit(api, slug, json!(some)).await;
            assert_eq!(told["accepted"], some.len(), "{slug}");
        }
    }
    // As many objects as there is room for.
    let metadata = json!({ "a": vec![json!({ "": 0 }); 140] });
    let score = json!([{ "member": key(0), "score": 1, "metadata": metadata }]);
    assert_eq!(submit(api, "meta", score).await["accepted"], 1);
    fill_sealed(api).await;
}

/// Creates the boards, empty: echoes need no more.
pub async fn create(api: &Api) {
    for input in inputs() {
        api.create_board(input).await;
    }
}

/// The boards.
pub fn inputs() -> [Value; 6] {
    let daily = json!([{ "name": "daily" }]);
    [
        json!({ "slug": "big", "windows": daily, "segmentBy": ["region"] }),
        json!({ "slug": "big16", "shards": 16, "windows": daily }),
        json!({ "slug": "tie", "shards": 16, "tieBreak": "MEMBER" }),
        json!({ "slug": "hour", "windows": [{ "name": "hourly" }] }),
        json!({ "slug": "events" }),
        json!({ "slug": "meta", "metadata": true }),
    ]
}

/// The scores of the boards `hour` and `events`.
pub fn histories() -> [(&'static str, Vec<Value>); 2] {
    let score = |member: usize, after_ms: usize| {
        let at = jiff::Timestamp::from_millisecond(START_MS + after_ms as i64).unwrap();
        json!({ "member": key(member), "score": 1, "at": at.to_string() })
    };
    [
        ("hour", (0..HOURS).map(|hour| score(hour % 100, hour * HOUR_MS)).collect()),
        ("events", (0..EVENTS).map(|event| score(0, event * 1000)).collect()),
    ]
}

/// Puts an entry of each member into the all-time standings of a board: with one score for all of
/// them on a board whose ties go by member, else with a score for each.
pub async fn fill(deployment: &Deployment, slug: &str) {
    let stores = deployment.open_stores().await;
    let row = board::of_slug(&stores.db, slug).await.unwrap().unwrap();
    let board = row.to_ranking().unwrap();
    let is_tie = board.rules.tie_break == TieBreak::Member;
    let id = StandingsId::all_time(&board, String::new());
    let mut shards: BTreeMap<u16, Vec<(String, String)>> = BTreeMap::new();
    for place in 0..MEMBERS {
        // Members come in an order that is not that of their keys.
        let member = key(place * 7919 % MEMBERS);
        let tick = board.rules.tick(START_MS + place as i64);
        let score = if is_tie { 7 } else { 900_000 - place as i64 };
        let state = State { score, tick };
        let rank_key = board.rules.key(Window::All, &Period::all(), state).unwrap();
        let shard = shard_of(&MemberId::new(&member).unwrap(), board.rules.shards);
        shards.entry(shard).or_default().push((rank_key.to_redis(), member));
    }
    let mut redis = deployment.redis().await;
    for (shard, pairs) in shards {
        let partition = stores.store.partitions().of(&board, shard);
        let standings = stores.store.keys().standings(partition, &id);
        for some in pairs.chunks(PAIRS) {
            let mut command = redis::cmd("ZADD");
            command.arg(&standings);
            for (rank_key, member) in some {
                command.arg(rank_key).arg(member);
            }
            let () = command.query_async(&mut redis).await.unwrap();
        }
    }
    stores.close().await;
}

/// Creates the board `sealed`, and puts its entries into SQL once the server has sealed its period.
async fn fill_sealed(api: &Api) {
    let windows = json!([{ "name": "hourly", "retain": 0 }]);
    api.create_board(json!({ "slug": "sealed", "windows": windows })).await;
    let score = json!([{ "member": key(0), "score": 1, "at": "2025-01-01T00:00:00Z" }]);
    assert_eq!(submit(api, "sealed", score).await["accepted"], 1);
    let db = api.deployment().sql().await;
    let board = board::of_slug(&db, "sealed").await.unwrap().unwrap().to_ranking().unwrap();
    let period = Window::Hourly.period_at(START_MS, &board.rules.calendar).unwrap();
    assert_eq!(period.label, SEALED_HOUR);
    let id = StandingsId {
        window: Window::Hourly,
        period: period.label.clone(),
        ..StandingsId::all_time(&board, String::new())
    };
    let place = BTreeMap::from([(id.clone(), period.clone())]);
    // A seal compares what it stores with Redis, so nothing is added before its end.
    until("the hour is sealed", async || {
        let standings = sealed(api, "source").await;
        (standings["source"] == "ARCHIVE").then_some(())
    })
    .await;
    let no = sealed_period::numbers(&db, &place).await.unwrap()[&id];
    let entry = |place: usize| {
        let (member, score) = (key(place * 7919 % MEMBERS), 2 + place as i64);
        let state = State { score, tick: board.rules.first_tick(&period) };
        let shard = shard_of(&MemberId::new(&member).unwrap(), board.rules.shards);
        sealed_entry::Model {
            standings_no: no,
            score,
            rank_key: board.rules.key(Window::Hourly, &period, state).unwrap().to_i64(),
            partition: i32::from(shard),
            seq: 0,
            member,
        }
    };
    let transaction = begin(&db).await.unwrap();
    let entries = (0..MEMBERS).map(entry).collect();
    let growth = sealed_entry::insert(&transaction, entries, sealed_entry::replace());
    let growth = growth.await.unwrap();
    sealed_period::grow(&transaction, growth).await.unwrap();
    transaction.commit().await.unwrap();
    db.close().await.unwrap();
    // The server may go on for a moment with what it knew.
    until("the server reads them", async || {
        (sealed(api, "size").await["size"] == MEMBERS).then_some(())
    })
    .await;
}

/// Reads a field of the sealed standings.
async fn sealed(api: &Api, field: &str) -> Value {
    let of = "of:{window:\"hourly\",period:$p}";
    let text = format!("query($p:String!){{board(slug:\"sealed\"){{standings({of}){{{field}}}}}}}");
    let mut read = api.data(&text, json!({ "p": SEALED_HOUR })).await;
    read["board"]["standings"].take()
}

/// Makes the members, and friends of the first ones.
pub async fn befriend(deployment: &Deployment) {
    let numbers = format!(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {MEMBERS})"
    );
    let [many, some] = FRIENDS;
    let db = deployment.sql().await;
    for insert in [
        format!(
            "INSERT INTO member (key, created_at_ms) {numbers} \
                SELECT printf('m%05d', i), {START_MS} FROM n"
        ),
        format!(
            "INSERT INTO friendship (low, high, created_at_ms) {numbers} \
                SELECT 'm00000', printf('m%05d', i), {START_MS} FROM n WHERE i BETWEEN 1 AND {many}"
        ),
        format!(
            "INSERT INTO friendship (low, high, created_at_ms) {numbers} \
                SELECT printf('m%05d', a.i), printf('m%05d', b.i), {START_MS} FROM n AS a, n AS b \
                WHERE a.i BETWEEN 1 AND 50 AND b.i BETWEEN 51 AND 50 + {some}"
        ),
    ] {
        let insert = Statement::from_string(db.get_database_backend(), insert);
        db.execute_raw(insert).await.unwrap();
    }
    db.close().await.unwrap();
}

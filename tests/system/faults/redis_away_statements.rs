//! The statements by which SQL answers while Redis is away: each has an index, counts are made only
//! for those who ask, and ranks far down a list are counted from samples.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::deployment::redis_health::State;
use engine::read::reader::Reader;
use entity::board;
use ranking::id::MemberId;
use ranking::score::rank_key::RankKey;
use ranking::standings_id::StandingsId;
use ranking::store::read::{RankedEntry, Standings};
use ranking::window::{Period, Window};
use sea_orm::metric::Info;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement};
use serde_json::{Value, json};

use tests::api::Api;
use tests::api::submission::submit;
use tests::clock::now_ms;
use tests::deployment::{Deployment, Redis, Sql};
use tests::wait::until;

/// The members of the board: enough for samples, with many ties.
const MEMBERS: u64 = 12_300;

/// A member at about the end of the list.
const FAR: u64 = MEMBERS - 300;

/// The statements that readers sent.
type Sent = Arc<Mutex<Vec<Statement>>>;

/// Stores of this process on a deployment whose server runs, and a reader for which Redis is away
/// once that is noted.
struct World {
    api: Api,
    stores: engine::deployment::Deployment,
    reader: Reader,
    all: Standings,
    daily: Standings,
    /// An entry far down `all`.
    far: RankedEntry,
    sent: Sent,
}

impl World {
    /// A board in two shards whose scores are in SQL.
    async fn new(sql: Sql) -> Self {
        let deployment = Deployment::new(sql, Redis::Private).await;
        let api = Api::start(&deployment).await;
        api.create_board(json!({
            "slug": "b", "policy": "BEST", "shards": 2, "tieBreak": "MEMBER",
            "windows": [{ "name": "daily" }],
        }))
        .await;
        let score =
            |member: u64| json!({ "member": format!("m{member:05}"), "score": member % 700 });
        let scores: Vec<Value> = (0..MEMBERS).map(score).collect();
        for batch in scores.chunks(1000) {
            assert_eq!(submit(&api, "b", json!(batch)).await["accepted"], batch.len());
        }
        deployment.settle().await;
        let mut stores = deployment.open_stores().await;
        let sent = Sent::default();
        let noted = sent.clone();
        let note = move |info: &Info<'_>| noted.lock().unwrap().push(info.statement.clone());
        stores.reads.set_metric_callback(note);
        let row = board::of_slug(&stores.db, "b").await.unwrap().unwrap();
        let board = row.to_ranking().unwrap();
        let day = Window::Daily.period_at(now_ms(), &board.rules.calendar).unwrap();
        let [all, daily] =
            [(Window::All, Period::all()), (Window::Daily, day)].map(|(window, period)| {
                let id = StandingsId::of(&board, "", window, &period);
                Standings::new(&stores.store, &board, id, period)
            });
        let reader = Reader::new(&stores, Duration::from_secs(5)).with_fallback();
        let far = reader.forward_from(&all, FAR, 1).await.unwrap().remove(0);
        Self { api, stores, reader, all, daily, far, sent }
    }

    /// The statements since the last call.
    fn sent(&self) -> Vec<Statement> {
        std::mem::take(&mut self.sent.lock().unwrap())
    }

    /// The position of the entry far down.
    async fn far_position(&self) -> u64 {
        let found = self.reader.find(&self.all, std::slice::from_ref(&self.far.member)).await;
        found.unwrap()[0].clone().unwrap().1
    }

    /// All that is told of standings, as text.
    async fn read(&self, of: &Standings) -> Vec<String> {
        let (reader, far) = (&self.reader, &self.far);
        let members: Vec<MemberId> =
            ["m00000", "m00699", "m07000", "gone"].map(|name| MemberId::new(name).unwrap()).into();
        let first = reader.page_after(of, None, 7).await.unwrap();
        let places = [first[1].clone(), far.clone()];
        let keys = [first[0].key, far.key];
        let pages = [(FAR, 3), (2, 2), (5000, 2), (999, 3)];
        vec![
            shown(first),
            shown(reader.size(of).await),
            shown(reader.rank_keys(of, &members).await),
            shown(reader.find(of, &members).await),
            shown(reader.positions(of, &places).await),
            shown(reader.counts_below(of, &keys).await),
            shown(reader.forward(of, far, 5).await),
            shown(reader.backward(of, Some(far), 5).await),
            shown(reader.backward(of, None, 5).await),
            shown(reader.page_after(of, Some(far), 5).await),
            shown(reader.forward_from(of, FAR + 10, 5).await),
            shown(reader.forward_from(of, MEMBERS + 10, 5).await),
            shown(reader.pages_from(of, &pages).await),
            shown(reader.neighbors(of, &far.member, 3, 4).await),
            shown(reader.neighborhoods(of, &members, 1, 2).await),
            shown(scores(reader, of).await),
        ]
    }
}

fn shown(told: impl Debug) -> String {
    format!("{told:?}")
}

/// The distinct scores of standings, walked step by step.
async fn scores(reader: &Reader, of: &Standings) -> Vec<RankKey> {
    let layout = of.rules.layout(of.id.window);
    let least = RankKey::from_i64(0).unwrap();
    let mut from = RankedEntry { key: least, member: MemberId::new(" ").unwrap() };
    let mut found = vec![];
    loop {
        let (mut fresh, is_end) = reader.scores(of, &from, 100).await.unwrap();
        found.append(&mut fresh);
        let behind = found.last().and_then(|score| layout.next_score(*score));
        match behind.filter(|_| !is_end) {
            Some(key) => from.key = key,
            None => return found,
        }
    }
}

/// True if a single count begins at a place in the list, and not at its top.
fn is_from_sample(statement: &Statement) -> bool {
    let sql = &statement.sql;
    sql.contains("COUNT(*)") && sql.contains(r#""rank_key""#) && sql.contains(">=")
}

/// Checks that a statement reads no table from end to end.
async fn check_plan(db: &DatabaseConnection, statement: &Statement) {
    let view = entity::sql::begin(db).await.unwrap();
    let (backend, values) = (view.get_database_backend(), statement.values.clone());
    let explain = match backend {
        DbBackend::Postgres => {
            view.execute_unprepared("SET LOCAL enable_seqscan = off").await.unwrap();
            "EXPLAIN"
        }
        _ => "EXPLAIN QUERY PLAN",
    };
    let sql = format!("{explain} {}", statement.sql);
    let asked = Statement { sql, values, db_backend: backend };
    let column = if backend == DbBackend::Postgres { "QUERY PLAN" } else { "detail" };
    let rows = view.query_all_raw(asked).await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.try_get("", column).unwrap()).collect();
    view.rollback().await.unwrap();
    let index = if backend == DbBackend::Postgres { "Index Cond" } else { "SEARCH" };
    assert!(plan.iter().any(|line| line.contains(index)), "{}: {plan:#?}", statement.sql);
    // A part of a statement that has the name of the table.
    let is_part = plan.iter().any(|line| line == "CO-ROUTINE score_event");
    for line in &plan {
        let is_scan = line.contains("Seq Scan on standing")
            || line.contains("Seq Scan on score_event")
            || line.starts_with("SCAN standing")
            || (line.starts_with("SCAN score_event") && !is_part);
        assert!(!is_scan, "{}: {plan:#?}", statement.sql);
    }
    // A fold does not read all events of the board.
    let of_board = "score_event_time (board_no=?)";
    assert!(!plan.iter().any(|line| line.contains(of_board)), "{}: {plan:#?}", statement.sql);
}

async fn check(sql: Sql) {
    let world = World::new(sql).await;
    let live = [world.read(&world.all).await, world.read(&world.daily).await];
    let away = world.all.partitions().iter().map(|no| (*no, State::Away));
    world.stores.redis_health.note(away);
    world.sent();

    // A page, keys and ranks of `all` wait for no count of all entries.
    world.reader.page_after(&world.all, None, 10).await.unwrap();
    world.reader.rank_keys(&world.all, std::slice::from_ref(&world.far.member)).await.unwrap();
    world.far_position().await;
    let counts_all =
        |sent: &Statement| sent.sql.contains("COUNT(*)") && !sent.sql.contains(r#""rank_key""#);
    assert!(!world.sent().iter().any(counts_all));

    assert_eq!(world.read(&world.all).await, live[0]);
    assert_eq!(world.read(&world.daily).await, live[1]);
    let mut statements = world.sent();
    until("samples serve", async || {
        world.sent();
        world.far_position().await;
        world.sent().iter().any(is_from_sample).then_some(())
    })
    .await;
    assert_eq!(world.read(&world.all).await, live[0]);
    statements.append(&mut world.sent());

    // While SQL gets nothing more, what was folded and counted is good.
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!(world.read(&world.daily).await, live[1]);
    world.reader.size(&world.all).await.unwrap();
    let is_work =
        |sent: &Statement| sent.sql.contains("score_event") || sent.sql.contains("COUNT(*)");
    let again = world.sent();
    assert!(!again.iter().any(is_work), "{again:?}");

    // Samples of an earlier moment serve no more, and a size is counted again.
    let before = world.far_position().await;
    submit(&world.api, "b", json!([{ "member": "new", "score": 900 }])).await;
    world.api.deployment().settle().await;
    assert_eq!(world.far_position().await, before + 1);
    until("the size is counted again", async || {
        let size = world.reader.size(&world.all).await.unwrap();
        (size == MEMBERS + 1).then_some(())
    })
    .await;

    if sql != Sql::Mariadb {
        check_plans(world.api.deployment(), statements).await;
    }
    world.stores.close().await;
}

/// Checks the plans of the statements that read standings and events.
async fn check_plans(deployment: &Deployment, statements: Vec<Statement>) {
    let each: BTreeMap<String, Statement> =
        statements.into_iter().map(|sent| (sent.sql.clone(), sent)).collect();
    let is_meant = |sent: &&Statement| {
        let of_tables = sent.sql.contains(r#""standing""#) || sent.sql.contains(r#""at_ms""#);
        // The voids of a board are few, and have an index of their own.
        of_tables && !sent.sql.contains(r#""void_seq" IS NOT NULL"#)
    };
    let db = deployment.sql().await;
    for sent in each.values().filter(is_meant) {
        check_plan(&db, sent).await;
    }
    db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_read_has_an_index_and_counts_no_more_than_it_must_on_sqlite() {
    check(Sql::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_read_has_an_index_and_counts_no_more_than_it_must_on_postgresql() {
    check(Sql::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_count_no_more_than_they_must_on_mariadb() {
    if let Some(sql) = Sql::mariadb() {
        check(sql).await;
    }
}

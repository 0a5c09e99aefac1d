//! The history of one board, folded by Laurel itself with polars, and by DataFusion, Sail and Spark
//! from a plan, side by side. Each side reads files or SQL on this machine, and all of them end
//! with the same standings in Redis.
//!
//! Spark is measured where `LAUREL_TEST_SPARK` names its programs; Sail and Spark are sent their
//! statements by `laurel fold run`, so `analytics` is built with its client.

use std::time::Instant;

use ranking::board::rules::{Rules, RulesInput};
use serde_json::Value;
use tests::deployment::Sql;
use tests::engine::Engine;
use tests::servers::spark::Spark;

use crate::figures::Figures;
use crate::history::{analytics, text};
use crate::stores::{PARTITIONS, Stores};
use crate::{RUNS, Scale, import};

/// The events of the board, and its members and shards.
const EVENTS: usize = 5_000_000;
const MEMBERS: usize = 500_000;
const SHARDS: u16 = 16;

/// Measures and adds the figures.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    let (events, members) = (scale.of(EVENTS, 20_000), scale.of(MEMBERS, 2000));
    let stores = Stores::open_on(Sql::Postgres, PARTITIONS).await;
    let file = import::generate(&stores, "events.parquet", (members, events)).await;
    let rules = Rules::new(RulesInput {
        max: 1_000_000_000,
        windows: vec!["daily".parse().unwrap()],
        shards: SHARDS,
        ..Default::default()
    });
    let row = entity::board::of_rules("b", "b", &rules.unwrap(), "UTC", 0);
    entity::board::insert(&stores.deployment.db, row).await.unwrap();
    analytics(&stores, &["import", "--board", "b", "--bulk", &file]).await;
    let spark = Spark::start(text(&stores.dir().join("spark")).to_owned()).await;
    for run in 1..=RUNS {
        println!("folds, run {run}");
        let folding = format!("reading and folding {events} events");
        let whole = format!("a rebuild of {events} events, from SQL to Redis");
        let own = analytics(&stores, &["rebuild", "--board", "b"]).await;
        let said = |name: &str| own.said[name].as_f64().unwrap();
        figures.add(&folding, "s", "polars", said("readingSeconds") + said("foldingSeconds"));
        figures.add(&whole, "s", "polars", own.seconds);
        figures.add("memory of the rebuild", "MB", "polars", own.memory_mb);
        for engine in ["datafusion", "sail", "spark"] {
            if engine == "spark" && spark.is_none() {
                continue;
            }
            let plan = text(&stores.dir().join(format!("{engine}-{run}"))).to_owned();
            let plans = ["fold", "plan", "--board", "b", "--out", &plan];
            let planned = analytics(&stores, &plans).await.seconds;
            let (folded, states) = fold(&stores, engine, &plan, spark.as_ref()).await;
            let load = ["rebuild", "--board", "b", "--plan", &plan, "--states", &states];
            let loaded = analytics(&stores, &load).await;
            figures.add("a plan", "s", engine, planned);
            figures.add(&folding, "s", engine, folded);
            figures.add(&whole, "s", engine, planned + folded + loaded.seconds);
            figures.add("memory of the rebuild", "MB", engine, loaded.memory_mb);
        }
        let diff = analytics(&stores, &["diff", "--board", "b"]).await;
        assert_eq!(diff.said["found"], 0, "{}", diff.said);
    }
    drop(spark);
    stores.close().await;
}

/// The seconds in which an engine makes the states of a plan, and where they are.
async fn fold(stores: &Stores, engine: &str, plan: &str, spark: Option<&Spark>) -> (f64, String) {
    if engine == "datafusion" {
        let sql = ["fold", "sql", "--plan", plan, "--dialect", engine];
        let statements: Value = analytics(stores, &sql).await.said;
        let states = format!("{plan}/states");
        let mut engine = Engine::start("datafusion");
        let began = Instant::now();
        engine.execute(plan, statements.as_array().unwrap(), &states);
        return (began.elapsed().as_secs_f64(), states);
    }
    let mut sail = (engine == "sail").then(|| Engine::start("sail"));
    let url = sail.as_mut().map(Engine::url).or_else(|| Some(spark?.url()));
    let url = url.expect("Spark is asked where it runs");
    let run = ["fold", "run", "--plan", plan, "--engine", &url, "--dialect", engine];
    let ran = analytics(stores, &run).await;
    (ran.seconds, ran.said["states"].as_str().unwrap().to_owned())
}

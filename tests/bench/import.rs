//! Imports of a whole history at once (`--bulk`) on each database, beside an ordinary import, and
//! beside a bare COPY or bare multi-row inserts of the rows that it wrote.
//!
//! The bare side has nothing to read, check, hash, fold or load into Redis: it puts equal rows into
//! the same tables of another database of the same server.

use std::time::Instant;

use futures::TryStreamExt;
use sea_orm::DatabaseConnection;
use sea_orm::sqlx::postgres::PgPoolCopyExt;

use crate::figures::Figures;
use crate::history::{analytics, text};
use crate::persister::{Written, other_database};
use crate::stores::Stores;
use crate::{RUNS, Scale};
use tests::deployment::Sql;

/// The events of a file, and its members.
const EVENTS: usize = 1_000_000;
const MEMBERS: usize = 50_000;

/// The part of the events that an ordinary import takes: it is many times as slow.
const ORDINARY_PART: usize = 10;

/// The tables that a bare copy fills, one after the other: a row refers to rows before it.
const TABLES: [&str; 4] = ["member", "commit", "score_event", "standing"];

/// Measures and adds the figures.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    for sql in [Sql::Sqlite, Sql::Postgres, Sql::Mariadb] {
        for run in 1..=RUNS {
            println!("import on {sql:?}, run {run}");
            let stores = Stores::open_on(sql, 1).await;
            let events = scale.of(EVENTS, 10_000);
            let all = generate(&stores, "all.parquet", (MEMBERS, events)).await;
            let part = (MEMBERS, events / ORDINARY_PART);
            let part = generate(&stores, "part.parquet", part).await;
            stores.create_board("ordinary", &[]).await;
            stores.create_board("b", &["daily".parse().unwrap()]).await;
            let ordinary = analytics(&stores, &["import", "--board", "ordinary", &part]).await;
            let bulk = analytics(&stores, &["import", "--board", "b", "--bulk", &all]).await;
            let bare = bare(sql, &stores).await;
            let what = format!("imported events that {sql:?} takes a second");
            let rate = |seconds: f64, count: usize| count as f64 / seconds;
            figures.add(&what, "", "bare copy", rate(bare, events));
            figures.add(&what, "", "--bulk", rate(bulk.seconds, events));
            let ordinary = rate(ordinary.seconds, events / ORDINARY_PART);
            figures.add(&what, "", "ordinary", ordinary);
            let what = format!("memory of an import at once into {sql:?}");
            figures.add(&what, "MB", "--bulk", bulk.memory_mb);
            stores.close().await;
        }
    }
}

/// Makes a file of so many members and events, and returns its path.
pub(crate) async fn generate(stores: &Stores, name: &str, counts: (usize, usize)) -> String {
    let path = stores.dir().join(name);
    let [members, events] = <[usize; 2]>::from(counts).map(|count| count.to_string());
    let how = ["generate", "--members", &members, "--events", &events, "--out", text(&path)];
    analytics(stores, &how).await;
    text(&path).to_owned()
}

/// The seconds that the rows of the import take where nothing else is done.
async fn bare(sql: Sql, stores: &Stores) -> f64 {
    let other = other_database(sql, stores).await;
    let db = &stores.deployment.db;
    crate::persister::copy_boards(db, &other).await;
    if sql == Sql::Postgres {
        return bare_copy(db, &other).await;
    }
    let written = Written::of_board(db, "b").await;
    let began = Instant::now();
    written.insert(&other).await;
    began.elapsed().as_secs_f64()
}

/// Copies the rows of a board from one database of PostgreSQL to another one. The reads do not
/// count.
async fn bare_copy(from: &DatabaseConnection, to: &DatabaseConnection) -> f64 {
    let (from, to) = (from.get_postgres_connection_pool(), to.get_postgres_connection_pool());
    let mut seconds = 0.0;
    for table in TABLES {
        let select = match table {
            "score_event" | "standing" => format!(
                r#"(SELECT e.* FROM "{table}" e JOIN "board" b ON b."no" = e."board_no" WHERE b."slug" = 'b')"#
            ),
            _ => format!(r#""{table}""#),
        };
        let out = format!("COPY {select} TO STDOUT WITH (FORMAT binary)");
        let parts: Vec<_> = from.copy_out_raw(&out).await.unwrap().try_collect().await.unwrap();
        let began = Instant::now();
        let copy = format!(r#"COPY "{table}" FROM STDIN WITH (FORMAT binary)"#);
        let mut copying = to.copy_in_raw(&copy).await.unwrap();
        for part in parts {
            copying.send(part).await.unwrap();
        }
        copying.finish().await.unwrap();
        seconds += began.elapsed().as_secs_f64();
    }
    seconds
}

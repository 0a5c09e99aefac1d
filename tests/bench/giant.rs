//! One rebuild of a board of a hundred million members with two events each: that it ends, and its
//! cost.

use crate::Scale;
use crate::figures::Figures;
use crate::history::{analytics, create, fill, python, run, text};
use crate::stores::Stores;

/// The board's members, and the events of each.
const MEMBERS: usize = 100_000_000;
const EVENTS_OF_MEMBER: usize = 2;

/// The board's shards, in as many partitions.
const SHARDS: u16 = 256;

/// Measures it once.
pub(crate) async fn measure(scale: Scale, figures: &mut Figures) {
    let members = scale.of(MEMBERS, 10_000);
    let stores = Stores::open(SHARDS).await;
    let python = python().await;
    let events = stores.dir().join("events.parquet");
    let counts = [members, EVENTS_OF_MEMBER].map(|count| count.to_string());
    run(&python, &["events.py", text(&events), &counts[0], &counts[1]]).await;
    let board = create(&stores, SHARDS).await;
    fill(&stores, &python, &events, &board).await;
    let before = stores.memory().await;
    let slug = format!("in-{SHARDS}");
    let rebuilt = analytics(&stores, &["rebuild", "--board", &slug]).await;
    let entries = rebuilt.said["entries"].as_f64().unwrap();
    assert_eq!(entries, members as f64, "every member has an entry");
    let what = format!("rebuild of {members} members from {} events", members * EVENTS_OF_MEMBER);
    let bytes = (stores.memory().await - before) / entries;
    figures.add(&what, "s", "wall time", rebuilt.seconds);
    figures.add("its memory", "MB", "analytics", rebuilt.memory_mb);
    figures.add("an entry's memory", "B", "Redis", bytes);
    stores.close().await;
}

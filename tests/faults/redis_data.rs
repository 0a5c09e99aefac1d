//! A Redis whose data are cut, lost, old, damaged, or written by another client.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tests::jobs::analytics::output_beside;
use tests::trial::world::{Shape, World};
use tokio::time::sleep;

use crate::fault::{Fault, Inject, Loses, Part, Refuses};

/// The longest time until a persister sees that entries are gone from a log.
const GAP_SEEN: Duration = Duration::from_secs(2);

/// A fault that may lose what only Redis had.
const fn losing(name: &'static str, does: &'static str, part: Part, inject: Inject) -> Fault {
    let (shape, loses, refuses) = (Shape::SQLITE, Loses::WithRedis, Refuses::Any);
    Fault { name, does, shape, loses, refuses, part, inject }
}

pub(crate) const FAULTS: &[Fault] = &[
    losing(
        "power_cut",
        "SIGKILL of Redis, and its append-only file cut at a random byte",
        Part::Short,
        |world, rng| Box::pin(cut_power(world, rng)),
    ),
    losing("emptied_redis", "FLUSHALL", Part::Soak, |world, _| Box::pin(empty(world))),
    losing("lost_redis_files", "Redis restarted without its files", Part::Soak, |world, rng| {
        Box::pin(lose_files(world, rng))
    }),
    losing(
        "old_redis",
        "Redis restarted with an older copy of its files",
        Part::Soak,
        |world, rng| Box::pin(put_old_files(world, rng)),
    ),
    losing(
        "damaged_redis_file",
        "a byte in the middle of the append-only file changed; the operator moves away a file that \
            Redis does not start with, and else repairs what `diff` finds",
        Part::Whole,
        |world, rng| Box::pin(damage_file(world, rng)),
    ),
    losing(
        "foreign_log_entry",
        "another client adds an entry to the log of each partition",
        Part::Whole,
        |world, _| Box::pin(add_foreign_entries(world)),
    ),
    losing(
        "trimmed_log",
        "another client drops all entries from the log of each partition",
        Part::Whole,
        |world, _| Box::pin(trim_logs(world)),
    ),
    losing(
        "last_log_id",
        "another client gives the log of each partition the last id that there is",
        Part::Whole,
        |world, _| Box::pin(exhaust_log_ids(world)),
    ),
    losing(
        "foreign_key",
        "another client replaces the standings of a board by a text, until an operator empties Redis",
        Part::Whole,
        |world, rng| Box::pin(replace_standings(world, rng)),
    ),
];

async fn cut_power(world: &mut World, rng: &mut StdRng) {
    let node = &mut world.redis[0];
    node.kill();
    let file = OpenOptions::new().write(true).open(node.log_file()).unwrap();
    let length = file.metadata().unwrap().len();
    // Mostly near the end, as what was synced long ago stays.
    let lost = match rng.random_bool(0.8) {
        true => rng.random_range(0..=length.min(200_000)),
        false => rng.random_range(0..=length),
    };
    file.set_len(length - lost).unwrap();
    node.launch();
}

async fn empty(world: &mut World) {
    let () = world.redis[0].ask(&["FLUSHALL"]);
}

async fn lose_files(world: &mut World, rng: &mut StdRng) {
    world.redis[0].kill();
    world.redis[0].put_files(None);
    sleep(world.duration(rng) / 4).await;
    world.redis[0].launch();
}

async fn put_old_files(world: &mut World, rng: &mut StdRng) {
    let copy = world.path("old-redis-files");
    let _ = std::fs::remove_dir_all(&copy);
    world.redis[0].copy_files(&copy);
    sleep(world.duration(rng)).await;
    world.redis[0].kill();
    world.redis[0].put_files(Some(&copy));
    world.redis[0].launch();
}

async fn damage_file(world: &mut World, rng: &mut StdRng) {
    world.redis[0].kill();
    let path = world.redis[0].log_file();
    let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    if length > 2 {
        file.seek(SeekFrom::Start(rng.random_range(length / 4..length / 2))).unwrap();
        let mut byte = [0];
        file.read_exact(&mut byte).unwrap();
        file.seek(SeekFrom::Current(-1)).unwrap();
        file.write_all(&[!byte[0]]).unwrap();
    }
    world.redis[0].spawn(&[]);
    sleep(world.duration(rng)).await;
    if world.redis[0].has_ended() {
        world.redis[0].kill();
        world.redis[0].put_files(None);
        world.redis[0].launch();
        return;
    }
    // Redis does not see a byte that changed within a value.
    let output = output_beside(&world.deployment, &["diff", "--full", "--repair"]).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "diff: {error}");
}

/// The keys with this ending, by the prefix of all of them.
fn keys(world: &World, ending: &str) -> Vec<String> {
    world.redis[0].ask(&["KEYS", &format!("laurel:{{*}}:{ending}")])
}

async fn add_foreign_entries(world: &mut World) {
    for key in keys(world, "log") {
        // The id is the present in milliseconds, far beyond a seq.
        let _: Option<String> = world.redis[0].try_ask(&["XADD", &key, "*", "foo", "bar"]);
    }
}

async fn trim_logs(world: &mut World) {
    for _ in 0..20 {
        for key in keys(world, "log") {
            let _: Option<i64> = world.redis[0].try_ask(&["XTRIM", &key, "MAXLEN", "0"]);
        }
        sleep(Duration::from_millis(25)).await;
    }
    // Until a persister sees the gap, writers go on behind it.
    sleep(GAP_SEEN).await;
}

async fn exhaust_log_ids(world: &mut World) {
    let last = format!("{0}-{0}", u64::MAX);
    for key in keys(world, "log") {
        let _: Option<String> = world.redis[0].try_ask(&["XADD", &key, &last, "foo", "bar"]);
    }
}

async fn replace_standings(world: &mut World, rng: &mut StdRng) {
    let found = keys(world, "z:*:all:all");
    if found.is_empty() {
        return;
    }
    let key = &found[rng.random_range(0..found.len())];
    world.load.expect_damage();
    let () = world.redis[0].ask(&["SET", key, "foreign"]);
    sleep(world.duration(rng)).await;
    let () = world.redis[0].ask(&["DEL", key]);
    // The content of the key is gone with it. So the operator empties Redis, and all is loaded
    // from SQL.
    let () = world.redis[0].ask(&["FLUSHALL"]);
}

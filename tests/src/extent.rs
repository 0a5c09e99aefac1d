//! The extent of a run: `make test` draws fewer games and databases than `make test-all`.

use std::sync::LazyLock;
use std::time::Duration;

use crate::deployment::Sql;

/// The database on which long tests run that are there for SQLite and for PostgreSQL.
static DRAWN: LazyLock<Sql> =
    LazyLock::new(|| if rand::random() { Sql::Sqlite } else { Sql::Postgres });

/// The time that a test of random queries is to take: `LAUREL_TEST_SECONDS`.
pub fn time() -> Option<Duration> {
    let seconds = std::env::var("LAUREL_TEST_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().unwrap()))
}

/// True if everything is wanted: `LAUREL_TEST_ALL` is 1.
pub fn is_all() -> bool {
    std::env::var("LAUREL_TEST_ALL").is_ok_and(|value| value == "1")
}

/// SQLite or PostgreSQL, for a long test that is there for both: a run of all tests draws one of
/// them, unless everything is wanted.
pub fn drawn(sql: Sql) -> Option<Sql> {
    let mut arguments = std::env::args().skip(1);
    let is_whole = !arguments.any(|argument| !argument.starts_with('-'));
    let is_due = is_all() || !is_whole || sql == *DRAWN;
    if !is_due {
        println!("on {:?} in this run: LAUREL_TEST_ALL=1 runs it on both", *DRAWN);
    }
    is_due.then_some(sql)
}

/// So few boards of a random test, or so many if everything is wanted.
pub fn boards([few, many]: [usize; 2]) -> usize {
    if is_all() { many } else { few }
}

/// One of so many steps, from any of the first on, or every step if everything is wanted.
pub fn steps<T: Copy>(rng: &mut impl rand::Rng, one_of: usize, of: &[T]) -> Vec<T> {
    let one_of = if is_all() { 1 } else { one_of };
    let first = rand::RngExt::random_range(rng, 0..one_of);
    of.iter().copied().skip(first).step_by(one_of).collect()
}

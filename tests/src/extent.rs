//! The extent of a run: `make test` draws fewer games and databases than `make test-all`.

/// True if everything is wanted: `LAUREL_TEST_ALL` is 1.
pub fn is_all() -> bool {
    std::env::var("LAUREL_TEST_ALL").is_ok_and(|value| value == "1")
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

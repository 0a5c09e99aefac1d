//! Whether two sides have the same rows, said by a sum: to look each row up takes many times as long, and is left for where the sums differ.

use std::hash::{BuildHasher, Hasher, RandomState};

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The rows of one side less those of the other, in whatever order they come: a sum of 128-bit hashes (XXH3). Their seed is another one each time, so nobody can make up rows
/// that cancel each other out; by chance others do so once in some 2¹²⁸ times.
pub struct Balance {
    seed: u64,
    sum: u128,
    row: Vec<u8>,
}

impl Balance {
    /// Of no rows.
    pub fn new() -> Self {
        Self {
            seed: RandomState::new().build_hasher().finish(),
            sum: 0,
            row: vec![],
        }
    }

    /// Adds a row of the one side.
    pub fn add(&mut self, segment: &str, member: &str, numbers: &[Option<i64>]) {
        let hash = self.hash(segment, member, numbers);
        self.sum = self.sum.wrapping_add(hash);
    }

    /// Takes a row of the other side away.
    pub fn take(&mut self, segment: &str, member: &str, numbers: &[Option<i64>]) {
        let hash = self.hash(segment, member, numbers);
        self.sum = self.sum.wrapping_sub(hash);
    }

    /// Whether both sides have the same rows, each as often.
    pub fn is_even(&self) -> bool {
        self.sum == 0
    }

    fn hash(&mut self, segment: &str, member: &str, numbers: &[Option<i64>]) -> u128 {
        self.row.clear();
        for text in [segment, member] {
            self.row.extend((text.len() as u64).to_le_bytes());
            self.row.extend(text.as_bytes());
        }
        for number in numbers {
            self.row.push(number.is_some().into());
            self.row.extend(number.unwrap_or_default().to_le_bytes());
        }
        xxh3_128_with_seed(&self.row, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Row = (String, String, Option<i64>);

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let row = ("[ab]{0,2}", "[ab]{0,2}", proptest::option::of(0..3_i64));
        proptest::collection::vec(row, 0..5)
    }

    proptest! {
        #[test]
        fn it_is_even_where_both_sides_have_the_same_rows(
            (one, other) in (rows(), rows()).prop_flat_map(|(one, other)| {
                let shuffled = Just(one.clone()).prop_shuffle();
                (Just(one), prop_oneof![shuffled, Just(other)])
            })
        ) {
            let mut balance = Balance::new();
            for (segment, member, number) in &one {
                balance.add(segment, member, &[*number]);
            }
            for (segment, member, number) in &other {
                balance.take(segment, member, &[*number]);
            }
            let sorted = |mut rows: Vec<Row>| {
                rows.sort();
                rows
            };
            prop_assert_eq!(balance.is_even(), sorted(one) == sorted(other));
        }
    }
}

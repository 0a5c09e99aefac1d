//! Compares two sets of rows by a sum of hashes. A look-up of each row takes many times as long,
//! and is only needed if the sums differ.

use std::hash::{BuildHasher, Hasher, RandomState};

use entity::sql::blocks::hash_of_row;

/// The rows of one side minus those of the other, in any order: a sum of 128-bit hashes (XXH3). The
/// seed is random, so that no client can make up rows that cancel each other out. By chance that
/// happens once in some 2¹²⁸ times.
pub struct MultisetHash {
    seed: u64,
    sum: u128,
    /// A buffer for one row.
    row: Vec<u8>,
}

impl MultisetHash {
    /// The sum of no rows.
    pub fn new() -> Self {
        Self { seed: RandomState::new().build_hasher().finish(), sum: 0, row: vec![] }
    }

    /// Adds a row of one side.
    pub fn add(&mut self, segment: &str, member: &str, numbers: &[Option<i64>]) {
        let hash = self.hash(segment, member, numbers);
        self.sum = self.sum.wrapping_add(hash);
    }

    /// Subtracts a row of the other side.
    pub fn take(&mut self, segment: &str, member: &str, numbers: &[Option<i64>]) {
        let hash = self.hash(segment, member, numbers);
        self.sum = self.sum.wrapping_sub(hash);
    }

    /// True if both sides have the same rows, each equally often.
    pub fn is_zero(&self) -> bool {
        self.sum == 0
    }

    fn hash(&mut self, segment: &str, member: &str, numbers: &[Option<i64>]) -> u128 {
        let (texts, numbers) = ([segment, member], numbers.iter().copied());
        hash_of_row(self.seed, texts, numbers, &mut self.row)
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
            let mut balance = MultisetHash::new();
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
            prop_assert_eq!(balance.is_zero(), sorted(one) == sorted(other));
        }
    }
}

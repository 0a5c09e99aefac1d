//! One of several parts of a job: its text, and its share of the partitions.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ranking::id::PartitionNo;

/// The most parts of a job.
pub const PARTS_MAX: u16 = 1000;

/// One of several parts of a job, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    index: u16,
    count: u16,
}

impl Part {
    /// Its place among the parts, from 0.
    pub fn index(self) -> u16 {
        self.index
    }

    /// The number of all parts.
    pub fn count(self) -> u16 {
        self.count
    }

    /// The numbers of the partitions that belong to it, those of `partitions` and all others:
    /// every number belongs to one part. The shares of `partitions`, which are in ascending order,
    /// differ by one at most. `None` if there are fewer of them than parts.
    pub fn share(self, partitions: &[PartitionNo]) -> Option<RangeInclusive<u16>> {
        let count = usize::from(self.count);
        if partitions.len() < count {
            return None;
        }
        let first = |index: u16| match index {
            0 => 0,
            index => partitions[usize::from(index) * partitions.len() / count].0,
        };
        let last = match self.index + 1 {
            next if next == self.count => u16::MAX,
            next => first(next) - 1,
        };
        Some(first(self.index)..=last)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let numbers = text.split_once('/');
        let numbers =
            numbers.and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if index < count && count <= PARTS_MAX => {
                Ok(Self { index, count })
            }
            _ => Err(format!(
                "invalid part {text:?}: expected K/N, such as 0/4, with N parts up to {PARTS_MAX}, and K from 0 to N - 1"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_partition_belongs_to_one_part(
            mut numbers in proptest::collection::btree_set(0u16..4096, 1..300),
            count in 1u16..=300,
            asked in any::<u16>(),
        ) {
            let partitions: Vec<PartitionNo> = numbers.iter().copied().map(PartitionNo).collect();
            let shares: Vec<_> =
                (0..count).map(|index| Part { index, count }.share(&partitions)).collect();
            if partitions.len() < usize::from(count) {
                prop_assert!(shares.iter().all(Option::is_none));
                return Ok(());
            }
            numbers.insert(asked);
            for number in numbers {
                let owners = shares.iter().flatten().filter(|share| share.contains(&number));
                prop_assert_eq!(owners.count(), 1, "{}", number);
            }
            let sizes: Vec<usize> = shares
                .iter()
                .flatten()
                .map(|share| partitions.iter().filter(|no| share.contains(&no.0)).count())
                .collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            prop_assert!(*least > 0 && most - least <= 1, "{:?}", sizes);
        }
    }

    #[test]
    fn a_part_is_its_index_of_a_number() {
        for text in ["0/1", "3/16", "999/1000"] {
            assert_eq!(text.parse::<Part>().unwrap().to_string(), text);
        }
        for text in ["", "1", "4/4", "0/0", "-1/4", "0/1001", "1/2/3", "a/b"] {
            let refused = text.parse::<Part>().unwrap_err();
            assert!(refused.contains("expected K/N"), "{refused}");
        }
    }
}

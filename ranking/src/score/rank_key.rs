//! The rank key: score and tie-break as one 62-bit number that a Redis double carries exactly.
//!
//! Positive finite doubles are ordered like their bit patterns, so Redis stores the key K as the
//! double with the bits `0x3FF0_0000_0000_0000 + K`: from 1.0 for 0 up to `f64::MAX` for 2⁶² − 1. A
//! smaller key ranks higher on every board. Direction and tie-break are encoded here and, as polars
//! expressions that a property test holds equal, in `analytics`.

use std::ops::Range;

use crate::board::{Direction, TieBreak};
use crate::error::{Error, Result};

/// The bits of a rank key.
pub const KEY_BITS: u32 = 62;

const KEY_MAX: i64 = (1 << KEY_BITS) - 1;
const DOUBLE_BITS_OF_ZERO: u64 = 0x3FF0_0000_0000_0000;

/// Score and tie-break as one number from 0 to 2⁶² − 1; smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RankKey(i64);

impl RankKey {
    /// The key with this number, as SQL holds it.
    ///
    /// # Errors
    /// `Corrupt` unless it is from 0 to 2⁶² − 1.
    pub fn from_i64(key: i64) -> Result<Self> {
        if (0..=KEY_MAX).contains(&key) {
            Ok(Self(key))
        } else {
            Err(Error::corrupt(format!("{key} is not a rank key")))
        }
    }

    /// Its number.
    pub fn to_i64(self) -> i64 {
        self.0
    }

    /// The double that Redis orders by.
    pub fn to_f64(self) -> f64 {
        f64::from_bits(DOUBLE_BITS_OF_ZERO + self.0.unsigned_abs())
    }

    /// The key of a double read from Redis.
    ///
    /// # Errors
    /// `Corrupt` if no key has that double: another program wrote it.
    pub fn from_f64(double: f64) -> Result<Self> {
        let foreign =
            || Error::corrupt(format!("the sorted-set score {double:e} is not a rank key"));
        let key = double.to_bits().checked_sub(DOUBLE_BITS_OF_ZERO).ok_or_else(foreign)?;
        i64::try_from(key).ok().filter(|&key| key <= KEY_MAX).map(Self).ok_or_else(foreign)
    }

    /// The text sent to Redis: the shortest that names this double, at most 17 significant digits.
    pub fn to_redis(self) -> String {
        ryu::Buffer::new().format_finite(self.to_f64()).to_owned()
    }
}

/// The layout of a window's keys: `score field << T | time field`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLayout {
    direction: Direction,
    tie_break: TieBreak,
    low: i64,
    high: i64,
    time_bits: u32,
}

impl KeyLayout {
    /// The layout for raw scores from `low` to `high`, which differ by less than 2⁶². The score
    /// gets as few bits as it needs, time the rest.
    pub fn new(direction: Direction, tie_break: TieBreak, low: i64, high: i64) -> Self {
        let score_bits = u64::BITS - high.abs_diff(low).leading_zeros();
        let time_bits =
            if tie_break == TieBreak::Member { 0 } else { KEY_BITS.saturating_sub(score_bits) };
        Self { direction, tie_break, low, high, time_bits }
    }

    /// T, the bits of the time field.
    pub fn time_bits(self) -> u32 {
        self.time_bits
    }

    /// The key of a raw score reached `ticks` after the period's first tick; ticks do not count if
    /// ties go by member. `None` if the score or the ticks do not fit.
    pub fn encode(self, score: i64, ticks: i64) -> Option<RankKey> {
        if !(self.low..=self.high).contains(&score) {
            return None;
        }
        let time_field = match self.tie_break {
            TieBreak::Member => 0,
            TieBreak::Earliest => ticks,
            TieBreak::Latest => self.time_max() - ticks,
        };
        if !(0..=self.time_max()).contains(&time_field) {
            return None;
        }
        Some(RankKey((self.score_field(score) << self.time_bits) | time_field))
    }

    /// The raw score in a key, and its ticks after the period's first tick; `None` if ties go by
    /// member.
    pub fn decode(self, key: RankKey) -> (i64, Option<i64>) {
        let (score_field, time_field) = (key.0 >> self.time_bits, key.0 & self.time_max());
        let score = match self.direction {
            Direction::HighFirst => self.high - score_field,
            Direction::LowFirst => self.low + score_field,
        };
        let ticks = match self.tie_break {
            TieBreak::Member => None,
            TieBreak::Earliest => Some(time_field),
            TieBreak::Latest => Some(self.time_max() - time_field),
        };
        (score, ticks)
    }

    /// The time fields of the keys reached in a range of ticks after the period's first one; `None`
    /// if ties go by member.
    pub fn time_fields(self, ticks: Range<i64>) -> Option<Range<i64>> {
        let count = self.time_max() + 1;
        let (first, end) = (ticks.start.clamp(0, count), ticks.end.clamp(0, count));
        match self.tie_break {
            TieBreak::Member => None,
            TieBreak::Earliest => Some(first..end),
            TieBreak::Latest => Some(count - end..count - first),
        }
    }

    /// The smallest key with the score of `key`: a smaller key has a better score.
    pub fn first_of_score(self, key: RankKey) -> RankKey {
        RankKey((key.0 >> self.time_bits) << self.time_bits)
    }

    /// The smallest key of the next worse score; `None` after the last one.
    pub fn next_score(self, key: RankKey) -> Option<RankKey> {
        let next = ((key.0 >> self.time_bits) + 1) << self.time_bits;
        (next <= KEY_MAX).then_some(RankKey(next))
    }

    fn score_field(self, score: i64) -> i64 {
        match self.direction {
            Direction::HighFirst => self.high - score,
            Direction::LowFirst => score - self.low,
        }
    }

    fn time_max(self) -> i64 {
        (1 << self.time_bits) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn layouts() -> impl Strategy<Value = KeyLayout> {
        let range = (1_u32..=54).prop_flat_map(|bits| (1_i64 << (bits - 1))..(1_i64 << bits));
        (
            prop_oneof![Just(Direction::HighFirst), Just(Direction::LowFirst)],
            prop_oneof![Just(TieBreak::Earliest), Just(TieBreak::Latest), Just(TieBreak::Member)],
            -(1_i64 << 53)..(1_i64 << 53),
            range,
        )
            .prop_map(|(direction, tie_break, low, span)| {
                KeyLayout::new(direction, tie_break, low, low + span)
            })
    }

    /// A layout and two entries in it, with few distinct ones, so that ties abound.
    fn places() -> impl Strategy<Value = (KeyLayout, [(i64, i64); 2])> {
        layouts().prop_flat_map(|layout| {
            let ticks_max = if layout.time_bits == 0 { 0 } else { layout.time_max() };
            let score = prop_oneof![layout.low..=layout.high, Just(layout.low), Just(layout.high)];
            let ticks = prop_oneof![0..=ticks_max, Just(0), Just(ticks_max)];
            let place = (score, ticks);
            (Just(layout), [place.clone(), place])
        })
    }

    fn by_rules(layout: KeyLayout, a: (i64, i64), b: (i64, i64)) -> Ordering {
        let by_score = match layout.direction {
            Direction::HighFirst => b.0.cmp(&a.0),
            Direction::LowFirst => a.0.cmp(&b.0),
        };
        by_score.then(match layout.tie_break {
            TieBreak::Earliest => a.1.cmp(&b.1),
            TieBreak::Latest => b.1.cmp(&a.1),
            TieBreak::Member => Ordering::Equal,
        })
    }

    proptest! {
        #[test]
        fn the_better_place_has_the_smaller_key((layout, [a, b]) in places()) {
            let key = |(score, ticks)| layout.encode(score, ticks).unwrap();
            prop_assert_eq!(key(a).cmp(&key(b)), by_rules(layout, a, b));
            prop_assert_eq!(key(a).to_f64().total_cmp(&key(b).to_f64()), by_rules(layout, a, b));
        }

        #[test]
        fn a_key_gives_back_what_it_was_made_of((layout, [a, _]) in places()) {
            let key = layout.encode(a.0, a.1).unwrap();
            prop_assert_eq!(layout.decode(key), (a.0, (layout.tie_break != TieBreak::Member).then_some(a.1)));
            prop_assert_eq!(RankKey::from_f64(key.to_redis().parse().unwrap()), Ok(key));
            prop_assert_eq!(RankKey::from_i64(key.to_i64()), Ok(key));
        }

        #[test]
        fn a_range_of_ticks_is_one_of_time_fields((layout, [a, b]) in places()) {
            let field = layout.encode(a.0, a.1).unwrap().to_i64() % (1 << layout.time_bits());
            let is_in = |ticks| layout.time_fields(ticks).map(|fields| fields.contains(&field));
            let timed = |is_in| (layout.tie_break != TieBreak::Member).then_some(is_in);
            prop_assert_eq!(is_in(b.1..i64::MAX), timed(a.1 >= b.1));
            prop_assert_eq!(is_in(i64::MIN..b.1), timed(a.1 < b.1));
        }

        #[test]
        fn what_is_out_of_range_has_no_key((layout, [a, _]) in places()) {
            prop_assert_eq!(layout.encode(layout.low - 1, a.1), None);
            prop_assert_eq!(layout.encode(layout.high + 1, a.1), None);
            if layout.tie_break != TieBreak::Member {
                prop_assert_eq!(layout.encode(a.0, -1), None);
                prop_assert_eq!(layout.encode(a.0, layout.time_max() + 1), None);
            }
        }

        #[test]
        fn whoever_is_below_the_first_key_of_a_score_has_a_better_one((layout, [a, b]) in places()) {
            let key = |(score, ticks)| layout.encode(score, ticks).unwrap();
            let better = key(b) < layout.first_of_score(key(a));
            prop_assert_eq!(better, key(b) < key(a) && b.0 != a.0);
            let worse = layout.next_score(key(a)).is_some_and(|next| key(b) >= next);
            prop_assert_eq!(worse, key(b) > key(a) && b.0 != a.0);
        }
    }

    #[test]
    fn the_ends_of_the_key_are_doubles_of_their_own() {
        assert_eq!(RankKey(0).to_f64().to_bits(), 1.0_f64.to_bits());
        assert_eq!(RankKey(KEY_MAX).to_f64().to_bits(), f64::MAX.to_bits());
        for foreign in [0.0, -1.0, 0.999, f64::INFINITY, f64::NAN, -f64::MAX] {
            assert!(RankKey::from_f64(foreign).is_err(), "{foreign}");
        }
        assert!(RankKey::from_i64(-1).is_err() && RankKey::from_i64(KEY_MAX + 1).is_err());
    }
}

//! Decaying windows: a score loses half its weight with every half-life that passes.
//!
//! Decay is counted forward (Cormode, Shkapenyuk, Srivastava and Xu, "Forward Decay", ICDE 2009):
//! an event weighs value · 2^(t / half-life), with t since 1970. Time that passes shrinks all
//! weights alike, so their order stays and nothing is rewritten. The score at an instant is the sum
//! divided by 2^(instant / half-life).
//!
//! Such sums exceed the exponents of a double by far: with a half-life of an hour, today's are
//! around 2^500,000. A sum is therefore a 62-bit floating-point number of our own, a
//! [code](HalfLife::code): a sign, as many exponent bits as the half-life needs until 2100, and the
//! rest for the fraction. Codes compare as the numbers that they stand for, so a rank key holds
//! them as it holds raw scores.
//!
//! Rounding depends on the order of additions. Every path folds a member's events in the order of
//! their acceptance, and `exp2` comes from one library on all machines, so live and rebuilt
//! standings are equal to the last bit. The error of a sum of n events is at most n ·
//! (2^−[bits](HalfLife::fraction_bits) + 2^−50) times the sum of their magnitudes: an event and its
//! addition are each rounded to half of the last bit, and the intermediate doubles to four units in
//! theirs. An addition whose scores cancel each other out loses less than a score of 1 as of 1970.

use crate::window::{HalfLife, REACH_MS};

/// The largest code: 61 bits and a sign.
pub const CODE_MAX: i64 = (1 << 61) - 1;

/// The doublings of the largest raw score that a sum has room for: more than there can be events.
const HEADROOM: i64 = 128;

/// A number as m · 2^e, where 1 ≤ |m| < 2, or 0 and 0.
#[derive(Debug, Clone, Copy)]
struct Scaled {
    m: f64,
    e: i64,
}

impl Scaled {
    /// x · 2^e.
    fn new(x: f64, e: i64) -> Self {
        const EXPONENT: u64 = 0x7FF << 52;
        if x == 0.0 {
            return Self { m: 0.0, e: 0 };
        }
        let bits = x.to_bits();
        let own = ((bits & EXPONENT) >> 52) as i64 - 1023;
        Self { m: f64::from_bits((bits & !EXPONENT) | (1023 << 52)), e: e + own }
    }

    /// m · 2^(its exponent − `e`); 0 or infinite if no double holds it.
    fn relative_to(self, e: i64) -> f64 {
        self.m * libm::exp2((self.e - e) as f64)
    }
}

impl HalfLife {
    /// The bits of a sum's fraction: 40 with a half-life of an hour, 48 with a week. Adding an
    /// event rounds to half of the last bit.
    pub fn fraction_bits(self) -> u32 {
        let exponents = REACH_MS / self.ms() + HEADROOM;
        let exponent_bits = u64::BITS - exponents.unsigned_abs().leading_zeros();
        (61 - exponent_bits).min(f64::MANTISSA_DIGITS - 1)
    }

    /// The code of a value (in units of the raw score) reached at an instant (Unix milliseconds,
    /// not before 1970); more than [`CODE_MAX`] for a time too late to have a code.
    pub fn code(self, value: f64, at_ms: i64) -> i64 {
        let part = (at_ms % self.ms()) as f64 / self.ms() as f64;
        self.encode(Scaled::new(value * libm::exp2(part), at_ms / self.ms()))
    }

    /// The code of the sum of two codes.
    pub fn add(self, a: i64, b: i64) -> i64 {
        if a == 0 || b == 0 {
            return a + b;
        }
        let (a, b) = (self.decode(a), self.decode(b));
        let e = a.e.max(b.e);
        self.encode(Scaled::new(a.relative_to(e) + b.relative_to(e), e))
    }

    /// The value of a code at an instant, in units of the raw score; 0 once it is too small for a
    /// double.
    pub fn value(self, code: i64, at_ms: i64) -> f64 {
        let part = (at_ms % self.ms()) as f64 / self.ms() as f64;
        self.decode(code).relative_to(at_ms / self.ms()) * libm::exp2(-part)
    }

    fn encode(self, number: Scaled) -> i64 {
        let bits = self.fraction_bits();
        // The remainder of sums that cancelled out lies below the weight of any event: it counts as
        // 0.
        if number.m == 0.0 || number.e < 0 {
            return 0;
        }
        if number.e >= CODE_MAX >> bits {
            return (CODE_MAX + 1) * number.m.signum() as i64;
        }
        let fraction = (number.m.abs() - 1.0) * (1_u64 << bits) as f64;
        // A fraction rounded up to 1 carries into the exponent.
        let magnitude = (number.e << bits) + fraction.round() as i64 + 1;
        magnitude * number.m.signum() as i64
    }

    fn decode(self, code: i64) -> Scaled {
        let bits = self.fraction_bits();
        if code == 0 {
            return Scaled::new(0.0, 0);
        }
        let magnitude = code.abs() - 1;
        let fraction = magnitude & ((1 << bits) - 1);
        let m = 1.0 + fraction as f64 / (1_u64 << bits) as f64;
        Scaled { m: m * code.signum() as f64, e: magnitude >> bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::RAW_MAX;
    use crate::window::Window;
    use proptest::prelude::*;

    fn half_life(name: &str) -> HalfLife {
        name.parse::<Window>().unwrap().half_life().unwrap()
    }

    fn half_lives() -> impl Strategy<Value = HalfLife> {
        let names = ["decay:1h", "decay:36h", "decay:7d", "decay:1w", "decay:366w"];
        proptest::sample::select(names.to_vec()).prop_map(half_life)
    }

    /// Raw scores of every size.
    fn scores() -> impl Strategy<Value = i64> {
        (0_u32..=53, -RAW_MAX..=RAW_MAX).prop_map(|(bits, score)| score >> bits)
    }

    #[test]
    fn a_score_halves_with_every_half_life() {
        let week = half_life("decay:7d");
        let at_ms = 1_756_900_000_000;
        let code = week.code(1000.0, at_ms);
        for halvings in 0..20 {
            let later_ms = at_ms + halvings * week.ms();
            let expected = 1000.0 / 2_f64.powi(halvings as i32);
            assert!((week.value(code, later_ms) / expected - 1.0).abs() < 1e-14);
        }
        let half_way = week.value(code, at_ms + week.ms() / 2);
        assert!((half_way - 1000.0 / 2_f64.sqrt()).abs() < 1e-9);
        assert_eq!(week.value(code, at_ms + 2000 * week.ms()), 0.0);
    }

    #[test]
    fn a_time_too_late_has_no_code() {
        let hour = half_life("decay:1h");
        assert!(hour.code(RAW_MAX as f64, REACH_MS) <= CODE_MAX);
        assert!(hour.code(1.0, 2 * REACH_MS) > CODE_MAX);
        assert!(hour.code(-1.0, 2 * REACH_MS) < -CODE_MAX);
        assert!(hour.code(1.0, crate::window::AT_MS_MAX) > CODE_MAX);
    }

    proptest! {
        #[test]
        fn codes_compare_as_the_values_they_stand_for(half_life in half_lives(), a in scores(), b in scores(), at_ms in 0..REACH_MS) {
            let code = |score: i64| half_life.code(score as f64, at_ms);
            prop_assert!(code(a).cmp(&code(b)) == a.cmp(&b) || code(a) == code(b));
            let bits = half_life.fraction_bits();
            if (a - b).unsigned_abs() > a.unsigned_abs() >> (bits - 1) {
                prop_assert_ne!(code(a), code(b));
            }
            prop_assert!(code(a).abs() <= CODE_MAX);
            prop_assert_eq!(code(-a), -code(a));
        }

        #[test]
        fn sums_are_within_their_tolerance(half_life in half_lives(), events in proptest::collection::vec((scores(), 0_i64..200), 1..60), now_ms in 1_000_000_000_000..REACH_MS) {
            // Events spread over the last 40 half-lives, in any order.
            let at_ms = |age: i64| now_ms - age * (half_life.ms() / 5).min(now_ms / 200);
            let mut sum = None;
            let (mut expected, mut gross) = (0.0, 0.0);
            for &(score, age) in &events {
                let code = half_life.code(score as f64, at_ms(age));
                sum = Some(sum.map_or(code, |sum| half_life.add(sum, code)));
                // Whole and fractional half-lives are kept apart: in one double the whole part
                // would take the fraction's bits.
                let age_ms = now_ms - at_ms(age);
                let part = (age_ms % half_life.ms()) as f64 / half_life.ms() as f64;
                let weight = (-part).exp2() / 2_f64.powi((age_ms / half_life.ms()) as i32);
                expected += score as f64 * weight;
                gross += score.abs() as f64 * weight;
            }
            // The expected value is rounded, too.
            let rounding = 0.5_f64.powi(half_life.fraction_bits() as i32) + 2.0 * 0.5_f64.powi(50);
            let tolerance = events.len() as f64 * gross * rounding;
            let value = half_life.value(sum.unwrap(), now_ms);
            prop_assert!((value - expected).abs() <= tolerance, "{value} beside {expected}, {tolerance} off at most");
        }

        #[test]
        fn what_is_added_and_taken_again_leaves_nothing(half_life in half_lives(), score in scores(), at_ms in 0..REACH_MS) {
            let code = half_life.code(score as f64, at_ms);
            prop_assert_eq!(half_life.add(code, -code), 0);
            prop_assert_eq!(half_life.add(code, 0), code);
        }
    }
}

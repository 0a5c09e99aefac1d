//! Scores that decay, as sums of doubles.

use std::collections::{BTreeMap, BTreeSet};

use ranking::window::HalfLife;

/// A raw score and when it was earned.
pub type Earned = (i64, i64);

/// The worth of scores at an instant, and how far the service may be off.
pub fn worth(events: &[Earned], half_life: HalfLife, at_ms: i64) -> (f64, f64) {
    let weight = |earned_ms: i64| ((earned_ms - at_ms) as f64 / half_life.ms() as f64).exp2();
    let sum = events.iter().map(|&(score, at)| score as f64 * weight(at)).sum();
    let gross: f64 = events.iter().map(|&(score, at)| score.abs() as f64 * weight(at)).sum();
    let unit = 2_f64.powi(1 - half_life.fraction_bits() as i32);
    let off = gross * unit * (events.len() + 2) as f64;
    // An addition whose remainder is below one unit as of 1970 leaves 0. Next to 0, doubles have
    // fewer digits.
    let lost = weight(0) * events.len() as f64;
    (sum, off + lost + f64::MIN_POSITIVE)
}

/// Checks that members are ordered by the worth of their scores, and by their bytes where the worth
/// is equal.
pub fn check_order(members: &[&str], earned: &BTreeMap<&str, Vec<Earned>>, half_life: HalfLife) {
    let got: BTreeSet<&str> = members.iter().copied().collect();
    assert_eq!(got, earned.keys().copied().collect());
    assert_eq!(got.len(), members.len());
    for pair in members.windows(2) {
        let [above, below] = [&earned[pair[0]], &earned[pair[1]]];
        let latest_ms = above.iter().chain(below).map(|(_, at_ms)| *at_ms).max();
        let [(a, a_off), (b, b_off)] =
            [above, below].map(|events| worth(events, half_life, latest_ms.unwrap()));
        assert!(a + a_off >= b - b_off, "{pair:?}: {a} above {b}");
        if above == below {
            assert!(pair[0].as_bytes() < pair[1].as_bytes(), "{pair:?}");
        }
    }
}

/// Checks the worth of a code as of the latest event, and at a later instant.
pub fn check_code(code: i64, events: &[Earned], half_life: HalfLife, now_ms: i64) {
    let latest_ms = events.iter().map(|(_, at_ms)| *at_ms).max();
    for at_ms in latest_ms.into_iter().chain([now_ms]).filter(|at_ms| Some(*at_ms) >= latest_ms) {
        let (expected, off) = worth(events, half_life, at_ms);
        let value = half_life.value(code, at_ms);
        assert!(
            (value - expected).abs() <= off,
            "{value} beside {expected} of {events:?}, {off} off"
        );
    }
}

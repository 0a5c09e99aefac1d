//! Zipf's law: of n members, the k-th is drawn with a probability proportional to 1 / k.
//!
//! Uses rejection-inversion (Hörmann and Derflinger, ACM TOMACS 1996): constant time, no table.
//! Logarithms are `libm`'s, so that all machines agree.

use super::random::Random;

/// The law for a number of members.
pub(crate) struct Zipf {
    members: u64,
    /// The integral of 1 / x at the upper and the lower end of the law.
    high: f64,
    low: f64,
    /// A draw this close to a member's number is taken without a look at the curve.
    sure: f64,
}

impl Zipf {
    /// The law for at least one member.
    pub(crate) fn new(members: u64) -> Self {
        Self {
            members,
            high: libm::log(members as f64 + 0.5),
            low: libm::log(1.5) - 1.0,
            sure: 2.0 - libm::exp(libm::log(2.5) - 0.5),
        }
    }

    /// A member's number, from 1.
    pub(crate) fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let x = libm::exp(area);
            let number = ((x + 0.5) as u64).clamp(1, self.members);
            let k = number as f64;
            if k - x <= self.sure || area >= libm::log(k + 0.5) - 1.0 / k {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_k_th_member_is_met_in_proportion_to_one_over_k() {
        const SAMPLES: u32 = 400_000;
        for members in [1, 2, 10, 1000] {
            let (zipf, mut random) = (Zipf::new(members), Random::new(members));
            let mut counts = vec![0_u32; members as usize + 1];
            for _ in 0..SAMPLES {
                counts[zipf.sample(&mut random) as usize] += 1;
            }
            assert_eq!(counts[0], 0);
            let harmonic: f64 = (1..=members).map(|k| 1.0 / k as f64).sum();
            for k in [1, 2, 3, 10, 100].into_iter().filter(|&k| k <= members) {
                let expected = f64::from(SAMPLES) / (k as f64 * harmonic);
                let off = (f64::from(counts[k as usize]) - expected).abs();
                assert!(off < 6.0 * expected.sqrt(), "{k} of {members}: {off} off {expected}");
            }
        }
    }
}

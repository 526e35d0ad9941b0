//! Owns `SplitMix64`: numbers that depend only on a seed, the same on every machine and in every
//! version. Its numbers are not secret: the kernel provides secrets.
//!
//! Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.

/// The step of the generator: 2⁶⁴ divided by the golden ratio.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function: a permutation in which each bit depends on every other.
#[must_use]
#[inline]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A generator with this state.
#[derive(Clone, Debug)]
pub struct Seeded(pub u64);

impl Seeded {
    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `bound`, which is not 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// Whether a number below `bound`, which is not 0, is 0.
    pub const fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference() {
        // The values come from the C program of S. Vigna, seed 1234567.
        let mut seeded = Seeded(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| seeded.draw()).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
        assert!((0..1_000).all(|_| seeded.below(7) < 7));
    }
}

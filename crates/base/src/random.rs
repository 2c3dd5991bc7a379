//! Random numbers that come again with the same seed. They choose and fill; they keep no secret.

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014): one word of state, about a nanosecond for a number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`. Those of close seeds have nothing in common.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A sequence of its own for something that has a name of several numbers, as the third container of place 17. What it
    /// draws does not depend on what was drawn for others.
    #[must_use]
    pub fn of(name: &[u64]) -> Self {
        Self(name.iter().fold(0, |state, part| mix(state ^ mix(*part))))
    }

    /// The next 64 bits.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        number
    }

    /// A number from 0 to `bound - 1`, without a division.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// 2^64 over the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The number that splitmix64 makes of a state: every input bit changes half of the output bits.
#[inline]
#[must_use]
pub fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(STEP);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the authors' program for the seed 1234567.
    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let numbers = [(); 3].map(|()| random.next());
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut random = Random::new(7);
        let mut seen = [0; 10];
        (0..10_000).for_each(|_| seen[random.below(10) as usize] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert!((0..10_000).all(|_| (0.0..1.0).contains(&random.unit())));
    }

    #[test]
    fn names_give_sequences_of_their_own() {
        assert_eq!(Random::of(&[1, 2]).next(), Random::of(&[1, 2]).next());
        assert_ne!(Random::of(&[1, 2]).next(), Random::of(&[2, 1]).next());
        assert_ne!(Random::of(&[1]).next(), Random::of(&[1, 0]).next());
    }

    #[test]
    fn close_seeds_differ() {
        let mean = (0..1000).map(|seed| Random::new(seed).unit()).sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}

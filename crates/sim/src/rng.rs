//! Random numbers that a seed decides, and that no other draw can shift.

/// splitmix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed))
    }

    /// A sequence of its own for something that has a name of several numbers, as the third container of place 17. What it draws does not depend on what was
    /// drawn for others, so that runs with different placers see the same load.
    #[must_use]
    pub fn of(name: &[u64]) -> Rng {
        Rng(name.iter().fold(0, |state, part| mix(state ^ mix(*part))))
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        finalise(self.0)
    }

    /// A number from 0 to `bound - 1`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn mix(value: u64) -> u64 {
    finalise(value.wrapping_add(0x9E37_79B9_7F4A_7C15))
}

fn finalise(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_sequences_of_their_own() {
        assert_eq!(Rng::of(&[1, 2]).next(), Rng::of(&[1, 2]).next());
        assert_ne!(Rng::of(&[1, 2]).next(), Rng::of(&[2, 1]).next());
        assert_ne!(Rng::of(&[1]).next(), Rng::of(&[1, 0]).next());
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut rng = Rng::new(7);
        let mut seen = [0; 10];
        (0..10_000).for_each(|_| seen[rng.below(10) as usize] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert!((0..10_000).all(|_| (0.0..1.0).contains(&rng.unit())));
    }
}

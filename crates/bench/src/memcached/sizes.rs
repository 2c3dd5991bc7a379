//! How long the value of each key is.

use crate::rng::mix;

/// Numbers of keys decide the keys themselves too; this makes the lengths independent of what follows from them.
const SALT: u64 = 0x5126_57A1;

/// Bytes of values. A key's value keeps its length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sizes {
    /// All the same.
    Same(usize),
    /// Percent of the keys, and bytes of their values; the percentages sum to 100.
    Mixed(&'static [(u64, usize)]),
}

impl From<usize> for Sizes {
    fn from(bytes: usize) -> Self {
        Self::Same(bytes)
    }
}

impl Sizes {
    /// Bytes of the value of a key.
    pub fn of(self, key: u64) -> usize {
        match self {
            Self::Same(bytes) => bytes,
            Self::Mixed(parts) => {
                let mut drawn = mix(key ^ SALT) % 100;
                let part = parts.iter().find(|(percent, _)| match drawn.checked_sub(*percent) {
                    Some(rest) => {
                        drawn = rest;
                        false
                    }
                    None => true,
                });
                part.map_or(0, |(_, bytes)| *bytes)
            }
        }
    }

    /// Bytes of the longest value.
    pub fn largest(self) -> usize {
        match self {
            Self::Same(bytes) => bytes,
            Self::Mixed(parts) => parts.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0),
        }
    }

    /// Bytes of a value on average, over the keys.
    pub fn mean(self) -> f64 {
        match self {
            Self::Same(bytes) => bytes as f64,
            Self::Mixed(parts) => {
                parts.iter().map(|(percent, bytes)| *percent as f64 * *bytes as f64).sum::<f64>() / 100.0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_frequent_as_was_asked_for() {
        let sizes = Sizes::Mixed(&[(70, 64), (20, 300), (10, 1000)]);
        assert_eq!((sizes.largest(), sizes.mean()), (1000, 204.8));
        let count = |bytes| (0..100_000).filter(|key| sizes.of(*key) == bytes).count();
        for (bytes, percent) in [(64, 70), (300, 20), (1000, 10)] {
            assert!(count(bytes).abs_diff(percent * 1000) < 500, "{bytes}: {}", count(bytes));
        }
        assert_eq!(Sizes::from(7).of(3), 7);
    }
}

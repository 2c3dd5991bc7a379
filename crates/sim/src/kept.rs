//! Pages that are back in RAM and keep their place in slabs, so that they need not be written again if they go as they came.

use std::str::FromStr;

use serde::Serialize;

/// Which share of the bytes on its own machine a container has in slabs as well: it grows with the share of its working set that is elsewhere, for only
/// pages that have been out have a place.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Kept {
    /// Pairs of the share that is elsewhere, growing, and the share that is kept; all from 0 to 1. Values
    /// between two pairs, and between nothing and the first one, are interpolated. The last pair holds for
    /// all larger shares.
    points: Vec<(f64, f64)>,
}

impl Kept {
    /// What was measured: shares elsewhere, growing, and the shares kept with them.
    #[must_use]
    pub fn measured(points: &[(f64, f64)]) -> Kept {
        Kept { points: points.to_vec() }
    }

    /// The same share however little is elsewhere, from [`FULL_FROM`] on.
    #[must_use]
    pub fn same(share: f64) -> Kept {
        Kept { points: vec![(FULL_FROM, share)] }
    }

    /// Bytes of slabs for pages among `local_bytes`, when `over_bytes` of other pages are elsewhere.
    #[must_use]
    pub fn bytes(&self, local_bytes: u64, over_bytes: u64) -> u64 {
        if over_bytes == 0 {
            return 0;
        }
        let far = over_bytes as f64 / (local_bytes + over_bytes) as f64;
        (local_bytes as f64 * self.share(far)) as u64
    }

    fn share(&self, far: f64) -> f64 {
        let mut before = (0.0, 0.0);
        for point in &self.points {
            if far < point.0 {
                return before.1 + (far - before.0) / (point.0 - before.0) * (point.1 - before.1);
            }
            before = *point;
        }
        before.1
    }
}

/// Where nothing is measured: with a quarter of the working set elsewhere, everything that is kept is.
pub const FULL_FROM: f64 = 0.25;

/// What of a container's local bytes keeps its place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Keeping {
    /// What keeps its slot when the kernel swaps to a block device, clean or not.
    Slots,
    /// Clean pages alone: a pager that is told of first writes can drop the copy.
    Clean,
    /// The same share for all, from 0 to 1; nothing is measured.
    Share(f64),
}

impl FromStr for Keeping {
    type Err = String;

    fn from_str(text: &str) -> Result<Keeping, String> {
        match text {
            "slots" => return Ok(Keeping::Slots),
            "clean" => return Ok(Keeping::Clean),
            _ => {}
        }
        let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        share
            .map(Keeping::Share)
            .ok_or_else(|| format!("'{text}' is neither slots nor clean nor a share from 0 to 1"))
    }
}

/// What a program was seen to keep: as [`Kept::measured`] takes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// With [`Keeping::Slots`].
    pub slots: [(f64, f64); 2],
    /// With [`Keeping::Clean`].
    pub clean: [(f64, f64); 2],
}

/// memcached with 95 % gets, with the kernel's swap in a group of little RAM. How: docs/reference/benchmarks-earlier.md, "Places that stay taken".
pub const READS: Measured =
    Measured { slots: [(0.149, 0.226), (0.399, 0.710)], clean: [(0.149, 0.055), (0.399, 0.184)] };
/// The same with 75 % gets.
pub const WRITES: Measured =
    Measured { slots: [(0.148, 0.221), (0.399, 0.750)], clean: [(0.148, 0.041), (0.399, 0.134)] };
/// The same of SQLite.
pub const TRANSACTIONS: Measured =
    Measured { slots: [(0.070, 0.061), (0.269, 0.527)], clean: [(0.070, 0.018), (0.269, 0.137)] };
/// The same of PageRank.
pub const RANKS: Measured =
    Measured { slots: [(0.123, 0.867), (0.374, 0.759)], clean: [(0.123, 0.855), (0.374, 0.757)] };
/// The same of a shuffle.
pub const SHUFFLE: Measured =
    Measured { slots: [(0.127, 0.441), (0.377, 0.525)], clean: [(0.127, 0.408), (0.377, 0.180)] };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_elsewhere_is_nothing_kept() {
        let kept = Kept::same(0.4);
        assert_eq!(kept.bytes(1000, 0), 0);
        assert_eq!(kept.bytes(0, 1000), 0);
        assert_eq!(kept.bytes(750, 250), 300);
        assert_eq!(kept.bytes(500, 500), 200);
        assert_eq!(Kept::default().bytes(500, 500), 0);
        assert_eq!(Kept::same(0.0).bytes(500, 500), 0);
    }

    #[test]
    fn lines_are_between_what_was_measured() {
        let kept = Kept::measured(&[(0.2, 0.1), (0.4, 0.5)]);
        for (far, share) in [(0.1, 0.05), (0.2, 0.1), (0.3, 0.3), (0.4, 0.5), (0.9, 0.5)] {
            assert!((kept.share(far) - share).abs() < 1e-9, "{far}: {}", kept.share(far));
        }
    }

    #[test]
    fn words_and_shares_are_read() {
        assert_eq!("slots".parse(), Ok(Keeping::Slots));
        assert_eq!("clean".parse(), Ok(Keeping::Clean));
        assert_eq!("0.25".parse(), Ok(Keeping::Share(0.25)));
        for wrong in ["", "all", "-0.1", "1.1", "NaN"] {
            assert!(wrong.parse::<Keeping>().is_err(), "{wrong}");
        }
    }
}

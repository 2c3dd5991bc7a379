//! What use does to flash.

use super::Geometry;

/// How flash ages, and how it fails. The default never does.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Wear {
    /// Blocks that are bad from the factory, by a million.
    pub factory_bad_ppm: u32,
    /// Erases that a block stands; the one after fails. 0 for any number.
    pub erase_limit: u32,
    /// Programs that fail, by a billion.
    pub program_failures_ppb: u32,
    /// Wrong bits by bits read of a block that was never erased.
    pub bit_error_rate_fresh: f64,
    /// Wrong bits by bits read of a block at its erase limit. Between, it grows with the square of the erases.
    pub bit_error_rate_worn: f64,
    /// Wrong bits of a page that the error correction mends.
    pub correctable_bits: u32,
}

impl Wear {
    /// The mean number of wrong bits in a page of a block that was erased so often.
    pub(super) fn bit_errors_mean(&self, geometry: &Geometry, erases: u32) -> f64 {
        let age = match self.erase_limit {
            0 => 0.0,
            limit => f64::from(erases) / f64::from(limit),
        };
        let rate =
            self.bit_error_rate_fresh + (self.bit_error_rate_worn - self.bit_error_rate_fresh) * age * age;
        rate * f64::from(geometry.page_bytes) * 8.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_grow_with_erases() {
        let wear = Wear {
            erase_limit: 100,
            bit_error_rate_fresh: 1e-6,
            bit_error_rate_worn: 1e-3,
            ..Wear::default()
        };
        let mean = |erases| wear.bit_errors_mean(&Geometry::single_die(1, 1, 4096), erases);
        assert!((mean(0) - 0.032_768).abs() < 1e-9);
        assert!((mean(100) - 32.768).abs() < 1e-6);
        assert!(mean(50) > mean(0) && mean(50) < mean(100));
    }
}

//! Amdahl's laws: speed-up when a part gets faster; I/O that a processor asks for, and devices that give it.
//!
//! The balanced-system law is as Gray and Shenoy revised it ("Rules of Thumb in Data Engineering", ICDE 2000): a system
//! needs 8 MIPS for each megabyte per second of I/O, and both rates depend on the load.

/// Instructions per byte of I/O in the revised law.
const MIPS_PER_MB_PER_S: f64 = 8.0;

/// How much faster a whole becomes when a `share` of its time, 0 to 1, is spent in what becomes `factor` times faster:
/// 1 / ((1 - share) + share / factor). Source: Amdahl, AFIPS 1967.
#[must_use]
pub fn speed_up(share: f64, factor: f64) -> f64 {
    1.0 / ((1.0 - share) + share / factor)
}

/// A processor, or one core of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Processor {
    /// Clock.
    pub ghz: f64,
    /// Cycles of one instruction.
    pub cycles_per_instruction: f64,
}

impl Processor {
    /// Instructions per second, in millions.
    #[must_use]
    pub fn mips(&self) -> f64 {
        self.ghz * 1000.0 / self.cycles_per_instruction
    }

    /// Megabytes per second that balance it.
    #[must_use]
    pub fn megabytes_per_s(&self) -> f64 {
        self.mips() / MIPS_PER_MB_PER_S
    }

    /// Transfers of `page_bytes` per second that balance it.
    #[must_use]
    pub fn iops(&self, page_bytes: u64) -> f64 {
        self.megabytes_per_s() * 1e6 / page_bytes as f64
    }
}

/// Rates of reads and of writes, each alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mix {
    /// Reads per second.
    pub read_iops: f64,
    /// Writes per second.
    pub write_iops: f64,
    /// Share of reads among the transfers, 0 to 1.
    pub read_share: f64,
}

/// Transfers per second of a device that does reads and writes in turn: the mean of the times that they take, not of their rates.
#[must_use]
pub fn harmonic_mix(mix: Mix) -> f64 {
    1.0 / (mix.read_share / mix.read_iops + (1.0 - mix.read_share) / mix.write_iops)
}

/// The mean of the rates, which the study used. No device reaches it: each kind of transfer would have to
/// take a share of the time that equals its share of the transfers. It is kept to show the difference.
#[must_use]
pub fn arithmetic_mix(mix: Mix) -> f64 {
    mix.read_share * mix.read_iops + (1.0 - mix.read_share) * mix.write_iops
}

/// Devices for `iops_needed`, not rounded.
#[must_use]
pub fn devices_for(iops_needed: f64, iops_of_one: f64) -> f64 {
    iops_needed / iops_of_one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harmonic_mix_is_the_rate_of_doing_both_in_turn() {
        let mix = Mix { read_iops: 1000.0, write_iops: 100.0, read_share: 0.5 };
        // A read and a write take 11 ms together.
        assert!((harmonic_mix(mix) - 2000.0 / 11.0).abs() < 1e-9);
        assert_eq!(arithmetic_mix(mix), 550.0);
        for share in [0.0, 1.0] {
            let mix = Mix { read_share: share, ..mix };
            assert_eq!(harmonic_mix(mix), arithmetic_mix(mix));
        }
    }

    #[test]
    fn the_limits_of_the_speed_up() {
        assert_eq!(speed_up(0.0, 10.0), 1.0);
        assert_eq!(speed_up(1.0, 10.0), 10.0);
        assert_eq!(speed_up(0.5, f64::INFINITY), 2.0);
    }
}

//! Interfaces to watch a run, and to end it.

use aquifer_device::DeviceError;

/// Why a run ended before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stop {
    /// Somebody asked for it.
    #[error("interrupted")]
    Interrupted,
    /// The target failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Watches a run, and may end it.
pub trait Control {
    /// Whether the run is to end. Asked about every tenth of a second.
    fn is_stopped(&self) -> bool;

    /// A part of the run begins, which will take about `part_s` seconds; `done_s` of `total_s` are over.
    fn begins(&self, part: &str, part_s: f64, done_s: f64, total_s: f64);
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Control for Unwatched {
    fn is_stopped(&self) -> bool {
        false
    }

    fn begins(&self, _part: &str, _part_s: f64, _done_s: f64, _total_s: f64) {}
}

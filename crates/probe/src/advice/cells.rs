//! The report's measurements, looked up.

use std::collections::BTreeMap;

use crate::report::{FillState, Measurement, Pattern, Report, WriteMode};

/// Direction of all transfers of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Direction {
    fn read_percent(self) -> u8 {
        match self {
            Self::Read => 100,
            Self::Write => 0,
        }
    }
}

/// What one load gave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Cell {
    pub(super) block_bytes: u32,
    pub(super) depth: u32,
    pub(super) iops: f64,
    pub(super) megabytes_per_s: f64,
}

impl Cell {
    /// Only of figures that something can be concluded from.
    fn of(measurement: &Measurement) -> Option<Self> {
        let (iops, megabytes_per_s) = (measurement.iops(), measurement.megabytes_per_s());
        let is_usable = |figure: f64| figure.is_finite() && figure > 0.0;
        let job = &measurement.job;
        (is_usable(iops) && is_usable(megabytes_per_s)).then_some(Self {
            block_bytes: job.block_bytes,
            depth: job.depth,
            iops,
            megabytes_per_s,
        })
    }

    /// Bytes under way at once.
    pub(super) fn bytes_under_way(&self) -> u64 {
        u64::from(self.block_bytes) * u64::from(self.depth)
    }
}

fn is_of(measurement: &Measurement, pattern: Pattern, direction: Direction) -> bool {
    let job = &measurement.job;
    job.pattern == pattern
        && job.read_percent == direction.read_percent()
        && job.write_mode == WriteMode::Cached
}

/// The cells of the matrix with this load, by block and depth.
pub(super) fn cells(report: &Report, pattern: Pattern, direction: Direction) -> Vec<Cell> {
    let wanted = report.matrix.iter().filter(|measurement| is_of(measurement, pattern, direction));
    let mut cells: Vec<Cell> = wanted.filter_map(Cell::of).collect();
    cells.sort_by_key(|cell| (cell.block_bytes, cell.depth));
    cells
}

/// For each block the cell with the most transfers, the smallest depth of equals.
pub(super) fn best_of_blocks(cells: &[Cell]) -> Vec<Cell> {
    let mut best: BTreeMap<u32, Cell> = BTreeMap::new();
    for &cell in cells {
        let present = best.entry(cell.block_bytes).or_insert(cell);
        if cell.iops > present.iops {
            *present = cell;
        }
    }
    best.into_values().collect()
}

/// The best transfers per second of a load with blocks of `block_bytes`, at whatever depth.
pub(super) fn best_iops(
    report: &Report,
    pattern: Pattern,
    direction: Direction,
    block_bytes: u64,
) -> Option<f64> {
    let cells = cells(report, pattern, direction).into_iter();
    cells.filter(|cell| u64::from(cell.block_bytes) == block_bytes).map(|cell| cell.iops).reduce(f64::max)
}

/// Of random writes of `block_bytes` to a fragmented target that was as full as it ever was: how full, and their part of what sequential
/// writes reached there.
pub(super) fn fragmented(report: &Report, block_bytes: u32) -> Option<(u8, f64)> {
    let fragmented = || report.fill.iter().filter(|fill| fill.state == FillState::Fragmented);
    let fullest = fragmented().map(|fill| fill.fill_percent).max()?;
    let best = |pattern: Pattern, block: Option<u32>| {
        let of_fill = fragmented().filter(|fill| fill.fill_percent == fullest).map(|fill| &fill.measurement);
        let wanted = of_fill
            .filter(|found| is_of(found, pattern, Direction::Write))
            .filter(|found| block.is_none_or(|block| found.job.block_bytes == block));
        wanted.filter_map(Cell::of).map(|cell| cell.megabytes_per_s).reduce(f64::max)
    };
    Some((fullest, best(Pattern::Random, Some(block_bytes))? / best(Pattern::Sequential, None)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::example::{measurement, report};

    #[test]
    fn cells_are_of_one_load_and_make_sense() {
        let mut report = report();
        report.matrix.push(measurement(Pattern::Random, 100, 4096, 999, 0.0));
        report.matrix.push(measurement(Pattern::Random, 50, 4096, 999, 1e9));
        report.matrix.push(measurement(Pattern::Random, 100, 4096, 998, 1e9));
        report.matrix.last_mut().expect("pushed").job.write_mode = WriteMode::Dsync;
        let reads = cells(&report, Pattern::Random, Direction::Read);
        assert!(reads.iter().all(|cell| cell.depth < 900), "{reads:?}");
        assert!(reads.is_sorted_by_key(|cell| (cell.block_bytes, cell.depth)));
        assert_eq!(best_iops(&report, Pattern::Random, Direction::Read, 4096), Some(100_000.0));
        assert_eq!(best_iops(&report, Pattern::Random, Direction::Read, 5000), None);
    }
}

//! Settings for the heap, and the rules that they follow.

use aquifer_base::limits::OS_PAGE_BYTES;
use aquifer_base::profile::{Profile, Setting};
use aquifer_base::units::format_size;

use super::cells::{Cell, Direction, best_of_blocks, cells, fragmented};
use crate::report::{Pattern, Report};

/// Part of the best rate that counts as enough.
const ENOUGH: f64 = 0.95;
/// Part of the most transfers per second that larger reads may cost.
const FREE: f64 = 0.9;

/// A value, if the report has figures for it, and why it is this one.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Advised {
    pub(super) value: Option<u64>,
    pub(super) reason: String,
}

impl Advised {
    fn new(value: u64, reason: String) -> Self {
        Self { value: Some(value), reason }
    }

    fn unknown(reason: String) -> Self {
        Self { value: None, reason }
    }
}

/// All settings, and what is advised to programs that do their own I/O.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Settings {
    depth: Advised,
    read_ahead_pages: Advised,
    write_bytes: Advised,
    write_depth: Advised,
    segment_bytes: Advised,
    pub(super) read_size: Advised,
    pub(super) writers: Advised,
}

impl Settings {
    pub(super) fn of(report: &Report) -> Self {
        let reads = cells(report, Pattern::Random, Direction::Read);
        let writes = cells(report, Pattern::Sequential, Direction::Write);
        let depth = depth(&reads);
        let (write_bytes, write_depth) = log_write(&writes);
        Self {
            read_ahead_pages: read_ahead_pages(&depth),
            depth,
            write_bytes,
            write_depth,
            segment_bytes: segment_bytes(report, &writes),
            read_size: read_size(&reads),
            writers: writers(&writes),
        }
    }

    pub(super) fn of_setting(&self, setting: Setting) -> &Advised {
        match setting {
            Setting::Depth => &self.depth,
            Setting::ReadAheadPages => &self.read_ahead_pages,
            Setting::WriteBytes => &self.write_bytes,
            Setting::WriteDepth => &self.write_depth,
            Setting::SegmentBytes => &self.segment_bytes,
        }
    }

    pub(super) fn profile(&self) -> Profile {
        let mut profile = Profile::default();
        for setting in Setting::ALL {
            if let Some(value) = self.of_setting(setting).value {
                profile.set(setting, value).expect("rules keep to the range of their setting");
            }
        }
        profile
    }
}

fn clamped(setting: Setting, value: u64) -> u64 {
    value.clamp(*setting.range().start(), *setting.range().end())
}

fn best_by(cells: &[Cell], figure: impl Fn(&Cell) -> f64) -> Option<&Cell> {
    cells.iter().max_by(|a, b| figure(a).total_cmp(&figure(b)))
}

/// The smallest depth that is enough for random reads of the heap's pages.
fn depth(reads: &[Cell]) -> Advised {
    let page = OS_PAGE_BYTES as u32;
    let of_page: Vec<Cell> = reads.iter().filter(|cell| cell.block_bytes == page).copied().collect();
    let Some(best) = best_by(&of_page, |cell| cell.iops) else {
        return Advised::unknown(
            "the report has no random reads of 4 KiB, which are what the heap does".into(),
        );
    };
    let chosen = of_page.iter().find(|cell| cell.iops >= ENOUGH * best.iops).unwrap_or(best);
    let deepest = of_page.iter().all(|cell| cell.depth <= chosen.depth);
    let rising = if deepest && of_page.len() > 1 {
        "; a greater depth was not measured and might give more"
    } else {
        ""
    };
    let reason = format!(
        "the smallest depth with at least 95 % of the best rate of random reads of 4 KiB: {:.0}/s at depth {}, at best {:.0}/s at depth {}{rising}",
        chosen.iops, chosen.depth, best.iops, best.depth
    );
    Advised::new(clamped(Setting::Depth, chosen.depth.into()), reason)
}

/// Twice the depth: the next pages of a walk are asked for when half of the window is used up, so that as many as the depth are under way.
fn read_ahead_pages(depth: &Advised) -> Advised {
    match depth.value {
        Some(depth) => Advised::new(
            clamped(Setting::ReadAheadPages, 2 * depth),
            format!(
                "twice the depth of {depth}, within 8 to 256: half of the window is read while the other half is used"
            ),
        ),
        None => Advised::unknown("follows from depth".into()),
    }
}

/// The cell with which sequential writes of the log reach enough while the fewest bytes are under way.
fn smallest_enough(writes: &[Cell], fits: impl Fn(&Cell) -> bool) -> Option<(&Cell, &Cell)> {
    let best = best_by(writes, |cell| cell.megabytes_per_s)?;
    let enough =
        writes.iter().filter(|cell| fits(cell) && cell.megabytes_per_s >= ENOUGH * best.megabytes_per_s);
    let smallest = enough.min_by_key(|cell| (cell.bytes_under_way(), cell.depth));
    let fallback = || {
        let fitting = writes.iter().filter(|cell| fits(cell));
        fitting.max_by(|a, b| a.megabytes_per_s.total_cmp(&b.megabytes_per_s))
    };
    Some((smallest.or_else(fallback)?, best))
}

/// Bytes that the log writes together, and in how many parts.
fn log_write(writes: &[Cell]) -> (Advised, Advised) {
    let (bytes_max, depth_max) = (*Setting::WriteBytes.range().end(), *Setting::WriteDepth.range().end());
    let fits = |cell: &Cell| cell.bytes_under_way() <= bytes_max && u64::from(cell.depth) <= depth_max;
    let Some((chosen, best)) = smallest_enough(writes, fits) else {
        let reason = "the report has no sequential writes with up to 1 MiB under way";
        return (Advised::unknown(reason.into()), Advised::unknown(reason.into()));
    };
    let share = 100.0 * chosen.megabytes_per_s / best.megabytes_per_s;
    let found = format!(
        "{} at depth {}: {:.1} MB/s, {share:.0} % of the best ({} at depth {})",
        format_size(chosen.block_bytes.into()),
        chosen.depth,
        chosen.megabytes_per_s,
        format_size(best.block_bytes.into()),
        best.depth
    );
    let rule = if chosen.megabytes_per_s >= ENOUGH * best.megabytes_per_s {
        "the fewest bytes under way, block by depth, with at least 95 % of the best rate of sequential writes"
    } else {
        "nothing within 1 MiB under way has 95 % of the best rate of sequential writes; this is the fastest"
    };
    let bytes = clamped(Setting::WriteBytes, chosen.bytes_under_way().next_power_of_two());
    (
        Advised::new(bytes, format!("{rule}; {found}")),
        Advised::new(chosen.depth.into(), format!("the depth of these; {found}")),
    )
}

/// The smallest block with which random writes are as good as sequential ones: a device does not see where segments of this size are.
/// Source: Min, Kim, Cho, Lee, Eom: SFS, FAST 2012, who chose the segment by this.
fn segment_bytes(report: &Report, sequential: &[Cell]) -> Advised {
    let random = best_of_blocks(&cells(report, Pattern::Random, Direction::Write));
    let Some((best, largest)) = best_by(sequential, |cell| cell.megabytes_per_s).zip(random.last()) else {
        return Advised::unknown("the report lacks random or sequential writes".into());
    };
    let least = ENOUGH * best.megabytes_per_s;
    let is_enough_when_full =
        |cell: &&Cell| fragmented(report, cell.block_bytes).is_none_or(|(_, share)| share >= ENOUGH);
    let chosen = random.iter().filter(|cell| cell.megabytes_per_s >= least).find(is_enough_when_full);
    let Some(chosen) = chosen else {
        return Advised::unknown(format!(
            "random writes are not as fast as sequential ones ({:.1} MB/s) with any block that was measured; with {} they reach {:.1} MB/s",
            best.megabytes_per_s,
            format_size(largest.block_bytes.into()),
            largest.megabytes_per_s
        ));
    };
    let full = match fragmented(report, chosen.block_bytes) {
        Some((percent, share)) => {
            format!("fragmented and {percent} % full they reach {:.0} % of them", 100.0 * share)
        }
        None => "not measured on a fragmented target".into(),
    };
    let reason = format!(
        "the smallest block with which random writes reach 95 % of the best sequential ones: {} with {:.1} of {:.1} MB/s; {full}",
        format_size(chosen.block_bytes.into()),
        chosen.megabytes_per_s,
        best.megabytes_per_s
    );
    Advised::new(clamped(Setting::SegmentBytes, chosen.block_bytes.into()), reason)
}

/// The largest read that costs hardly more than the smallest.
fn read_size(reads: &[Cell]) -> Advised {
    let blocks = best_of_blocks(reads);
    let Some(most) = best_by(&blocks, |cell| cell.iops).filter(|_| blocks.len() > 1) else {
        return Advised::unknown("the report has no random reads of several blocks".into());
    };
    let chosen = blocks.iter().rfind(|cell| cell.iops >= FREE * most.iops).unwrap_or(most);
    let next = blocks.iter().find(|cell| cell.block_bytes > chosen.block_bytes);
    let next = next.map_or("larger ones were not measured".into(), |next| {
        format!("{} has {:.0}/s", format_size(next.block_bytes.into()), next.iops)
    });
    let reason = format!(
        "the largest block with at least 90 % of the most random reads per second, {:.0}/s with {}: {:.0}/s; up to here bytes are free, beyond they \
         cost reads ({next}). The heap reads objects and pages of 4 KiB, whatever stands here",
        most.iops,
        format_size(most.block_bytes.into()),
        chosen.iops
    );
    Advised::new(chosen.block_bytes.into(), reason)
}

/// The smallest depth of sequential writes that is enough.
fn writers(writes: &[Cell]) -> Advised {
    let Some(best) = best_by(writes, |cell| cell.megabytes_per_s) else {
        return Advised::unknown("the report has no sequential writes".into());
    };
    let same_block = writes.iter().filter(|cell| cell.block_bytes == best.block_bytes);
    let enough = same_block.filter(|cell| cell.megabytes_per_s >= ENOUGH * best.megabytes_per_s);
    let chosen = enough.min_by_key(|cell| cell.depth).unwrap_or(best);
    let reason = format!(
        "the smallest depth with at least 95 % of the best rate of sequential writes, with its block of {}: {:.1} of {:.1} MB/s. The heap has one \
         writer, which has write_depth transfers under way",
        format_size(best.block_bytes.into()),
        chosen.megabytes_per_s,
        best.megabytes_per_s
    );
    Advised::new(chosen.depth.into(), reason)
}

#[cfg(test)]
mod tests;

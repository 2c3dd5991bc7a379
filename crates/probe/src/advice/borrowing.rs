//! Whether RAM of other machines pays, beside swap on the device (the question of Gu et al., "Efficient Memory Disaggregation with Infiniswap", NSDI
//! 2017).
//!
//! A program that does nothing but wait for pages goes at the pace of one page: what is done for a fault, and the transfer. On a disk the
//! transfer is a read of 4 KiB, or, if that is longer, the disk's time for a read and a write, as each page that comes sends another one away. A donor
//! writes behind. A program that also computes, or that swap reads ahead for, gains less.

use std::fmt::Write;

use super::cells::{Direction, best_iops, cells};
use super::wrapped;
use crate::report::{Pattern, Report};

/// Microseconds for a page from swap beside its transfer (`aquifer-bench overhead`), and for one from a donor: as memcached took them with half of its
/// memory local (`aquifer-bench far`, docs/howto/remote.md), where the heap has more faults than the kernel in the same RAM.
const SWAP_US: f64 = 12.0;
const HEAP_US: f64 = 55.0;
/// From this gain on something is left of it for programs that also compute.
const GAIN_SURE: f64 = 2.0;
/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Somebody who lends, or might.
#[derive(Clone, PartialEq, Debug)]
pub struct Lender {
    /// How people call it.
    pub name: String,
    /// Microseconds of a read of 4 KiB, one after the other.
    pub read_us: f64,
    /// Where that is from.
    pub source: String,
}

/// How long the device takes for a page.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Disk {
    /// Microseconds of a read, one after the other.
    read_us: f64,
    /// Microseconds of a read and a write, at the depths at which it does most of each.
    both_us: f64,
}

impl Disk {
    fn of(report: &Report) -> Option<Self> {
        let reads = cells(report, Pattern::Random, Direction::Read);
        let single =
            reads.iter().find(|cell| u64::from(cell.block_bytes) == PAGE_BYTES && cell.depth == 1)?;
        let best = |direction| best_iops(report, Pattern::Random, direction, PAGE_BYTES);
        let (reads, writes) = best(Direction::Read).zip(best(Direction::Write))?;
        Some(Self { read_us: 1e6 / single.iops, both_us: 1e6 / reads + 1e6 / writes })
    }

    fn page_us(self) -> f64 {
        self.read_us.max(self.both_us)
    }

    /// How many times the speed of swap on it a program has that only waits for pages, if they come from donors.
    fn gain(self, donor_us: f64) -> f64 {
        (SWAP_US + self.page_us()) / (HEAP_US + donor_us)
    }

    /// How long a donor's read may take for that gain; `None` if no donor is so fast.
    fn donor_us_for(self, gain: f64) -> Option<f64> {
        Some((SWAP_US + self.page_us()) / gain - HEAP_US).filter(|us| *us > 0.0)
    }
}

/// A section of the advice: what each lender would bring, and from which one on borrowing pays.
#[must_use]
pub fn borrowing_text(report: &Report, lenders: &[Lender]) -> String {
    let mut text = String::from("\nMemory of other machines, beside swap on this device\n");
    let Some(disk) = Disk::of(report) else {
        text += "  not measured: the report has no random reads of 4 KiB one after the other, or no writes\n";
        return text;
    };
    let mut say = |line: &str| text.push_str(&wrapped(line, "  "));
    say(&format!(
        "device: {:.0} us for a page: a read takes {:.0} us alone, and a read with a write {:.0} us when many are under way",
        disk.page_us(),
        disk.read_us,
        disk.both_us
    ));
    for lender in lenders {
        let gain = disk.gain(lender.read_us);
        let verdict = match gain {
            gain if gain >= GAIN_SURE => "borrowing pays",
            gain if gain > 1.0 => "borrowing may pay, try it",
            _ => "borrowing does not pay",
        };
        let name: String = lender.name.chars().filter(|char| !char.is_control()).collect();
        say(&format!(
            "{name}: {:.0} us for a page ({}): ({SWAP_US} + {:.0}) / ({HEAP_US} + {:.0}) = {gain:.2} x swap at most: {verdict}",
            lender.read_us,
            lender.source,
            disk.page_us(),
            lender.read_us
        ));
    }
    for (what, gain) in [("it may pay", 1.0), ("it pays", GAIN_SURE)] {
        match disk.donor_us_for(gain) {
            Some(us) => say(&format!("{what} while a donor's read of 4 KiB takes less than {us:.0} us")),
            None => say(&format!("no donor is so fast that {what}")),
        }
    }
    writeln!(
        text,
        "  {SWAP_US} and {HEAP_US} us are what a page costs beside its transfer; who also computes gains less"
    )
    .expect("strings take everything");
    text
}

/// The same for programs; `gain` is `null` if the report has no figures for it.
pub(super) fn borrowing_json(report: &Report, lenders: &[Lender]) -> Vec<serde_json::Value> {
    let disk = Disk::of(report);
    let of_one = |lender: &Lender| {
        let gain = disk.map(|disk| disk.gain(lender.read_us));
        serde_json::json!({ "name": lender.name, "read_us": lender.read_us, "source": lender.source, "gain": gain })
    };
    lenders.iter().map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::example::{measurement, report};

    fn lender(read_us: f64) -> Lender {
        Lender { name: "alpha:7447".into(), read_us, source: "median of 2000".into() }
    }

    #[test]
    fn the_formula_is_the_one_of_the_text() {
        // 100 us alone; 10 and 40 us when many are under way.
        let disk = Disk::of(&report()).expect("measured");
        assert_eq!((disk.read_us, disk.both_us), (100.0, 50.0));
        let text = borrowing_text(&report(), &[lender(1.0), lender(20.0), lender(100.0)]);
        for line in [
            "(12 + 100) / (55 + 1) = 2.00 x swap at most: borrowing pays",
            "(12 + 100) / (55 + 20) = 1.49 x swap at most: borrowing may pay, try it",
            "(12 + 100) / (55 + 100) = 0.72 x swap at most: borrowing does not pay",
            "it may pay while a donor's read of 4 KiB takes less than 57 us",
            "it pays while a donor's read of 4 KiB takes less than 1 us",
        ] {
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_disk_of_few_transfers_is_as_slow_as_they_are() {
        let mut report = report();
        report.matrix.iter_mut().for_each(|cell| {
            let job = cell.job.clone();
            *cell = measurement(job.pattern, job.read_percent, job.block_bytes, job.depth, 3000.0);
        });
        let disk = Disk::of(&report).expect("measured");
        assert!((disk.page_us() - 667.0).abs() < 1.0, "{disk:?}");
        assert!(disk.gain(40.0) > 7.0);
    }

    #[test]
    fn what_is_faster_than_any_donor_is_said_to_be_so() {
        let mut report = report();
        report.matrix.retain(|cell| cell.job.read_percent == 0);
        assert!(borrowing_text(&report, &[lender(5.0)]).contains("not measured"));
        report.matrix.push(measurement(Pattern::Random, 100, 4096, 1, 1e6));
        report.matrix.push(measurement(Pattern::Random, 0, 4096, 1, 1e6));
        let text = borrowing_text(&report, &[Lender { name: "\u{1b}[2J".into(), ..lender(5.0) }]);
        assert!(text.contains("no donor is so fast that it may pay"), "{text}");
        assert!(text.chars().all(|char| char == '\n' || !char.is_control()));
    }
}

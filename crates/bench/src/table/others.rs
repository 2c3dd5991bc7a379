//! The smaller tables.

use aquifer_base::units::format_size;

use super::{markdown, mebibytes, number};
use crate::overhead::KERNEL_FAULT;
use crate::sample::{Record, WriteAmp};
use crate::theory::write_amplification;

/// Cost of single mechanisms, each over the kernel's own fault.
pub fn overhead(records: &[Record]) -> String {
    let costs = records.iter().filter_map(|record| match record {
        Record::Overhead(overhead) => Some(overhead),
        _ => None,
    });
    let unit = costs.clone().find(|cost| cost.name == KERNEL_FAULT).and_then(|cost| cost.ns);
    let rows: Vec<_> = costs
        .map(|cost| {
            let ratio = cost.ns.zip(unit).map(|(ns, unit)| ns / unit);
            vec![cost.name.clone(), number(cost.ns, 0), number(ratio, 2), cost.note.clone()]
        })
        .collect();
    markdown("Overhead", &["mechanism", "ns", "x kernel fault", "how"], &rows)
}

/// Bytes written per byte appended by the library's writer, as the library counts them.
pub fn written_per_appended(row: &WriteAmp) -> f64 {
    row.stats.device_written_bytes as f64 / row.stats.objects_written_bytes.max(1) as f64
}

/// What the formula says for the fill that was really there: objects that are dirty in RAM have no
/// live record.
pub fn expected_at_live_fill(row: &WriteAmp) -> f64 {
    let fill = row.stats.flash_live_bytes as f64 / row.flash_bytes as f64;
    if fill > 0.0 && fill < 1.0 { write_amplification(fill) * row.record_overhead } else { f64::NAN }
}

/// Write amplification against theory.
pub fn write_amp(records: &[Record]) -> String {
    let rows: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::WriteAmp(row) => Some(write_amp_line(row)),
            _ => None,
        })
        .collect();
    let columns = [
        "log",
        "RAM",
        "fill %",
        "live %",
        "ops/s",
        "device B/B",
        "library B/B",
        "appended B/B",
        "written per appended",
        "A",
        "A x record",
        "A x record at live",
        "off by %",
        "steady",
    ];
    let note = "\ndevice B/B: bytes the kernel counted for the device, per object byte the program wrote; library \
                B/B: the same by the library's counter; appended B/B: what the object cache let through; A: \
                formula for the fill; off by: written per appended against the formula at the live fill.\n";
    let table = markdown("Write amplification, uniform whole-object writes", &columns, &rows);
    if table.is_empty() { table } else { table + note }
}

fn write_amp_line(row: &WriteAmp) -> Vec<String> {
    let changed = row.changed_bytes.max(1) as f64;
    let per_changed = |bytes: u64| number(Some(bytes as f64 / changed), 2);
    let (written, expected) = (written_per_appended(row), expected_at_live_fill(row));
    vec![
        format_size(row.flash_bytes),
        format_size(row.ram_bytes),
        row.fill_percent.to_string(),
        number(Some(100.0 * row.stats.flash_live_bytes as f64 / row.flash_bytes as f64), 1),
        number(Some(row.ops_per_s), 0),
        per_changed(row.device.written_bytes),
        per_changed(row.stats.device_written_bytes),
        per_changed(row.stats.objects_written_bytes),
        number(Some(written), 2),
        number(Some(row.theory), 2),
        number(Some(row.theory * row.record_overhead), 2),
        number(Some(expected), 2),
        number(Some(100.0 * (written / expected - 1.0)), 1),
        if row.steady { "yes" } else { "no" }.to_owned(),
    ]
}

/// Memory against the budget.
pub fn budget(records: &[Record]) -> String {
    let rows: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Budget(row) => Some(vec![
                row.objects.to_string(),
                row.threads.to_string(),
                number(Some(row.seconds), 0),
                row.samples.to_string(),
                format_size(row.ram_bytes),
                mebibytes(Some((row.max.total_bytes().saturating_sub(row.baseline.total_bytes())) as f64)),
                number(Some(100.0 * row.share_of_budget()), 1),
                mebibytes(Some(row.max_used_bytes as f64)),
                number(Some(100.0 * row.metadata_share()), 1),
                number(Some(row.ops as f64 / row.seconds.max(0.001)), 0),
            ]),
            _ => None,
        })
        .collect();
    let columns = [
        "objects",
        "threads",
        "s",
        "looks",
        "budget",
        "max RSS + PTE MiB",
        "% of budget",
        "max by library MiB",
        "max metadata %",
        "ops/s",
    ];
    markdown("Memory against the budget", &columns, &rows)
}

/// Who did not run.
pub fn skipped(records: &[Record]) -> String {
    let rows: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Skipped(skipped) => Some(vec![skipped.peer.clone(), skipped.reason.clone()]),
            _ => None,
        })
        .collect();
    markdown("Skipped", &["peer", "reason"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Counters;
    use crate::machine::Context;
    use crate::peer::abi::Stats;
    use crate::process::Memory;
    use crate::sample::{Budget, Overhead};

    #[test]
    fn overheads_are_counted_in_kernel_faults() {
        let cost = |name: &str, ns| {
            let (name, note) = (name.to_owned(), "how".to_owned());
            Record::Overhead(Overhead { name, ns, runs: 5, note, context: Context::default() })
        };
        let text =
            overhead(&[cost("fast", Some(2500.0)), cost(KERNEL_FAULT, Some(1000.0)), cost("absent", None)]);
        assert!(text.contains("| fast | 2500 | 2.50 | how |"), "{text}");
        assert!(text.contains("| absent | - | - | how |"), "{text}");
    }

    #[test]
    fn write_amplification_is_compared_at_the_live_fill() {
        let stats = Stats {
            flash_live_bytes: 50,
            device_written_bytes: 150,
            objects_written_bytes: 100,
            ..Stats::default()
        };
        let row = WriteAmp {
            fill_percent: 67,
            flash_bytes: 100,
            ram_bytes: 10,
            object_bytes: 128,
            data_bytes: 60,
            threads: 8,
            warm_rewrites: 3.0,
            steady: true,
            seconds: 1.0,
            ops_per_s: 1.0,
            changed_bytes: 100,
            device: Counters { written_bytes: 160, ..Counters::default() },
            stats,
            theory: write_amplification(0.67),
            record_overhead: 136.0 / 128.0,
            context: Context::default(),
        };
        assert_eq!(written_per_appended(&row), 1.5);
        assert!((expected_at_live_fill(&row) - 1.255 * 136.0 / 128.0).abs() < 0.001);
        let text = write_amp(&[Record::WriteAmp(Box::new(row))]);
        assert!(
            text.contains("| 67 | 50.0 | 1 | 1.60 | 1.50 | 1.00 | 1.50 | 1.73 | 1.84 | 1.33 | 12.5 | yes |"),
            "{text}"
        );
    }

    #[test]
    fn the_baseline_is_not_the_heaps() {
        let memory = |rss_bytes| Memory { rss_bytes, vm_pte_bytes: 0 };
        let row = Budget {
            objects: 1000,
            object_bytes: 128,
            ram_bytes: 100 << 20,
            flash_bytes: 1 << 30,
            threads: 32,
            seconds: 600.0,
            samples: 3000,
            baseline: memory(5 << 20),
            max: memory(109 << 20),
            max_used_bytes: 99 << 20,
            max_metadata_bytes: 12 << 20,
            ops: 6000,
            context: Context::default(),
        };
        let text = budget(&[Record::Budget(Box::new(row))]);
        assert!(text.contains("| 100 MiB | 104 | 104.0 | 99 | 12.0 | 10 |"), "{text}");
    }
}

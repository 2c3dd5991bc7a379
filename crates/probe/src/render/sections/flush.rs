//! What a flush costs, and small writes that are each made durable.

use super::loads::{LATENCY_COLUMNS, latency_cells, rate};
use crate::merged::Merged;
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::report::{FlushTest, Report};

/// A flush that adds less than this share of a write costs nothing.
const FREE_SHARE: f64 = 0.1;

pub(super) fn section(report: &Report) -> Option<Section> {
    let test = report.flush.as_ref()?;
    let row = |name: &str, load| {
        let mut row = vec![name.to_owned(), figures::number_or_dash(rate(load))];
        row.extend(latency_cells(load));
        row
    };
    let rows = vec![row("write", &test.write), row("write, then flush", &test.write_and_flush)];
    let columns = ["", "IOPS"].into_iter().chain(LATENCY_COLUMNS);
    let (_, verdict) = verdict(test);
    let parts =
        vec![Part::Verdict(verdict.is_good, verdict.text), Part::Table(Table::new("", columns, rows))];
    let text = format!(
        "Single writes of {} one at a time, without and with a flush after each. A flush when nothing was written takes {}.",
        figures::bytes(test.write.job.block_bytes.into()),
        figures::nanoseconds(test.empty_flush_ns)
    );
    Some(Section { id: "flush", title: "What a flush costs", text, parts })
}

/// A conclusion.
pub(super) struct Verdict {
    pub is_good: bool,
    pub text: String,
}

/// Nanoseconds that a flush adds to a write, and what that means.
pub(super) fn verdict(test: &FlushTest) -> (f64, Verdict) {
    let write = Merged::of(&test.write).mean_ns;
    let added = Merged::of(&test.write_and_flush).mean_ns - write;
    if added < write * FREE_SHARE {
        let text = "A flush after a write costs next to nothing: either no volatile cache holds what was written, or flushes are ignored. \
                    Which of the two cannot be seen without cutting the power.";
        (added, Verdict { is_good: false, text: text.into() })
    } else {
        let text = format!(
            "A flush adds {} to a write of {}: what was written is moved from a volatile cache when one asks for it.",
            figures::nanoseconds(added),
            figures::nanoseconds(write)
        );
        (added, Verdict { is_good: true, text })
    }
}

/// Small writes, each made durable.
pub(super) fn log_section(report: &Report) -> Option<Section> {
    let log = report.log.as_ref()?;
    let mut row = vec![
        figures::bytes(log.measurement.job.block_bytes.into()),
        figures::number_or_dash(rate(&log.measurement)),
    ];
    row.extend(latency_cells(&log.measurement));
    let columns = ["write", "per second"].into_iter().chain(LATENCY_COLUMNS);
    let parts = vec![
        Part::Verdict(log.is_fit_for_etcd, log_verdict(log.is_fit_for_etcd).into()),
        Part::Table(Table::new("", columns, vec![row])),
    ];
    let text = "Small writes one after the other as a database writes its log: each is durable before the next one begins. etcd asks that 99 of 100 take less than 10 ms.";
    Some(Section { id: "log", title: "Synced log", text: text.into(), parts })
}

pub(super) fn log_verdict(is_fit: bool) -> &'static str {
    if is_fit {
        "Fit for a log by etcd's rule: 99 of 100 synced writes take less than 10 ms."
    } else {
        "Not fit for a log by etcd's rule: more than one in 100 synced writes takes 10 ms or longer."
    }
}

//! Small writes, each made durable.

use super::loads::{LATENCY_COLUMNS, latency_cells, rate};
use crate::render::document::{Part, Section, Table};
use crate::render::figures;
use crate::report::Report;

pub(super) fn section(report: &Report) -> Option<Section> {
    let log = report.log.as_ref()?;
    let mut row = vec![
        figures::bytes(log.measurement.job.block_bytes.into()),
        figures::number_or_dash(rate(&log.measurement)),
    ];
    row.extend(latency_cells(&log.measurement));
    let columns = ["write", "per second"].into_iter().chain(LATENCY_COLUMNS);
    let parts = vec![
        Part::Verdict(log.is_fit_for_etcd, verdict(log.is_fit_for_etcd).into()),
        Part::Table(Table::new("", columns, vec![row])),
    ];
    let text = "Small writes one after the other as a database writes its log: each is durable before the next one begins. etcd asks that 99 of 100 take less than 10 ms.";
    Some(Section { id: "log", title: "Synced log", text: text.into(), parts })
}

pub(super) fn verdict(is_fit: bool) -> &'static str {
    if is_fit {
        "Fit for a log by etcd's rule: 99 of 100 synced writes take less than 10 ms."
    } else {
        "Not fit for a log by etcd's rule: more than one in 100 synced writes takes 10 ms or longer."
    }
}

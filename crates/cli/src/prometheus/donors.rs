//! What a heap borrows, in the text format.

use std::collections::HashSet;
use std::fmt::Write;

use crate::borrowed::{Borrowed, Donor};
use crate::error::printable;

use super::Kind::{self, Counter, Gauge};
use super::{buckets, escaped, family, metric, name};

/// Histograms of each donor's transfers.
pub const LATENCIES: [&str; 2] =
    ["aquifer_donor_read_latency_seconds", "aquifer_donor_write_latency_seconds"];

/// Numbers of all donors together: where the library has them, what they are called here, and what they are.
pub const OF_ALL: &[(&str, &str, Kind, &str)] = &[
    ("parts", "remote_parts", Gauge, "Parts of the device that are used."),
    ("placed", "remote_parts_placed", Gauge, "Parts of the device that have all slabs that they should."),
    ("remote_reads", "remote_reads", Counter, "Pages read from donors."),
    (
        "decoded_reads",
        "remote_decoded_reads",
        Counter,
        "Pages made from those of other donors by their parity.",
    ),
    ("buffer_reads", "remote_buffer_reads", Counter, "Pages read from the buffer before flash."),
    (
        "flash_reads",
        "remote_flash_reads",
        Counter,
        "Pages read from flash because no donor had them yet, or not any more.",
    ),
    ("remote_writes", "remote_writes", Counter, "Pages written to donors."),
    (
        "wrong_pages",
        "remote_wrong_pages",
        Counter,
        "Pages of which a donor had other bytes than it was given.",
    ),
    ("lost_slabs", "remote_lost_slabs", Counter, "Slabs lost before they were given back."),
    ("lost_pages", "remote_lost_pages", Counter, "Reads of pages that nobody has any more."),
];

/// A number of a donor.
type Number = (&'static str, Kind, &'static str, fn(&Donor) -> u64);

/// Numbers of each donor.
pub const OF_EACH: &[Number] = &[
    ("donor_connected", Gauge, "Whether the donor can be borrowed from.", |donor| {
        donor.is_connected().into()
    }),
    ("donor_slabs", Gauge, "Slabs borrowed from the donor.", |donor| donor.slabs),
    ("donor_reads", Counter, "Transfers from the donor.", |donor| donor.reads),
    ("donor_read_bytes", Counter, "Bytes read from the donor.", |donor| donor.read_bytes),
    ("donor_writes", Counter, "Transfers to the donor.", |donor| donor.writes),
    ("donor_written_bytes", Counter, "Bytes written to the donor.", |donor| donor.written_bytes),
];

/// Names of metrics that nothing else may have.
pub fn names() -> impl Iterator<Item = String> {
    let all = OF_ALL.iter().map(|&(_, number, kind, _)| name(number, kind));
    let each = OF_EACH.iter().map(|&(number, kind, ..)| name(number, kind));
    all.chain(each).chain(std::iter::once("aquifer_donor_info".to_owned()))
}

/// Numbers of all donors, then of each with its address as a label.
pub fn text(out: &mut String, borrowed: &Borrowed, pid: &str) {
    let numbers = borrowed.numbers();
    for &(number, called, kind, help) in OF_ALL {
        if let Some(value) = numbers.get(number) {
            metric(out, &name(called, kind), kind, help, pid, *value);
        }
    }
    let donors = labelled(borrowed, pid);
    if donors.is_empty() {
        return;
    }
    family(
        out,
        "aquifer_donor_info",
        "gauge",
        "What carries transfers of the donor, and what it fails with.",
    );
    for (donor, labels) in &donors {
        let label = |text: &str| escaped(&printable(text));
        let (provider, domain) = (label(donor.provider.as_deref().unwrap_or_default()), label(&donor.domain));
        let _ = writeln!(out, "aquifer_donor_info{{{labels},provider=\"{provider}\",domain=\"{domain}\"}} 1");
    }
    for &(number, kind, help, of) in OF_EACH {
        let name = name(number, kind);
        family(out, &name, kind.word(), help);
        donors.iter().for_each(|(donor, labels)| {
            let _ = writeln!(out, "{name}{{{labels}}} {}", of(donor));
        });
    }
    let [read, write] = LATENCIES;
    histogram(out, read, "How long transfers from the donor took.", &donors, |donor| &donor.read_latency);
    histogram(out, write, "How long transfers to the donor took.", &donors, |donor| &donor.write_latency);
}

fn histogram(
    out: &mut String,
    name: &str,
    help: &str,
    donors: &[(&Donor, String)],
    of: impl Fn(&Donor) -> &Option<crate::latency::Latency>,
) {
    let known: Vec<_> =
        donors.iter().filter_map(|(donor, labels)| Some((of(donor).as_ref()?, labels))).collect();
    if !known.is_empty() {
        family(out, name, "histogram", help);
        known.iter().for_each(|(latency, labels)| buckets(out, name, latency, labels));
    }
}

/// Lists each donor with its labels. A donor that is named twice appears once: two series with the same
/// labels are an error.
fn labelled<'a>(borrowed: &'a Borrowed, pid: &str) -> Vec<(&'a Donor, String)> {
    let mut seen = HashSet::new();
    let labels = |donor: &Donor| format!("{pid},donor=\"{}\"", escaped(&printable(&donor.address)));
    let all = borrowed.donors.iter().map(|donor| (donor, labels(donor)));
    all.filter(|(_, labels)| seen.insert(labels.clone())).collect()
}

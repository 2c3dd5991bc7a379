//! What a donor lends, in the text format.

use std::collections::BTreeMap;
use std::fmt::Write;

use aquifer_remote::control::Borrowing;
use aquifer_remote::donor::DonorNow;

use super::Kind::{self, Counter, Gauge};
use super::{escaped, family, metric, name, up};
use crate::error::printable;

/// A number of the donor.
type Number = (&'static str, Kind, &'static str, fn(&DonorNow) -> u64);

const OF_ALL: &[Number] = &[
    ("lending_slabs", Gauge, "Slabs in RAM, lent or not.", |now| now.slabs),
    ("lending_lent_slabs", Gauge, "Slabs that borrowers have.", |now| now.lent),
    ("lending_leaving_slabs", Gauge, "Slabs that were asked back and did not come yet.", |now| now.leaving),
    ("lending_borrowers", Gauge, "Connections of borrowers.", |now| now.borrowers),
    ("lending_evicted_slabs", Counter, "Slabs that were taken back for programs of this machine.", |now| {
        now.evicted
    }),
    ("lending_forced_slabs", Counter, "Of these, slabs whose borrower did not leave in time.", |now| {
        now.forced
    }),
    ("lending_unlocked", Gauge, "Whether slabs may be swapped out.", |now| u64::from(now.is_unlocked)),
];

/// The donor's numbers, and the slabs of each host that borrows, or of each program where there are no certificates.
pub fn text(now: &DonorNow, borrowers: &[Borrowing], slab_bytes: u64) -> String {
    let mut out = up(1);
    let pid = format!("pid=\"{}\"", std::process::id());
    for (number, kind, help, of) in OF_ALL {
        metric(&mut out, &name(number, *kind), *kind, help, &pid, of(now));
    }
    metric(&mut out, "aquifer_lending_slab_bytes", Gauge, "Bytes of a slab.", &pid, slab_bytes);
    let mut lent: BTreeMap<&str, u64> = BTreeMap::new();
    for Borrowing { host, name, slabs } in borrowers {
        *lent.entry(if host.is_empty() { name } else { host }).or_default() += slabs;
    }
    family(&mut out, "aquifer_lending_borrower_slabs", "gauge", "Slabs that a borrower has.");
    for (borrower, slabs) in lent {
        let borrower = escaped(&printable(borrower));
        let _ = writeln!(out, "aquifer_lending_borrower_slabs{{{pid},borrower=\"{borrower}\"}} {slabs}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_a_host_are_one_borrower() {
        let of = |host: &str, name: &str, slabs| Borrowing { host: host.into(), name: name.into(), slabs };
        let borrowers = [of("alpha", "a", 2), of("alpha", "b", 3), of("", "quote\"d", 1)];
        let text =
            text(&DonorNow { slabs: 9, lent: 6, evicted: 4, ..DonorNow::default() }, &borrowers, 64 << 20);
        let value = |name: &str| {
            text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split(' ').next_back())
        };
        assert_eq!(value("aquifer_lending_slabs"), Some("9"));
        assert_eq!(value("aquifer_lending_evicted_slabs_total"), Some("4"));
        let of_alpha =
            format!("aquifer_lending_borrower_slabs{{pid=\"{}\",borrower=\"alpha\"}} 5", std::process::id());
        assert!(text.contains(&of_alpha), "{text}");
        assert!(text.contains("borrower=\"quote\\\"d\"} 1"), "{text}");
    }
}

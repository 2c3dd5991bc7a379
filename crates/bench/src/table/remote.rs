//! Memory of other machines beside the bare transport.

use std::collections::BTreeMap;

use super::{markdown, number};
use crate::remote::sample::{Remote, Waiting};
use crate::sample::{Record, median};

const BARE: &str = "libfabric";

/// The table; empty without samples.
pub fn render(records: &[Record]) -> String {
    let mut groups: BTreeMap<(Waiting, usize, &str), Vec<&Remote>> = BTreeMap::new();
    for record in records {
        let Record::Remote(sample) = record else { continue };
        let rank = ["libfabric", "slab", "mirror"].iter().position(|peer| *peer == sample.peer).unwrap_or(9);
        groups.entry((sample.waiting, rank, &sample.peer)).or_default().push(sample);
    }
    let of_runs = |runs: &[&Remote], figure: &dyn Fn(&Remote) -> f64| {
        median(runs.iter().map(|run| figure(run)).collect()).unwrap_or(f64::NAN)
    };
    let bare = |waiting: Waiting, run: u32| {
        let is_it = |sample: &&Remote| sample.peer == BARE && sample.waiting == waiting && sample.run == run;
        let samples = records.iter().filter_map(|record| match record {
            Record::Remote(sample) => Some(&**sample),
            _ => None,
        });
        samples.into_iter().find(is_it)
    };
    let lines: Vec<Vec<String>> = groups
        .iter()
        .map(|((waiting, _, peer), runs)| {
            let by_bare = |figure: fn(&Remote) -> f64| {
                of_runs(runs, &|run| {
                    bare(*waiting, run.run).map_or(f64::NAN, |bare| figure(run) / figure(bare))
                })
            };
            vec![
                waiting.to_string(),
                (*peer).to_owned(),
                number(Some(of_runs(runs, &|run| run.read_us)), 1),
                number(Some(by_bare(|run| run.read_us)), 2),
                number(Some(of_runs(runs, &|run| run.fill_mib_s)), 0),
                number(Some(by_bare(|run| run.fill_mib_s)), 2),
                runs.len().to_string(),
            ]
        })
        .collect();
    let columns = [
        "both sides",
        "who",
        "4 KiB read us",
        "by libfabric",
        "128 KiB writes MiB/s",
        "by libfabric",
        "runs",
    ];
    markdown("Memory of a donor beside bare libfabric", &columns, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Context;

    #[test]
    fn ratios_are_of_the_same_run() {
        let sample = |peer: &str, run, read_us, fill_mib_s| {
            let context = Context::default();
            let sample = Remote {
                peer: peer.to_owned(),
                waiting: Waiting::Blocking,
                run,
                read_us,
                fill_mib_s,
                context,
            };
            Record::Remote(Box::new(sample))
        };
        let records = [
            sample(BARE, 1, 10.0, 100.0),
            sample(BARE, 2, 100.0, 10.0),
            sample("slab", 1, 11.0, 90.0),
            sample("slab", 2, 110.0, 9.0),
        ];
        let text = render(&records);
        assert!(
            text.contains("| blocking | slab | 60.5 | 1.10 |") && text.contains("| 0.90 | 2 |"),
            "{text}"
        );
        assert_eq!(render(&[]), "");
    }
}

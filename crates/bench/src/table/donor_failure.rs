//! Programs of which a donor fails.

use std::collections::BTreeMap;

use aquifer_base::units::format_size;

use super::{markdown, number};
use crate::recover::failure::Failure;
use crate::recover::sample::DonorFailure;
use crate::recover::{Copies, Provider};
use crate::sample::Record;
use crate::study::median_of as median;

const COLUMNS: [&str; 11] = [
    "failure",
    "operations/s before",
    "longest pause before ms",
    "longest pause ms",
    "80 % again after s",
    "below 80 % s",
    "operations/s at the end",
    "of before",
    "donor's RAM back after s",
    "of MiB",
    "runs",
];
const NOTE: &str = "\n80 % again: from the failure to the first slice of 50 ms of the first five whose median is 80 % of that before; 0 if none of the first two \
    seconds were below, never if it did not come. below 80 %: all that were, up to the end of the run. donor's RAM back: of leave from SIGTERM to the end of its process; of press \
    from when other programs had taken what they needed until its resident memory was so much less.\n";

/// Provider, copies, bytes of data and of RAM.
type Scale = (Provider, Copies, u64, u64);
type Runs<'a> = BTreeMap<Failure, Vec<&'a DonorFailure>>;

/// One table for each kind of donors and size; empty without samples.
pub fn render(records: &[Record]) -> String {
    let mut scales: BTreeMap<Scale, Runs<'_>> = BTreeMap::new();
    for record in records {
        let Record::DonorFailure(sample) = record else { continue };
        let scale = (sample.provider, sample.copies, sample.data_bytes, sample.ram_bytes);
        scales.entry(scale).or_default().entry(sample.failure).or_default().push(sample);
    }
    let tables: Vec<_> = scales.iter().map(|(scale, runs)| table(*scale, runs)).collect();
    if tables.is_empty() { String::new() } else { tables.join("\n") + NOTE }
}

fn table((provider, copies, data_bytes, ram_bytes): Scale, runs: &Runs<'_>) -> String {
    let title = format!(
        "A donor of two fails: {} of data, {} of RAM, provider {provider}, copies {copies}: medians",
        format_size(data_bytes),
        format_size(ram_bytes),
    );
    let lines: Vec<_> = runs.iter().map(|(failure, samples)| line(*failure, samples)).collect();
    markdown(&title, &COLUMNS, &lines)
}

fn line(failure: Failure, samples: &[&DonorFailure]) -> Vec<String> {
    let of = |value: fn(&DonorFailure) -> f64| median(samples.iter().map(|sample| value(sample)).collect());
    vec![
        failure.to_string(),
        number(of(|sample| sample.recovery.before_ops_per_s), 0),
        number(of(|sample| sample.recovery.before_pause_ms), 1),
        number(of(|sample| sample.recovery.pause_ms), 1),
        recovered(of(|sample| sample.recovery.recovered_s.unwrap_or(f64::INFINITY))),
        number(of(|sample| sample.recovery.slow_s), 2),
        number(of(|sample| sample.recovery.end_ops_per_s), 0),
        number(of(|sample| sample.recovery.end_share()), 2),
        number(median(samples.iter().filter_map(|sample| sample.ram_back_s()).collect()), 3),
        number(
            median(samples.iter().filter_map(|sample| Some(mib(sample.pressed?.returned_bytes))).collect()),
            0,
        ),
        samples.len().to_string(),
    ]
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn recovered(seconds: Option<f64>) -> String {
    if seconds.is_some_and(f64::is_infinite) { "never".to_owned() } else { number(seconds, 2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Context;
    use crate::recover::press::Pressed;
    use crate::recover::recovery::Recovery;

    fn sample(failure: Failure, run: u32, recovered_s: Option<f64>, left_s: Option<f64>) -> Record {
        Record::DonorFailure(Box::new(DonorFailure {
            failure,
            provider: Provider::Tcp,
            copies: Copies::Flash,
            run,
            data_bytes: 64 << 20,
            ram_bytes: 32 << 20,
            flash_bytes: 192 << 20,
            lent_slabs: 4,
            setup_s: 1.0,
            warmup_s: 3.0,
            failed_ms: 6001.5,
            slice_ops: vec![7, 8, 9],
            recovery: Recovery {
                before_ops_per_s: 20_000.0,
                before_pause_ms: 2.0,
                pause_ms: 1000.0 * f64::from(run),
                recovered_s,
                slow_s: 1.5,
                end_ops_per_s: 18_000.0,
            },
            left_s,
            pressed: None,
            context: Context::default(),
        }))
    }

    fn pressed(run: u32, returned_s: f64) -> Record {
        let mut record = sample(Failure::Press, run, Some(0.0), None);
        let Record::DonorFailure(sample) = &mut record else { unreachable!("just made") };
        sample.pressed = Some(Pressed {
            taken_bytes: 900 << 20,
            taken_s: 0.5,
            needed_bytes: 208 << 20,
            returned_bytes: 207 << 20,
            returned_s,
            forced_slabs: 0,
        });
        record
    }

    #[test]
    fn medians_of_each_failure() {
        let records = [
            sample(Failure::Leave, 1, Some(0.0), Some(0.25)),
            sample(Failure::Kill, 1, Some(1.0), None),
            sample(Failure::Kill, 2, None, None),
            sample(Failure::Kill, 3, Some(1.2), None),
            sample(Failure::Stop, 1, None, None),
            pressed(1, 1.5),
            pressed(2, 0.5),
            pressed(3, 0.75),
        ];
        let text = render(&records);
        for line in [
            "| kill | 20000 | 2.0 | 2000.0 | 1.20 | 1.50 | 18000 | 0.90 | - | - | 3 |",
            "| stop | 20000 | 2.0 | 1000.0 | never | 1.50 | 18000 | 0.90 | - | - | 1 |",
            "| leave | 20000 | 2.0 | 1000.0 | 0.00 | 1.50 | 18000 | 0.90 | 0.250 | - | 1 |",
            "| press | 20000 | 2.0 | 2000.0 | 0.00 | 1.50 | 18000 | 0.90 | 0.750 | 207 | 3 |",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.contains("64 MiB of data, 32 MiB of RAM, provider tcp, copies flash"), "{text}");
        assert_eq!(render(&[]), "");
    }

    #[test]
    fn lines_survive_the_file() {
        let record = pressed(2, 0.5);
        let line = serde_json::to_string(&record).expect("plain fields");
        assert!(
            line.contains("\"needed_bytes\":218103808,\"returned_bytes\":217055232,\"returned_s\":0.5"),
            "{line}"
        );
        assert_eq!(serde_json::from_str::<Record>(&line).expect("just written"), record);
        let record = sample(Failure::Stop, 2, None, None);
        let line = serde_json::to_string(&record).expect("plain fields");
        assert!(
            line.contains("\"kind\":\"donor-failure\"") && line.contains("\"failure\":\"stop\""),
            "{line}"
        );
        assert_eq!(serde_json::from_str::<Record>(&line).expect("just written"), record);
    }
}

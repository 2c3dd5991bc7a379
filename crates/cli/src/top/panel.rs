//! Rows of numbers with titles.

use aquifer_status::Subject;

use crate::amounts::{count, percent, size};
use crate::reply::{Numbers, Sample};

use super::rates::{Rates, ratio, share};

/// Said in place of a number that is not known.
const UNKNOWN: &str = "-";
/// Of a page that is compressed.
const PAGE_BYTES: f64 = 4096.0;
/// Numbers in a row.
pub const CELLS: usize = 3;

/// Rows of one kind, the important ones first.
pub struct Panel {
    /// What they are about.
    pub title: &'static str,
    /// What the numbers mean.
    pub columns: [&'static str; CELLS],
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row of numbers.
pub struct Row {
    /// Its name.
    pub label: &'static str,
    /// Its numbers.
    pub cells: [String; CELLS],
    /// Whether they should worry somebody.
    pub is_alarm: bool,
}

impl Panel {
    /// Columns of the longest name, and a blank.
    pub fn label_columns(&self) -> usize {
        self.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0) + 1
    }
}

fn row(label: &'static str, cells: [String; CELLS]) -> Row {
    Row { label, cells, is_alarm: false }
}

fn nothing() -> String {
    String::new()
}

fn known<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or(UNKNOWN.into(), text)
}

fn times(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.2}x") } else { count(ratio) + "x" }
}

/// Numbers of now and of the interval before.
struct Source<'a> {
    now: &'a Numbers,
    rates: Option<&'a Rates>,
}

impl Source<'_> {
    /// A row of something that happens.
    fn events_row(&self, label: &'static str, name: &str) -> Row {
        row(label, [self.events_per_second(name), nothing(), self.events(name)])
    }

    /// A row of bytes.
    fn bytes_row(&self, label: &'static str, name: &str) -> Row {
        row(label, [self.bytes_per_second(name), nothing(), self.bytes(name)])
    }

    /// A row of bytes that several operations moved.
    fn traffic_row(&self, label: &'static str, bytes: &str, operations: &str) -> Row {
        row(label, [self.bytes_per_second(bytes), self.events_per_second(operations), self.bytes(bytes)])
    }

    /// A row of what should not happen.
    fn errors_row(&self, label: &'static str, name: &str) -> Row {
        let is_alarm = self.now.get(name).is_some_and(|&errors| errors > 0);
        Row { is_alarm, ..row(label, [nothing(), nothing(), self.events(name)]) }
    }

    fn events_per_second(&self, name: &str) -> String {
        known(self.rates.and_then(|rates| rates.per_second(name)), |rate| count(rate) + "/s")
    }

    fn bytes_per_second(&self, name: &str) -> String {
        known(self.rates.and_then(|rates| rates.per_second(name)), |rate| size(rate.round()) + "/s")
    }

    fn events(&self, name: &str) -> String {
        known(self.now.get(name), |&n| count(n as f64))
    }

    fn bytes(&self, name: &str) -> String {
        known(self.now.get(name), |&n| size(n as f64))
    }

    /// The function of the increases in the interval.
    fn lately<T>(&self, of: impl Fn(&Numbers) -> Option<T>) -> Option<T> {
        of(self.rates?.increases())
    }
}

/// The panels of what `sample` is of: what is asked of it, what goes to the device, what runs in the background.
pub fn panels(sample: &Sample, rates: Option<&Rates>) -> [Panel; 3] {
    let source = &Source { now: &sample.stats, rates };
    match sample.subject {
        Subject::Heap => [faults(source), device(source), background(source)],
        Subject::Volume => [pages(source), volume_device(source), volume_work(source)],
        Subject::Durable => [transactions(source), durable_device(source), durable_cleaner(source)],
    }
}

/// The number whose history is shown, and what to call it.
pub fn history(subject: Subject) -> (&'static str, &'static str) {
    match subject {
        Subject::Heap => ("faults", "Faults"),
        Subject::Volume => ("pages_read", "Pages read"),
        Subject::Durable => ("commits", "Commits"),
    }
}

/// What faults found.
fn faults(source: &Source<'_>) -> Panel {
    const FOUND: [&str; 3] = ["hits", "misses", "zero_fills"];
    let found = |label, name: &'static str| {
        let of = |numbers: &Numbers| share(numbers, name, &FOUND);
        let shares = [known(source.lately(of), percent), known(of(source.now), percent)];
        let [lately, overall] = shares;
        row(label, [source.events_per_second(name), lately, overall])
    };
    Panel {
        title: "Faults",
        columns: ["now", "share now", "overall"],
        rows: vec![
            found("found in RAM", "hits"),
            found("read from flash", "misses"),
            found("never written", "zero_fills"),
            source.events_row("all faults", "faults"),
            source.events_row("first writes", "faults_write_upgrade"),
        ],
    }
}

/// What goes to and from the device.
fn device(source: &Source<'_>) -> Panel {
    let amplification = |numbers: &Numbers| ratio(numbers, "device_written_bytes", "objects_written_bytes");
    let times = |ratio: Option<f64>| known(ratio, times);
    Panel {
        title: "Device",
        columns: ["now", "IOPS", "overall"],
        rows: vec![
            source.traffic_row("read", "device_read_bytes", "device_reads"),
            source.traffic_row("written", "device_written_bytes", "device_writes"),
            row(
                "write amplification",
                [times(source.lately(amplification)), nothing(), times(amplification(source.now))],
            ),
            source.errors_row("device errors", "io_errors"),
        ],
    }
}

/// What runs in the background, and who waits for it.
fn background(source: &Source<'_>) -> Panel {
    let is_alarm =
        source.lately(|numbers| numbers.get("writer_waits").copied()).is_some_and(|waits| waits > 0);
    Panel {
        title: "Cleaner and writer",
        columns: ["now", "", "overall"],
        rows: vec![
            source.events_row("segments cleaned", "segments_cleaned"),
            source.bytes_row("bytes copied", "objects_cleaned_bytes"),
            Row { is_alarm, ..source.events_row("writer waits", "writer_waits") },
            source.events_row("objects evicted", "evicted_objects"),
            source.events_row("pages evicted", "evicted_pages"),
        ]
        .into_iter()
        .chain(compression(source))
        .collect(),
    }
}

/// Pages that were compressed, and to what part of their size, for heaps that have tried it.
fn compression(source: &Source<'_>) -> Vec<Row> {
    let of_page =
        |numbers: &Numbers| ratio(numbers, "compressed_bytes", "compressed").map(|bytes| bytes / PAGE_BYTES);
    let tried = ["compressed", "incompressible"].map(|name| source.now.get(name).copied().unwrap_or(0));
    if tried == [0, 0] {
        return Vec::new();
    }
    let shares = [source.lately(of_page), of_page(source.now)].map(|share| known(share, percent));
    let [lately, overall] = shares;
    vec![
        source.events_row("pages compressed", "compressed"),
        row("of their size", [lately, nothing(), overall]),
        source.events_row("decompressed", "decompressed"),
    ]
}

/// What a volume reads and writes of files.
fn pages(source: &Source<'_>) -> Panel {
    Panel {
        title: "Pages",
        columns: ["now", "", "overall"],
        rows: vec![
            source.events_row("read from flash", "pages_read"),
            source.events_row("table nodes read", "nodes_read"),
            source.events_row("written whole", "pages_committed"),
            source.events_row("written as changes", "patches_committed"),
        ],
    }
}

fn volume_device(source: &Source<'_>) -> Panel {
    Panel {
        title: "Device",
        columns: ["now", "IOPS", "overall"],
        rows: vec![
            source.traffic_row("read", "device_read_bytes", "device_reads"),
            source.traffic_row("written", "device_written_bytes", "device_writes"),
            source.events_row("waits until durable", "device_syncs"),
            source.errors_row("device errors", "io_errors"),
        ],
    }
}

fn volume_work(source: &Source<'_>) -> Panel {
    Panel {
        title: "Commits and cleaner",
        columns: ["now", "", "overall"],
        rows: vec![
            source.events_row("commits", "commits"),
            source.events_row("segments cleaned", "segments_cleaned"),
            source.events_row("pages copied", "pages_moved"),
        ],
    }
}

/// What a durable heap is asked for.
fn transactions(source: &Source<'_>) -> Panel {
    Panel {
        title: "Transactions",
        columns: ["now", "", "overall"],
        rows: vec![source.events_row("commits", "commits")],
    }
}

fn durable_device(source: &Source<'_>) -> Panel {
    Panel {
        title: "Device",
        columns: ["now", "", "overall"],
        rows: vec![
            source.bytes_row("made durable", "device_written_bytes"),
            source.events_row("waits until durable", "device_syncs"),
        ],
    }
}

fn durable_cleaner(source: &Source<'_>) -> Panel {
    Panel {
        title: "Cleaner",
        columns: ["now", "", "overall"],
        rows: vec![
            source.events_row("chunks cleaned", "chunks_cleaned"),
            source.bytes_row("bytes copied", "copied_bytes"),
            source.errors_row("damaged chunks", "damaged_chunks"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sample(numbers: &[(&str, u64)]) -> Sample {
        let stats = numbers.iter().map(|&(name, number)| (name.to_owned(), number)).collect();
        Sample { pid: 1, version: "1".into(), subject: Subject::default(), stats, remote: None }
    }

    fn cells(panel: &Panel, label: &str) -> [String; CELLS] {
        panel.rows.iter().find(|row| row.label == label).expect("such a row").cells.clone()
    }

    #[test]
    fn rates_shares_and_what_is_overall() {
        let before = sample(&[("hits", 10), ("misses", 10), ("zero_fills", 20), ("faults", 40)]);
        let after = sample(&[("hits", 70), ("misses", 20), ("zero_fills", 20), ("faults", 120)]);
        let rates = Rates::between(&before, &after, Duration::from_secs(2));
        let panel = faults(&Source { now: &after.stats, rates: rates.as_ref() });
        assert_eq!(cells(&panel, "found in RAM"), ["30/s", "85.7 %", "63.6 %"]);
        assert_eq!(cells(&panel, "read from flash"), ["5/s", "14.3 %", "18.2 %"]);
        assert_eq!(cells(&panel, "all faults"), ["40/s", "", "120"]);
        assert_eq!(cells(&panel, "first writes"), ["-", "", "-"]);
    }

    #[test]
    fn amplification_is_of_the_interval_and_overall() {
        let numbers =
            |device, objects| [("device_written_bytes", device), ("objects_written_bytes", objects)];
        let (before, after) = (sample(&numbers(1000, 1000)), sample(&numbers(4000, 2000)));
        let rates = Rates::between(&before, &after, Duration::from_secs(1));
        let panel = device(&Source { now: &after.stats, rates: rates.as_ref() });
        assert_eq!(cells(&panel, "write amplification"), ["3.00x", "", "2.00x"]);
        assert_eq!(cells(&panel, "written"), ["2.93 KiB/s", "-", "3.91 KiB"]);
        let idle = Rates::between(&after, &after, Duration::from_secs(1));
        assert_eq!(
            cells(&device(&Source { now: &after.stats, rates: idle.as_ref() }), "write amplification")[0],
            "-"
        );
    }

    #[test]
    fn compression_is_shown_where_it_was_tried() {
        let labels = |numbers: &[(&str, u64)]| {
            background(&Source { now: &sample(numbers).stats, rates: None }).rows.len()
        };
        assert_eq!(labels(&[("compressed", 0)]), 5);
        let numbers = [("compressed", 2), ("compressed_bytes", 4096), ("decompressed", 1)];
        let panel = background(&Source { now: &sample(&numbers).stats, rates: None });
        assert_eq!(cells(&panel, "of their size"), ["-", "", "50.0 %"]);
        assert_eq!(cells(&panel, "decompressed"), ["-", "", "1"]);
    }

    #[test]
    fn errors_and_waits_alarm() {
        let alarms = |panel: Panel| -> Vec<_> {
            panel.rows.iter().filter(|row| row.is_alarm).map(|row| row.label).collect()
        };
        assert_eq!(
            alarms(device(&Source { now: &sample(&[("io_errors", 1)]).stats, rates: None })),
            ["device errors"]
        );
        let (before, after) = (sample(&[("writer_waits", 1)]), sample(&[("writer_waits", 2)]));
        let rates = Rates::between(&before, &after, Duration::from_secs(1));
        assert_eq!(
            alarms(background(&Source { now: &after.stats, rates: rates.as_ref() })),
            ["writer waits"]
        );
        assert_eq!(alarms(background(&Source { now: &after.stats, rates: None })), [""; 0]);
    }
}

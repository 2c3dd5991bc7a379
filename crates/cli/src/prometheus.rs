//! The text format of Prometheus, version 0.0.4.

mod donors;
pub mod lending;

use std::collections::HashSet;
use std::fmt::Write;

use crate::error::printable;
use crate::heap::Measurement;
use crate::latency::Latency;
use crate::reply::Numbers;

use Kind::{Counter, Gauge};

/// What HTTP calls the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Longest name of a number that a newer library may have.
const NAME_CHARS_MAX: usize = 64;
const LATENCY: &str = "aquifer_flash_read_latency_seconds";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// At this moment.
    Gauge,
    /// Since the heap was opened.
    Counter,
}

impl Kind {
    /// As the format calls it.
    fn word(self) -> &'static str {
        if self == Counter { "counter" } else { "gauge" }
    }
}

/// Each number of the library, with what it is.
const METRICS: &[(&str, Kind, &str)] = &[
    ("ram_budget_bytes", Gauge, "RAM that may be used."),
    ("ram_used_bytes", Gauge, "RAM in use."),
    ("metadata_bytes", Gauge, "RAM for entries, leaves, slot headers, bitmaps and segments."),
    ("page_buffer_bytes", Gauge, "RAM of mapped pages."),
    ("page_table_bytes", Gauge, "RAM of the kernel's page tables for mapped pages."),
    ("cache_bytes", Gauge, "RAM of the object cache."),
    ("cache_objects", Gauge, "Objects in the object cache."),
    ("objects", Gauge, "Objects allocated."),
    ("object_bytes", Gauge, "Bytes of allocated objects, rounded up to size classes."),
    ("flash_bytes", Gauge, "Bytes of flash that objects can use."),
    ("flash_live_bytes", Gauge, "Bytes of records on flash that are still needed."),
    ("faults", Counter, "Faults taken."),
    ("faults_write_upgrade", Counter, "First writes to pages that were read before."),
    ("hits", Counter, "Faults served from the object cache."),
    ("misses", Counter, "Faults that read flash."),
    ("zero_fills", Counter, "Faults on objects that were never written."),
    ("evicted_pages", Counter, "Pages evicted from the page buffer."),
    ("evicted_objects", Counter, "Objects evicted from the object cache."),
    ("device_reads", Counter, "Reads of the device."),
    ("device_read_bytes", Counter, "Bytes read from the device."),
    ("device_writes", Counter, "Writes to the device."),
    ("device_written_bytes", Counter, "Bytes written to the device."),
    ("objects_written", Counter, "Records written by the writer."),
    ("objects_written_bytes", Counter, "Payload of records written by the writer."),
    ("objects_cleaned", Counter, "Records copied by the cleaner."),
    ("objects_cleaned_bytes", Counter, "Payload of records copied by the cleaner."),
    ("leaves_written", Counter, "Leaves of the table written to flash."),
    ("leaves_written_bytes", Counter, "Bytes of records of leaves written to flash."),
    ("leaves_read", Counter, "Leaves of the table read from flash."),
    ("segments_cleaned", Counter, "Segments emptied by the cleaner."),
    ("writer_waits", Counter, "Times that a fault waited for the writer."),
    ("io_errors", Counter, "Errors of the device."),
    ("flash_wait_ns", Counter, "Nanoseconds that threads waited for flash, and for room in RAM."),
    ("process_ram_bytes", Gauge, "Anonymous memory and page tables of the process."),
    (
        "group_used_bytes",
        Gauge,
        "What the tightest memory cgroup uses, kernel memory included; 0 without a limit.",
    ),
    ("group_limit_bytes", Gauge, "The limit of that memory cgroup."),
    ("decompressed", Counter, "Faults served by decompressing a page."),
    ("compressed", Counter, "Pages that were compressed."),
    ("compressed_bytes", Counter, "Bytes that they took then."),
    ("incompressible", Counter, "Pages that did not shrink when that was tried."),
    (
        "capacity_bytes",
        Gauge,
        "Bytes that the files of a volume can take, or that the file of a durable heap may have.",
    ),
    ("used_bytes", Gauge, "Bytes that the files of a volume take, with its table."),
    ("file_page_bytes", Gauge, "RAM of a volume's pages of files."),
    ("table_node_bytes", Gauge, "RAM of nodes of a volume's table."),
    ("dirty_page_bytes", Gauge, "RAM of pages that a volume's next commit writes."),
    ("pages_read", Counter, "Pages of files that a volume read from flash."),
    ("nodes_read", Counter, "Nodes of the table that a volume read from flash."),
    ("commits", Counter, "Commits of a volume or a durable heap."),
    ("pages_committed", Counter, "Pages that a volume's commits wrote whole."),
    ("patches_committed", Counter, "Pages of which a volume's commits wrote what had changed."),
    ("pages_moved", Counter, "Pages and patches that a volume's cleaner copied."),
    ("device_syncs", Counter, "Waits until what was written is durable."),
    ("file_bytes", Gauge, "Bytes of a durable heap's file."),
    ("reserve_bytes", Gauge, "Of these, bytes that are free."),
    ("live_bytes", Gauge, "Bytes of objects in a durable heap."),
    ("map_bytes", Gauge, "RAM of a durable heap's address map."),
    ("chunks_cleaned", Counter, "Chunks that a durable heap's cleaner emptied."),
    ("copied_bytes", Counter, "Bytes that a durable heap's cleaner copied."),
    ("damaged_chunks", Gauge, "Chunks of a durable heap that are not what was written there."),
];

/// The text while nobody answers.
pub fn down() -> String {
    up(0)
}

/// The text of a heap or a volume that answered.
pub fn text(measurement: &Measurement) -> String {
    let sample = &measurement.sample;
    let pid = format!("pid=\"{}\"", sample.pid);
    let mut out = up(1);
    let version = escaped(&printable(&sample.version));
    family(&mut out, "aquifer_info", "gauge", "Version of the library in the process.");
    let subject = sample.subject.word();
    let _ = writeln!(out, "aquifer_info{{{pid},version=\"{version}\",subject=\"{subject}\"}} 1");
    for &(number, kind, help) in METRICS {
        if let Some(value) = sample.stats.get(number) {
            metric(&mut out, &name(number, kind), kind, help, &pid, *value);
        }
    }
    unknown(&mut out, &sample.stats, &pid);
    if let Ok(latency) = &measurement.latency {
        family(&mut out, LATENCY, "histogram", "How long reads from flash took.");
        buckets(&mut out, LATENCY, latency, &pid);
    }
    if let Some(borrowed) = &sample.remote {
        donors::text(&mut out, borrowed, &pid);
    }
    out
}

fn up(up: u8) -> String {
    let mut out = String::new();
    family(&mut out, "aquifer_up", "gauge", "Whether the process answered.");
    let _ = writeln!(out, "aquifer_up {up}");
    out
}

fn name(number: &str, kind: Kind) -> String {
    format!("aquifer_{number}{}", if kind == Counter { "_total" } else { "" })
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn metric(out: &mut String, name: &str, kind: Kind, help: &str, pid: &str, value: u64) {
    family(out, name, kind.word(), help);
    let _ = writeln!(out, "{name}{{{pid}}} {value}");
}

/// Numbers of a newer library. Names that the format does not allow, or that are taken, are left out.
fn unknown(out: &mut String, numbers: &Numbers, pid: &str) {
    let mut taken: HashSet<String> = METRICS.iter().map(|&(number, kind, _)| name(number, kind)).collect();
    taken.extend(donors::names());
    taken.extend(["up", "info"].map(|taken| format!("aquifer_{taken}")));
    let is_known = |number: &str| METRICS.iter().any(|&(known, ..)| known == number);
    for (number, value) in numbers.iter().filter(|(number, _)| !is_known(number) && is_name(number)) {
        let name = name(number, Gauge);
        let is_of_histogram =
            donors::LATENCIES.iter().chain([&LATENCY]).any(|histogram| name.starts_with(histogram));
        if !taken.contains(&name) && !is_of_histogram {
            family(out, &name, "untyped", "A number that this version of the command does not know.");
            let _ = writeln!(out, "{name}{{{pid}}} {value}");
        }
    }
}

fn is_name(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Samples of a histogram. Buckets hold all reads up to their bound. The sum is there if the library knows it.
fn buckets(out: &mut String, name: &str, latency: &Latency, labels: &str) {
    let mut so_far = 0u64;
    for bucket in latency.buckets().iter() {
        so_far = so_far.saturating_add(bucket.count);
        // A bound that no time exceeds is the infinite one.
        if bucket.upper_ns < u64::MAX {
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{}\"}} {so_far}", seconds(bucket.upper_ns));
        }
    }
    let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {so_far}");
    if let Some(sum_ns) = latency.sum_ns() {
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", seconds(sum_ns));
    }
    let _ = writeln!(out, "{name}_count{{{labels}}} {so_far}");
}

/// Exact, and without an exponent.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// As the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests;

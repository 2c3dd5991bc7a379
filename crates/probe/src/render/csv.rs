//! All figures, one line for each round.

use std::fmt::Write;

use super::figures::{finite, ratio};
use crate::cells::{Cell, cells};
use crate::report::{Pattern, Report, Round, WriteMode};

const COLUMNS: &str = "section,part,pattern,read_percent,block_bytes,depth,write_mode,span_bytes,round,duration_s,ios,bytes,cpu_s,\
iops,megabytes_per_s,cpu_ns_per_io,mean_ns,p50_ns,p99_ns,p999_ns,max_ns,write_amplification\n";

pub(crate) fn csv(report: &Report) -> String {
    let mut text = String::from(COLUMNS);
    saturation(&mut text, report);
    for cell in cells(report) {
        for (number, round) in cell.measurement.rounds.iter().enumerate() {
            line(&mut text, &cell, number, round);
        }
    }
    text
}

fn saturation(text: &mut String, report: &Report) {
    let mut since = 0.0;
    for (number, point) in report.saturation.iter().enumerate() {
        let fields = [
            finite(point.end_s - since).map_or_else(String::new, |length| length.to_string()),
            String::new(),
            point.bytes_written.to_string(),
            String::new(),
            field(point.iops),
            ",,,".into(),
            point.p99_ns.to_string(),
            String::new(),
            point.max_ns.to_string(),
            point.write_amplification.map_or_else(String::new, field),
        ];
        put(text, format_args!("saturation,{number},,,,,,,0,{}\n", fields.join(",")));
        since = point.end_s;
    }
}

fn line(text: &mut String, cell: &Cell<'_>, number: usize, round: &Round) {
    let job = &cell.measurement.job;
    put(text, format_args!("{},{},", cell.section, cell.part));
    let (pattern, mode) = (pattern(job.pattern), write_mode(job.write_mode));
    let (percent, block, depth, span) = (job.read_percent, job.block_bytes, job.depth, job.span_bytes);
    put(text, format_args!("{pattern},{percent},{block},{depth},{mode},{span},{number},"));
    let latency = &round.latency;
    let cpu_ns = ratio(round.cpu_s * 1e9, round.ios as f64);
    let fields = [
        field(round.duration_s),
        round.ios.to_string(),
        round.bytes.to_string(),
        field(round.cpu_s),
        field(round.iops()),
        field(round.megabytes_per_s()),
        cpu_ns.map_or_else(String::new, field),
        field(latency.mean_ns),
        latency.p50_ns.to_string(),
        latency.p99_ns.to_string(),
        latency.p999_ns.to_string(),
        latency.max_ns.to_string(),
    ];
    put(text, format_args!("{},\n", fields.join(",")));
}

fn field(value: f64) -> String {
    finite(value).map_or_else(String::new, |value| value.to_string())
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a String takes all that is written");
}

fn pattern(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
    }
}

fn write_mode(mode: WriteMode) -> &'static str {
    match mode {
        WriteMode::Cached => "cached",
        WriteMode::FlushEach => "flush_each",
        WriteMode::Dsync => "dsync",
    }
}

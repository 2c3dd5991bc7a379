//! All loads of a report as one list, each with its place in the report.

use std::fmt;

use crate::report::{FillState, Measurement, Report};

/// A load and where in the report it stands.
#[derive(Clone, Debug)]
pub(crate) struct Cell<'a> {
    /// The member of the report.
    pub section: &'static str,
    /// What tells it from other loads of its section, beside the job.
    pub part: Part,
    /// The load.
    pub measurement: &'a Measurement,
}

/// What tells loads with the same job apart.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Part {
    /// Nothing.
    Whole,
    /// A name.
    Named(&'static str),
    /// Full part in percent, and how it was filled.
    Fill(u8, FillState),
    /// Seconds of rest before.
    Pause(f64),
    /// Depth of the writer; whether this is the writer.
    Beside(u32, bool),
    /// Devices, bytes of a stripe.
    Raid(u32, u32),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Named(name) => f.write_str(name),
            Self::Fill(percent, FillState::Fresh) => write!(f, "{percent} % full fresh"),
            Self::Fill(percent, FillState::Fragmented) => write!(f, "{percent} % full fragmented"),
            Self::Pause(pause_s) => write!(f, "after {pause_s:.3} s of rest"),
            Self::Beside(0, _) => f.write_str("reader alone"),
            Self::Beside(depth, false) => write!(f, "reader beside depth {depth}"),
            Self::Beside(depth, true) => write!(f, "writer at depth {depth}"),
            Self::Raid(devices, stripe) => write!(f, "{devices} devices stripe {stripe} B"),
        }
    }
}

/// All loads, in the report's order.
pub(crate) fn cells(report: &Report) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    let mut add = |section, part, measurement| cells.push(Cell { section, part, measurement });
    if let Some(flush) = &report.flush {
        add("flush", Part::Named("write"), &flush.write);
        add("flush", Part::Named("write and flush"), &flush.write_and_flush);
    }
    if let Some(steady) = &report.steady {
        add("steady", Part::Whole, &steady.rounds);
    }
    report.matrix.iter().for_each(|load| add("matrix", Part::Whole, load));
    report.mixes.iter().for_each(|load| add("mixes", Part::Whole, load));
    report.latency.iter().for_each(|load| add("latency", Part::Whole, load));
    for fill in &report.fill {
        add("fill", Part::Fill(fill.fill_percent, fill.state), &fill.measurement);
    }
    if let Some(trim) = &report.trim {
        add("trim", Part::Named("before"), &trim.before);
        add("trim", Part::Named("after"), &trim.after);
    }
    if let Some(idle) = &report.idle {
        for (pause_s, burst) in idle.pauses_s.iter().zip(&idle.bursts) {
            add("idle", Part::Pause(*pause_s), burst);
        }
    }
    for test in &report.interference {
        add("interference", Part::Beside(test.writer_depth, false), &test.reader);
        if let Some(writer) = &test.writer {
            add("interference", Part::Beside(test.writer_depth, true), writer);
        }
    }
    report.log.iter().for_each(|log| add("log", Part::Whole, &log.measurement));
    report.working_set.iter().for_each(|load| add("working_set", Part::Whole, load));
    for raid in &report.raid {
        add("raid", Part::Raid(raid.devices, raid.stripe_bytes), &raid.measurement);
    }
    cells
}

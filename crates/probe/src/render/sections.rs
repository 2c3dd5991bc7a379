//! What a report says, one file for each subject.

mod about;
mod blocks;
mod depths;
mod every;
mod fill;
mod flush;
mod interference;
mod latency;
mod loads;
mod mixes;
mod raid;
mod recovery;
mod saturation;
mod stalls;
mod steady;
mod summary;
mod working_set;

use super::document::{Document, Section};
use crate::report::Report;

/// Everything, in the order in which one wants to know it. Sections that were not measured are not there.
pub(crate) fn document(report: &Report) -> Document {
    let sections: [Option<Section>; 17] = [
        Some(about::section(report)),
        flush::section(report),
        steady::section(report),
        saturation::section(report),
        blocks::section(report),
        depths::section(report),
        mixes::section(report),
        latency::section(report),
        fill::section(report),
        stalls::section(report),
        interference::section(report),
        flush::log_section(report),
        working_set::section(report),
        recovery::section(report),
        raid::section(report),
        about::notes(report),
        every::section(report),
    ];
    Document {
        title: format!("Flash probe of {}", report.target.name),
        warnings: summary::warnings(report),
        summary: summary::findings(report),
        sections: sections.into_iter().flatten().collect(),
    }
}

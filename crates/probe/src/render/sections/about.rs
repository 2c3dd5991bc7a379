//! What was measured, on what, and what must be known of it.

use crate::render::document::{Part, Section, Table};
use crate::render::figures::{self, DASH};
use crate::report::{Effort, Emulation, PreconditioningKind, QueueFlags, Report, Target, TargetKind};

type Fact = (String, String);

pub(super) fn section(report: &Report) -> Section {
    let mut facts = run(report);
    facts.extend(target(&report.target));
    facts.extend(report.target.emulation.iter().flat_map(emulation));
    facts.extend(machine(report));
    let mut parts = vec![facts_table("", facts)];
    if let Some(queue) = &report.target.queue {
        parts.push(facts_table("What the kernel believes (reported, not trusted)", believed(queue)));
    }
    let text = String::new();
    Section { id: "about", title: "What was measured", text, parts }
}

/// What could not be measured, and why.
pub(super) fn notes(report: &Report) -> Option<Section> {
    if report.notes.is_empty() {
        return None;
    }
    let rows = report.notes.iter().enumerate().map(|(at, note)| vec![(at + 1).to_string(), note.clone()]);
    let parts = vec![Part::Table(Table::new("", ["", "note"], rows.collect()))];
    let text = "What could not be measured and why, and what one must know to believe the rest.".into();
    Some(Section { id: "notes", title: "Notes", text, parts })
}

fn facts_table(caption: &str, facts: Vec<Fact>) -> Part {
    let rows = facts.into_iter().map(|(name, value)| vec![name, value]).collect();
    Part::Table(Table::new(caption, ["", ""], rows))
}

fn fact(name: &str, value: impl Into<String>) -> Fact {
    (name.into(), value.into())
}

fn run(report: &Report) -> Vec<Fact> {
    let end = if report.complete { "came to its end" } else { "was ended early" };
    let duration = figures::seconds(report.duration_s);
    vec![
        fact("Run", format!("{}, took {duration}, {end}", figures::date(report.started_unix_s))),
        fact("Effort", effort_name(report.effort)),
        fact("Preconditioning", preconditioning(report)),
        fact("Bytes written", figures::bytes(report.bytes_written)),
        fact("Seed", report.seed.to_string()),
    ]
}

pub(crate) fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Quick => "quick: few cells, short rounds",
        Effort::Standard => "standard",
        Effort::Full => "full",
    }
}

pub(crate) fn preconditioning_name(kind: PreconditioningKind) -> &'static str {
    match kind {
        PreconditioningKind::None => "none",
        PreconditioningKind::Quick => "quick",
        PreconditioningKind::Full => "full",
    }
}

fn preconditioning(report: &Report) -> String {
    let Some(done) = &report.preconditioning else { return "none recorded".into() };
    if done.kind == PreconditioningKind::None {
        return "none: the figures are of the device as it was found".into();
    }
    format!(
        "{}: {} sequentially, then {} at random, in {}{}",
        preconditioning_name(done.kind),
        figures::bytes(done.sequential_bytes),
        figures::bytes(done.random_bytes),
        figures::seconds(done.duration_s),
        if done.discarded { "; the target was discarded first" } else { "; the target was not discarded" }
    )
}

fn target(target: &Target) -> Vec<Fact> {
    let mut facts = vec![
        fact("Target", format!("{} ({})", target.name, kind_name(target.kind))),
        fact(
            "Size",
            format!(
                "{}, of which {} were used",
                figures::bytes(target.size_bytes),
                figures::bytes(target.tested_bytes)
            ),
        ),
        fact("Smallest transfer", figures::bytes(target.block_bytes.into())),
    ];
    facts.extend(target.model.iter().map(|model| fact("Model", model.clone())));
    facts.extend(target.file_system.iter().map(|name| fact("File system", name.clone())));
    facts
}

fn kind_name(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::BlockDevice => "a whole block device",
        TargetKind::File => "a file",
        TargetKind::Directory => "files in a directory",
        TargetKind::Nand => "an emulated NAND device, in simulated time",
    }
}

fn emulation(emulation: &Emulation) -> Vec<Fact> {
    let programs = [
        emulation.host_programs,
        emulation.cleaning_programs,
        emulation.leveling_programs,
        emulation.metadata_programs,
    ]
    .map(|count| figures::number(count as f64));
    let [host, cleaning, leveling, metadata] = programs;
    vec![
        fact("Emulation", emulation.parameters.clone()),
        fact("Over-provisioning (T - U) / U", figures::percent(emulation.over_provisioning)),
        fact("Write amplification of the run", figures::number(emulation.write_amplification)),
        fact(
            "Pages programmed",
            format!(
                "{host} for the host, {cleaning} by cleaning, {leveling} by wear levelling, {metadata} for metadata"
            ),
        ),
        fact("Blocks erased", figures::number(emulation.erases as f64)),
    ]
}

fn machine(report: &Report) -> Vec<Fact> {
    let machine = &report.machine;
    vec![
        fact(
            "Machine",
            format!(
                "{}, {} processors, {} of memory, kernel {}",
                machine.cpu_model,
                machine.cpus,
                figures::bytes(machine.memory_bytes),
                machine.kernel
            ),
        ),
        fact("Processor time taken by others (steal)", figures::percent(machine.steal_percent / 100.0)),
    ]
}

fn believed(queue: &QueueFlags) -> Vec<Fact> {
    let size = |size: Option<u32>| size.map_or_else(|| DASH.into(), |size| figures::bytes(size.into()));
    let yes_no = |flag: Option<bool>| match flag {
        None => DASH,
        Some(true) => "yes",
        Some(false) => "no",
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| DASH.into());
    let discard = match queue.discard_bytes_max {
        None => DASH.into(),
        Some(0) => "none".into(),
        Some(most) => format!("up to {}", figures::bytes(most)),
    };
    vec![
        fact("Block device", queue.device.clone()),
        fact("Rotational", yes_no(queue.rotational)),
        fact("Write cache", text(&queue.write_cache)),
        fact("Forced unit access", yes_no(queue.fua)),
        fact("Discard", discard),
        fact("Logical block", size(queue.logical_block_bytes)),
        fact("Physical block", size(queue.physical_block_bytes)),
        fact("Requests in the queue", queue.requests.map_or_else(|| DASH.into(), |count| count.to_string())),
        fact("Scheduler", text(&queue.scheduler)),
    ]
}

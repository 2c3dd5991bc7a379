//! The child: one system under one workload, in a process of its own.

use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::books::Books;
use super::churn::{Churn, Plan};
use super::sample::{Sample, Settings};
use super::system::System;
use super::workload::Workload;
use crate::child::{Event, Parent};
use crate::error::Result;
use crate::machine::Context;
use crate::process::cpu_ns;
use crate::sample::Record;

/// What the child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RumbleTask {
    /// The system, for which the process was started.
    pub system: System,
    /// What it is asked for.
    pub workload: Workload,
    /// Number of the run, from 1.
    pub run: u32,
    /// Bytes of live objects at most.
    pub live_bytes: u64,
    /// Objects that are allocated or freed together.
    pub batch: usize,
    /// Decides sizes and victims.
    pub seed: u64,
    /// For durable heaps.
    pub settings: Settings,
    /// Whether to say where the memory is.
    pub wants_breakdown: bool,
    /// The file of a system that needs one; the parent removes it.
    pub path: PathBuf,
}

/// Runs the task.
///
/// # Errors
/// The system's; [`crate::Error::Unavailable`] if it is not installed.
pub fn work(task: &RumbleTask, context: &Context, parent: &mut Parent) -> Result<()> {
    let RumbleTask { system, workload, run, live_bytes, batch, seed, settings, .. } = *task;
    let plan = Plan { workload, cap_bytes: live_bytes, batch, seed };
    // Before the system, which takes what the process has until then for its baseline.
    let books = Books::new(plan.objects_max())?;
    let mut store = system.open(&task.path, live_bytes, settings, task.wants_breakdown)?;
    let (what, total_bytes) = (format!("{workload:?}"), plan.total_bytes());
    let (started, cpu_before) = (Instant::now(), cpu_ns());
    let mut observe = |bytes| parent.progress(&what, bytes, total_bytes);
    let peaks = Churn::new(plan, books, &mut *store, &mut observe).run()?;
    let sample = Sample {
        system,
        workload,
        run,
        live_bytes,
        batch,
        seed,
        allocated_bytes: peaks.allocated_bytes,
        peak_bytes: peaks.resident_bytes,
        peak_used_bytes: peaks.used_bytes,
        ratio_near_cap: peaks.ratio_near_cap,
        end_bytes: peaks.end_bytes,
        map_bytes: peaks.map_bytes,
        looks: peaks.looks,
        seconds: started.elapsed().as_secs_f64(),
        cpu_s: (cpu_ns() - cpu_before) as f64 / 1e9,
        durable: store.durable(),
        context: context.clone(),
    };
    parent.tell(&Event::Record(Box::new(Record::Rumble(Box::new(sample)))));
    Ok(())
}

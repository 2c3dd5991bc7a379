//! Our own costs, through the C interface, on objects that are in the object cache but not in
//! their pages: no access reads the device.

use std::time::Instant;

use crate::error::{Error, Result};
use crate::overhead::{Cost, FAULT, OverheadTask};
use crate::peer::aquifer::{Aquifer, Layout};
use crate::peer::{Peer, Setup, flash_bytes_for};
use crate::process::cpu_ns;
use crate::rng::Rng;
use crate::verified::Verified;
use crate::workload;

const OBJECT_BYTES: u64 = 128;
/// The objects take this part of the budget, so that all of them fit in the object cache, while
/// their pages are many times more than the whole budget.
const BUDGET_PARTS: u64 = 4;
const LOG_FILL: f64 = 0.25;
const TOUCHES: u64 = 200_000;

/// Materialise, dematerialise and the whole fault.
///
/// # Errors
/// [`Error::Unavailable`] without the library; [`Error::WrongData`].
pub fn measure(task: &OverheadTask) -> Result<Vec<Cost>> {
    let data_bytes = task.ram_bytes / BUDGET_PARTS / OBJECT_BYTES * OBJECT_BYTES;
    let setup = Setup {
        dir: task.dir.clone(),
        data_bytes,
        object_bytes: OBJECT_BYTES,
        ram_bytes: task.ram_bytes,
        flash_bytes: flash_bytes_for(data_bytes, OBJECT_BYTES, LOG_FILL).max(64 << 20),
        payload: task.payload,
    };
    let heap = Aquifer::open(&setup, Layout::Objects)?;
    let ledger = setup.ledger("aquifer");
    let objects = Verified::new(heap.objects(), &ledger);
    let mut rng = Rng::new(1);
    workload::fill(objects, 1, |_| {});
    warm_up(objects, &mut rng)?;
    let mut runs = Vec::new();
    for _ in 0..task.runs {
        runs.push(Run::measure(&heap, objects, &mut rng)?);
    }
    Ok(costs(&runs, objects.count()))
}

/// Touches until pages leave as fast as they come.
pub(crate) fn warm_up(objects: Verified<'_>, rng: &mut Rng) -> Result<()> {
    touch(objects, rng, objects.count() * 2)
}

/// One run's figures.
pub(crate) struct Run {
    /// Median of single touches that faulted, in the faulting thread.
    pub(crate) touch_ns: f64,
    /// Processor time of the whole process, evictor and all, per fault.
    pub(crate) fault_ns: f64,
    pub(crate) faults_per_touch: f64,
    pub(crate) misses_per_fault: f64,
}

impl Run {
    /// Touches `objects`, which are all in the object cache of `heap`. Some ten nanoseconds of each touch prove what was read.
    pub(crate) fn measure(heap: &Aquifer, objects: Verified<'_>, rng: &mut Rng) -> Result<Self> {
        let touch_ns = single_touch_ns(objects, rng)?;
        let before = stats(heap)?;
        let cpu_before_ns = cpu_ns();
        touch(objects, rng, TOUCHES)?;
        let cpu_ns = cpu_ns() - cpu_before_ns;
        let during = stats(heap)?.since(&before);
        let faults = during.faults.max(1) as f64;
        Ok(Self {
            touch_ns,
            fault_ns: cpu_ns as f64 / faults,
            faults_per_touch: faults / TOUCHES as f64,
            misses_per_fault: during.misses as f64 / faults,
        })
    }
}

fn costs(runs: &[Run], objects: u64) -> Vec<Cost> {
    let each = |value: fn(&Run) -> f64| runs.iter().map(value).collect::<Vec<_>>();
    let mean = |value: fn(&Run) -> f64| each(value).iter().sum::<f64>() / runs.len() as f64;
    let hits = format!(
        "{objects} cached objects, {:.0} % of touches fault, {:.2} % of faults read the device",
        100.0 * mean(|run| run.faults_per_touch),
        100.0 * mean(|run| run.misses_per_fault),
    );
    vec![
        Cost {
            name: "aquifer: materialise",
            ns: each(|run| run.touch_ns),
            note: "median of one touch, signal and all, in the faulting thread".to_owned(),
        },
        Cost {
            name: "aquifer: dematerialise",
            ns: each(|run| (run.fault_ns - run.touch_ns).max(0.0)),
            note: "the rest of the processor time per fault, batched".to_owned(),
        },
        Cost { name: FAULT, ns: each(|run| run.fault_ns), note: hits },
    ]
}

fn stats(heap: &Aquifer) -> Result<crate::peer::abi::Stats> {
    heap.stats().ok_or_else(|| Error::Unavailable("aq_heap_stats_get failed".to_owned()))
}

fn touch(objects: Verified<'_>, rng: &mut Rng, touches: u64) -> Result<()> {
    (0..touches).try_for_each(|_| objects.read(rng.below(objects.count())))
}

fn single_touch_ns(objects: Verified<'_>, rng: &mut Rng) -> Result<f64> {
    let clock_ns = median_ns(|| Ok(()))?;
    let touch_ns = median_ns(|| touch(objects, rng, 1))?;
    Ok((touch_ns - clock_ns).max(0.0))
}

fn median_ns(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut timed = || {
        let start = Instant::now();
        work().map(|()| start.elapsed().as_nanos() as u64)
    };
    let mut times = (0..TOUCHES / 10).map(|_| timed()).collect::<Result<Vec<_>>>()?;
    let middle = times.len() / 2;
    Ok(*times.select_nth_unstable(middle).1 as f64)
}

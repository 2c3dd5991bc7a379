//! The tables of handles and batches, each with the faults or the raw reads that they are compared
//! with.

use std::collections::BTreeMap;

use aquifer_base::units::format_size;

use super::{markdown, number};
use crate::references::sample::{Batches, Handles};
use crate::sample::{Record, median};

/// Block sizes of fio, with their names in tables.
const BLOCKS: [(u64, &str); 2] = [(4096, "4 KiB"), (512, "512 B")];

/// Medians of all runs with the same objects and RAM.
pub struct HandleMedians {
    objects: u64,
    ram_bytes: u64,
    runs: usize,
    /// Objects in turn and nanoseconds of a hit, the smallest set first.
    pub hits: Vec<(u64, f64)>,
    /// Nanoseconds of a touch that faults.
    pub touch_ns: f64,
    faults_per_touch: f64,
    misses_per_fault: f64,
    device_reads: u64,
}

/// Medians of all runs with the same data and RAM.
pub struct BatchMedians {
    data_bytes: u64,
    ram_bytes: u64,
    batch_objects: u64,
    runs: usize,
    objects_per_s: f64,
    device_reads_per_s: f64,
    found_in_ram: f64,
    cpu_us_per_object: f64,
    /// Name of the block size, fio's reads per second, and ours over them.
    pub fio: Vec<(&'static str, f64, f64)>,
}

fn medians<T>(runs: &[&T], value: impl Fn(&T) -> f64) -> f64 {
    median(runs.iter().map(|run| value(run)).collect()).unwrap_or(f64::NAN)
}

/// The runs of handles among `records`.
pub fn handles(records: &[Record]) -> Vec<HandleMedians> {
    let mut sorted: BTreeMap<(u64, u64), Vec<&Handles>> = BTreeMap::new();
    for record in records {
        let Record::Handles(run) = record else { continue };
        sorted.entry((run.ram_bytes, run.objects)).or_default().push(run);
    }
    sorted.into_iter().map(|((ram_bytes, objects), runs)| of_handles(ram_bytes, objects, &runs)).collect()
}

fn of_handles(ram_bytes: u64, objects: u64, runs: &[&Handles]) -> HandleMedians {
    let mut sets: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for hits in runs.iter().flat_map(|run| &run.hits) {
        sets.entry(hits.objects).or_default().push(hits.ns);
    }
    HandleMedians {
        objects,
        ram_bytes,
        runs: runs.len(),
        hits: sets.into_iter().filter_map(|(objects, ns)| Some((objects, median(ns)?))).collect(),
        touch_ns: medians(runs, |run| run.touch_ns),
        faults_per_touch: medians(runs, |run| run.faults_per_touch),
        misses_per_fault: medians(runs, |run| run.misses_per_fault),
        device_reads: runs.iter().map(|run| run.device_reads).sum(),
    }
}

/// The runs of batches among `records`.
pub fn batches(records: &[Record]) -> Vec<BatchMedians> {
    let mut sorted: BTreeMap<(u64, u64, u64), Vec<&Batches>> = BTreeMap::new();
    for record in records {
        let Record::Batches(run) = record else { continue };
        sorted.entry((run.data_bytes, run.ram_bytes, run.batch_objects)).or_default().push(run);
    }
    sorted.into_iter().map(|(scale, runs)| of_batches(scale, &runs)).collect()
}

fn of_batches((data_bytes, ram_bytes, batch_objects): (u64, u64, u64), runs: &[&Batches]) -> BatchMedians {
    let fio = |(block_bytes, name)| {
        let beside = runs.iter().filter_map(|run| Some((run, run.fio(block_bytes)?.per_s())));
        let per_s = median(beside.clone().map(|(_, fio)| fio).collect())?;
        // Each run over the raw reads around it; the disk of a later run may be another one.
        let ratio = median(beside.map(|(run, fio)| run.device_reads_per_s() / fio).collect())?;
        Some((name, per_s, ratio))
    };
    BatchMedians {
        data_bytes,
        ram_bytes,
        batch_objects,
        runs: runs.len(),
        objects_per_s: medians(runs, Batches::objects_per_s),
        device_reads_per_s: medians(runs, Batches::device_reads_per_s),
        found_in_ram: medians(runs, Batches::found_in_ram),
        cpu_us_per_object: medians(runs, |run| run.cpu_s * 1e6 / run.objects.max(1) as f64),
        fio: BLOCKS.into_iter().filter_map(fio).collect(),
    }
}

/// Both tables.
pub fn render(records: &[Record]) -> String {
    let handles = handles(records).iter().map(handles_table).collect::<Vec<_>>();
    let batches = batches(records).iter().map(batches_table).collect::<Vec<_>>();
    [handles, batches].concat().join("\n")
}

fn handles_table(row: &HandleMedians) -> String {
    let hit = |&(objects, ns): &(u64, f64)| {
        let what = format!("handle hit, {objects} objects in turn");
        let how = "aq_heap_deref for reading and aq_heap_release, in random order".to_owned();
        vec![what, number(Some(ns), 1), number(Some(row.touch_ns / ns), 0), how]
    };
    let mut rows: Vec<_> = row.hits.iter().map(hit).collect();
    let how = format!(
        "median of one touch by pointer, signal and all; {:.0} % of touches fault, {:.2} % of faults read the device",
        100.0 * row.faults_per_touch,
        100.0 * row.misses_per_fault,
    );
    rows.push(vec![
        "fault on a cached object".to_owned(),
        number(Some(row.touch_ns), 0),
        "-".to_owned(),
        how,
    ]);
    let title = format!(
        "Handles, {} objects of 128 bytes in {} of RAM: medians of {}",
        row.objects,
        format_size(row.ram_bytes),
        row.runs,
    );
    let table = markdown(&title, &["mechanism", "ns", "fault / hit", "how"], &rows);
    match row.device_reads {
        0 => table,
        reads => format!("{table}\n{reads} reads of the device in the runs of hits: not all were hits.\n"),
    }
}

fn batches_table(row: &BatchMedians) -> String {
    let mut ours = vec![
        format!("aquifer, batches of {}", row.batch_objects),
        number(Some(row.objects_per_s), 0),
        number(Some(row.device_reads_per_s), 0),
        number(Some(100.0 * row.found_in_ram), 1),
    ];
    let ratio = |name| row.fio.iter().find(|fio| fio.0 == name).map(|fio| fio.2);
    ours.extend(BLOCKS.map(|(_, name)| number(ratio(name), 2)));
    ours.push(number(Some(row.cpu_us_per_object), 2));
    let raw = |&(name, per_s, _): &(&str, f64, f64)| {
        let dash = || "-".to_owned();
        vec![format!("fio {name}, depth 32"), dash(), number(Some(per_s), 0), dash(), dash(), dash(), dash()]
    };
    let rows: Vec<_> = std::iter::once(ours).chain(row.fio.iter().map(raw)).collect();
    let columns = [
        "one thread",
        "objects/s",
        "device reads/s",
        "found in RAM %",
        "x fio 4 KiB",
        "x fio 512 B",
        "CPU us per object",
    ];
    let title = format!(
        "Batches, {} of 128-byte objects in {} of RAM: medians of {}",
        format_size(row.data_bytes),
        format_size(row.ram_bytes),
        row.runs,
    );
    let note = "\ndevice reads: of objects, by the library's counter. x fio: median of each run over the mean of fio \
                before and after it.\n";
    markdown(&title, &columns, &rows) + note
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Context;
    use crate::references::sample::Hits;
    use crate::references::sample::tests::batches as run;

    #[test]
    fn each_run_is_compared_with_the_raw_reads_around_it() {
        // 450, 900 and 1350 object reads per second; the disk was three times faster at the end.
        let runs = [(1000, 500.0), (1900, 1000.0), (2800, 1500.0)];
        let records = runs.map(|(reads, fio)| Record::Batches(Box::new(run(reads, fio))));
        let text = render(&records);
        let ours = "| aquifer, batches of 1024 | 1500 | 900 | 40.0 | 0.90 | - | 10.00 |";
        assert!(text.contains(ours), "{text}");
        assert!(text.contains("| fio 4 KiB, depth 32 | - | 1000 | - |"), "{text}");
    }

    #[test]
    fn hits_are_counted_in_faults() {
        let hits = [Hits { objects: 1024, ns: 40.0 }, Hits { objects: 100_000, ns: 80.0 }];
        let run = Handles {
            run: 1,
            ram_bytes: 64 << 20,
            object_bytes: 128,
            objects: 196_608,
            hits: hits.to_vec(),
            device_reads: 0,
            touch_ns: 3000.0,
            faults_per_touch: 0.99,
            misses_per_fault: 0.0,
            context: Context::default(),
        };
        let text = render(&[Record::Handles(Box::new(run.clone()))]);
        assert!(text.contains("| handle hit, 1024 objects in turn | 40.0 | 75 |"), "{text}");
        assert!(text.contains("| handle hit, 100000 objects in turn | 80.0 | 38 |"), "{text}");
        assert!(text.contains("| fault on a cached object | 3000 | - |"), "{text}");
        assert!(!text.contains("not all were hits"));
        let text = render(&[Record::Handles(Box::new(Handles { device_reads: 3, ..run }))]);
        assert!(text.contains("3 reads of the device"), "{text}");
    }
}

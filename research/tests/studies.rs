//! Every study for a moment: its peers are measured, its figures agree with each other, and what makes no sense is refused.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use aquifer_bench::study::{Record, read};

/// A folder of the test's own; removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn below(parent: &str, name: &str) -> Self {
        let path = PathBuf::from(parent).join(format!("aquifer-research-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it exists").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("it was made");
    }
}

fn research(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aquifer-research"));
    command.args(line.split_whitespace()).output().expect("the program runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Records and tables of a study.
fn measure(folder: &Folder, line: &str) -> (Vec<Record>, String) {
    let results = folder.0.join("out.jsonl");
    let output = research(&format!("{line} --out {}", results.display()));
    assert!(output.status.success(), "{}", said(&output));
    let tables = String::from_utf8_lossy(&output.stdout).into_owned();
    let again = research(&format!("table {}", results.display()));
    assert_eq!(String::from_utf8_lossy(&again.stdout), tables, "the file gives the same tables");
    (read(&results).expect("records"), tables)
}

fn figure(record: &Record, name: &str) -> f64 {
    record.figures.number(name).unwrap_or_else(|| panic!("{record:?} has no {name}"))
}

#[test]
fn memory_is_measured_and_explained() {
    const LIVE_BYTES: f64 = (8 << 20) as f64;
    const CHUNK_BYTES: f64 = (128 << 10) as f64;
    let folder = Folder::below("/dev/shm", "rumble");
    let line = "rumble --data 8M --chunk 128K --workloads W1,W3 --systems aquifer,glibc --utilisation 80 --breakdown";
    let (records, tables) = measure(&folder, &format!("{line} --dir {}", folder.0.display()));
    assert_eq!(records.len(), 4);
    for record in &records {
        let phases = if record.point.text("workload") == "W1" { 1.0 } else { 2.0 };
        let volume = 5.0 * phases * LIVE_BYTES;
        assert!((volume..volume * 1.01).contains(&figure(record, "allocated_bytes")), "{record:?}");
        assert!(figure(record, "looks") > 500.0 * phases, "{record:?}");
        // Nothing holds objects in less than their bytes, and none of these needs twice as many.
        assert!((1.0..2.0).contains(&figure(record, "peak_ratio")), "{record:?}");
        assert!(figure(record, "ratio_near_cap") >= 1.0, "{record:?}");
    }
    for record in records.iter().filter(|record| record.peer == "aquifer 80 %") {
        let peak_bytes = figure(record, "resident_bytes");
        // The heap's own thread may give a chunk back between the two questions.
        assert!((figure(record, "durable.blocks_max_bytes") - peak_bytes).abs() <= CHUNK_BYTES, "{record:?}");
        assert!(figure(record, "durable.written_each") > 1.0, "{record:?}");
        assert!(figure(record, "durable.cleaned_chunks") > 0.0 && figure(record, "map_bytes") > 0.0);
        let object_bytes = figure(record, "parts.object_bytes");
        assert!(object_bytes <= LIVE_BYTES && object_bytes > LIVE_BYTES / 2.0, "{record:?}");
        // The parts are found by reading the file, the memory is what the heap says.
        let unexplained = (figure(record, "parts.total_bytes") - peak_bytes).abs();
        assert!(unexplained <= peak_bytes / 256.0 + CHUNK_BYTES, "{record:?}");
    }
    for part in [
        "| W1 | aquifer 80 % |",
        "| W3 | glibc |",
        "### Where the memory is",
        "### What the durable heap pays",
    ] {
        assert!(tables.contains(part), "{part} is not in {tables}");
    }
    assert_eq!(folder.names(), ["out.jsonl"], "the heap's file is gone");
}

#[test]
fn layered_stacks_have_the_same_budget() {
    let folder = Folder::below("/var/tmp", "layered");
    let stacks = "volume,ftl,ftl4-scattered,combined,combined-scattered";
    let line =
        "layered --data 64M --ratios 16,64 --loads zipf:90 --speeds fast --threads 2 --seconds 0.1 --runs 1";
    let (records, tables) = measure(&folder, &format!("{line} --stacks {stacks}"));
    assert_eq!(records.len(), 10);
    for record in &records {
        let division = |name: &str| figure(record, &format!("division.{name}"));
        let used = division("frames") * division("frame_bytes") + division("table_bytes");
        assert!((0.0..division("frame_bytes")).contains(&(division("ram_bytes") - used)), "{record:?}");
        assert_eq!(record.point.number("ram_bytes"), Some(division("ram_bytes")));
        assert!(figure(record, "ops_per_s") > 0.0 && figure(record, "flash_reads_each") > 0.0, "{record:?}");
        assert!((0.0..100.0).contains(&figure(record, "hit_percent")), "{record:?}");
    }
    assert_eq!(
        tables.lines().filter(|line| line.starts_with("| 10 us | zipf:90 | 2 |")).count(),
        10,
        "{tables}"
    );
}

#[test]
fn all_address_maps_are_measured() {
    let folder = Folder::below("/var/tmp", "address-map");
    let (records, tables) =
        measure(&folder, "address-map --data 1M --operations 10000 --run-bytes 8,128 --runs 2");
    assert_eq!(records.len(), 6 * 2 * 2);
    for name in
        ["look_uniform_ns", "look_objects_ns", "change_ns", "beside_ns", "beside_wall_ns", "beside_change_ns"]
    {
        assert!(records.iter().all(|record| figure(record, name) > 0.0), "{name}");
    }
    assert!(tables.contains("| 128 | skip-list |"), "{tables}");
}

#[test]
fn policies_see_the_same_traces() {
    let folder = Folder::below("/var/tmp", "hit-ratio");
    let (records, tables) = measure(&folder, "hit-ratio --keys 2000 --accesses 30000 --runs 1");
    let of = |peer: &str, workload: &str, cache: f64| {
        let is_meant = |record: &&Record| {
            let point = &record.point;
            record.peer == peer
                && point.text("workload") == workload
                && point.number("cache_percent") == Some(cache)
        };
        figure(records.iter().find(is_meant).expect("it was measured"), "hit_percent")
    };
    // Every key equally often: any policy hits as often as it has slots; and LRU has nothing of a loop that is larger than it.
    for peer in ["clock/1", "clock", "lru", "sieve", "s3-fifo"] {
        assert!((23.0..27.0).contains(&of(peer, "uniform", 25.0)), "{peer}");
    }
    assert_eq!(of("lru", "loop of 2 x cache", 25.0), 0.0);
    assert!(of("clock", "zipf-0.99", 6.25) > of("lru", "zipf-0.99", 6.25));
    assert!(tables.contains("| all but loops | s3-fifo |"), "{tables}");
}

/// Without a control group, so that it needs no rights: it shows that everything works, not what is fast. None, with the reason printed, where
/// something is missing.
fn page_sizes(folder: &Folder, more: &str) -> Option<(Vec<Record>, String)> {
    let line =
        "page-size --data 8M --buffers 1M,2M --pages 4K,16K --runs 1 --seconds 0.2 --warmup 0.1 --unlimited";
    let line = format!("{line} --dir {} {more}", folder.0.display());
    let tried = research(&line);
    if ["cannot be loaded", "not on a block device"].iter().any(|what| said(&tried).contains(what)) {
        println!("SKIP page-size: {}", said(&tried));
        return None;
    }
    Some(measure(folder, &line))
}

#[test]
fn pages_of_all_sizes_are_measured_and_drawn() {
    let folder = Folder::below("/var/tmp", "page-size");
    let Some((records, tables)) = page_sizes(&folder, "") else { return };
    let cells: Vec<_> = records.iter().filter(|record| record.figures.get("ops_per_s").is_some()).collect();
    assert_eq!(cells.len(), 2 * 2 * 2);
    for cell in cells {
        let [p50, p99, max] =
            ["p50_ns", "p99_ns", "max_ns"].map(|name| figure(cell, &format!("latency.{name}")));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{cell:?}");
        // Each commit wrote at least a page.
        assert!(figure(cell, "asked_written_bytes_each") >= figure(cell, "page_bytes") / 2.0, "{cell:?}");
        assert!(figure(cell, "buffer.misses") > 0.0 && figure(cell, "cpu_ns_each") > 0.0, "{cell:?}");
        let buffer_bytes = cell.point.number("buffer_bytes").expect("it is given");
        assert!(figure(cell, "buffer.used_bytes") <= buffer_bytes * 1.125, "{cell:?}");
    }
    for part in ["### tpc-b-like, 1 branches, 8 MiB", "buffers for equal speed", "WITHOUT A MEMORY LIMIT"] {
        assert!(tables.contains(part), "{part} is not in {tables}");
    }
    assert_eq!(folder.names(), ["out.jsonl"], "the databases are gone");
    let (results, dir) = (folder.0.join("out.jsonl"), folder.0.display());
    let drawn = research(&format!("plot {} --out-dir {dir}", results.display()));
    assert!(drawn.status.success() && folder.0.join("page-size-wal.svg").exists(), "{}", said(&drawn));
}

#[test]
fn rollback_journals_work_too() {
    let folder = Folder::below("/var/tmp", "page-size-delete");
    let Some((records, tables)) = page_sizes(&folder, "--journal delete --load tpc-c") else { return };
    assert_eq!(records.iter().filter(|record| record.figures.get("ops_per_s").is_some()).count(), 4);
    assert!(tables.contains("journal delete"), "{tables}");
}

#[test]
fn what_makes_no_sense_is_refused_before_the_work() {
    for (line, rule) in [
        ("rumble --data 100K", "--data is from"),
        ("rumble --data 8M --chunk 96K", "power of two"),
        ("layered --data 1M", "--data is from 64M"),
        ("address-map --data 5K", "in partitions"),
        ("hit-ratio --ram 1G", "--ram means nothing to hit-ratio"),
        ("page-size --pages 5000", "power of two"),
        ("page-size --buffers 1G", "--data is at least"),
    ] {
        let output = research(line);
        assert!(!output.status.success() && said(&output).contains(rule), "{line}: {}", said(&output));
    }
}

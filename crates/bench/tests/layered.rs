//! The volume beside layered stacks, for a moment: every stack and run is recorded, with budgets that are the same.

use std::process::Command;

use aquifer_bench::sample::Record;
use aquifer_bench::study::read;
use aquifer_bench::volume::layered::sample::Layered;

#[test]
fn every_cell_is_recorded_with_the_same_budget() {
    let path = std::env::temp_dir().join(format!("aquifer-bench-layered-{}.jsonl", std::process::id()));
    let stacks = "volume,ftl,ftl4-scattered,combined,combined-scattered";
    let arguments = "volume layered --data 64M --ratios 16,64 --loads zipf:90 --speeds fast --threads 2 --seconds 0.1 --runs 1";
    let output = Command::new(env!("CARGO_BIN_EXE_aquifer-bench"))
        .args(arguments.split(' '))
        .args(["--stacks", stacks, "--out"])
        .arg(&path)
        .output()
        .expect("the benchmark runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let records = read::<Record>(&path).expect("records");
    std::fs::remove_file(&path).expect("was written");
    let samples: Vec<&Layered> = records
        .iter()
        .map(|record| match record {
            Record::Layered(sample) => &**sample,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(samples.len(), 10);
    for sample in samples {
        let division = &sample.division;
        let used = division.frames * division.frame_bytes + division.table_bytes;
        assert_eq!(division.ram_bytes, sample.data_bytes / sample.point.ratio);
        assert!((0..division.frame_bytes).contains(&(division.ram_bytes - used)), "{division}");
        assert!(sample.measured.accesses > 0 && sample.measured.reads.flash > 0);
        assert!((0.0..1.0).contains(&sample.hits()), "{}", sample.summary());
    }
    let table = said.lines().filter(|line| line.starts_with("| 10 us | zipf:90 | 2 |")).count();
    assert_eq!(table, 10, "{said}");
}

//! Parsers against random and damaged input.

#[path = "../fixture/mod.rs"]
mod fixture;
#[path = "../../../../fuzz/mutations.rs"]
mod mutations;
mod report;
mod target;

use aquifer_probe::report::Report;

/// The short fixture without some of its sections, so that the rest of it fits in an input.
fn samples() -> Vec<Vec<u8>> {
    let short = fixture::short::report;
    let empty = fixture::empty();
    let reports = [
        Report { saturation: short().saturation, steady: short().steady, ..fixture::empty() },
        Report { matrix: short().matrix, fill: short().fill, log: short().log, ..fixture::empty() },
        Report { latency: short().latency, raid: short().raid, ..fixture::empty() },
        Report {
            idle: short().idle,
            interference: short().interference,
            trim: short().trim,
            ..fixture::empty()
        },
        Report { flush: short().flush, mixes: short().mixes, working_set: short().working_set, ..empty },
    ];
    reports.iter().map(|report| report.to_json().into_bytes()).collect()
}

#[test]
fn reports() {
    let samples = samples();
    for sample in &samples {
        assert!(Report::parse(sample).is_ok(), "a sample that is refused tests nothing");
        assert!(sample.len() < 16 << 10, "{} bytes are cut", sample.len());
    }
    // Most damaged inputs are not JSON; of 40,000, more than a hundred are reports.
    mutations::drive(&samples, 40_000, report::property);
}

#[test]
fn targets() {
    let samples = [
        "size=1G,channels=4,dies=2,pages=128,page=4096,read=40,program=200,erase=2000,bus=800,op=0.07,gc=greedy",
        "frontiers=shared,cache=0,controller=1.5,limit=3000,seed=18446744073709551615",
        "gc=5-choices,op=0.28,size=64G",
        "gc=cost-benefit,op=1e-3,page=16K",
        "size=16777216T,pages=4096",
        "controller=-0,op=00.10,,",
        "nand:size=64M",
        "/dev/nvme0n1",
    ];
    mutations::drive(&samples.map(|sample| sample.as_bytes().to_vec()), 40_000, target::property);
}

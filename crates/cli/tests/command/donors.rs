//! A program that borrows, seen from outside, and the donor it borrows from.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use aquifer_cli::reply::{Sample, parse_stats};
use serde_json::Value;

use super::ground::skipped;
use super::program::{Program, Told, socket};
use super::{command, complaint, name, run, text};

/// `aquifer donate --verbose` of this machine. It is killed when this is dropped.
struct Donor {
    child: Child,
    address: String,
    lines: BufReader<ChildStdout>,
}

impl Donor {
    /// A donor of some slabs, or why there is none.
    fn start() -> Result<Donor, String> {
        aquifer_remote::transport::fabric::version().map_err(|error| error.to_string())?;
        Ok(Donor::start_with(&[]))
    }

    fn start_with(more: &[&str]) -> Donor {
        let mut child = command(&["donate", "--listen", "127.0.0.1:0", "--lend", "64M", "--slab", "4M"])
            .args(["--headroom", "64M", "--lend-to-own-machine", "--verbose"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut first = String::new();
        lines.read_line(&mut first).expect("text");
        let address = first.split(' ').nth(2).expect("lends at ADDRESS").to_owned();
        Donor { child, address, lines }
    }

    /// Reads what it says until a line has these words.
    fn said(&mut self, words: &str) -> String {
        let mut all = String::new();
        while !all.contains(words) {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).expect("text") > 0, "it ended: {all}");
            all += &line;
        }
        all
    }
}

impl Drop for Donor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `aquifer stats` says, when it is so.
fn wait_for(path: &Path, is_so: impl Fn(&Sample) -> bool) -> Sample {
    let began = Instant::now();
    loop {
        let output = run(&["stats", "--socket", name(path), "--json"]);
        let sample = parse_stats(text(&output.stdout).trim_end().as_bytes()).expect("a sample");
        if is_so(&sample) {
            return sample;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "never: {sample:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn has_all_its_slabs(sample: &Sample) -> bool {
    sample.remote.as_ref().is_some_and(|remote| remote.parts > 0 && remote.placed == remote.parts)
}

/// What became of slabs and donors, from the oldest on.
fn events(path: &Path) -> Vec<Value> {
    let output = run(&["stats", "--socket", name(path), "--events", "--json"]);
    let lines = text(&output.stdout);
    lines.lines().map(|line| serde_json::from_str(line).expect("an event is a line")).collect()
}

/// Waits for events: they are noted a moment after what they tell of.
fn wait_for_events(path: &Path, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let events = events(path);
        if is_so(&events) {
            return events;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "never: {events:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_heap_with_donors_is_seen_by_every_command() {
    let mut donor = match Donor::start() {
        Ok(donor) => donor,
        Err(reason) => return skipped("a_heap_with_donors_is_seen_by_every_command", &reason),
    };
    let (_folder, path) = socket();
    let program = Program::borrowing(Told::AsOption(&path), &donor.address);
    let sample = wait_for(&path, has_all_its_slabs);
    let remote = sample.remote.expect("it borrows");
    assert!(remote.pages["remote_writes"] > 0 && remote.donors[0].writes > 0, "{remote:?}");
    assert_eq!(
        (remote.donors[0].address.as_str(), remote.donors[0].slabs),
        (donor.address.as_str(), remote.parts)
    );

    let table = text(&run(&["stats", "--socket", name(&path)]).stdout);
    for part in ["\nRemote memory\n", "100.0 % of the parts", "\nDonors\n", &donor.address, "tcp"] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    let snapshot = text(&run(&["top", "--socket", name(&path), "--interval", "0.1"]).stdout);
    assert!(snapshot.contains("parts placed") && snapshot.contains(&donor.address), "{snapshot}");
    let metrics = text(&run(&["export", "--socket", name(&path), "--once"]).stdout);
    let labels = format!("{{pid=\"{}\",donor=\"{}\"}} ", program.pid(), donor.address);
    let of = |metric: &str| {
        let series = format!("aquifer_{metric}{labels}");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
        value.unwrap_or_else(|| panic!("{series} is not in\n{metrics}")).parse::<u64>().expect("a number")
    };
    assert_eq!((of("donor_connected"), of("donor_slabs")), (1, remote.parts));
    assert!(of("donor_written_bytes_total") > 0 && of("donor_write_latency_seconds_count") > 0);

    let told = donor.said(&format!("slab {} lent to borrower 1 (process {})", remote.parts, program.pid()));
    assert!(told.contains("borrower 1 (process "), "{told}");
    program.end();
    let told = donor.said("is gone\n");
    assert!(
        told.contains("given back by borrower 1") || told.contains("taken back, its borrower is gone"),
        "{told}"
    );
}

#[test]
fn events_come_in_order_and_say_why() {
    let donor = match Donor::start() {
        Ok(donor) => donor,
        Err(reason) => return skipped("events_come_in_order_and_say_why", &reason),
    };
    let (_folder, path) = socket();
    let _program = Program::borrowing(Told::AsOption(&path), &donor.address);
    let slabs = wait_for(&path, has_all_its_slabs).remote.expect("it borrows").placed as usize;
    let count = |events: &[Value], what: &str| events.iter().filter(|event| event["what"] == what).count();
    let before = wait_for_events(&path, |events| count(events, "slab_filled") >= slabs);
    assert_eq!(
        (before[0]["what"].as_str(), before[0]["number"].as_u64()),
        (Some("donor_connected"), Some(0))
    );
    assert_eq!((count(&before, "slab_lent"), count(&before, "slab_filled")), (slabs, slabs), "{before:?}");
    assert!(before.iter().all(|event| event["donor"] == donor.address.as_str()));
    drop(donor);
    wait_for(&path, |sample| sample.remote.as_ref().is_some_and(|remote| remote.donors[0].trouble.is_some()));
    let after =
        wait_for_events(&path, |events| count(events, "slab_lost") > 0 && count(events, "donor_gone") > 0);
    assert_eq!(count(&after, "donor_gone"), 1, "{after:?}");
    assert!(after.iter().any(|event| event["what"] == "slab_lost" && event["why"].is_string()), "{after:?}");
    let lines = text(&run(&["stats", "--socket", name(&path), "--events"]).stdout);
    assert!(
        lines.contains("slab lent") && lines.contains("  part 0") && lines.contains("donor gone"),
        "{lines}"
    );
    let table = text(&run(&["stats", "--socket", name(&path)]).stdout);
    assert!(table.contains("127.0.0.1:") && !table.contains("tcp"), "{table}");
}

#[test]
fn a_heap_without_donors_has_no_events() {
    let (_folder, path) = socket();
    let _program = Program::start(Told::AsOption(&path));
    let said = complaint(&["stats", "--socket", name(&path), "--events"]);
    assert!(said.contains("no donors"), "{said}");
}

/// Whether it is as long as its donor says is in the figure, whatever else is.
#[test]
fn a_donor_is_measured_before_it_is_used() {
    let (_folder, report) = super::advise::report();
    let mut donor = Donor::start_with(&["--provider", "memory", "--delay", "500us"]);
    donor.said("16 slabs");
    let output = run(&["advise", name(&report), "--donors", &donor.address]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, line) = said.split_once(&format!("{}: ", donor.address)).expect("the donor has a line");
    let (us, rest) = line.split_once(" us for a page (median of 2000 reads, ").expect("measured");
    assert!(us.parse::<f64>().expect("a number") >= 500.0, "{line}");
    assert!(rest.contains("over memory") && rest.contains("borrowing does not pay"), "{line}");
    // The disk of the report takes 111 us for a read alone.
    assert!(said.contains("it may pay while a donor's read of 4 KiB takes less than 68 us"), "{said}");
    donor.said("is gone");
}

#[test]
fn a_donor_that_is_not_there_is_not_measured() {
    let (_folder, report) = super::advise::report();
    let said = complaint(&["advise", name(&report), "--donors", "127.0.0.1:1"]);
    assert!(said.contains("127.0.0.1:1 was not measured: no donor can be reached"), "{said}");
    let output = run(&["advise", name(&report), "--latency", "4us"]);
    let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("such a donor: 4 us for a page (--latency): (12 + 111) / (55 + 4) = 2.09"),
        "{said}"
    );
    let said = complaint(&["donate", "--delay", "3us"]);
    assert!(said.contains("--delay is for --provider memory"), "{said}");
}

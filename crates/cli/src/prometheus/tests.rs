//! The format, line by line.

use std::collections::BTreeMap;
use std::time::Instant;

use super::*;
use crate::borrowed::tests::borrowed;
use crate::heap::NOT_COUNTED;
use crate::reply::Sample;
use aquifer_status::Subject;

/// A metric with all its samples.
#[derive(Default)]
struct Family {
    help: String,
    kind: String,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Reads the format as strictly as it is defined, and panics at the line that is wrong.
fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line has an end");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            current = name.to_owned();
            let family = Family { help: help.to_owned(), ..Family::default() };
            assert!(families.insert(name.to_owned(), family).is_none(), "twice: {line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(["counter", "gauge", "histogram", "untyped"].contains(&kind), "{line}");
            assert_eq!(name, current, "TYPE follows its HELP: {line}");
            families.get_mut(name).expect("it has help").kind = kind.to_owned();
        } else {
            let (name, labels, value) = sample(line);
            let family = families.get_mut(&current).unwrap_or_else(|| panic!("no family: {line}"));
            let suffix = name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{line} in {current}"));
            let allowed: &[&str] =
                if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&suffix), "{line}");
            family.samples.push((name, labels, value));
        }
    }
    families
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
    let (name, labels) = match series.split_once('{') {
        None => (series, BTreeMap::new()),
        Some((name, rest)) => (name, labels(rest.strip_suffix('}').unwrap_or_else(|| panic!("{line}")))),
    };
    assert!(is_name(name) && name.starts_with("aquifer_"), "{line}");
    (name.to_owned(), labels, value)
}

fn labels(mut text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect("a name");
        assert!(is_name(name), "{name}");
        let mut value = String::new();
        let mut characters = rest.chars();
        loop {
            match characters.next().expect("an end of the value") {
                '"' => break,
                '\\' => match characters.next() {
                    Some('n') => value.push('\n'),
                    Some(other @ ('\\' | '"')) => value.push(other),
                    other => panic!("\\{other:?}"),
                },
                other => value.push(other),
            }
        }
        assert!(labels.insert(name.to_owned(), value).is_none());
        text = characters.as_str();
        text = text.strip_prefix(',').unwrap_or(text);
    }
    labels
}

fn measurement(version: &str, stats: Numbers, latency: &str) -> Measurement {
    let latency = serde_json::from_str(latency).map_err(|_| NOT_COUNTED);
    let sample = Sample { pid: 7, version: version.into(), subject: Subject::default(), stats, remote: None };
    Measurement { taken: Instant::now(), sample, latency }
}

fn numbered(stats: &impl serde::Serialize) -> Numbers {
    let mut numbers: Numbers = serde_json::from_value(serde_json::to_value(stats).unwrap()).unwrap();
    numbers.values_mut().enumerate().for_each(|(n, number)| *number = n as u64 + 10);
    numbers
}

fn all_numbers() -> Numbers {
    numbered(&aquifer::Stats::default())
}

#[test]
fn every_number_of_the_libraries_is_there() {
    let (volume, durable) = (aquifer_volume::Stats::default(), aquifer_durable::Stats::default());
    for numbers in [all_numbers(), numbered(&volume), numbered(&durable)] {
        let families = parse(&text(&measurement("1", numbers.clone(), "")));
        assert_eq!(families.len(), numbers.len() + 2, "and whether it is up, and its version");
        for (number, value) in numbers {
            let gauge = families.get(&format!("aquifer_{number}"));
            let counter = families.get(&format!("aquifer_{number}_total"));
            let family = gauge.or(counter).unwrap_or_else(|| panic!("{number} is missing"));
            assert_eq!(family.kind, if counter.is_some() { "counter" } else { "gauge" }, "{number}");
            assert!(family.help.ends_with('.') && family.samples.len() == 1);
            let (_, labels, exported) = &family.samples[0];
            assert_eq!((labels["pid"].as_str(), *exported), ("7", value as f64));
        }
        assert_eq!(families["aquifer_up"].samples[0].2, 1.0);
        let labels = &families["aquifer_info"].samples[0].1;
        assert_eq!((labels["version"].as_str(), labels["subject"].as_str()), ("1", "heap"));
    }
}

/// The dashboard asks for what there is.
#[test]
fn metrics_of_the_dashboard_exist() {
    let dashboard = include_str!("../../../../etc/grafana/aquifer.json");
    let mut known: Vec<String> = METRICS.iter().map(|&(number, kind, _)| name(number, kind)).collect();
    known.extend(donors::names());
    known.extend(donors::LATENCIES.iter().map(|histogram| format!("{histogram}_bucket")));
    let lending = lending::text(&Default::default(), &[], 1);
    known.extend(
        lending.lines().filter_map(|line| Some(line.strip_prefix("# HELP ")?.split(' ').next()?.to_owned())),
    );
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let mut asked = 0;
    for (at, _) in dashboard.match_indices("aquifer_") {
        let rest = &dashboard[at..];
        let metric = &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())];
        assert!(known.iter().any(|name| name == metric), "{metric}");
        asked += 1;
    }
    assert!(asked > 30, "{asked}");
}

#[test]
fn units_stand_last() {
    for &(number, kind, _) in METRICS {
        let name = name(number, kind);
        assert!(
            !name.contains("bytes") || name.ends_with("_bytes") || name.ends_with("_bytes_total"),
            "{name}"
        );
        assert_eq!(name.ends_with("_total"), kind == Counter, "{name}");
    }
}

#[test]
fn latencies_are_a_cumulative_histogram() {
    let latency = r#"{"upper_ns":[65536,131072,1073741824,18446744073709551615],"count":[5,0,2,1],"sum_ns":1500000000}"#;
    let text = text(&measurement("1", Numbers::new(), latency));
    let families = parse(&text);
    let histogram = &families[LATENCY];
    assert_eq!(histogram.kind, "histogram");
    let found: Vec<(&str, &str, f64)> = histogram
        .samples
        .iter()
        .map(|(name, labels, value)| {
            (&name[LATENCY.len()..], labels.get("le").map_or("", String::as_str), *value)
        })
        .collect();
    let expected = [
        ("_bucket", "0.000065536", 5.0),
        ("_bucket", "0.000131072", 5.0),
        ("_bucket", "1.073741824", 7.0),
        ("_bucket", "+Inf", 8.0),
        ("_sum", "", 1.5),
        ("_count", "", 8.0),
    ];
    assert_eq!(found, expected);
    assert!(histogram.samples.iter().all(|(_, labels, _)| labels["pid"] == "7"));
}

#[test]
fn a_sum_that_is_not_known_is_left_out() {
    let text = text(&measurement("1", Numbers::new(), r#"{"upper_ns":[1],"count":[1]}"#));
    assert!(text.contains("_count{pid=\"7\"} 1\n") && !text.contains("_sum"), "{text}");
}

#[test]
fn names_and_versions_of_a_peer_are_not_believed() {
    let hostile = [
        "up",
        "info",
        "a b",
        "a\nb 1",
        "A",
        "",
        "é",
        "faults_total",
        "hits",
        "x{",
        "flash_read_latency_seconds",
    ];
    let mut numbers: Numbers = hostile.map(|name| (name.to_owned(), u64::MAX)).into();
    numbers.insert("newer_9".into(), 3);
    numbers.insert("x".repeat(NAME_CHARS_MAX + 1), 3);
    let text = text(&measurement("\"},\\ \n\x1b", numbers, ""));
    let families = parse(&text);
    let names: Vec<&str> = families.keys().map(String::as_str).collect();
    assert_eq!(names, ["aquifer_hits_total", "aquifer_info", "aquifer_newer_9", "aquifer_up"]);
    assert_eq!(families["aquifer_newer_9"].kind, "untyped");
    assert_eq!(families["aquifer_info"].samples[0].1["version"], "\"},\\ \u{FFFD}\u{FFFD}");
}

fn borrowing(borrowed: crate::borrowed::Borrowed) -> BTreeMap<String, Family> {
    let mut measurement = measurement("1", all_numbers(), "");
    measurement.sample.remote = Some(borrowed);
    parse(&text(&measurement))
}

#[test]
fn every_number_of_donors_is_there() {
    let families = borrowing(borrowed(3));
    let of = |name: &str, donor: &str| {
        let samples = &families.get(name).unwrap_or_else(|| panic!("{name} is missing")).samples;
        samples.iter().find(|(_, labels, _)| labels["donor"] == donor).map(|(_, _, value)| *value)
    };
    assert_eq!(of("aquifer_donor_connected", "alpha:7447"), Some(1.0));
    assert_eq!(of("aquifer_donor_connected", "beta:7447"), Some(0.0));
    assert_eq!(of("aquifer_donor_reads_total", "alpha:7447"), Some(300.0));
    assert_eq!(families["aquifer_donor_info"].samples[0].1["provider"], "tcp");
    assert_eq!(families["aquifer_donor_info"].samples[0].1["domain"], "rack 1");
    let donor = serde_json::to_value(&borrowed(3).donors[0]).unwrap();
    let numbers = donor.as_object().unwrap().iter().filter(|(_, value)| value.is_u64());
    for (number, value) in numbers {
        let (gauge, counter) = (format!("aquifer_donor_{number}"), format!("aquifer_donor_{number}_total"));
        let name = if families.contains_key(&counter) { counter } else { gauge };
        assert_eq!(of(&name, "alpha:7447"), value.as_f64(), "{name}");
    }
    for number in
        serde_json::to_value(aquifer_remote::far::FarCounters::default()).unwrap().as_object().unwrap().keys()
    {
        let (_, called, kind, _) =
            donors::OF_ALL.iter().find(|(known, ..)| known == number).expect("a metric");
        let (_, labels, value) = &families[&name(called, *kind)].samples[0];
        assert_eq!((labels["pid"].as_str(), *value), ("7", borrowed(3).numbers()[number] as f64));
    }
    assert_eq!(families["aquifer_remote_parts_placed"].samples[0].2, 4.0);
}

#[test]
fn latencies_of_each_donor_are_cumulative() {
    let families = borrowing(borrowed(2));
    for name in donors::LATENCIES {
        let histogram = &families[name];
        assert_eq!(histogram.kind, "histogram");
        let of_beta: Vec<f64> = histogram
            .samples
            .iter()
            .filter(|(_, labels, _)| labels["donor"] == "beta:7447")
            .map(|(_, _, value)| *value)
            .collect();
        assert_eq!(of_beta, [0.0, 198.0, 200.0, 200.0, 200.0], "three bounds, all and their count");
    }
}

#[test]
fn units_of_donors_stand_last() {
    for name in donors::names() {
        let is_sound = |unit: &str| {
            !name.contains(unit) || name.ends_with(unit) || name.ends_with(&format!("{unit}_total"))
        };
        assert!(is_sound("_bytes") && is_name(&name), "{name}");
    }
}

#[test]
fn addresses_of_a_peer_are_not_believed() {
    let mut hostile = borrowed(1);
    hostile.donors[0].address = "a\"} 1\nb\\".into();
    hostile.donors[0].domain = "\"\x1b".into();
    hostile.donors.push(hostile.donors[1].clone());
    let families = borrowing(hostile);
    let slabs: Vec<&str> = families["aquifer_donor_slabs"]
        .samples
        .iter()
        .map(|(_, labels, _)| labels["donor"].as_str())
        .collect();
    assert_eq!(slabs, ["a\"} 1\u{FFFD}b\\", "beta:7447"], "and the same one once");
    let mut numbers: Numbers =
        [("donor_slabs", 1), ("remote_parts", 2), ("donor_read_latency_seconds_sum", 3)]
            .map(|(name, number)| (name.to_owned(), number))
            .into();
    numbers.insert("donor_reads_total".into(), 4);
    assert_eq!(parse(&text(&measurement("1", numbers, ""))).len(), 2, "names of donors' numbers are taken");
}

#[test]
fn nobody_there() {
    let families = parse(&down());
    assert_eq!((families.len(), families["aquifer_up"].samples[0].2), (1, 0.0));
}

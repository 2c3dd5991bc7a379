//! The answer of a socket.

use std::time::{Duration, Instant};

use aquifer_cli::heap::Measurement;
use aquifer_cli::prometheus;
use aquifer_cli::reply::{Sample, parse_check, parse_events, parse_latency, parse_stats};
use aquifer_cli::table::table;
use aquifer_cli::top::picture::Picture;
use aquifer_cli::top::snapshot::snapshot;

/// A sample that is understood can be written again and shown without commanding the terminal.
pub fn property(input: &[u8]) {
    let _ = parse_check(input);
    if let Ok((_, events)) = parse_events(input) {
        events.kept.iter().for_each(|event| assert!(!event.line().contains(char::is_control)));
    }
    if let Ok((pid, latency)) = parse_latency(input) {
        let sample = Sample {
            pid,
            version: "1".into(),
            subject: Default::default(),
            stats: Default::default(),
            remote: None,
        };
        shown(Measurement { taken: Instant::now(), sample, latency: Ok(latency) });
    }
    let Ok(sample) = parse_stats(input) else { return };
    let again = serde_json::to_vec(&sample).expect("numbers and names can be written");
    assert_eq!(parse_stats(&again).as_ref(), Ok(&sample));
    for shown in [table(&sample, None), table(&sample, Some((&sample, 0.001)))] {
        assert_printable(&shown);
    }
    shown(Measurement { taken: Instant::now(), sample, latency: Err("not asked") });
}

/// As the other commands show it.
fn shown(measurement: Measurement) {
    let later = Measurement { taken: measurement.taken + Duration::from_millis(1), ..measurement.clone() };
    assert_printable(&prometheus::text(&measurement));
    let mut picture = Picture::first(measurement);
    assert_printable(&snapshot(&picture));
    picture.advance(later);
    assert_printable(&snapshot(&picture));
}

fn assert_printable(text: &str) {
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
}

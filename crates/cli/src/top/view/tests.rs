//! The view on screens of many sizes.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::picture::Picture;
use super::super::picture::tests::{borrowing, measurement, picture};
use super::View;
use crate::heap::{Measurement, NOT_COUNTED};

/// The screen as lines of text.
fn screen(view: &View<'_>, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test backend");
    terminal.draw(|frame| view.draw(frame)).expect("it draws");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

fn view(picture: &Picture) -> View<'_> {
    View { picture, interval: Duration::from_secs(1), is_paused: false, has_help: false, silence: None }
}

#[test]
fn everything_is_there_from_the_smallest_terminal_on() {
    let picture = picture();
    let words = [
        "process 4711, aquifer 0.1.0, every 1 s",
        "RAM used",
        "mapped pages",
        "object cache",
        "metadata",
        "flash live",
        "found in RAM",
        "read from flash",
        "never written",
        "share now",
        "IOPS",
        "write amplification",
        "segments cleaned",
        "bytes copied",
        "writer waits",
        "Faults/s: ",
        "p99",
        "h help",
    ];
    for (width, height) in [(60, 20), (80, 24), (99, 40), (100, 22), (100, 30), (132, 50), (300, 100)] {
        let screen = screen(&view(&picture), width, height);
        for word in words {
            assert!(screen.contains(word), "{word} is not in {width}x{height}\n{screen}");
        }
    }
}

#[test]
fn larger_screens_show_more() {
    let picture = picture();
    let (small, large) = (screen(&view(&picture), 60, 20), screen(&view(&picture), 100, 34));
    for word in
        ["flash used", "pages evicted", "device errors", "Cleaner and writer", "≤ 65.5 µs", "overall p50"]
    {
        assert!(!small.contains(word) && large.contains(word), "{word}\n{small}\n{large}");
    }
}

#[test]
fn donors_are_seen_where_there_is_room() {
    let picture = borrowing();
    for (width, height) in [(80, 25), (100, 30), (160, 50)] {
        let screen = screen(&view(&picture), width, height);
        for word in [
            "Remote memory",
            "4 of 5 parts placed",
            "pages/s from donors 200",
            "alpha:7447",
            "beta:7447",
            "RAM used",
            "p99",
        ] {
            assert!(screen.contains(word), "{word} is not in {width}x{height}\n{screen}");
        }
    }
    assert!(screen(&view(&picture), 160, 50).contains("rack 1"));
    let narrow = screen(&view(&picture), 80, 24);
    assert!(narrow.contains("beta:7447") && !narrow.contains("pages/s"), "{narrow}");
    assert!(screen(&view(&picture), 80, 23).contains("2 more"));
    assert!(!screen(&view(&picture), 60, 20).contains("Remote"));
}

#[test]
fn no_size_is_too_small() {
    let picture = picture();
    let start = Instant::now();
    let fresh = Picture::first(measurement(1, 0, start));
    for width in [1, 2, 5, 13, 20, 21, 40, 59, 99, 100, 101, 300] {
        for height in [1, 2, 3, 5, 7, 8, 9, 19, 21, 22, 23, 100] {
            for picture in [&picture, &fresh, &borrowing()] {
                let text = screen(&View { has_help: true, is_paused: true, ..view(picture) }, width, height);
                assert_eq!(text.lines().count(), usize::from(height));
            }
        }
    }
    assert!(screen(&view(&picture), 20, 5).contains("RAM used"));
}

#[test]
fn what_is_not_known_says_so() {
    let unknown = Measurement { latency: Err(NOT_COUNTED), ..measurement(1, 0, Instant::now()) };
    let picture = Picture::first(unknown);
    for (width, height) in [(80, 20), (80, 40), (110, 30)] {
        let screen = screen(&view(&picture), width, height);
        assert!(screen.contains("not known: this program"), "{screen}");
    }
}

#[test]
fn pause_help_and_silence_are_seen() {
    let picture = picture();
    let silence = Some(Duration::from_millis(12_900));
    let screen = screen(&View { is_paused: true, has_help: true, silence, ..view(&picture) }, 80, 24);
    for word in ["paused", "no answer for 12 s", "q quit", "p pause"] {
        assert!(screen.contains(word), "{word}\n{screen}");
    }
}

#[test]
fn hostile_numbers_and_names_stay_in_their_place() {
    let start = Instant::now();
    let mut hostile = measurement(1, 1, start);
    hostile.sample.version = "\x1b[2J".repeat(1000);
    hostile.sample.stats.values_mut().for_each(|number| *number = u64::MAX);
    let count = vec![u64::MAX; 64];
    let upper_ns: Vec<u64> = (0..64).map(|n| u64::MAX - 63 + n).collect();
    let latency = serde_json::json!({ "upper_ns": upper_ns, "count": count });
    hostile.latency = Ok(serde_json::from_value(latency).expect("a latency"));
    let mut picture = Picture::first(measurement(1, 0, start));
    picture.advance(hostile);
    for (width, height) in [(20, 5), (60, 20), (100, 30), (300, 100)] {
        let screen = screen(&view(&picture), width, height);
        assert!(!screen.contains('\x1b'), "{screen}");
    }
    picture.now.sample.stats.clear();
    picture.rates = None;
    assert!(screen(&view(&picture), 100, 30).contains("RAM used"));
}

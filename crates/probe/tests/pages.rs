//! The forms of a report: complete, well-formed, and harmless whatever the report says.

mod fixture;
mod markup;

use aquifer_probe::render;
use aquifer_probe::report::{QueueFlags, Report};
use proptest::prelude::*;
use serde_json::Value;

/// Texts that want to be more than text.
const HOSTILE: [&str; 8] = [
    "\"><script>alert(1)</script>",
    "'><img src=x onerror=alert(1)>",
    "</style></title></svg><b>&amp;&#60;",
    "]]><!-- --><?php ?>",
    "\u{1b}[2J\u{0}\u{7f}\u{202e}\r",
    "=cmd|' /C calc'!A0",
    "a|b\n\n# c `d` [e](javascript:f)",
    "${HOME} %s {} \\",
];

#[test]
fn every_plot_is_there() {
    let page = markup::read(&render::html(&fixture::report()));
    let expected = [
        ("blocks", 4),
        ("depth", 6),
        ("fill", 4),
        ("interference", 1),
        ("latency", 4),
        ("mixes", 1),
        ("raid", 4),
        ("recovery", 2),
        ("saturation", 4),
        ("stalls", 4),
        ("steady", 1),
        ("working-set", 1),
    ];
    let expected = expected.map(|(section, figures)| (section.to_owned(), figures));
    assert_eq!(page.figures.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn plots_show_what_they_must() {
    let page = markup::read(&render::html(&fixture::report()));
    let needed = [
        "fitted in the window",
        "mean + 10 %",
        "mean - 10 %",
        "Write amplification, over time",
        "Sequential: throughput",
        "Random: throughput",
        "write, flush per write",
        "write, O_DSYNC",
        "99.99 %",
        "fragmented",
        "ideal",
        "Processor time of a transfer",
        "Latency of reads beside a writer",
        "What the kernel believes (reported, not trusted)",
        "study of 2010",
    ];
    for text in needed {
        assert!(page.text.contains(text), "{text}");
    }
}

#[test]
fn all_forms_have_the_same_sections() {
    let (html, markdown) = (render::html(&fixture::report()), render::markdown(&fixture::report()));
    let headings: Vec<&str> =
        html.split("<h2>").skip(1).filter_map(|rest| rest.split("</h2>").next()).collect();
    let titles: Vec<String> = markdown
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|title| title.replace('\\', ""))
        .collect();
    assert_eq!(headings.len(), 17);
    assert_eq!(headings, titles);
}

#[test]
fn what_was_not_measured_is_not_there() {
    let page = markup::read(&render::html(&fixture::empty()));
    assert_eq!(page.elements.iter().filter(|name| *name == "section").count(), 1);
    assert!(page.figures.is_empty());
    assert!(page.text.contains("INCOMPLETE"));
    assert_eq!(render::csv(&fixture::empty()).lines().count(), 1);
    assert!(render::markdown(&fixture::empty()).contains("| Target | "));
}

#[test]
fn unsteady_is_in_plain_sight() {
    let steady = fixture::report();
    assert!(!render::html(&steady).contains("NOT STEADY"));
    let mut report = steady;
    report.steady.as_mut().expect("the fixture has it").reached = false;
    for text in [render::html(&report), render::markdown(&report)] {
        let warning = text.find("NOT STEADY").expect("it is there");
        let first_section = text.find("What was measured").expect("it is there");
        assert!(warning < first_section);
        assert_eq!(text.matches("NOT STEADY").count(), 2);
    }
}

#[test]
fn a_flush_that_costs_nothing_is_not_believed() {
    let mut report = fixture::report();
    let flush = report.flush.as_mut().expect("the fixture has it");
    flush.write_and_flush = flush.write.clone();
    assert!(render::html(&report).contains("or flushes are ignored"));
}

/// The report with `text` wherever a report has a text of its own.
fn told(text: &str) -> Report {
    let mut report = fixture::report();
    let some = || Some(text.to_owned());
    report.machine.cpu_model = text.into();
    report.machine.kernel = text.into();
    report.target.name = text.into();
    report.target.model = some();
    report.target.file_system = some();
    report.target.queue = Some(QueueFlags {
        device: text.into(),
        write_cache: some(),
        scheduler: some(),
        ..QueueFlags::default()
    });
    report.target.emulation.as_mut().expect("the fixture has it").parameters = text.into();
    report.notes = vec![text.into(), text.into()];
    report
}

#[test]
fn texts_add_no_markup() {
    let harmless = markup::read(&render::html(&told("x"))).elements;
    for text in HOSTILE {
        let page = markup::read(&render::html(&told(text)));
        assert_eq!(page.elements, harmless, "{text}");
    }
}

#[test]
fn texts_add_nothing_to_markdown_and_csv() {
    let (lines, csv) = (render::markdown(&told("x")).lines().count(), render::csv(&told("x")));
    for text in HOSTILE {
        let markdown = render::markdown(&told(text));
        assert_eq!(markdown.lines().count(), lines, "{text}");
        assert!(!markdown.contains("<script") && !markdown.contains("<img") && !markdown.contains('\u{1b}'));
        assert_eq!(render::csv(&told(text)), csv);
    }
}

#[test]
fn many_kinds_do_not_multiply() {
    let mut report = fixture::empty();
    let load = fixture::short::report().matrix[0].clone();
    let kinds = 1..=1000u32;
    report.matrix = kinds
        .map(|kind| {
            let mut load = load.clone();
            (load.job.block_bytes, load.job.depth, load.job.span_bytes) = (kind * 512, kind, kind.into());
            load
        })
        .collect();
    report.latency = report.matrix.clone();
    report.mixes = report.matrix.clone();
    report.working_set = report.matrix.clone();
    let html = render::html(&report);
    markup::read(&html);
    // A table of all pairs of a thousand kinds would have tens of millions.
    assert!(html.len() < 4 << 20, "{} bytes", html.len());
}

#[test]
fn csv_has_every_round() {
    let report = fixture::report();
    let csv = render::csv(&report);
    let rounds: usize = report.measurements().map(|load| load.rounds.len()).sum();
    assert_eq!(csv.lines().count(), 1 + report.saturation.len() + rounds);
    let columns: Vec<&str> = csv.lines().next().expect("there is a head").split(',').collect();
    assert_eq!(columns.len(), 22);
    for line in csv.lines().skip(1) {
        assert_eq!(line.split(',').count(), columns.len(), "{line}");
    }
    let steady = csv.lines().find(|line| line.starts_with("steady,")).expect("there are steady rounds");
    let fields: Vec<&str> = steady.split(',').collect();
    let round = &report.steady.as_ref().expect("the fixture has it").rounds.rounds[0];
    let value =
        |name: &str| fields[columns.iter().position(|column| *column == name).expect("it is a column")];
    assert_eq!(value("ios"), round.ios.to_string());
    assert_eq!(value("iops").parse::<f64>().expect("it is a number"), round.iops());
    assert_eq!(value("max_ns"), round.latency.max_ns.to_string());
    let interval = csv.lines().nth(1).expect("there are intervals").split(',').collect::<Vec<_>>();
    let at =
        |name: &str| interval[columns.iter().position(|column| *column == name).expect("it is a column")];
    assert_eq!(at("iops").parse::<f64>().expect("it is a number"), report.saturation[0].iops);
    assert_eq!(at("p99_ns"), report.saturation[0].p99_ns.to_string());
    assert_eq!(at("max_ns"), report.saturation[0].max_ns.to_string());
    assert!(at("write_amplification").starts_with("1.0"));
}

/// Numbers at which formulas break.
const FLOATS: [f64; 10] = [0.0, -0.0, 5e-324, 1e-300, 1e-9, 1.0, 1e18, 1e300, f64::MAX, -1e300];
const WHOLE: [u64; 8] = [0, 1, 100, 512, 65_536, 1 << 31, 1 << 53, u64::MAX];

/// Places in a JSON value: of numbers, and of lists.
fn places(value: &Value, at: &str, numbers: &mut Vec<String>, lists: &mut Vec<String>) {
    match value {
        Value::Number(_) => numbers.push(at.into()),
        Value::Array(items) => {
            lists.push(at.into());
            items.iter().enumerate().for_each(|(n, item)| places(item, &format!("{at}/{n}"), numbers, lists));
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, item)| places(item, &format!("{at}/{name}"), numbers, lists));
        }
        _ => {}
    }
}

/// The largest number that a member of this name takes.
fn limit(at: &str) -> u64 {
    match at.rsplit('/').next().unwrap_or_default() {
        "version" => 1,
        "read_percent" | "fill_percent" => 255,
        "block_bytes"
        | "depth"
        | "cpus"
        | "devices"
        | "stripe_bytes"
        | "writer_depth"
        | "logical_block_bytes"
        | "physical_block_bytes"
        | "requests" => u32::MAX.into(),
        _ => u64::MAX,
    }
}

/// Puts edges at places, then cuts lists.
fn damaged(edges: &[(prop::sample::Index, usize)], cuts: &[(prop::sample::Index, usize)]) -> Report {
    let mut value = serde_json::to_value(fixture::short::report()).expect("a report is JSON");
    let (mut numbers, mut lists) = (Vec::new(), Vec::new());
    places(&value, "", &mut numbers, &mut lists);
    for (place, edge) in edges {
        let at = place.get(&numbers);
        let number = value.pointer_mut(at).expect("it was there");
        *number = if number.is_f64() {
            FLOATS[edge % FLOATS.len()].into()
        } else {
            WHOLE[edge % WHOLE.len()].min(limit(at)).into()
        };
    }
    for (place, length) in cuts {
        // A list inside one that was cut may be gone.
        if let Some(Value::Array(items)) = value.pointer_mut(place.get::<String>(&lists)) {
            items.truncate(*length);
        }
    }
    serde_json::from_value(value).expect("each member keeps its type")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn figures_are_numbers_whatever_was_measured(
        edges in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40), 0..60),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..2), 0..6),
    ) {
        let report = damaged(&edges, &cuts);
        let page = markup::read(&render::html(&report));
        markup::check_numbers(&page.text);
        markup::check_numbers(&render::markdown(&report));
        markup::check_numbers(&render::csv(&report));
        let comparison = aquifer_probe::compare::compare(&[report, fixture::short::report()]);
        markup::check_numbers(&comparison.text());
        markup::check_numbers(&markup::read(&comparison.html()).text);
    }
}

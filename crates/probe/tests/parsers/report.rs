//! A report from a file that anybody could have written, and everything that is made of it.

use aquifer_probe::compare::compare;
use aquifer_probe::fio;
use aquifer_probe::render;
use aquifer_probe::report::Report;

/// Every file is refused, or all forms of its report are made and no number in them is NaN or infinite.
pub fn property(input: &[u8]) {
    let Ok(report) = Report::parse(input) else { return };
    assert_eq!(Report::parse(report.to_json().as_bytes()).ok().as_ref(), Some(&report));
    for load in report.measurements() {
        let file = fio::job_file(&load.job, "/dev/null".as_ref(), load.median(|round| round.duration_s));
        assert!(file.is_ok());
    }
    let report = without_texts(report);
    let comparison = compare(&[report.clone(), report.clone()]);
    let forms = [
        render::html(&report),
        render::markdown(&report),
        render::csv(&report),
        comparison.text(),
        comparison.html(),
        comparison.markdown(),
    ];
    for form in forms {
        let mut words = form.split(|c: char| !c.is_alphanumeric());
        assert!(!words.any(|word| word == "NaN" || word == "inf"), "{form}");
    }
}

/// Its own texts could be the words that are looked for.
fn without_texts(mut report: Report) -> Report {
    report.machine.cpu_model.clear();
    report.machine.kernel.clear();
    report.target.name.clear();
    (report.target.model, report.target.file_system, report.target.queue) = (None, None, None);
    report.target.emulation = None;
    report.notes.clear();
    report
}

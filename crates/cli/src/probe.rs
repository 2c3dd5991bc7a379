//! Measures a device, and shows and compares what was measured.

pub mod arguments;
mod watch;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use aquifer_base::units::format_size;
use aquifer_probe::compare::compare;
use aquifer_probe::control::Stop;
use aquifer_probe::measure::Probe;
use aquifer_probe::plan::Plan;
use aquifer_probe::report::{Effort, Report, TargetKind};
use aquifer_probe::target::{Ground, TargetSpec};
use aquifer_probe::{fio, render};

use crate::error::Error;
use arguments::{CompareArguments, FormArguments, ProbeArguments, ProbeQuestion, RenderArguments};
use watch::Watch;

/// Makes a text of a report.
type Form = fn(&Report) -> String;

/// Where reports go.
struct Outputs<'a> {
    json: Option<&'a Path>,
    forms: &'a FormArguments,
}

/// Measures a target, or shows what was measured.
///
/// # Errors
/// [`Error`] when nothing could be measured or shown.
pub fn probe(arguments: &ProbeArguments) -> Result<ExitCode, Error> {
    match &arguments.question {
        Some(ProbeQuestion::Compare(arguments)) => show_comparison(arguments),
        Some(ProbeQuestion::Render(arguments)) => show_again(arguments),
        None => measure(arguments),
    }
}

fn measure(arguments: &ProbeArguments) -> Result<ExitCode, Error> {
    let outputs = Outputs { json: arguments.report_json.as_deref(), forms: &arguments.forms };
    // Better now than after an hour.
    outputs.check()?;
    let spec = TargetSpec::parse(arguments.target.as_deref().unwrap_or_default())?;
    let ground = Ground::new(spec, &arguments.beside, &arguments.erase)?;
    let plan = plan(arguments, &ground);
    let announced = announce(&ground, &plan)?;
    if arguments.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let watch = Watch::new(announced).map_err(|error| Error::Signal(error.to_string()))?;
    let probe = Probe::open(&ground, plan, arguments.seed, &watch)?;
    let (report, outcome) = probe.run();
    drop(watch);
    outputs.write(&report)?;
    show(&if arguments.json { report.to_json() } else { render::summary(&report) })?;
    Ok(ended(outcome))
}

fn ended(outcome: Result<(), Stop>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            eprintln!(
                "aquifer: the run did not come to its end: {stop}; the figures are of what came before"
            );
            ExitCode::FAILURE
        }
    }
}

fn plan(arguments: &ProbeArguments, ground: &Ground) -> Plan {
    let effort = match (arguments.quick, arguments.full) {
        (true, _) => Effort::Quick,
        (_, true) => Effort::Full,
        _ => Effort::Standard,
    };
    let mut plan = Plan::new(effort);
    if let Some(size) = arguments.span {
        plan.span_bytes = size;
    }
    // An emulated device is used as a whole: its spare pages belong to it.
    if matches!(ground, Ground::Flash(_)) {
        plan.span_bytes = u64::MAX;
    }
    plan
}

/// Says what will be written and how long that takes; returns the seconds.
fn announce(ground: &Ground, plan: &Plan) -> Result<f64, Error> {
    let target = ground.describe();
    let budget = aquifer_probe::measure::Budget::new(ground, plan)?;
    let (span, written) = (format_size(budget.span_bytes), format_size(budget.written_bytes));
    let time = roughly(Duration::from_secs_f64(budget.total_s()));
    let what = match target.kind {
        TargetKind::Nand => format!("will simulate writes of at most {written} to emulated flash of {span}"),
        TargetKind::Directory => {
            format!("will write at most {written} to files of its own, {span} large, in {}", target.name)
        }
        TargetKind::File | TargetKind::BlockDevice => {
            format!(
                "will write at most {written} to the first {span} of {}, and destroy what is there",
                target.name
            )
        }
    };
    eprintln!("aquifer: {what}; about {time}. Ctrl-C ends it.");
    Ok(budget.total_s())
}

fn roughly(time: Duration) -> String {
    match time.as_secs() {
        0..120 => format!("{} seconds", time.as_secs().max(1)),
        120..7200 => format!("{} minutes", time.as_secs() / 60),
        seconds => format!("{:.1} hours", seconds as f64 / 3600.0),
    }
}

fn show_again(arguments: &RenderArguments) -> Result<ExitCode, Error> {
    let report = read(&arguments.report)?;
    let outputs = Outputs { json: None, forms: &arguments.forms };
    outputs.write(&report)?;
    show(&render::summary(&report))?;
    Ok(ExitCode::SUCCESS)
}

fn show_comparison(arguments: &CompareArguments) -> Result<ExitCode, Error> {
    let reports = arguments.reports.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let comparison = compare(&reports);
    if let Some(path) = &arguments.html {
        write(path, &comparison.html())?;
    }
    if let Some(path) = &arguments.markdown {
        write(path, &comparison.markdown())?;
    }
    show(&if arguments.json { comparison.json() } else { comparison.text() })?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Report, Error> {
    Report::read(path).map_err(|error| Error::Report { path: path.to_owned(), error })
}

impl Outputs<'_> {
    /// Files with what goes into them; first what the others can be made from again.
    fn files(&self) -> impl Iterator<Item = (&Path, Form)> {
        let FormArguments { html, markdown, csv, .. } = self.forms;
        let files: [(_, Form); 4] = [
            (self.json, Report::to_json),
            (html.as_deref(), render::html),
            (markdown.as_deref(), render::markdown),
            (csv.as_deref(), render::csv),
        ];
        files.into_iter().filter_map(|(path, form)| Some((path?, form)))
    }

    /// Whether all files can be written, and job files made.
    fn check(&self) -> Result<(), Error> {
        for (path, _) in self.files() {
            let failed = |error| Error::ReportFile { path: path.to_owned(), error };
            if path.is_dir() {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            tempfile::tempfile_in(folder(path)).map_err(failed)?;
        }
        if let Some(dir) = &self.forms.fio {
            // What is missing will be made, in the first folder above it that is there.
            let is_there = |path: &&Path| path.exists() || path.as_os_str().is_empty();
            let above = dir.ancestors().find(is_there).filter(|path| !path.as_os_str().is_empty());
            tempfile::tempfile_in(above.unwrap_or(Path::new(".")))
                .map_err(|error| Error::ReportFile { path: dir.to_owned(), error })?;
        }
        Ok(())
    }

    fn write(&self, report: &Report) -> Result<(), Error> {
        for (path, form) in self.files() {
            write(path, &form(report))?;
        }
        if let Some(dir) = &self.forms.fio {
            let name = if report.target.kind == TargetKind::Nand {
                "aquifer-probe.data"
            } else {
                &report.target.name
            };
            let failed = |error| Error::ReportFile { path: dir.to_owned(), error };
            fs::create_dir_all(dir).map_err(failed)?;
            let target = match report.target.kind {
                TargetKind::Directory => Path::new(name).join("aquifer-probe.data"),
                _ => name.into(),
            };
            fio::write_all(report, &target, dir).map_err(failed)?;
        }
        Ok(())
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// At once or not at all. What is no regular file is written to as it is.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    let failed = |error| Error::ReportFile { path: path.to_owned(), error };
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(path, text).map_err(failed);
    }
    let readable = Permissions::from_mode(0o644);
    let file = tempfile::Builder::new().permissions(readable).tempfile_in(folder(path));
    let mut file = file.map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn show(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe: it has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

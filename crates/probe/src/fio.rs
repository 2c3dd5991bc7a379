//! The loads of a report as job files of fio, so that anybody can check the figures with a program that is not ours.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cells::{Cell, Part, cells};
use crate::report::{Job, Pattern, Report, WriteMode};

/// Longest run that a job file asks for.
const RUNTIME_S_MAX: f64 = 3600.0;
/// Largest part of a target that a job file names; fio counts in signed numbers.
const SIZE_MAX: u64 = 1 << 62;

/// A file name that a job file cannot hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "fio cannot read the file name {0:?} from a job file: it has a ';', '#', '$', '\\', a control character, a space at an end, or is not UTF-8; \
     make a symbolic link with a plain name"
)]
pub struct NameError(pub PathBuf);

/// One job file for `job` on `filename` for `runtime_s` seconds, rounded up to whole ones.
///
/// Writes destroy what `filename` holds, which the first line of the file says. Data are random, and changed a little in each block of each write, as the probe changes them; places are
/// uniformly random with repetition, as the probe's are. One transfer of "flush per write" is a write and an `fsync`, which fio counts and
/// times apart.
///
/// # Errors
/// [`NameError`] if a job file cannot hold the name.
pub fn job_file(job: &Job, filename: &Path, runtime_s: f64) -> Result<String, NameError> {
    let filename = file_name(filename)?;
    Ok(head(job.is_read_only()) + &job_section("load", job, &filename, runtime_s))
}

/// Writes a job file for every load of a report to the folder `dir`, which must be there, and tells their paths in the order of the report.
///
/// Names begin with a number and say what the load is. A reader beside a writer is one file with two jobs.
///
/// # Errors
/// What the system says; files that were written before remain. [`NameError`] as `InvalidInput`, before anything is written.
pub fn write_all(report: &Report, filename: &Path, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let filename =
        &file_name(filename).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut paths = Vec::new();
    let cells = cells(report);
    let mut rest = &cells[..];
    while let [cell, after @ ..] = rest {
        // Reader and writer of one test stand side by side, the reader first.
        let writer = after.first().filter(|next| is_writer_of(cell, next));
        let path = dir.join(name(paths.len() + 1, cell));
        fs::write(&path, cell_file(cell, writer, filename))?;
        paths.push(path);
        rest = if writer.is_some() { &after[1..] } else { after };
    }
    Ok(paths)
}

fn is_writer_of(reader: &Cell<'_>, writer: &Cell<'_>) -> bool {
    match (&reader.part, &writer.part) {
        (Part::Beside(one, false), Part::Beside(other, true)) => one == other,
        _ => false,
    }
}

fn cell_file(cell: &Cell<'_>, writer: Option<&Cell<'_>>, filename: &str) -> String {
    let is_harmless = cell.measurement.job.is_read_only() && writer.is_none();
    let mut text = head(is_harmless);
    text.push_str(&format!("# {}: {}\n", cell.section, cell.measurement.job));
    text.push_str(before(&cell.part));
    let runtime_s = cell.measurement.median(|round| round.duration_s);
    text.push_str(&job_section("load", &cell.measurement.job, filename, runtime_s));
    if let Some(writer) = writer {
        text.push_str(&job_section("writer", &writer.measurement.job, filename, runtime_s));
    }
    text
}

fn head(is_harmless: bool) -> String {
    let warning = if is_harmless { "" } else { "# This job DESTROYS what the file or device below holds.\n" };
    format!("{warning}# fio --output-format=json+ FILE\n")
}

/// What must be done before a job, which a job file cannot say.
fn before(part: &Part) -> &'static str {
    match part {
        Part::Named("after") => {
            "# Discard the other half of the target first (blkdiscard, fallocate --punch-hole).\n"
        }
        Part::Named(_) | Part::Whole | Part::Beside(..) => "",
        Part::Fill(_, crate::report::FillState::Fresh) => {
            "# Discard the target, then write the part below once, one block after the other.\n"
        }
        Part::Fill(_, crate::report::FillState::Fragmented) => {
            "# Discard the target, write the part below once, then overwrite it at random until the rate is level.\n"
        }
        Part::Pause(_) => "# The probe wrote until the rate was level, and then paused before this load.\n",
        Part::Raid(..) => {
            "# The file name must be that of a RAID-0 with as many devices and the same stripe unit.\n"
        }
    }
}

fn job_section(name: &str, job: &Job, filename: &str, runtime_s: f64) -> String {
    let block = job.block_bytes.max(1);
    let size = job.span_bytes.clamp(block.into(), SIZE_MAX);
    let runtime_s =
        if runtime_s.is_finite() { runtime_s.ceil().clamp(1.0, RUNTIME_S_MAX) } else { RUNTIME_S_MAX };
    let mut text = format!(
        "\n[{name}]\nfilename={filename}\nioengine=io_uring\ndirect=1\nrw={}\n{}bs={block}\niodepth={}\nsize={size}\n",
        direction(job),
        mix(job),
        job.depth.max(1),
    );
    text.push_str(match job.write_mode {
        _ if job.is_read_only() => "",
        WriteMode::Cached => "",
        WriteMode::FlushEach => "fsync=1\n",
        WriteMode::Dsync => "sync=dsync\n",
    });
    text.push_str(&format!(
        "time_based=1\nruntime={runtime_s:.0}\nnorandommap=1\nrandrepeat=0\nscramble_buffers=1\nthread=1\ngroup_reporting=1\n"
    ));
    text
}

fn direction(job: &Job) -> &'static str {
    match (job.pattern, job.read_percent) {
        (Pattern::Sequential, 100) => "read",
        (Pattern::Sequential, 0) => "write",
        (Pattern::Sequential, _) => "rw",
        (Pattern::Random, 100) => "randread",
        (Pattern::Random, 0) => "randwrite",
        (Pattern::Random, _) => "randrw",
    }
}

fn mix(job: &Job) -> String {
    match job.read_percent {
        0 | 100 => String::new(),
        percent => format!("rwmixread={}\n", percent.min(100)),
    }
}

/// `017-matrix-random-70-4096-depth-16.fio`: numbers and our own words only, whatever a report says.
fn name(number: usize, cell: &Cell<'_>) -> String {
    let job = &cell.measurement.job;
    let pattern = match job.pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
    };
    let direction = match job.read_percent {
        100 => "read".into(),
        0 => "write".into(),
        percent => format!("read{percent}"),
    };
    let mode = match job.write_mode {
        WriteMode::Cached => "",
        WriteMode::FlushEach => "-flush",
        WriteMode::Dsync => "-dsync",
    };
    let (section, block, depth) = (cell.section, job.block_bytes, job.depth);
    format!("{number:03}-{section}-{pattern}-{direction}-{block}-depth-{depth}{mode}.fio")
}

/// Writes a name so that fio takes it as this one file. A colon would part names, and is escaped. A semicolon
/// or `#` begins a comment anywhere, `$` begins a variable, and none of these can be escaped: the job would
/// open another file.
///
/// # Errors
/// [`NameError`] for names that have no form.
fn file_name(path: &Path) -> Result<String, NameError> {
    let error = || NameError(path.to_owned());
    let name = path.to_str().ok_or_else(error)?;
    let is_lost = |c: char| c.is_control() || matches!(c, ';' | '#' | '$' | '\\');
    if name.is_empty() || name.trim() != name || name.contains(is_lost) {
        return Err(error());
    }
    Ok(name.replace(':', "\\:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_options() {
        let job = |read_percent, write_mode| Job {
            pattern: Pattern::Random,
            read_percent,
            block_bytes: 4096,
            depth: 8,
            write_mode,
            span_bytes: 1 << 30,
        };
        let file = |job: &Job| job_file(job, Path::new("/dev/x"), 4.2).expect("the name is plain");
        let flushed = file(&job(0, WriteMode::FlushEach));
        assert!(flushed.contains("\nrw=randwrite\n") && flushed.contains("\nfsync=1\n"), "{flushed}");
        assert!(flushed.contains("\nruntime=5\n") && flushed.starts_with("# This job DESTROYS"), "{flushed}");
        assert!(file(&job(0, WriteMode::Dsync)).contains("\nsync=dsync\n"));
        let mixed = file(&job(70, WriteMode::Cached));
        assert!(
            mixed.contains("\nrw=randrw\nrwmixread=70\nbs=4096\niodepth=8\nsize=1073741824\n"),
            "{mixed}"
        );
        let read = file(&job(100, WriteMode::Dsync));
        assert!(!read.contains("sync=") && !read.contains("DESTROYS"), "{read}");
    }

    #[test]
    fn a_name_stays_one_name() {
        let name = |text: &str| file_name(Path::new(text));
        assert_eq!(name("/dev/disk/by-path/pci-0:1.2").as_deref(), Ok("/dev/disk/by-path/pci-0\\:1.2"));
        for lost in ["", "/a\nrw=write", "/a;b", "/a#b", "/a${HOME}", "/a ", "/a\\:b"] {
            assert_eq!(name(lost), Err(NameError(lost.into())));
        }
    }
}

//! Whether all of a volume is in order.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::process::ExitCode;

use aquifer_volume::{Depth, Findings, Ino, Kind, PAGE_BYTES, Volume, VolumeError};

use serde::Serialize;

use super::arguments::VerifyArguments;
use super::opened::{failed, to_read};
use super::place::{Place, joined};
use super::print_json;
use super::work::Work;
use crate::amounts::{grouped, size};
use crate::error::{Error, printable};

/// Proves that tables, names and counts agree.
///
/// # Errors
/// [`Error`] if the volume cannot be looked at. What is wrong with it is told on standard output, and by the exit status.
pub fn check(arguments: &VerifyArguments) -> Result<ExitCode, Error> {
    verify(arguments, Depth::Metadata)
}

/// Reads and verifies every byte as well, and names each file that is damaged.
///
/// # Errors
/// As [`check`].
pub fn scrub(arguments: &VerifyArguments) -> Result<ExitCode, Error> {
    verify(arguments, Depth::Contents)
}

fn verify(arguments: &VerifyArguments, depth: Depth) -> Result<ExitCode, Error> {
    let path = &arguments.volume;
    let name = printable(&path.display().to_string());
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = to_read(path).and_then(|volume| {
        let work = Work::on_files();
        let findings = volume.check(depth, |done, total| work.is_at(done, total)).map_err(failed(path))?;
        drop(work);
        Ok((volume, findings))
    });
    let (volume, findings) = match outcome {
        Ok(done) => done,
        // So damaged that nothing more can be said.
        Err(Error::Volume {
            error: error @ (VolumeError::Damaged { .. } | VolumeError::Corrupt(_) | VolumeError::Device(_)),
            ..
        }) => {
            if arguments.json {
                drop(out);
                print_json(&Verified { problems: vec![error.to_string()], ..Verified::of(path, None) })?;
                return Ok(ExitCode::FAILURE);
            }
            writeln!(out, "{name}: {}", printable(&error.to_string()))?;
            out.flush()?;
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error),
    };
    if arguments.json {
        drop(out);
        let verified = Verified::of(path, Some((&volume, &findings)));
        print_json(&verified)?;
        return Ok(if verified.in_order { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if volume.recovered().lost > 0 {
        let what = if volume.recovered().lost_changes {
            "the last transaction of the log is not whole and does not count; a crash tore it, or it was damaged since"
        } else {
            "the last checkpoint is not whole and does not count; no change of a file is lost with it"
        };
        writeln!(out, "{name}: {what}")?;
    }
    if findings.problems.is_empty() {
        let read = match depth {
            Depth::Contents => ", all of them read and verified",
            Depth::Metadata => "; their bytes were not read, `aquifer volume scrub` does that",
        };
        let bytes = size(findings.pages as f64 * PAGE_BYTES as f64);
        writeln!(out, "{name}: in order, {} files with {bytes} on flash{read}", grouped(findings.files))?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    tell(&volume, path, &findings, &mut out)?;
    out.flush()?;
    eprintln!(
        "aquifer: {} problems; write the files anew that are named, or remove them; or copy out what can be read with `aquifer volume salvage {name} FOLDER`, and make \
         the volume anew",
        findings.problems.len()
    );
    Ok(ExitCode::FAILURE)
}

/// What was found, as programs read it.
#[derive(Serialize)]
struct Verified {
    volume: String,
    in_order: bool,
    files: u64,
    /// Of files, on flash.
    bytes: u64,
    /// Whether a crash, or damage, has cost a change of a file.
    lost_changes: bool,
    /// Paths, and what of them is damaged.
    damaged: Vec<(String, String)>,
    problems: Vec<String>,
}

impl Verified {
    fn of(path: &Path, found: Option<(&Volume, &Findings)>) -> Self {
        let Some((volume, findings)) = found else {
            let volume = path.display().to_string();
            return Self {
                volume,
                in_order: false,
                files: 0,
                bytes: 0,
                lost_changes: false,
                damaged: vec![],
                problems: vec![],
            };
        };
        Self {
            volume: path.display().to_string(),
            in_order: findings.problems.is_empty(),
            files: findings.files,
            bytes: findings.pages * PAGE_BYTES as u64,
            lost_changes: volume.recovered().lost_changes,
            damaged: damaged(volume, path, findings),
            problems: findings.problems.clone(),
        }
    }
}

/// Files that are damaged, by path, and the damage of each.
fn damaged(volume: &Volume, path: &Path, findings: &Findings) -> Vec<(String, String)> {
    let paths = if findings.damaged.is_empty() { HashMap::new() } else { paths(volume) };
    let named = |ino: &Ino| {
        // Extended attributes are told of by the name of their file.
        let named = match volume.inode(*ino) {
            Ok(inode) if inode.kind == Kind::Xattrs => inode.parent,
            _ => *ino,
        };
        let shown =
            paths.get(&named).map(|inside| Place { volume: path.to_owned(), path: inside.clone() }.shown());
        let file = match (*ino, shown) {
            (Ino::ROOTS | Ino::INODES, _) => format!("{}: the table of files", path.display()),
            (_, Some(shown)) => shown,
            (ino, None) => format!("{}: {ino}, whose name is lost,", path.display()),
        };
        (file, damage(volume, *ino))
    };
    findings.damaged.iter().map(named).collect()
}

/// Tells of files that are damaged, by path and range, then of all that was found.
fn tell(volume: &Volume, path: &Path, findings: &Findings, out: &mut impl Write) -> io::Result<()> {
    for (file, damage) in damaged(volume, path, findings) {
        writeln!(out, "{} {damage}", printable(&file))?;
    }
    for problem in &findings.problems {
        writeln!(out, "{}: {}", printable(&path.display().to_string()), printable(problem))?;
    }
    Ok(())
}

/// A path for each file that has one, as far as folders can be read.
pub fn paths(volume: &Volume) -> HashMap<Ino, Vec<u8>> {
    let mut paths = HashMap::from([(Ino::ROOT_FOLDER, b"/".to_vec())]);
    let mut waiting = vec![Ino::ROOT_FOLDER];
    while let Some(folder) = waiting.pop() {
        let path = paths[&folder].clone();
        // A folder that cannot be read is among the damaged files itself.
        let _ = volume.list(folder, 0, |entry| {
            if paths.contains_key(&entry.ino) {
                return ControlFlow::Continue(());
            }
            paths.insert(entry.ino, joined(&path, entry.name));
            if entry.kind == Kind::Folder {
                waiting.push(entry.ino);
            }
            ControlFlow::Continue(())
        });
    }
    paths
}

/// What of a file cannot be read.
fn damage(volume: &Volume, ino: Ino) -> String {
    match volume.inode(ino).map(|inode| inode.kind) {
        Ok(Kind::File) => match damaged_ranges(volume, ino) {
            Ok(ranges) if ranges.is_empty() => "is damaged on flash, its bytes are in RAM".into(),
            Ok(ranges) => {
                let shown: Vec<String> =
                    ranges.iter().map(|range| format!("{} to {}", range.start, range.end - 1)).collect();
                format!("is damaged: bytes {} cannot be read", shown.join(", "))
            }
            Err(error) => format!("is damaged, and where its bytes are cannot be read: {error}"),
        },
        Ok(Kind::Folder) => "is damaged: names in it are lost".into(),
        Ok(Kind::Xattrs) => "is damaged: its extended attributes are lost".into(),
        Ok(Kind::Symlink) => "is damaged: where it leads is lost".into(),
        Ok(_) => "is damaged: it has pages on flash".into(),
        Err(error) => format!("is damaged: {error}"),
    }
}

fn damaged_ranges(volume: &Volume, ino: Ino) -> Result<Vec<Range<u64>>, VolumeError> {
    /// More are not listed for one file.
    const RANGES_MAX: usize = 100;
    let mut damaged: Vec<Range<u64>> = Vec::new();
    let mut page = [0; PAGE_BYTES];
    let mut from = 0;
    loop {
        let ranges = volume.data_ranges(ino, from, RANGES_MAX)?;
        let Some(last) = ranges.last() else { return Ok(damaged) };
        from = last.end;
        for start in ranges.into_iter().flat_map(|range| range.step_by(PAGE_BYTES)) {
            let Err(_) = volume.read(ino, start, &mut page) else { continue };
            let bytes = start..start + PAGE_BYTES as u64;
            let is_full = damaged.len() == RANGES_MAX;
            match damaged.last_mut() {
                Some(last) if last.end == bytes.start => last.end = bytes.end,
                _ if is_full => return Ok(damaged),
                _ => damaged.push(bytes),
            }
        }
    }
}

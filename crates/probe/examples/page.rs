//! Writes the pages of a made-up report to a folder: `cargo run -p aquifer-probe --example page -- FOLDER`.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::path::PathBuf;
use std::{env, fs, io};

use aquifer_probe::compare::compare;
use aquifer_probe::render;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).unwrap_or_else(|| ".".into()));
    let report = fixture::report();
    let mut slower = fixture::report();
    for load in &mut slower.matrix {
        load.rounds.iter_mut().for_each(|round| round.duration_s *= 1.2);
    }
    let comparison = compare(&[report.clone(), slower]);
    fs::write(folder.join("comparison.html"), comparison.html())?;
    fs::write(folder.join("comparison.txt"), comparison.text())?;
    fs::write(folder.join("report.html"), render::html(&report))?;
    fs::write(folder.join("report.md"), render::markdown(&report))?;
    fs::write(folder.join("report.csv"), render::csv(&report))
}

//! How much there is of everything.

use std::io::{self, Write};
use std::process::ExitCode;

use aquifer_volume::Space;
use serde::Serialize;

use super::arguments::SpaceArguments;
use super::{opened, print_json};
use crate::amounts::{grouped, percent, size};
use crate::error::{Error, printable};

/// What programs read.
#[derive(Serialize)]
struct Line<'a> {
    volume: &'a str,
    capacity_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    files: u64,
    files_max: u64,
}

/// Shows how much room there is.
///
/// # Errors
/// The volume cannot be opened.
pub fn space(arguments: &SpaceArguments) -> Result<ExitCode, Error> {
    let path = &arguments.volume;
    let found = opened::to_read(path)?.space().map_err(opened::failed(path))?;
    let name = path.display().to_string();
    if arguments.json {
        let Space { capacity_bytes, used_bytes, kept_bytes: _, files, files_max } = found;
        let free_bytes = capacity_bytes - used_bytes;
        print_json(&Line { volume: &name, capacity_bytes, used_bytes, free_bytes, files, files_max })?;
    } else {
        write!(io::stdout(), "{}\n{}", printable(&name), table(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(space: &Space) -> String {
    let share = space.used_bytes as f64 / space.capacity_bytes.max(1) as f64;
    let free = space.capacity_bytes - space.used_bytes;
    format!(
        "  room   {:>12}\n  used   {:>12}   {}\n  free   {:>12}\n  files  {:>12}   of at most {}\n",
        size(space.capacity_bytes as f64),
        size(space.used_bytes as f64),
        percent(share),
        size(free as f64),
        grouped(space.files),
        grouped(space.files_max),
    )
}

//! Makes an empty volume with the folders named, or checks one: what scripts need that run SQLite on volumes.
//!
//! ```text
//! volume new PATH SIZE [FOLDER]...
//! volume check PATH
//! ```

use std::path::Path;
use std::process::ExitCode;

use aquifer_base::units::parse_size;
use aquifer_volume::{Depth, Ino, Kind, OpenOptions, Result, Volume, VolumeError, image};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match &words[..] {
        ["new", path, size, folders @ ..] => new(Path::new(path), size, folders),
        ["check", path] => check(Path::new(path)),
        _ => Err(VolumeError::Invalid("volume new PATH SIZE [FOLDER]... | volume check PATH")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("volume: {error}");
            ExitCode::FAILURE
        }
    }
}

fn open(path: &Path) -> Result<Volume> {
    Volume::open(image::open_medium(path)?, OpenOptions::default())
}

fn new(path: &Path, size: &str, folders: &[&str]) -> Result<()> {
    let size_bytes = parse_size(size).map_err(|_| VolumeError::Invalid("a size is a number such as 64M"))?;
    Volume::create(image::new_medium(path, size_bytes, 0)?, (0, 0))?;
    let volume = open(path)?;
    for folder in folders {
        make_folders(&volume, folder)?;
    }
    volume.close()
}

fn make_folders(volume: &Volume, path: &str) -> Result<()> {
    let mut at = Ino::ROOT_FOLDER;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        at = match volume.lookup(at, name.as_bytes()) {
            Err(VolumeError::NotFound) => volume.make(at, name.as_bytes(), Kind::Folder, 0o755, 0, 0)?,
            found => found?,
        };
    }
    Ok(())
}

fn check(path: &Path) -> Result<()> {
    let volume = open(path)?;
    let findings = volume.check(Depth::Contents, |_, _| ())?;
    println!("{} files, {} pages, {} problems", findings.files, findings.pages, findings.problems.len());
    for problem in &findings.problems {
        println!("{problem}");
    }
    volume.close()?;
    if findings.problems.is_empty() { Ok(()) } else { Err(VolumeError::Corrupt("see above".into())) }
}

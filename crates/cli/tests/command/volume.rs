//! `aquifer volume` on real files: what it makes, copies and finds, and what it says when that is not possible.

mod copies;
mod damage;
mod files;
mod limits;
mod served;

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use super::{name, run, text};

/// A volume in a folder that goes when the test ends, with room for files of the host.
struct Ground {
    folder: TempDir,
    volume: PathBuf,
}

impl Ground {
    fn new(size: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let volume = folder.path().join("data.vol");
        let ground = Ground { folder, volume };
        let said = ground.told(&["create", name(&ground.volume), "--size", size]);
        assert!(said.contains("an empty volume with room for "), "{said}");
        ground
    }

    /// A path of the host.
    fn host(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// A path of the host, with a file of these bytes.
    fn host_file(&self, file: &str, bytes: &[u8]) -> String {
        let path = self.host(file);
        fs::write(&path, bytes).expect("written");
        name(&path).to_owned()
    }

    /// A path in the volume.
    fn at(&self, path: &str) -> String {
        format!("{}:{path}", name(&self.volume))
    }

    /// Runs `aquifer volume`, which has nothing to complain about; what it says.
    fn told(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs `aquifer volume`, which ends with this status; what it complains about.
    fn refused(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}{}", text(&output.stdout));
        assert!(said.lines().all(|line| line.starts_with("aquifer: ")), "{said}");
        said
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(&[&["volume"], arguments].concat())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.told(arguments)).expect("JSON")
    }

    /// What is in a folder, as `ls` has it.
    fn names(&self, path: &str) -> Vec<String> {
        self.told(&["ls", &self.at(path)]).lines().map(str::to_owned).collect()
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        let output = self.run(&["cat", &self.at(path)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout
    }

    /// All of it is in order.
    fn check(&self) {
        let said = self.told(&["scrub", name(&self.volume)]);
        assert!(said.contains(": in order, ") && said.contains("all of them read and verified"), "{said}");
    }

    /// Changes bytes of the volume's file.
    fn overwrite(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(&self.volume).expect("there");
        change(&mut bytes);
        fs::write(&self.volume, bytes).expect("written");
    }
}

/// Bytes that no other seed has.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).expect("it is there as it is")
}

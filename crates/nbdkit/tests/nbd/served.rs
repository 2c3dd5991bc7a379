//! nbdkit on a port of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use aquifer_block::nbdkit::{Child, Listener, NbdkitError, Options, Tls, program};
use aquifer_block::source::Source;
use tempfile::TempDir;

/// Bytes of the devices of these tests.
pub const DEVICE_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub struct Served {
    pub address: SocketAddr,
    child: Child,
    folder: TempDir,
}

/// How a test wants to be served.
#[derive(Default)]
pub struct Wishes {
    pub connections: Option<u16>,
    pub tls: Option<Tls>,
    pub filters: &'static [&'static str],
    pub flash: Option<&'static str>,
    pub settings: &'static [&'static str],
}

impl Served {
    /// A file, served; `None`, which is said, without nbdkit.
    pub fn new() -> Option<Self> {
        Self::with(Wishes::default())
    }

    pub fn with(wishes: Wishes) -> Option<Self> {
        Self::try_with(wishes).map(Result::unwrap)
    }

    pub fn try_with(wishes: Wishes) -> Option<Result<Self, NbdkitError>> {
        let Some(program) = program() else {
            println!("SKIP nbdkit is not installed (Debian package nbdkit)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let options = Options {
            program,
            plugin: plugin(),
            source: Source {
                flash: wishes.flash.map_or(folder.path().join("device"), PathBuf::from),
                size_bytes: DEVICE_BYTES,
                ..Source::default()
            },
            name: "aquifer".into(),
            threads: 4,
            connections: wishes.connections.unwrap_or(16),
            tls: wishes.tls,
            filters: words(wishes.filters),
            settings: words(wishes.settings),
        };
        let started = Child::start(listener, &options, Arc::new(|_: &str| ()));
        Some(started.map(|(child, size_bytes)| {
            assert_eq!(size_bytes, DEVICE_BYTES);
            Served { address, child, folder }
        }))
    }

    /// What nbdkit calls itself, as in `nbdkit 1.36.3`.
    pub fn version(&self) -> String {
        let output = std::process::Command::new(program().unwrap()).arg("--version").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Ends it without a word.
    pub fn kill(&self) {
        self.child.ender().kill();
    }

    /// Ends the server in order; gives what the file holds.
    pub fn end(self) -> Result<Vec<u8>, NbdkitError> {
        self.child.ender().end();
        self.child.wait()?;
        Ok(std::fs::read(self.folder.path().join("device")).unwrap())
    }
}

/// Cargo puts it beside the tests.
pub fn plugin() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().join("libaquifer_nbdkit.so")
}

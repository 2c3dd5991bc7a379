//! A crate of its own with this crate's build script, in a temporary folder.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

/// This crate's folder.
const OURS: &str = env!("CARGO_MANIFEST_DIR");
/// Says whether the build found headers.
const PROGRAM: &str = "fn main() { println!(\"{}\", cfg!(fabric)); }\n";
/// Stands for the calls of libfabric. This machine may have its headers, but not these.
const CALLS: &str = "#include <rdma/fabric.h>\nint made_up(void) { return MADE_UP; }\n";
const HEADER: &str = "#define MADE_UP 7\n";

/// How headers came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Installed {
    /// In a folder that pkg-config names.
    ByPkgConfig,
    /// In one that compilers are told of.
    WhereCompilersLook,
}

/// The crate, and a machine with folders for headers and descriptions.
pub struct Scratch {
    folder: PathBuf,
    machine: PathBuf,
}

/// What came of a build.
pub struct Built {
    /// Whether the calls of libfabric are in.
    pub has_fabric: bool,
    /// Nothing was compiled.
    pub is_fresh: bool,
    /// By cargo.
    pub said: String,
}

impl Scratch {
    /// A crate in `machine`, whose folders `pc` and `include` are looked into.
    ///
    /// # Errors
    /// Why it cannot be built here, in words.
    pub fn new(machine: &Path) -> Result<Self, String> {
        let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !has("pkg-config") {
            return Err("pkg-config is not installed (Debian package pkg-config)".into());
        }
        let folder = machine.join("crate");
        let manifest = format!(
            "[package]\nname = \"scratch\"\nversion = \"0.0.0\"\nedition = \"2024\"\nbuild = \"{OURS}/build.rs\"\n\
             [build-dependencies]\ncc = \"1\"\npkg-config = \"0.3\"\n[workspace]\n"
        );
        fs::create_dir_all(folder.join("src")).expect("made");
        fs::create_dir(folder.join("fabric")).expect("made");
        fs::write(folder.join("Cargo.toml"), manifest).expect("written");
        fs::write(folder.join("src/main.rs"), PROGRAM).expect("written");
        fs::write(folder.join("fabric/fabric.c"), CALLS).expect("written");
        // The versions that this workspace was built with are on this machine.
        fs::copy(Path::new(OURS).join("../../Cargo.lock"), folder.join("Cargo.lock")).expect("copied");
        let scratch = Scratch { folder, machine: machine.to_owned() };
        let fetched = scratch.cargo(&["metadata", "--format-version=1"]);
        if !fetched.status.success() {
            return Err(format!("its dependencies are not on this machine: {}", text(&fetched.stderr)));
        }
        Ok(scratch)
    }

    /// Builds the crate and asks it.
    pub fn build(&self) -> Built {
        let output = self.cargo(&["build", "--verbose"]);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        let program = Command::new(self.folder.join("target/debug/scratch")).output().expect("it runs");
        let has_fabric = text(&program.stdout).trim() == "true";
        Built { has_fabric, is_fresh: said.contains("Fresh scratch "), said }
    }

    /// Puts headers onto the machine, with the dates that files of a package have.
    pub fn install(&self, way: Installed) {
        if way == Installed::ByPkgConfig {
            self.describe();
        }
        put(&self.header(way), HEADER);
    }

    /// A description of headers, which need not be there.
    pub fn describe(&self) {
        let described = format!(
            "Name: libfabric\nDescription: made up\nVersion: 9.9\nCflags: -I{}\n",
            self.machine.join("described").display()
        );
        put(&self.description(), &described);
    }

    /// Takes them away again.
    pub fn remove(&self, way: Installed) {
        if way == Installed::ByPkgConfig {
            fs::remove_file(self.description()).expect("it was there");
        }
        fs::remove_file(self.header(way)).expect("it was there");
    }

    fn description(&self) -> PathBuf {
        self.machine.join("pc/libfabric.pc")
    }

    fn header(&self, way: Installed) -> PathBuf {
        let folder = if way == Installed::ByPkgConfig { "described" } else { "include" };
        self.machine.join(folder).join("rdma/fabric.h")
    }

    fn cargo(&self, arguments: &[&str]) -> Output {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
        let mut command = Command::new(cargo);
        command.args(arguments).arg("--offline").current_dir(&self.folder);
        // What cargo tells a test is not meant for another crate, nor are wishes for this workspace.
        let own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_BUILD_");
        for (name, _) in std::env::vars().filter(|(name, _)| own(name)) {
            command.env_remove(name);
        }
        command.env("CARGO_TARGET_DIR", self.folder.join("target"));
        command.env("PKG_CONFIG_LIBDIR", self.machine.join("pc")).env_remove("PKG_CONFIG_PATH");
        command.env("CPATH", self.machine.join("include")).env_remove("C_INCLUDE_PATH");
        command.output().expect("cargo runs")
    }
}

/// Writes a file that is as old as a package's.
fn put(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
    fs::write(path, content).expect("written");
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = File::options().write(true).open(path).expect("it is there");
    file.set_times(FileTimes::new().set_modified(then)).expect("set");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

//! Compiles the calls of libfabric if its headers are there. The library itself is opened when it is asked for.
//!
//! Headers are found by pkg-config, or without it where the C compiler looks. cargo runs this program again when something that it names has changed since its last
//! run, and then compiles this crate and all that depend on it again, whatever the program says. `build/places.rs` has what it names.

#[path = "build/places.rs"]
mod places;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use places::Places;

/// What pkg-config calls the library.
const LIBRARY: &str = "libfabric";
/// One of its headers, as the C file includes it.
const HEADER: &str = "rdma/fabric.h";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(fabric)");
    watch(Path::new("fabric"));
    for variable in places::VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let places = Places::new(|name| env::var_os(name), own_folders().as_deref());
    let described = pkg_config::Config::new().cargo_metadata(false).probe(LIBRARY);
    let folders = described.as_ref().map(|library| library.include_paths.clone()).unwrap_or_default();
    match compile(&folders) {
        Ok(()) => {
            println!("cargo::rustc-cfg=fabric");
            places.files(LIBRARY, HEADER, &folders).iter().for_each(|file| watch(file));
        }
        Err(error) => {
            println!("cargo::warning={}", sentence(described.ok(), &error));
            places.folders(HEADER).iter().for_each(|folder| watch(folder));
        }
    }
}

/// Compiles the calls with headers of these folders, or of the compiler's own.
fn compile(headers: &[PathBuf]) -> Result<(), cc::Error> {
    let mut build = cc::Build::new();
    build.file("fabric/fabric.c").include("fabric").includes(headers);
    build.warnings(true).extra_warnings(true).cargo_warnings(false);
    build.try_compile("aquifer_fabric")
}

fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

/// Where pkg-config looks by itself. `None` without a pkg-config.
fn own_folders() -> Option<String> {
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = Command::new(program).args(["--variable=pc_path", "pkg-config"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Why this build has no network transport, in a line.
fn sentence(described: Option<pkg_config::Library>, error: &cc::Error) -> String {
    match described {
        Some(library) => {
            // cargo takes a line for a warning.
            let error = error.to_string().replace('\n', " ");
            format!(
                "built without memory of other machines: libfabric {} is here, and its headers cannot be used: {error}",
                library.version
            )
        }
        None => "built without memory of other machines: libfabric's headers are missing. \
                 Install them (Debian: apt-get install libfabric-dev) and build again"
            .into(),
    }
}

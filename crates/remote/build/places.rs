//! Where files of a library can be on this machine, and what cargo watches for them.
//!
//! cargo compares dates: what is named to it and newer than the last run of the build script, or missing, has changed. Three things follow.
//!
//! - A package brings files with the dates of their authors: a header that was missing and appears looks old. The folder that it appears in does not.
//! - A file that is missing is a change at each build, which compiles this crate and all that depend on it each time. So only what is there is named.
//! - Of a folder cargo looks at all that is in it and below. So folders are small ones: never `/usr/include`.

use std::env::split_paths;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables that say where to look.
pub const VARIABLES: [&str; 4] = [PATH, LIBDIR, "CPATH", "C_INCLUDE_PATH"];
/// Folders before pkg-config's own.
const PATH: &str = "PKG_CONFIG_PATH";
/// Folders in place of pkg-config's own.
const LIBDIR: &str = "PKG_CONFIG_LIBDIR";

/// Where C compilers look by themselves.
const HEADERS: [&str; 2] = ["/usr/local/include", SYSTEM_HEADERS];
/// A folder of many thousand files, which changes with every package.
const SYSTEM_HEADERS: &str = "/usr/include";

/// Where pkg-config looks by itself on the systems that are known, for when there is none to ask.
const DESCRIPTIONS: &str = concat!(
    "/usr/local/lib/x86_64-linux-gnu/pkgconfig:/usr/local/lib/aarch64-linux-gnu/pkgconfig:",
    "/usr/local/lib/pkgconfig:/usr/local/share/pkgconfig:",
    "/usr/lib/x86_64-linux-gnu/pkgconfig:/usr/lib/aarch64-linux-gnu/pkgconfig:",
    "/usr/lib64/pkgconfig:/usr/lib/pkgconfig:/usr/share/pkgconfig",
);

/// Folders, in the order in which they are looked through.
#[derive(Debug)]
pub struct Places {
    /// Of descriptions for pkg-config, `NAME.pc`.
    descriptions: Vec<PathBuf>,
    /// Of headers.
    headers: Vec<PathBuf>,
}

impl Places {
    /// The folders that `variable` gives for the names in [`VARIABLES`], and those where pkg-config (`own`, if it can be asked) and compilers look by themselves.
    pub fn new(variable: impl Fn(&str) -> Option<OsString>, own: Option<&str>) -> Self {
        let folders = |text: &OsStr| -> Vec<PathBuf> {
            split_paths(text).filter(|folder| !folder.as_os_str().is_empty()).collect()
        };
        let named = |name: &str| variable(name).map(|text| folders(&text)).unwrap_or_default();
        let own = match variable(LIBDIR) {
            Some(instead) => folders(&instead),
            None => folders(OsStr::new(own.filter(|text| !text.is_empty()).unwrap_or(DESCRIPTIONS))),
        };
        let headers = [named("CPATH"), named("C_INCLUDE_PATH"), HEADERS.map(PathBuf::from).into()];
        Places { descriptions: [named(PATH), own].concat(), headers: headers.concat() }
    }

    /// After a build with the library: its files, so that their removal is noticed. `found` are folders of headers that pkg-config named, `header` is as in `#include`.
    pub fn files(&self, library: &str, header: &str, found: &[PathBuf]) -> Vec<PathBuf> {
        let first = |mut candidates: Vec<PathBuf>| {
            candidates.retain(|path| path.is_file());
            candidates.into_iter().next()
        };
        let description = self.descriptions.iter().map(|folder| folder.join(format!("{library}.pc")));
        let included = found.iter().chain(&self.headers).map(|folder| folder.join(header));
        [first(description.collect()), first(included.collect())].into_iter().flatten().collect()
    }

    /// After a build without the library: folders that are there, and of which one changes when the library is installed.
    pub fn folders(&self, header: &str) -> Vec<PathBuf> {
        let included = self.headers.iter().filter_map(|folder| {
            let own = folder.join(Path::new(header).parent().unwrap_or(Path::new("")));
            let is_small = folder != Path::new(SYSTEM_HEADERS);
            if own.is_dir() { Some(own) } else { is_small.then(|| folder.clone()) }
        });
        let mut all: Vec<PathBuf> = self.descriptions.iter().cloned().chain(included).collect();
        all.retain(|folder| folder.is_dir());
        all.sort();
        all.dedup();
        all
    }
}

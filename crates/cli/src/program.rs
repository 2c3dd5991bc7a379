//! The program to run: where it is, and whether a library can stand in front of its C library.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object::elf::{ET_DYN, ET_EXEC, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};

/// Why a program cannot be run on managed memory, in a sentence.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There is no such program.
    #[error("there is no program {0}; {advice}", advice = advice(.0))]
    Missing(String),
    /// The file cannot be read or run.
    #[error("{0} cannot be run: {1}; give the path of a program that this user may read and run")]
    Unreadable(String, String),
    /// It was linked without the C library's loader.
    #[error(
        "{0} is statically linked: it gets memory from the kernel without asking the C library, so nothing can stand in between; use a dynamically linked build"
    )]
    Static(String),
    /// A Go program.
    #[error(
        "{0} is a Go program: Go's runtime gets its memory from the kernel by system calls of its own and keeps stacks in it, so it cannot run on managed memory; kernel swap can help it"
    )]
    Go(String),
    /// Of another C library.
    #[error(
        "{0} uses the loader {1}; only the GNU C library is known to work: use a build for this distribution"
    )]
    OtherLoader(String, String),
    /// Of another processor.
    #[error("{0} is not a program for this machine's processor in 64-bit mode; use a build that is")]
    OtherMachine(String),
    /// The loader ignores what is put in front of privileged programs.
    #[error(
        "{0} runs with the rights of its owner, for which the system ignores libraries that stand in front; run it as that user from a copy without the set-user-ID bit and the set-group-ID bit"
    )]
    Privileged(String),
}

/// A word with a hyphen may be meant for the command.
fn advice(name: &str) -> &'static str {
    if name.starts_with('-') {
        "if it was meant as an option, `aquifer run --help` shows those that there are"
    } else {
        "give its path, or a name that is found in PATH"
    }
}

/// Interpreters of interpreters that are followed.
const SCRIPTS_MAX: usize = 4;
/// Longest first line of a script that is read.
const FIRST_LINE_BYTES: usize = 256;
const SETS_RIGHTS: u32 = 0o6000;

/// Finds a program as a shell does.
///
/// # Errors
/// [`Unfit::Missing`].
pub fn find(name: &OsStr) -> Result<PathBuf, Unfit> {
    let missing = || Unfit::Missing(name.to_string_lossy().into_owned());
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return if path.exists() { Ok(path) } else { Err(missing()) };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(is_program).ok_or_else(missing)
}

/// Whether the program at `path`, or the interpreter of the script there, can run on managed memory.
///
/// # Errors
/// Why not.
pub fn inspect(path: &Path) -> Result<(), Unfit> {
    let mut path = path.to_owned();
    for _ in 0..=SCRIPTS_MAX {
        let name = path.display().to_string();
        let unreadable = |error: std::io::Error| Unfit::Unreadable(name.clone(), error.to_string());
        let mut file = File::open(&path).map_err(unreadable)?;
        let meta = file.metadata().map_err(unreadable)?;
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(FIRST_LINE_BYTES as u64).read_to_end(&mut start).map_err(unreadable)?;
        if let Some(interpreter) = interpreter(&start) {
            path = find(interpreter)?;
            continue;
        }
        if meta.mode() & SETS_RIGHTS != 0 {
            return Err(Unfit::Privileged(name));
        }
        // Of a large program only what is looked at is read: it may have to fit in a control group.
        return inspect_bytes(&name, &ReadCache::new(file));
    }
    Err(Unfit::Unreadable(path.display().to_string(), "its interpreter is a script of a script".into()))
}

/// The interpreter that the first line of a script names; that behind `env` if it is that.
pub fn interpreter(start: &[u8]) -> Option<&OsStr> {
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = words.next()?;
    let is_env = first.rsplit(|&byte| byte == b'/').next() == Some(b"env");
    let named =
        if is_env { words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))? } else { first };
    Some(OsStr::from_bytes(named))
}

/// Whether the program with these bytes can run on managed memory.
///
/// # Errors
/// Why not.
pub fn inspect_bytes<'data>(name: &str, bytes: impl ReadRef<'data>) -> Result<(), Unfit> {
    let other = || Unfit::OtherMachine(name.to_owned());
    let unreadable = |error: object::Error| Unfit::Unreadable(name.to_owned(), error.to_string());
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(|_| other())?;
    let endian = header.endian().map_err(|_| other())?;
    let machine =
        if cfg!(target_arch = "aarch64") { object::elf::EM_AARCH64 } else { object::elf::EM_X86_64 };
    if header.e_machine(endian) != machine || !matches!(header.e_type(endian), ET_DYN | ET_EXEC) {
        return Err(other());
    }
    let sections = header.sections(endian, bytes);
    let is_go = sections.is_ok_and(|sections| sections.section_by_name(endian, b".go.buildinfo").is_some());
    if is_go {
        return Err(Unfit::Go(name.to_owned()));
    }
    let headers = header.program_headers(endian, bytes).map_err(unreadable)?;
    let Some(interp) = headers.iter().find(|header| header.p_type(endian) == PT_INTERP) else {
        return Err(Unfit::Static(name.to_owned()));
    };
    let loader = interp.data(endian, bytes).unwrap_or_default();
    let loader = String::from_utf8_lossy(loader).trim_end_matches('\0').to_owned();
    let is_gnu = loader.rsplit('/').next().is_some_and(|file| file.starts_with("ld-linux"));
    if is_gnu { Ok(()) } else { Err(Unfit::OtherLoader(name.to_owned(), loader)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scripts_name_their_interpreter() {
        let named = |line: &str| interpreter(line.as_bytes()).map(|name| name.to_str().unwrap().to_owned());
        assert_eq!(named("#!/bin/sh\nexit").as_deref(), Some("/bin/sh"));
        assert_eq!(named("#! /usr/bin/env -S FOO=1 python3 -u\n").as_deref(), Some("python3"));
        assert_eq!((named("#!"), named("\x7fELF"), named("#!/usr/bin/env")), (None, None, None));
    }

    #[test]
    fn this_program_is_fit_and_cut_ones_are_not() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(inspect(&own), Ok(()));
        let bytes = std::fs::read(&own).unwrap();
        for len in [0, 4, 16, 63, 64, 200] {
            assert!(inspect_bytes("cut", &bytes[..len]).is_err(), "{len}");
        }
        assert!(matches!(inspect(Path::new("/nonexistent")), Err(Unfit::Unreadable(..))));
        assert!(matches!(find(OsStr::new("no-such-program-here")), Err(Unfit::Missing(_))));
        assert!(find(OsStr::new("sh")).is_ok());
    }

    proptest! {
        /// Bytes of strangers are refused or accepted, nothing else.
        #[test]
        fn damaged_programs_are_no_harm(changes in proptest::collection::vec((0usize..4096, any::<u8>()), 1..40)) {
            let mut bytes = std::fs::read("/bin/sh").unwrap();
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let _ = inspect_bytes("damaged", &bytes[..]);
        }
    }
}

//! Executable memory of the program's processes.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A piece of executable memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// First address.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// Of `start` in the file.
    pub offset: u64,
    /// The file, or a name such as `[vdso]`; empty for memory without one.
    pub path: PathBuf,
}

/// Modules of each process.
pub type Modules = HashMap<u32, Vec<Module>>;

/// Parses lines of `/proc/PID/maps`, each behind its process, into modules in the order of their addresses.
/// Malformed lines are left out. Of modules that overlap, the later line counts.
pub fn parse(text: &[u8]) -> Modules {
    let mut modules = Modules::new();
    let mut known = HashSet::new();
    // A process notes all of its lines again when one is new, so the last ones are the newest.
    for line in text.split(|&byte| byte == b'\n').rev() {
        if let Some((process, module)) = parse_line(line)
            && known.insert((process, module.clone()))
        {
            modules.entry(process).or_default().push(module);
        }
    }
    modules.values_mut().for_each(without_overlaps);
    modules
}

/// Keeps the first of those that overlap, and sorts.
fn without_overlaps(modules: &mut Vec<Module>) {
    let mut kept = std::collections::BTreeMap::<u64, Module>::new();
    for module in modules.drain(..) {
        let before = kept.range(..module.end).next_back();
        if before.is_none_or(|(_, before)| before.end <= module.start) {
            kept.insert(module.start, module);
        }
    }
    modules.extend(kept.into_values());
}

/// As in `4711 55d0c000-55d0d000 r-xp 00001000 08:01 123    /usr/bin/x`.
fn parse_line(line: &[u8]) -> Option<(u32, Module)> {
    let mut words = line.splitn(6, |&byte| byte == b' ');
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let process = word()?.parse().ok()?;
    let (start, end) = word()?.split_once('-')?;
    let access = word()?;
    let offset = word()?;
    let (_device, rest) = (word()?, words.next()?);
    let path =
        rest.iter().position(|&byte| byte == b' ').map_or(&b""[..], |at| rest[at..].trim_ascii_start());
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
    let is_one = start < end && access.as_bytes().get(2) == Some(&b'x');
    is_one.then(|| (process, Module { start, end, offset, path: OsStr::from_bytes(path).into() }))
}

/// The module at an address.
pub fn find(modules: &[Module], address: u64) -> Option<&Module> {
    let behind = modules.partition_point(|module| module.start <= address);
    modules[..behind].last().filter(|module| address < module.end)
}

impl Module {
    /// Its name without folders.
    pub fn name(&self) -> String {
        match self.path.file_name() {
            Some(name) => name.to_string_lossy().into_owned(),
            None => "code without a file".into(),
        }
    }

    /// The file, if it has one that was not replaced meanwhile.
    pub fn file(&self) -> Option<&Path> {
        let is_there = self.path.is_absolute() && !self.path.as_os_str().as_bytes().ends_with(b" (deleted)");
        is_there.then_some(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"7 1000-3000 r-xp 00002000 08:01 9                  /usr/lib/a b.so\n\
        7 5000-6000 r-xp 00000000 00:00 0 \n\
        7 5000-6000 r-xp 00000000 00:00 0 \n\
        8 1000-2000 r-xp 00000000 00:00 0                  [vdso]\n\
        7 9000-a000 rw-p 00000000 00:00 0 \n\
        7 2000-4000 r-xp 00000000 08:01 9                  /later\n\0\0rubbish\n9 1000";

    #[test]
    fn modules_belong_to_processes() {
        let modules = parse(TEXT);
        assert_eq!(modules.len(), 2);
        assert_eq!((modules[&8][0].name().as_str(), modules[&8][0].file()), ("[vdso]", None));
        let paths: Vec<_> = modules[&7].iter().map(|module| module.path.to_str().unwrap()).collect();
        // What was loaded later at the same addresses took the place of the other.
        assert_eq!(paths, ["/later", ""]);
        assert_eq!(find(&modules[&7], 0x3FFF).map(|module| module.start), Some(0x2000));
        assert_eq!(find(&modules[&7], 0x4000), None);
        let alone = parse(&TEXT[..80]);
        assert_eq!((alone[&7][0].path.to_str(), alone[&7][0].offset), (Some("/usr/lib/a b.so"), 0x2000));
    }
}

//! A kernel module: loaded, installed but not loaded, or missing.

use std::fs;
use std::path::{Path, PathBuf};

/// How far a module is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Module {
    /// Loaded, or built into the kernel.
    Loaded,
    /// In the folder of this kernel's modules.
    OnDisk,
    /// Not in that folder, or this kernel loads none.
    Missing,
    /// That folder is not here, as in most containers.
    Unknown,
}

/// Where the kernel tells of modules, and where they are.
pub struct Modules {
    root: PathBuf,
    release: String,
}

impl Modules {
    /// Those of the kernel of this release.
    pub fn of(release: &str) -> Self {
        Modules { root: "/".into(), release: release.to_owned() }
    }

    /// How far the module with this name is, which is that of its file.
    pub fn find(&self, name: &str) -> Module {
        let folder = self.root.join("lib/modules").join(&self.release);
        let lists = |file: &str| {
            let list = fs::read_to_string(folder.join(file)).unwrap_or_default();
            list.lines().any(|line| is_of(line, name))
        };
        if self.root.join("sys/module").join(name).is_dir() || lists("modules.builtin") {
            return Module::Loaded;
        }
        if !self.root.join("proc/modules").exists() {
            return Module::Missing;
        }
        match lists("modules.dep") {
            true => Module::OnDisk,
            false if folder.join("modules.dep").exists() => Module::Missing,
            false => Module::Unknown,
        }
    }
}

impl Module {
    /// What loads the module `name`. `instead` says what to do on a kernel without it.
    pub fn remedy(self, name: &str, instead: &str) -> String {
        match self {
            // What the module brings cannot be used all the same: that is a matter of a container.
            Module::Loaded => instead.to_owned(),
            Module::OnDisk => format!("`modprobe {name}`"),
            Module::Missing => format!("this kernel has no module {name}; {instead}"),
            Module::Unknown => format!("`modprobe {name}` on the host of this container; or {instead}"),
        }
    }
}

/// Whether a line of `modules.dep` or `modules.builtin` is about this module: it begins with the path of its file, which may be compressed.
fn is_of(line: &str, name: &str) -> bool {
    let path = line.split(':').next().unwrap_or_default();
    let file = Path::new(path).file_name().and_then(|file| file.to_str()).unwrap_or_default();
    file.split_once(".ko")
        .is_some_and(|(stem, packed)| stem == name && matches!(packed, "" | ".xz" | ".zst" | ".gz"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const DEPENDENCIES: &str = "\
kernel/drivers/block/nbd.ko.xz:
kernel/drivers/block/ublk_drv.ko: kernel/drivers/block/nbd_other.ko
";

    fn machine(files: &[(&str, &str)]) -> (TempDir, Modules) {
        let folder = TempDir::new().expect("a folder");
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
            fs::write(path, content).expect("written");
        }
        let modules = Modules { root: folder.path().to_owned(), release: "6.12.0".into() };
        (folder, modules)
    }

    #[test]
    fn a_module_is_loaded_on_disk_or_missing() {
        let (_folder, modules) = machine(&[
            ("proc/modules", ""),
            ("sys/module/loop/refcnt", "0"),
            ("lib/modules/6.12.0/modules.dep", DEPENDENCIES),
            ("lib/modules/6.12.0/modules.builtin", "kernel/fs/fuse/fuse.ko\n"),
        ]);
        let found =
            ["loop", "fuse", "nbd", "ublk_drv", "nbd_other", "null_blk"].map(|name| modules.find(name));
        let [a, b, c, d, e, f] = found;
        assert_eq!([a, b], [Module::Loaded; 2]);
        assert_eq!([c, d], [Module::OnDisk; 2]);
        assert_eq!([e, f], [Module::Missing; 2]);
    }

    #[test]
    fn a_kernel_without_modules_and_a_container_are_told_apart() {
        let (_folder, without) = machine(&[("lib/modules/6.12.0/modules.dep", DEPENDENCIES)]);
        assert_eq!(without.find("nbd"), Module::Missing);
        let (_folder, container) = machine(&[("proc/modules", "")]);
        assert_eq!(container.find("nbd"), Module::Unknown);
    }

    #[test]
    fn only_a_module_that_is_there_is_to_be_loaded() {
        assert_eq!(Module::OnDisk.remedy("nbd", "do else"), "`modprobe nbd`");
        assert!(!Module::Missing.remedy("nbd", "do else").contains("modprobe"));
        assert!(Module::Missing.remedy("nbd", "do else").contains("do else"));
        assert_eq!(Module::Loaded.remedy("nbd", "do else"), "do else");
        assert!(Module::Unknown.remedy("nbd", "do else").contains("on the host"));
    }
}

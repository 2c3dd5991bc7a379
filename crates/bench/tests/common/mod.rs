//! What tests of benchmarks have in common.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory of the test's own; removed when dropped.
pub struct Dir(pub PathBuf);

impl Dir {
    /// On a disk.
    #[allow(dead_code)]
    pub fn new(name: &str) -> Self {
        Self::below(Path::new("/var/tmp"), name)
    }

    pub fn below(parent: &Path, name: &str) -> Self {
        let dir = parent.join(format!("aquifer-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory");
        Self(dir)
    }

    /// Names of the files in it.
    #[allow(dead_code)]
    pub fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).expect("exists").flatten().map(|entry| entry.file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("was created");
    }
}

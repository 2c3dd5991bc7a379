//! Values of options in job files.

use std::path::Path;

use crate::render::escape::one_line;

/// A file name that fio takes as one name: colons part names, `$` begins a variable, and a line ends the option.
pub(super) fn file_name(path: &Path) -> String {
    let name = one_line(&path.to_string_lossy());
    name.replace('\\', "\\\\").replace(':', "\\:").replace('$', "\\$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_name() {
        assert_eq!(file_name(Path::new("/dev/disk/by-path/pci-0:1.2")), "/dev/disk/by-path/pci-0\\:1.2");
        assert_eq!(file_name(Path::new("/a\nrw=write")), "/a rw=write");
    }
}

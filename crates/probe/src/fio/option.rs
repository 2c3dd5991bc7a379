//! Values of options in job files.

use std::path::{Path, PathBuf};

/// A file name that a job file cannot hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "fio cannot read the file name {0:?} from a job file: it has a ';', '#', '$', '\\', a control character, a space at an end, or is not UTF-8; \
     make a symbolic link with a plain name"
)]
pub struct NameError(pub PathBuf);

/// Writes a name so that fio takes it as this one file. A colon would part names, and is escaped. A semicolon
/// or `#` begins a comment anywhere, `$` begins a variable, and none of these can be escaped: the job would
/// open another file.
///
/// # Errors
/// [`NameError`] for names that have no form.
pub(super) fn file_name(path: &Path) -> Result<String, NameError> {
    let error = || NameError(path.to_owned());
    let name = path.to_str().ok_or_else(error)?;
    let is_lost = |c: char| c.is_control() || matches!(c, ';' | '#' | '$' | '\\');
    if name.is_empty() || name.trim() != name || name.contains(is_lost) {
        return Err(error());
    }
    Ok(name.replace(':', "\\:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_name() {
        let name = |text: &str| file_name(Path::new(text));
        assert_eq!(name("/dev/disk/by-path/pci-0:1.2").as_deref(), Ok("/dev/disk/by-path/pci-0\\:1.2"));
        for lost in ["", "/a\nrw=write", "/a;b", "/a#b", "/a${HOME}", "/a ", "/a\\:b"] {
            assert_eq!(name(lost), Err(NameError(lost.into())));
        }
    }
}

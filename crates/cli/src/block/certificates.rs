//! A host's certificates by nbdkit's names.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use aquifer_block::nbdkit::{PRIORITIES, Tls};
use aquifer_remote::control::identity::{AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE};
use tempfile::TempDir;

/// Under which names nbdkit looks for the files of a host's folder.
const NAMES: [(&str, &str); 3] =
    [(AUTHORITY_FILE, "ca-cert.pem"), (CERTIFICATE_FILE, "server-cert.pem"), (KEY_FILE, "server-key.pem")];
/// The file with what GnuTLS keeps to.
const PRIORITIES_FILE: &str = "priorities";

/// A private folder with links to a host's files, which goes when this is dropped.
pub struct Certificates(TempDir);

impl Certificates {
    /// A folder for the files in `host`, which are there.
    ///
    /// # Errors
    /// The system's.
    pub fn new(host: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("aquifer-block-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()?;
        let host = host.canonicalize()?;
        for (file, name) in NAMES {
            symlink(host.join(file), folder.path().join(name))?;
        }
        fs::write(folder.path().join(PRIORITIES_FILE), PRIORITIES)?;
        Ok(Certificates(folder))
    }

    /// Where they are.
    pub fn tls(&self) -> Tls {
        Tls { certificates: self.0.path().to_owned(), priorities: self.0.path().join(PRIORITIES_FILE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_private_and_goes() {
        let host = tempfile::tempdir().expect("a folder");
        for (file, _) in NAMES {
            fs::write(host.path().join(file), file).expect("written");
        }
        let certificates = Certificates::new(host.path()).expect("made");
        let folder = certificates.tls().certificates;
        assert_eq!(fs::metadata(&folder).expect("there").permissions().mode() & 0o777, 0o700);
        for (file, name) in NAMES {
            assert_eq!(fs::read_to_string(folder.join(name)).expect("a link"), file);
        }
        drop(certificates);
        assert!(!folder.exists());
        assert!(host.path().join(KEY_FILE).exists());
    }
}

//! What a volume does not have. Native file systems may: then only the mount is looked at.

use std::fs;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Made, or refused so that programs make a file with a name and remove that.
pub fn files_that_never_have_a_name(at: &Path) {
    match open(at, OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR) {
        Ok(file) => assert_eq!(rustix::fs::fstat(file).expect("it is there").st_nlink, 0),
        Err(error) => assert_eq!(error, Errno::OPNOTSUPP),
    }
    assert_eq!(fs::read_dir(at).expect("it lists").count(), 0);
    drop(tempfile::tempfile_in(at).expect("the library makes one in either case"));
}

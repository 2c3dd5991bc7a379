//! What a volume does not have. Native file systems may: then only the mount is looked at.

use std::fs;
use std::path::Path;

use rustix::fs::{Mode, OFlags, XattrFlags, getxattr, open, setxattr};
use rustix::io::Errno;

use crate::expect::fails;

/// Refused as what is not there, or kept: never forgotten silently.
pub fn extended_attributes(at: &Path) {
    let file = at.join("file");
    fs::write(&file, "").expect("a file");
    let mut value = [0; 16];
    match setxattr(&file, "user.colour", b"blue", XattrFlags::empty()) {
        Ok(()) => assert_eq!(getxattr(&file, "user.colour", &mut value), Ok(4)),
        Err(error) => {
            assert_eq!(error, Errno::OPNOTSUPP);
            fails(getxattr(&file, "user.colour", &mut value), Errno::OPNOTSUPP);
        }
    }
}

/// Made, or refused so that programs make a file with a name and remove that.
pub fn files_that_never_have_a_name(at: &Path) {
    match open(at, OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR) {
        Ok(file) => assert_eq!(rustix::fs::fstat(file).expect("it is there").st_nlink, 0),
        Err(error) => assert_eq!(error, Errno::OPNOTSUPP),
    }
    assert_eq!(fs::read_dir(at).expect("it lists").count(), 0);
    drop(tempfile::tempfile_in(at).expect("the library makes one in either case"));
}

//! What a volume does not have. Native file systems may: then only the mount is looked at.

use std::fs;
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, setxattr};
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

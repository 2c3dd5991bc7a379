//! The user, groups and rights of this process.

use std::ffi::c_int;
use std::io;

use aquifer::ErrorCode;
use aquifer_volume::access::Credentials;

use crate::message::fail_with;

/// User and group of this process, who own the first folder of a volume that it makes.
pub(super) fn owner() -> (u32, u32) {
    // SAFETY: the calls have no arguments and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// User, group and further groups of this process.
pub(super) fn credentials() -> Result<Credentials, c_int> {
    let (uid, gid) = owner();
    // SAFETY: nothing is written for a size of 0.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the list has room for as many as are said.
    let filled = unsafe { libc::getgroups(count.max(0), groups.as_mut_ptr()) };
    if count < 0 || filled < 0 {
        let sentence = format!("asking for the groups of this process: {}", io::Error::last_os_error());
        return Err(fail_with(ErrorCode::Io, &sentence));
    }
    groups.truncate(filled as usize);
    Ok(Credentials::new(uid, gid, groups))
}

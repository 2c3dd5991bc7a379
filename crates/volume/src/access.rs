//! Permissions: the rules of POSIX, as Linux has them, for owner, group and others.

use crate::error::{Result, VolumeError};
use crate::inode::{Inode, Kind};

/// Runs with the rights of the owner.
pub const SETUID: u16 = 0o4000;
/// Runs with the rights of the group; of a folder: what is made in it gets its group.
pub const SETGID: u16 = 0o2000;
/// Of a folder: only the owner of a file takes its name away.
pub const STICKY: u16 = 0o1000;
/// The group may run it.
const GROUP_EXECUTE: u16 = 0o010;

/// The user, the groups and the privileges with which something is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// User, who owns what is made.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// Whether nothing is refused: root's rights.
    pub is_privileged: bool,
    /// Whether symbolic links of any user are followed.
    pub follows_all_links: bool,
}

impl Credentials {
    /// A user with groups; user 0 has root's rights.
    #[must_use]
    pub fn new(uid: u32, gid: u32, groups: Vec<u32>) -> Self {
        Credentials { uid, gid, groups, is_privileged: uid == 0, follows_all_links: false }
    }

    /// A user to whom nothing is refused, because the medium's bytes are his to change anyway.
    #[must_use]
    pub fn owner_of_medium(uid: u32, gid: u32) -> Self {
        Credentials { uid, gid, groups: Vec::new(), is_privileged: true, follows_all_links: true }
    }

    /// Whether the user is in a group.
    #[must_use]
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the user may do what only the owner may.
    #[must_use]
    pub fn owns(&self, inode: &Inode) -> bool {
        self.is_privileged || self.uid == inode.uid
    }

    /// Whether the bit for setting the group can stay at a file of this group.
    fn keeps_setgid(&self, gid: u32) -> bool {
        self.is_privileged || self.is_in(gid)
    }
}

/// What somebody wants to do with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access(u16);

impl Access {
    /// Nothing but that it is there.
    pub const NONE: Access = Access(0);
    /// Run a file; find names in a folder.
    pub const EXECUTE: Access = Access(1);
    /// Change bytes, or names in a folder.
    pub const WRITE: Access = Access(2);
    /// Read bytes; list a folder.
    pub const READ: Access = Access(4);
    /// Make, move and remove names in a folder.
    pub const CHANGE_NAMES: Access = Access(3);

    /// Both.
    #[must_use]
    pub fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// Whether all of `other` is wanted.
    #[must_use]
    pub fn has(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Checks that `who` may use a file for `access`.
///
/// # Errors
/// [`VolumeError::PermissionDenied`].
pub fn check(who: &Credentials, inode: &Inode, access: Access) -> Result<()> {
    let shift = if who.uid == inode.uid {
        6
    } else if who.is_in(inode.gid) {
        3
    } else {
        0
    };
    let may_execute = inode.kind == Kind::Folder || inode.mode & 0o111 != 0;
    let allowed = if who.is_privileged { 6 | u16::from(may_execute) } else { inode.mode >> shift & 7 };
    if access.0 & !allowed == 0 { Ok(()) } else { Err(VolumeError::PermissionDenied) }
}

/// Whether somebody may take the name of `inode` away from `folder`.
///
/// # Errors
/// [`VolumeError::PermissionDenied`]; [`VolumeError::NotOwner`] in a sticky folder.
pub fn check_removal(who: &Credentials, folder: &Inode, inode: &Inode) -> Result<()> {
    check(who, folder, Access::CHANGE_NAMES)?;
    if folder.mode & STICKY == 0 || who.owns(inode) || who.owns(folder) {
        Ok(())
    } else {
        Err(VolumeError::NotOwner)
    }
}

/// Whether somebody may give a file another name, which keeps its bytes when its owner removes it: the owner, and users who may read and write a file
/// that lends no rights.
///
/// # Errors
/// [`VolumeError::NotOwner`].
pub fn check_link(who: &Credentials, inode: &Inode) -> Result<()> {
    const LENT_GROUP: u16 = SETGID | GROUP_EXECUTE;
    let lends = inode.mode & SETUID != 0 || inode.mode & LENT_GROUP == LENT_GROUP;
    let may_use = || check(who, inode, Access::READ.and(Access::WRITE)).is_ok();
    if who.owns(inode) || (inode.kind == Kind::File && !lends && may_use()) {
        Ok(())
    } else {
        Err(VolumeError::NotOwner)
    }
}

/// Whether somebody may follow a symbolic link: in a sticky folder that all may write, not one that a stranger has left there.
///
/// # Errors
/// [`VolumeError::PermissionDenied`].
pub fn check_follow(who: &Credentials, folder: &Inode, link: &Inode) -> Result<()> {
    const FOR_ALL: u16 = STICKY | 0o002;
    let is_for_all = folder.mode & FOR_ALL == FOR_ALL;
    if !is_for_all || who.follows_all_links || link.uid == who.uid || link.uid == folder.uid {
        Ok(())
    } else {
        Err(VolumeError::PermissionDenied)
    }
}

/// The permissions that a file gets when somebody asks for `mode`.
///
/// # Errors
/// [`VolumeError::NotOwner`].
pub fn changed_mode(who: &Credentials, inode: &Inode, mode: u16) -> Result<u16> {
    if !who.owns(inode) {
        return Err(VolumeError::NotOwner);
    }
    let dropped = if who.keeps_setgid(inode.gid) { 0 } else { SETGID };
    Ok(mode & 0o7777 & !dropped)
}

/// The permissions that a file keeps when somebody gives it another owner or group.
///
/// # Errors
/// [`VolumeError::NotOwner`]: only root gives files away; owners may give them to groups that they are in.
pub fn mode_for_owner(who: &Credentials, inode: &Inode, uid: Option<u32>, gid: Option<u32>) -> Result<u16> {
    let is_own_user = uid.is_none_or(|uid| uid == inode.uid);
    let is_own_group = gid.is_none_or(|gid| gid == inode.gid || who.is_in(gid));
    let is_allowed = who.is_privileged || (who.uid == inode.uid && is_own_user && is_own_group);
    // A call that changes nothing is allowed to every user.
    if !is_allowed && (uid, gid) != (None, None) {
        return Err(VolumeError::NotOwner);
    }
    Ok(if inode.kind == Kind::Folder { inode.mode } else { without_ids(who, inode) })
}

/// The permissions that a file has after somebody changed its bytes.
#[must_use]
pub fn mode_after_write(who: &Credentials, inode: &Inode) -> u16 {
    if who.is_privileged { inode.mode } else { without_ids(who, inode) }
}

/// Without the bits that lend rights of owner and group: what they were given for may have changed.
fn without_ids(who: &Credentials, inode: &Inode) -> u16 {
    let lends_group = inode.mode & GROUP_EXECUTE != 0 || !who.keeps_setgid(inode.gid);
    inode.mode & !SETUID & !(if lends_group { SETGID } else { 0 })
}

/// Whether somebody may set the times of a file: to now, or to any moment.
///
/// # Errors
/// [`VolumeError::NotOwner`]; [`VolumeError::PermissionDenied`] for now.
pub fn check_times(who: &Credentials, inode: &Inode, is_now: bool) -> Result<()> {
    match (who.owns(inode), is_now) {
        (true, _) => Ok(()),
        (false, true) => check(who, inode, Access::WRITE),
        (false, false) => Err(VolumeError::NotOwner),
    }
}

/// Permissions and group of what somebody makes in a folder.
#[must_use]
pub fn for_new(who: &Credentials, folder: &Inode, kind: Kind, mode: u16) -> (u16, u32) {
    let mode = mode & 0o7777;
    if folder.mode & SETGID == 0 {
        return (mode, who.gid);
    }
    let lends_group = mode & (SETGID | GROUP_EXECUTE) == SETGID | GROUP_EXECUTE;
    match kind {
        Kind::Folder => (mode | SETGID, folder.gid),
        _ if lends_group && !who.keeps_setgid(folder.gid) => (mode & !SETGID, folder.gid),
        _ => (mode, folder.gid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 10;
    const GROUP: u32 = 20;

    fn file(mode: u16) -> Inode {
        Inode::new(Kind::File, mode, OWNER, GROUP)
    }

    fn folder(mode: u16) -> Inode {
        Inode::new(Kind::Folder, mode, OWNER, GROUP)
    }

    fn user(uid: u32, gid: u32, groups: &[u32]) -> Credentials {
        Credentials::new(uid, gid, groups.to_vec())
    }

    /// Owner, member by first and by further group, stranger, root.
    fn everybody() -> [Credentials; 5] {
        [
            user(OWNER, 1, &[]),
            user(11, GROUP, &[]),
            user(11, 1, &[2, GROUP]),
            user(11, 1, &[2]),
            user(0, 0, &[]),
        ]
    }

    #[test]
    fn bits_of_owner_group_and_others() {
        // For each mode, what each of them may: bits of read, write, execute.
        for (mode, expected) in [
            (0o000, [0, 0, 0, 0, 6]),
            (0o100, [1, 0, 0, 0, 7]),
            (0o001, [0, 0, 0, 1, 7]),
            (0o640, [6, 4, 4, 0, 6]),
            // Only the first that applies counts, also when it gives less.
            (0o077, [0, 7, 7, 7, 7]),
            (0o707, [7, 0, 0, 7, 7]),
            (0o750, [7, 5, 5, 0, 7]),
        ] {
            for (who, expected) in everybody().iter().zip(expected) {
                let may = |access| check(who, &file(mode), access).is_ok();
                let bits = [Access::READ, Access::WRITE, Access::EXECUTE].map(may);
                let found = u16::from(bits[0]) << 2 | u16::from(bits[1]) << 1 | u16::from(bits[2]);
                assert_eq!(found, expected, "{mode:o} {who:?}");
                assert!(may(Access::NONE));
                assert_eq!(may(Access::READ.and(Access::WRITE)), expected & 6 == 6);
            }
        }
        assert_eq!(check(&user(0, 0, &[]), &folder(0), Access::CHANGE_NAMES), Ok(()));
        assert_eq!(check(&Credentials::owner_of_medium(99, 99), &folder(0), Access::CHANGE_NAMES), Ok(()));
    }

    #[test]
    fn sticky_folders_keep_names() {
        use VolumeError::{NotOwner, PermissionDenied};
        let of = |uid| Inode::new(Kind::File, 0o666, uid, 1);
        for (mode, who, owner, expected) in [
            (0o777, 11, 12, Ok(())),
            (0o1777, 11, 12, Err(NotOwner)),
            (0o1777, 11, 11, Ok(())),
            (0o1777, OWNER, 12, Ok(())),
            (0o1777, 0, 12, Ok(())),
            (0o1775, 11, 11, Err(PermissionDenied)),
            (0o776, 11, 11, Err(PermissionDenied)),
        ] {
            let found = check_removal(&user(who, 1, &[]), &folder(mode), &of(owner));
            assert_eq!(found, expected, "{mode:o}, {who} of {owner}");
        }
    }

    #[test]
    fn owners_change_modes() {
        let [owner, member, _, stranger, root] = everybody();
        let in_group = user(OWNER, 1, &[GROUP]);
        for (who, asked, expected) in [
            (&owner, 0o755, Ok(0o755)),
            (&owner, 0o4755, Ok(0o4755)),
            (&owner, 0o2755, Ok(0o755)),
            (&in_group, 0o2755, Ok(0o2755)),
            (&root, 0o7777, Ok(0o7777)),
            (&root, 0o170_644, Ok(0o644)),
            (&member, 0o777, Err(VolumeError::NotOwner)),
            (&stranger, 0o777, Err(VolumeError::NotOwner)),
        ] {
            assert_eq!(changed_mode(who, &file(0o600), asked), expected, "{who:?} {asked:o}");
        }
    }

    #[test]
    fn files_are_given_away_by_root_alone() {
        let [owner, member, _, _, root] = everybody();
        let in_two = user(OWNER, 1, &[5]);
        let refused = Err(VolumeError::NotOwner);
        for (who, uid, gid, expected) in [
            (&root, Some(7), Some(8), Ok(0o755)),
            (&owner, Some(OWNER), None, Ok(0o755)),
            (&owner, Some(7), None, refused.clone()),
            (&owner, None, Some(1), Ok(0o755)),
            (&owner, None, Some(GROUP), Ok(0o755)),
            (&owner, None, Some(5), refused.clone()),
            (&in_two, None, Some(5), Ok(0o755)),
            (&member, None, Some(GROUP), refused.clone()),
            (&member, Some(11), None, refused),
        ] {
            assert_eq!(mode_for_owner(who, &file(0o6755), uid, gid), expected, "{who:?} {uid:?} {gid:?}");
        }
        assert_eq!(mode_for_owner(&root, &folder(0o6755), Some(1), None), Ok(0o6755));
        // Without the right to run it, the bit meant locks, and stays with members.
        assert_eq!(mode_for_owner(&root, &file(0o6644), Some(1), None), Ok(0o2644));
    }

    #[test]
    fn writes_take_lent_rights_away() {
        let [owner, member, _, stranger, root] = everybody();
        for (who, mode, expected) in [
            (&root, 0o6755, 0o6755),
            (&owner, 0o6755, 0o755),
            (&member, 0o6775, 0o775),
            (&member, 0o2664, 0o2664),
            (&stranger, 0o2666, 0o666),
            (&owner, 0o1644, 0o1644),
        ] {
            assert_eq!(mode_after_write(who, &file(mode)), expected, "{who:?} {mode:o}");
        }
    }

    #[test]
    fn times_are_the_owners() {
        let [owner, member, _, stranger, root] = everybody();
        for (who, is_now, expected) in [
            (&owner, false, Ok(())),
            (&root, false, Ok(())),
            (&member, true, Ok(())),
            (&member, false, Err(VolumeError::NotOwner)),
            (&stranger, true, Err(VolumeError::PermissionDenied)),
        ] {
            assert_eq!(check_times(who, &file(0o660), is_now), expected, "{who:?} {is_now}");
        }
    }

    #[test]
    fn folders_hand_their_group_on() {
        let (who, member) = (user(11, 1, &[]), user(11, 1, &[GROUP]));
        for (who, of_folder, kind, mode, expected) in [
            (&who, 0o755, Kind::File, 0o644, (0o644, 1)),
            (&who, 0o755, Kind::File, 0o2755, (0o2755, 1)),
            (&who, 0o2755, Kind::File, 0o644, (0o644, GROUP)),
            (&who, 0o2755, Kind::File, 0o2755, (0o755, GROUP)),
            (&member, 0o2755, Kind::File, 0o2755, (0o2755, GROUP)),
            (&who, 0o2755, Kind::Folder, 0o755, (0o2755, GROUP)),
            (&who, 0o2755, Kind::Symlink, 0o777, (0o777, GROUP)),
        ] {
            assert_eq!(
                for_new(who, &folder(of_folder), kind, mode),
                expected,
                "{of_folder:o} {kind:?} {mode:o}"
            );
        }
    }
}

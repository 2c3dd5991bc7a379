//! Open files, permissions and times.

use aquifer_volume::VolumeError::{
    Exists, IsAFolder, NotAFolder, NotFound, NotOwner, PermissionDenied, TooManySymlinks,
};
use aquifer_volume::access::Access;
use aquifer_volume::path::Last;
use aquifer_volume::{OpenHow, SetTime, Time, VolumeError};

use super::{GROUP, MEMBER, OWNER, STRANGER, check, root, user, volume};

fn how(access: Access) -> OpenHow {
    OpenHow { access, ..OpenHow::READ }
}

#[test]
fn only_those_open_it_who_may() {
    let volume = volume();
    let owner = user(&volume, OWNER);
    drop(owner.open(b"/f", &OpenHow::make_new(0o640)).expect("made"));
    root(&volume).chown(b"/f", Last::Follow, None, Some(GROUP)).expect("root may");
    let both = Access::READ.and(Access::WRITE);
    for (uid, access, is_allowed) in [
        (OWNER, both, true),
        (MEMBER, Access::READ, true),
        (MEMBER, Access::WRITE, false),
        (MEMBER, both, false),
        (STRANGER, Access::READ, false),
        (0, both, true),
    ] {
        let opened = user(&volume, uid).open(b"/f", &how(access)).map(drop);
        assert_eq!(opened, if is_allowed { Ok(()) } else { Err(PermissionDenied) }, "{uid} {access:?}");
    }
    // What is cut is changed.
    let cut = OpenHow { is_truncated: true, ..OpenHow::READ };
    assert_eq!(user(&volume, MEMBER).open(b"/f", &cut).map(drop), Err(PermissionDenied));
    assert_eq!(user(&volume, MEMBER).check_access(b"/f", Access::EXECUTE), Err(PermissionDenied));
    assert_eq!(user(&volume, STRANGER).check_access(b"/f", Access::NONE), Ok(()));
}

#[test]
fn a_file_is_used_as_it_was_opened() {
    let volume = volume();
    let owner = user(&volume, OWNER);
    // Permissions count when a file is opened, not later: this one is made unreadable.
    let written = owner.open(b"/f", &OpenHow::make_new(0)).expect("made");
    assert_eq!(written.write(0, b"abc"), Ok(3));
    assert_eq!(written.read(0, &mut [0]), Err(PermissionDenied));
    owner.chmod(b"/f", 0o400).expect("the owner may");
    let read = owner.open(b"/f", &OpenHow::READ).expect("readable");
    for outcome in
        [read.write(0, b"x").map(drop), read.append(b"x").map(drop), read.truncate(0), read.punch(0, 1)]
    {
        assert_eq!(outcome, Err(PermissionDenied));
    }
    assert_eq!(written.append(b"de"), Ok((3, 2)));
    let mut bytes = [0; 9];
    assert_eq!(read.read(1, &mut bytes), Ok(4));
    assert_eq!(&bytes[..4], b"bcde");
}

#[test]
fn bytes_stay_while_a_file_is_open() {
    let volume = volume();
    let owner = user(&volume, OWNER);
    let written = owner.open(b"/f", &OpenHow::make_new(0o600)).expect("made");
    written.write(0, &[7; 5000]).expect("room");
    let read = owner.open(b"/f", &OpenHow::READ).expect("readable");
    owner.unlink(b"/f").expect("removed");
    drop(written);
    let mut bytes = [0; 5000];
    assert_eq!((read.read(0, &mut bytes), bytes), (Ok(5000), [7; 5000]));
    assert_eq!(volume.space().expect("space").files, 2);
    drop(read);
    assert_eq!(volume.space().expect("space").files, 1);
    check(&volume);
}

#[test]
fn files_are_made_and_kept() {
    let volume = volume();
    let owner = user(&volume, OWNER);
    let anew = OpenHow::write_anew(0o644);
    owner.open(b"/f", &anew).expect("made").write(0, b"long").expect("room");
    owner.open(b"/f", &anew).expect("there").write(0, b"new").expect("room");
    assert_eq!(owner.stat(b"/f", Last::Follow).expect("there").1.size_bytes, 3);
    owner.make_symlink(b"f", b"/link").expect("made");
    owner.make_symlink(b"none", b"/dangling").expect("made");
    owner.make_folder(b"/d", 0o755).expect("made");
    let opened = |path: &[u8], how: &OpenHow| owner.open(path, how).map(drop);
    let keeps_link = OpenHow { keeps_link: true, ..OpenHow::READ };
    for (path, how, expected) in [
        (&b"/f"[..], OpenHow::make_new(0), Err(Exists)),
        (b"/link", OpenHow::make_new(0), Err(Exists)),
        (b"/dangling", OpenHow::make_new(0), Err(Exists)),
        (b"/dangling", OpenHow::READ, Err(NotFound)),
        (b"/link", keeps_link, Err(TooManySymlinks)),
        (b"/link", OpenHow::READ, Ok(())),
        (b"/f/", OpenHow::READ, Err(NotAFolder)),
        (b"/new/", anew, Err(IsAFolder)),
        (b"/d", OpenHow::READ, Ok(())),
        (b"/d", anew, Err(IsAFolder)),
        (b"/d", how(Access::WRITE), Err(IsAFolder)),
        (b"/", OpenHow::READ, Ok(())),
        (b"/none/f", anew, Err(NotFound)),
    ] {
        assert_eq!(opened(path, &how), expected, "{} {how:?}", String::from_utf8_lossy(path));
    }
    // A link to nothing is where the file is made.
    assert_eq!(opened(b"/dangling", &anew), Ok(()));
    assert!(owner.stat(b"/none", Last::Keep).is_ok());
    check(&volume);
}

#[test]
fn lent_rights_go_with_writes_and_owners() {
    let volume = volume();
    let owner = user(&volume, OWNER);
    let file = owner.open(b"/f", &OpenHow::make_new(0o777)).expect("made");
    let mode = || owner.stat(b"/f", Last::Follow).expect("there").1.mode;
    let lend = || root(&volume).chmod(b"/f", 0o6777).expect("root may");
    lend();
    user(&volume, STRANGER)
        .open(b"/f", &how(Access::WRITE))
        .expect("open to all")
        .write(0, b"x")
        .expect("room");
    assert_eq!(mode(), 0o777);
    let changes: [&dyn Fn(); 5] = [
        &|| {
            file.append(b"x").expect("room");
        },
        &|| file.truncate(0).expect("cut"),
        &|| owner.truncate(b"/f", 5).expect("grown"),
        &|| {
            root(&volume).chown(b"/f", Last::Follow, Some(OWNER), None).expect("root may");
        },
        &|| drop(owner.open(b"/f", &OpenHow::write_anew(0)).expect("cut")),
    ];
    for change in changes {
        lend();
        change();
        assert_eq!(mode(), 0o777);
    }
    lend();
    root(&volume).open(b"/f", &how(Access::WRITE)).expect("root may").write(0, b"x").expect("room");
    assert_eq!(mode(), 0o6777);
}

#[test]
fn attributes_are_the_owners() {
    let volume = volume();
    let (owner, stranger) = (user(&volume, OWNER), user(&volume, STRANGER));
    drop(owner.open(b"/f", &OpenHow::make_new(0o600)).expect("made"));
    owner.make_symlink(b"f", b"/link").expect("made");
    assert_eq!(stranger.chmod(b"/f", 0o777), Err(NotOwner));
    assert_eq!(stranger.truncate(b"/f", 0), Err(PermissionDenied));
    assert_eq!(owner.chown(b"/f", Last::Follow, Some(STRANGER), None), Err(NotOwner));
    assert_eq!(owner.chown(b"/link", Last::Follow, None, Some(GROUP)).map(|inode| inode.gid), Ok(GROUP));
    let gid_of_link = owner.stat(b"/link", Last::Keep).expect("there").1.gid;
    assert_ne!(gid_of_link, GROUP);
    let then = SetTime::To(Time(-5));
    assert_eq!(stranger.set_times(b"/f", Last::Follow, then, SetTime::Keep), Err(NotOwner));
    assert_eq!(stranger.set_times(b"/f", Last::Follow, SetTime::Now, SetTime::Now), Err(PermissionDenied));
    let before = owner.stat(b"/f", Last::Follow).expect("there").1;
    let after = owner.set_times(b"/f", Last::Follow, then, SetTime::Keep).expect("the owner may");
    assert_eq!((after.read_at, after.written_at), (Time(-5), before.written_at));
    let untouched = stranger.set_times(b"/f", Last::Follow, SetTime::Keep, SetTime::Keep);
    assert_eq!(untouched, Ok(after));
    assert_eq!(owner.truncate(b"/", 0), Err(VolumeError::IsAFolder));
}

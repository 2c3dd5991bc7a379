//! Names that users make, move and remove.

use std::ops::ControlFlow;

use aquifer_volume::VolumeError::{
    Exists, IsAFolder, NameTooLong, NotAFolder, NotEmpty, NotFound, NotOwner, PermissionDenied,
};
use aquifer_volume::path::Last;
use aquifer_volume::{IfTaken, Ino, Inode, Kind, OpenHow, Session, Volume, VolumeError, device_number};

use super::{GROUP, OWNER, STRANGER, check, root, user, volume};

fn file(session: &Session<&Volume>, path: &[u8]) {
    drop(session.open(path, &OpenHow::make_new(0o644)).expect("made"));
}

fn names(session: &Session<&Volume>, path: &[u8]) -> Result<Vec<String>, VolumeError> {
    let mut names = Vec::new();
    session.list(path, 0, |entry| {
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        ControlFlow::Continue(())
    })?;
    names.sort();
    Ok(names)
}

#[test]
fn folders_of_others_stay_as_they_are() {
    let volume = volume();
    let (owner, stranger) = (user(&volume, OWNER), user(&volume, STRANGER));
    owner.make_folder(b"/d", 0o755).expect("made");
    file(&owner, b"/d/f");
    file(&stranger, b"/own");
    let take = IfTaken::Replace;
    for outcome in [
        stranger.make_folder(b"/d/x", 0o755).map(drop),
        stranger.make_symlink(b"x", b"/d/x").map(drop),
        stranger.link(b"/own", b"/d/x"),
        stranger.unlink(b"/d/f"),
        stranger.remove_folder(b"/d/f"),
        stranger.rename(b"/d/f", b"/f", take),
        stranger.rename(b"/own", b"/d/f", take),
        stranger.open(b"/d/x", &OpenHow::make_new(0o600)).map(drop),
    ] {
        assert_eq!(outcome, Err(PermissionDenied));
    }
    assert_eq!(names(&stranger, b"/d"), Ok(vec!["f".into()]));
    // Search without reading, and the other way round.
    owner.chmod(b"/d", 0o711).expect("the owner may");
    assert_eq!(names(&stranger, b"/d"), Err(PermissionDenied));
    assert!(stranger.stat(b"/d/f", Last::Follow).is_ok());
    owner.chmod(b"/d", 0o744).expect("the owner may");
    assert_eq!(names(&stranger, b"/d"), Ok(vec!["f".into()]));
    assert_eq!(stranger.stat(b"/d/f", Last::Follow).map(drop), Err(PermissionDenied));
    check(&volume);
}

#[test]
fn sticky_folders_keep_the_names_of_others() {
    let volume = volume();
    let (owner, stranger) = (user(&volume, OWNER), user(&volume, STRANGER));
    root(&volume).chmod(b"/", 0o1777).expect("root may");
    file(&owner, b"/theirs");
    file(&stranger, b"/own");
    let take = IfTaken::Replace;
    assert_eq!(stranger.unlink(b"/theirs"), Err(NotOwner));
    assert_eq!(stranger.rename(b"/theirs", b"/x", take), Err(NotOwner));
    assert_eq!(stranger.rename(b"/own", b"/theirs", take), Err(NotOwner));
    assert_eq!(stranger.rename(b"/own", b"/mine", take), Ok(()));
    assert_eq!(stranger.unlink(b"/mine"), Ok(()));
    assert_eq!(root(&volume).unlink(b"/theirs"), Ok(()));
    check(&volume);
}

#[test]
fn folders_hand_their_group_on() {
    let volume = volume();
    let owner = user(&volume, OWNER);
    owner.make_folder(b"/d", 0o755).expect("made");
    owner.chown(b"/d", Last::Follow, None, Some(GROUP)).expect("a member may");
    owner.chmod(b"/d", 0o2777).expect("the owner may");
    let stranger = user(&volume, STRANGER);
    stranger.make_folder(b"/d/e", 0o700).expect("made");
    file(&stranger, b"/d/e/f");
    stranger.make_symlink(b"f", b"/d/e/link").expect("made");
    for (path, mode) in [(&b"/d/e"[..], 0o2700), (b"/d/e/f", 0o644), (b"/d/e/link", 0o777)] {
        let inode = stranger.stat(path, Last::Keep).expect("there").1;
        assert_eq!((inode.mode, inode.uid, inode.gid), (mode, STRANGER, GROUP));
    }
}

#[test]
fn a_moved_folder_is_changed_itself() {
    let volume = volume();
    let (owner, stranger) = (user(&volume, OWNER), user(&volume, STRANGER));
    owner.make_folder(b"/closed", 0o755).expect("made");
    owner.make_folder(b"/open", 0o777).expect("made");
    stranger.make_folder(b"/own", 0o755).expect("made");
    let take = IfTaken::Replace;
    assert_eq!(stranger.rename(b"/closed", b"/own/closed", take), Err(PermissionDenied));
    assert_eq!(stranger.rename(b"/closed", b"/renamed", take), Ok(()));
    assert_eq!(stranger.rename(b"/own", b"/renamed", IfTaken::Exchange), Ok(()));
    assert_eq!(stranger.rename(b"/open", b"/renamed/open", take), Ok(()));
    file(&owner, b"/renamed/open/f");
    assert_eq!(stranger.rename(b"/renamed/open/f", b"/own", IfTaken::Exchange), Err(PermissionDenied));
    check(&volume);
}

#[test]
fn no_folder_comes_to_lie_in_itself() {
    let volume = volume();
    let root = root(&volume);
    root.make_folder(b"/a", 0o755).expect("made");
    root.make_folder(b"/a/b", 0o755).expect("made");
    file(&root, b"/a/b/f");
    for if_taken in [IfTaken::Replace, IfTaken::Fail, IfTaken::Exchange] {
        let into = root.rename(b"/a", b"/a/b/c", if_taken);
        assert!(into.is_err(), "{into:?}");
    }
    for (from, to) in [(&b"/a/b"[..], &b"/a"[..]), (b"/a", b"/a/b"), (b"/a/b/f", b"/a")] {
        let outcome = root.rename(from, to, IfTaken::Exchange);
        assert!(matches!(outcome, Err(VolumeError::Invalid(_))), "{outcome:?}");
    }
    assert!(root.stat(b"/a/b/f", Last::Keep).is_ok());
    check(&volume);
}

#[test]
fn slashes_and_dots_at_the_end() {
    let volume = volume();
    let owner = user(&volume, OWNER);
    owner.make_folder(b"/d/", 0o755).expect("made");
    owner.make_folder(b"/d/e", 0o755).expect("made");
    file(&owner, b"/f");
    owner.make_symlink(b"d", b"/link").expect("made");
    let take = IfTaken::Replace;
    let nameless = |outcome: Result<(), VolumeError>| matches!(outcome, Err(VolumeError::Invalid(_)));
    for path in [&b"/"[..], b"/d/.", b"/d/.."] {
        assert_eq!(owner.make_folder(path, 0o755), Err(Exists));
        assert_eq!(owner.unlink(path), Err(IsAFolder));
        assert!(nameless(owner.remove_folder(path)));
        assert!(nameless(owner.rename(path, b"/x", take)) && nameless(owner.rename(b"/f", path, take)));
    }
    for (outcome, error) in [
        (owner.unlink(b"/f/"), NotAFolder),
        (owner.unlink(b"/link/"), NotAFolder),
        (owner.remove_folder(b"/link/"), NotAFolder),
        (owner.unlink(b"/d"), IsAFolder),
        (owner.remove_folder(b"/f"), NotAFolder),
        (owner.remove_folder(b"/d"), NotEmpty),
        (owner.rename(b"/f", b"/x/", take), NotAFolder),
        (owner.rename(b"/f/", b"/x", take), NotAFolder),
        (owner.link(b"/f", b"/x/"), NotFound),
        (owner.link(b"/d", b"/x"), NotOwner),
        (owner.make_symlink(b"", b"/x").map(drop), NotFound),
        (owner.make_symlink(&[b'x'; 4096], b"/x").map(drop), NameTooLong),
        (owner.make_folder(b"/link", 0o755).map(drop), Exists),
    ] {
        assert_eq!(outcome, Err(error));
    }
    owner.rename(b"/d/e/", b"/g/", take).expect("a folder");
    assert_eq!(names(&owner, b"/link/"), Ok(vec![]));
    owner.link(b"/link", b"/link2").expect("the link itself");
    assert_eq!(owner.read_link(b"/link2"), Ok(b"d".to_vec()));
    assert!(matches!(owner.read_link(b"/f"), Err(VolumeError::Invalid(_))));
    check(&volume);
}

#[test]
fn names_of_255_bytes() {
    let volume = volume();
    let owner = user(&volume, OWNER);
    let (longest, too_long) = ([b'n'; 255], [b'n'; 256]);
    owner.make_folder(&longest, 0o755).expect("made");
    assert_eq!(owner.make_folder(&too_long, 0o755), Err(NameTooLong));
    assert_eq!(owner.rename(&longest, &too_long, IfTaken::Fail), Err(NameTooLong));
    // Bytes that are no text are a name as well.
    file(&owner, b"\xFF\n\x1b[2J");
    assert_eq!(owner.stat(b"/\xFF\n\x1b[2J", Last::Keep).map(|(ino, _)| ino > Ino::ROOT_FOLDER), Ok(true));
    check(&volume);
}

#[test]
fn paths_begin_where_they_are_told_to() {
    let volume = volume();
    let owner = user(&volume, OWNER);
    owner.make_folder(b"/d", 0o755).expect("made");
    let inside = owner.from(owner.find(b"/d", Last::Follow).expect("there"));
    file(&inside, b"f");
    inside.rename(b"f", b"../g", IfTaken::Fail).expect("moved");
    assert_eq!(names(&owner, b"/"), Ok(vec!["d".into(), "g".into()]));
    assert_eq!(inside.unlink(b"/g"), Ok(()));
}

#[test]
fn pipes_sockets_and_devices_are_names_without_bytes() {
    let volume = volume();
    let device = device_number(259, 70_000);
    let kinds = [Kind::Pipe, Kind::Socket, Kind::BlockDevice, Kind::CharacterDevice];
    for (kind, name) in kinds.into_iter().zip([b"p", b"s", b"b", b"c"]) {
        let mut node = Inode::new(kind, 0o640, OWNER, GROUP);
        node.device = device;
        let ino = volume.make_node(Ino::ROOT_FOLDER, name, &node).expect("made");
        let found = volume.inode(ino).expect("there");
        assert_eq!(
            (found.kind, found.mode, found.uid, found.gid, found.links),
            (kind, 0o640, OWNER, GROUP, 1)
        );
        assert_eq!(found.device, if kind.is_device() { device } else { 0 });
        assert_eq!(volume.write(ino, 0, b"x").map_err(|error| error.errno()), Err(libc::ENXIO));
        let opened = root(&volume).open(name, &OpenHow::READ);
        assert_eq!(opened.map(drop).map_err(|error| error.errno()), Err(libc::ENXIO));
        assert_eq!(volume.make_node(Ino::ROOT_FOLDER, name, &node), Err(Exists));
    }
    let file = Inode::new(Kind::File, 0o640, OWNER, GROUP);
    assert!(volume.make_node(Ino::ROOT_FOLDER, b"f", &file).is_err());
    root(&volume).rename(b"/p", b"/s", IfTaken::Replace).expect("root may");
    assert_eq!(root(&volume).stat(b"/s", Last::Keep).map(|(_, inode)| inode.kind), Ok(Kind::Pipe));
    check(&volume);
}

/// In a sticky folder a user takes away only what is the user's, also while others change what a name stands for.
#[test]
fn rights_are_those_of_what_the_name_stands_for_in_that_moment() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let volume = volume();
    root(&volume).make_folder(b"/sticky", 0o1777).expect("made");
    for round in 0..3000 {
        let (mine, theirs) = (b"/sticky/mine", b"/sticky/theirs");
        for (who, path) in [(user(&volume, STRANGER), &mine[..]), (root(&volume), &theirs[..])] {
            who.open(path, &OpenHow::make_new(0o666)).expect("made");
        }
        let kept = root(&volume).find(theirs, Last::Name).expect("there");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (volume, is_over) = (&volume, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = root(volume).rename(mine, theirs, IfTaken::Exchange);
                }
            });
            for _ in 0..20 {
                let _ = user(volume, STRANGER).unlink(mine);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let found = [&mine[..], &theirs[..]].map(|path| root(&volume).find(path, Last::Name).ok());
        assert!(found.contains(&Some(kept)), "round {round}: root's file is gone");
        for path in [&mine[..], &theirs[..]] {
            let _ = root(&volume).unlink(path);
        }
    }
    check(&volume);
}

//! Clients that want more than their rights, by messages alone.

use aquifer_volume::serve::protocol::{OPERATIONS, Operation, Request};

use super::raw::{Raw, faults};
use super::victim::Victim;
use super::*;

/// What ends the use of a handle, or, with a wrong version, of the connection.
const ENDING: [Operation; 2] = [Operation::Close, Operation::Hello];

/// A file that is open for reading alone is changed by no request of its handle.
#[test]
fn no_request_changes_what_is_open_to_read() {
    let rig = Rig::new();
    let ino = rig.file("file", 0o644, 0, 0);
    let victim = Victim::new(&rig);
    rig.volume.sync().expect("sync");
    let before = rig.volume.inode(ino).expect("inode");
    let (raw, faults) = (Raw::connect(&rig.socket), faults());
    let handle = raw.open("file", open::READ);
    assert_ne!(raw.attach(handle, 1 << 40, 3, 1, Some(&faults)).errno, 0);
    for operation in OPERATIONS.into_iter().filter(|operation| !ENDING.contains(operation)) {
        for a in [0, 1, 4096, u64::MAX] {
            let request = Request { a, b: a, c: 1, bytes: b"bytes", ..Request::new(operation, handle) };
            let (answer, _) = raw.ask(&request, None);
            let changes = matches!(
                operation,
                Operation::Write | Operation::Truncate | Operation::Punch | Operation::Attach
            );
            assert!(!changes || answer.errno != 0, "{operation:?}");
            // A step that is not whole yet changes nothing, and ends with the connection.
            assert!(operation != Operation::Append || a != 0 || answer.errno != 0);
        }
    }
    assert_eq!(raw.errno_of(Operation::Append, handle), libc::EACCES);
    assert_eq!(rig.volume.inode(ino).expect("inode"), before);
    victim.end(&rig);
}

/// A name that a stranger gives to a file would keep its bytes when the owner removes it, and take of the names that it can have.
#[test]
fn a_stranger_gives_no_name_to_a_file() {
    if skip_unless_root("a_stranger_gives_no_name_to_a_file") {
        return;
    }
    let rig = Rig::new();
    let open_to_all = rig.volume.make(Ino::ROOT_FOLDER, b"tmp", Kind::Folder, 0o1777, 0, 0);
    open_to_all.expect("folder");
    rig.file("readable", 0o644, 1001, 1001);
    rig.file("writable", 0o666, 1001, 1001);
    rig.file("lends", 0o4666, 1001, 1001);
    let (owner, stranger) = ((1001, 1001), (1002, 1002));
    assert_eq!(rig.run(stranger, "link", &["readable"]), "only the owner may do this");
    assert_eq!(rig.run(stranger, "link", &["lends"]), "only the owner may do this");
    assert_eq!(rig.run(stranger, "link", &["writable"]), "linked");
    assert_eq!(rig.run(owner, "link", &["readable"]), "linked");
    check(&rig.volume);
}

/// Gives a file another name in a folder that all may use.
pub fn link(client: &Client, path: &str) -> String {
    match client.link(path.as_bytes(), format!("tmp/{path}").as_bytes()) {
        Ok(()) => "linked".into(),
        Err(error) => error.to_string(),
    }
}

/// Links that a stranger left in a folder that all may use lead nobody astray.
#[test]
fn a_link_of_a_stranger_in_a_folder_for_all_is_not_followed() {
    if skip_unless_root("a_link_of_a_stranger_in_a_folder_for_all_is_not_followed") {
        return;
    }
    let rig = Rig::new();
    let folder = rig.volume.make(Ino::ROOT_FOLDER, b"tmp", Kind::Folder, 0o1777, 0, 0).expect("folder");
    rig.volume.make_symlink(folder, b"trap", b"/file", 1002, 1002).expect("link");
    rig.volume.make_symlink(folder, b"own", b"/file", 1001, 1001).expect("link");
    rig.volume.make_symlink(folder, b"of the folder's owner", b"/file", 0, 0).expect("link");
    rig.volume.make_symlink(Ino::ROOT_FOLDER, b"elsewhere", b"/file", 1002, 1002).expect("link");
    rig.file("file", 0o644, 1001, 1001);
    for (path, said) in [
        ("tmp/trap", "denied"),
        ("tmp/own", "mapped f"),
        ("tmp/of the folder's owner", "mapped f"),
        ("elsewhere", "mapped f"),
    ] {
        assert_eq!(rig.run((1001, 1001), "map", &[path, "rw/w"]), said, "{path}");
    }
    check(&rig.volume);
}

//! What a client does by path, and with files beside their memory.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use aquifer_volume::path::Last;
use aquifer_volume::serve::protocol::{APPEND_BYTES_MAX, open};
use aquifer_volume::serve::{Client, RemoteFile, RemoteMapping};
use aquifer_volume::{IfTaken, Ino, Kind, PAGE_BYTES, Protection, VolumeError};

use super::{Rig, check, load};

const READ_WRITE: u64 = open::READ | open::WRITE;

#[test]
fn names_are_made_listed_changed_and_removed() {
    let rig = Rig::new();
    let client = Client::connect(&rig.socket).expect("connect");
    client.make_folder(b"/folder", 0o755).expect("folder");
    // More than one answer can hold.
    let name = |n: usize| format!("{n:0>250}").into_bytes();
    let expected: BTreeSet<Vec<u8>> = (0..600).map(name).collect();
    for name in &expected {
        client.open(&[b"/folder/", &name[..]].concat(), READ_WRITE | open::CREATE, 0o640).expect("open");
    }
    let mut found = BTreeSet::new();
    let visit = |listed: aquifer_volume::Listed<'_>| {
        // The client can be used meanwhile.
        let (ino, inode) = client.stat(&[b"/folder/", listed.name].concat(), Last::Keep).expect("stat");
        assert_eq!((ino, inode.kind, inode.mode), (listed.ino, Kind::File, 0o640));
        assert!(found.insert(listed.name.to_vec()), "a name came twice");
        ControlFlow::Continue(())
    };
    client.list(b"/folder", visit).expect("list");
    assert_eq!(found, expected);
    let mut visited = 0;
    let first = |_: aquifer_volume::Listed<'_>| {
        visited += 1;
        ControlFlow::Break(())
    };
    client.list(b"/folder", first).expect("list");
    assert_eq!(visited, 1);
    assert_eq!(
        client.list(&[b"/folder/", &name(1)[..]].concat(), |_| panic!()),
        Err(VolumeError::NotAFolder)
    );

    client.make_symlink(b"folder/there", b"/link").expect("symlink");
    assert_eq!(client.read_link(b"/link").expect("read link"), b"folder/there");
    assert_eq!(client.stat(b"/link", Last::Follow), Err(VolumeError::NotFound));
    assert_eq!(client.stat(b"/link", Last::Keep).expect("stat").1.kind, Kind::Symlink);
    client.link(&[b"/folder/", &name(1)[..]].concat(), b"/one").expect("link");
    client.link(&[b"/folder/", &name(2)[..]].concat(), b"/two").expect("link");
    let ino = |path: &[u8]| client.stat(path, Last::Keep).expect("stat").0;
    let (one, two) = (ino(b"/one"), ino(b"/two"));
    assert_eq!(client.rename(b"/one", b"/two", IfTaken::Fail), Err(VolumeError::Exists));
    client.rename(b"/one", b"/two", IfTaken::Exchange).expect("exchange");
    assert_eq!((ino(b"/one"), ino(b"/two")), (two, one));
    client.rename(b"/one", b"/two", IfTaken::Replace).expect("replace");
    assert_eq!(client.stat(b"/one", Last::Keep), Err(VolumeError::NotFound));
    assert_eq!(client.remove(b"/folder"), Err(VolumeError::NotEmpty));
    client.remove(b"/two").expect("remove");
    assert_eq!(client.stat(b"/..//two/", Last::Keep), Err(VolumeError::NotFound));
    assert_eq!(client.space().expect("space"), rig.volume.space().expect("space"));
    check(&rig.volume);
}

#[test]
fn appends_of_several_clients_are_one_step_each() {
    let rig = Rig::new();
    let path = b"/log";
    const LEN: usize = 300_000;
    std::thread::scope(|scope| {
        for nth in 0..3u8 {
            let client = Client::connect(&rig.socket).expect("connect");
            let file = client.open(path, READ_WRITE | open::CREATE, 0o644).expect("open");
            scope.spawn(move || {
                for _ in 0..10 {
                    let (_, written) = file.append(&vec![nth + 1; LEN]).expect("append");
                    assert_eq!(written, LEN);
                }
            });
        }
    });
    let client = Client::connect(&rig.socket).expect("connect");
    let file = client.open(path, READ_WRITE, 0).expect("open");
    let mut bytes = vec![0; 31 * LEN];
    assert_eq!(file.read(0, &mut bytes).expect("read"), 30 * LEN);
    let mut counts = [0; 4];
    for step in bytes[..30 * LEN].chunks(LEN) {
        assert!(step.iter().all(|byte| *byte == step[0]), "two appends are mixed");
        counts[usize::from(step[0])] += 1;
    }
    assert_eq!(counts, [0, 10, 10, 10]);
    assert_eq!(file.append(b"").expect("append"), (30 * LEN as u64, 0));
    let too_much = file.append(&vec![1; APPEND_BYTES_MAX + 1]);
    assert!(matches!(too_much, Err(VolumeError::Invalid(_))), "{too_much:?}");
    file.punch(1, LEN as u64).expect("punch");
    file.read(0, &mut bytes[..LEN + 2]).expect("read");
    assert!(bytes[0] > 0 && bytes[1..=LEN].iter().all(|byte| *byte == 0) && bytes[LEN + 1] > 0);
    assert_eq!(file.stat().expect("stat").1.size_bytes, 30 * LEN as u64);
    check(&rig.volume);
}

/// 40 pages of a file as memory; `None`, which is said, where the kernel hands its faults to no other process.
fn mapped(file: &RemoteFile, test: &str) -> Option<RemoteMapping> {
    match file.map(0, 40 * PAGE_BYTES, Protection::Read) {
        Err(error @ VolumeError::System { .. }) => {
            eprintln!("SKIP {test}: {error}");
            None
        }
        mapping => Some(mapping.expect("map")),
    }
}

#[test]
fn a_mapped_file_keeps_its_bytes_when_it_is_closed_and_has_no_name() {
    let rig = Rig::new();
    let client = Client::connect(&rig.socket).expect("connect");
    let file = client.open(b"/file", READ_WRITE | open::CREATE, 0o644).expect("open");
    file.write(0, &[7; 40 * PAGE_BYTES]).expect("write");
    let Some(mapping) = mapped(&file, "a_mapped_file_keeps_its_bytes_when_it_is_closed_and_has_no_name")
    else {
        return;
    };
    drop(file);
    client.remove(b"/file").expect("remove");
    // Others would get its number and its room.
    for n in 0..20 {
        let ino = rig.volume.make(Ino::ROOT_FOLDER, format!("{n}").as_bytes(), Kind::File, 0o644, 0, 0);
        rig.volume.write(ino.expect("make"), 0, &[9; 40 * PAGE_BYTES]).expect("write");
    }
    rig.volume.sync().expect("sync");
    for page in 0..40 {
        assert_eq!(load(&mapping, page * PAGE_BYTES), 7);
    }
    let files = rig.volume.space().expect("space").files;
    drop(mapping);
    client.sync().expect("sync");
    assert_eq!(rig.volume.space().expect("space").files, files - 1);
    check(&rig.volume);
}

#[test]
fn a_mapping_that_is_gone_holds_nothing() {
    let rig = Rig::new();
    let client = Client::connect(&rig.socket).expect("connect");
    let files = rig.volume.space().expect("space").files;
    for _ in 0..200 {
        let file = client.open(b"/file", READ_WRITE | open::CREATE, 0o644).expect("open");
        file.write(0, &[7; 40 * PAGE_BYTES]).expect("write");
        let Some(mapping) = mapped(&file, "a_mapping_that_is_gone_holds_nothing") else { return };
        drop(file);
        client.remove(b"/file").expect("remove");
        // The owner reads ahead while this goes on.
        assert_eq!(load(&mapping, 0), 7);
        drop(mapping);
        assert_eq!(rig.volume.space().expect("space").files, files);
    }
}

#[test]
fn a_folder_is_no_memory_and_a_range_is_one_of_a_file() {
    let rig = Rig::new();
    let client = Client::connect(&rig.socket).expect("connect");
    let folder = client.open(b"/", open::READ, 0).expect("open");
    assert_eq!(folder.memory().err(), Some(VolumeError::IsAFolder));
    let file = client.open(b"/file", READ_WRITE | open::CREATE, 0o644).expect("open");
    let beyond = file.map(1 << 44, PAGE_BYTES, Protection::Read);
    assert_eq!(beyond.err(), Some(VolumeError::TooLarge));
}

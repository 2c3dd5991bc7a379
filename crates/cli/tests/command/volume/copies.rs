//! Copies between host and volumes.

use rustix::process::Signal;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::super::{command, name, text};
use super::{Ground, noise};

/// Everything below a folder: path, kind and permissions, and bytes or target.
fn snapshot(folder: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let metadata = path.symlink_metadata().expect("there");
        let bytes = if metadata.is_dir() {
            waiting
                .extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
            Vec::new()
        } else if metadata.is_symlink() {
            name(&fs::read_link(&path).expect("a link")).into()
        } else {
            fs::read(&path).expect("bytes")
        };
        let inside = path.strip_prefix(folder).expect("below").to_owned();
        found.push((name(&inside).to_owned(), metadata.mode(), bytes));
    }
    found.sort();
    found
}

/// A folder of the host with a bit of everything.
fn example(ground: &Ground) -> String {
    let top = ground.host("src");
    fs::create_dir_all(top.join("d/empty")).expect("made");
    for (file, len) in [("none", 0), ("small", 5), ("d/page", 4096), ("d/large", 3_000_001)] {
        fs::write(top.join(file), noise(len as u64, len)).expect("written");
    }
    symlink("../small", top.join("d/link")).expect("made");
    symlink("nowhere", top.join("dangling")).expect("made");
    fs::set_permissions(top.join("small"), Permissions::from_mode(0o4751)).expect("ours");
    fs::set_permissions(top.join("d"), Permissions::from_mode(0o1750)).expect("ours");
    name(&top).to_owned()
}

#[test]
fn a_folder_comes_back_as_it_was() {
    let ground = Ground::new("32M");
    let source = example(&ground);
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for path in ["small", "d"] {
        let file = File::open(ground.host("src").join(path)).expect("there");
        file.set_times(FileTimes::new().set_accessed(then).set_modified(then)).expect("ours");
    }
    ground.told(&["cp", "-rp", &source, &ground.at("/")]);
    ground.told(&["cp", "-rp", &ground.at("/src"), name(&ground.host("back"))]);
    assert_eq!(snapshot(&ground.host("back")), snapshot(&ground.host("src")));
    for path in ["small", "d"] {
        assert_eq!(
            fs::metadata(ground.host("back").join(path)).expect("there").modified().expect("a time"),
            then
        );
    }
    // In the volume, and through another volume.
    ground.told(&["cp", "-rp", &ground.at("/src"), &ground.at("/again")]);
    let other = name(&ground.host("other.vol")).to_owned();
    ground.told(&["create", &other, "--size", "32M"]);
    ground.told(&["cp", "-rp", &ground.at("/again"), &format!("{other}:/third")]);
    ground.told(&["cp", "-rp", &format!("{other}:/third"), name(&ground.host("third"))]);
    assert_eq!(snapshot(&ground.host("third")), snapshot(&ground.host("src")));
    ground.check();
    assert!(ground.told(&["scrub", &other]).contains("in order"));
}

#[test]
fn a_copy_goes_into_a_folder_or_takes_its_name() {
    let ground = Ground::new("16M");
    let (first, second) = (ground.host_file("first", b"1"), ground.host_file("second", b"2"));
    let at = |path: &str| ground.at(path);
    ground.told(&["cp", &first, &at("/new")]);
    ground.told(&["mkdir", &at("/d")]);
    ground.told(&["cp", &first, &second, &at("/d")]);
    ground.told(&["cp", &second, &at("/d/first")]);
    ground.told(&["ln", "-s", "new", &at("/link")]);
    ground.told(&["cp", &second, &at("/link")]);
    assert_eq!(ground.bytes("/new"), b"2", "what a link leads to is replaced, not the link");
    assert_eq!((ground.bytes("/d/first"), ground.bytes("/d/second")), (b"2".to_vec(), b"2".to_vec()));
    let host = name(&ground.host("out")).to_owned();
    ground.told(&["cp", &at("/d/first"), &host]);
    ground.told(&["cp", &at("/link"), &host]);
    assert_eq!(fs::read(&host).expect("there"), b"2");
    for (status, arguments, advice) in [
        (2, vec!["cp", &first, &host], "neither source nor target is in a volume"),
        (2, vec!["cp", &first, &second, &at("/new")], "is no folder"),
        (1, vec!["cp", &at("/d"), &host], "-r copies it"),
        (1, vec!["cp", &at("/none"), &first, &at("/d")], ":/none: no such file"),
        (1, vec!["cp", &first, &at("/none/f")], ":/none/f: no such file"),
        (1, vec!["cp", "-r", &at("/d"), &at("/new")], "not a folder"),
        (1, vec!["cp", "-r", &at("/d"), &at("/d")], "cannot be copied into itself"),
        (1, vec!["cp", "-r", &at("/"), &at("/d")], "cannot be copied into itself"),
        (1, vec!["cp", "/dev/null", &at("/d")], "neither a file, a folder nor a symbolic link"),
        (1, vec!["cp", &at("/new"), "/dev/null"], "`aquifer volume cat VOLUME:PATH` writes to pipes"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(|argument| &**argument).collect();
        let said = ground.refused(status, &arguments);
        assert!(said.contains(advice), "{arguments:?}: {said}");
    }
    assert_eq!(ground.names("/d"), ["first", "second"], "nothing half-made stays");
    assert_eq!(fs::read_dir(ground.folder.path()).expect("a folder").count(), 4);
    ground.check();
}

#[test]
fn holes_stay_holes() {
    let ground = Ground::new("8M");
    let path = ground.host("sparse");
    let file = OpenOptions::new().write(true).create_new(true).open(&path).expect("made");
    file.set_len(1 << 40).expect("sparse");
    let places = [0, 5_000_000_000, (1 << 40) - 10];
    for place in places {
        file.write_all_at(b"somewhere!", place).expect("written");
    }
    ground.told(&["cp", name(&path), &ground.at("/a")]);
    ground.told(&["cp", &ground.at("/a"), &ground.at("/b")]);
    let stat = ground.json(&["stat", "--json", &ground.at("/b")]);
    assert_eq!(stat["size_bytes"], 1u64 << 40);
    assert!(stat["stored_bytes"].as_u64().expect("a number") <= 3 << 16, "{stat}");
    let back = ground.host("back");
    ground.told(&["cp", &ground.at("/b"), name(&back)]);
    let metadata = fs::metadata(&back).expect("there");
    assert_eq!(metadata.len(), 1 << 40);
    assert!(metadata.blocks() * 512 <= 3 << 16, "{} blocks", metadata.blocks());
    let file = File::open(&back).expect("there");
    let mut bytes = [0; 20];
    for place in places {
        file.read_exact_at(&mut bytes[..10], place).expect("there");
        assert_eq!(&bytes[..10], b"somewhere!");
    }
    file.read_exact_at(&mut bytes, 1 << 39).expect("there");
    assert_eq!(bytes, [0; 20]);
    ground.check();
}

/// Whenever a copy ends, the volume is in order, and what it copied is whole or not there.
#[test]
fn a_copy_that_is_ended_leaves_whole_files() {
    let ground = Ground::new("64M");
    let bytes: Vec<Vec<u8>> = (0..6).map(|seed| noise(seed, 4 << 20)).collect();
    let sources: Vec<String> = (0..6).map(|nth| ground.host_file(&format!("f{nth}"), &bytes[nth])).collect();
    let target = ground.at("/");
    for (round, signal) in [Signal::INT, Signal::KILL, Signal::TERM, Signal::KILL, Signal::INT, Signal::KILL]
        .into_iter()
        .enumerate()
    {
        let mut arguments = vec!["volume", "cp"];
        arguments.extend(sources.iter().map(String::as_str));
        arguments.push(&target);
        let mut child = command(&arguments).stderr(std::process::Stdio::piped()).spawn().expect("it runs");
        std::thread::sleep(Duration::from_millis(40 * round as u64));
        crate::send(signal, child.id());
        let status = child.wait().expect("it ends");
        match signal {
            Signal::KILL => {}
            // Too early for the handler, in time, or too late.
            _ => assert!(matches!(status.code(), None | Some(0 | 1)), "{status}"),
        }
        // The lock may still be with a child that another test has just started.
        while ground.run(&["df", name(&ground.volume)]).status.code() == Some(2) {
            std::thread::yield_now();
        }
        ground.check();
        for file in ground.names("/") {
            if let Some(nth) = file.strip_prefix('f').and_then(|nth| nth.parse::<usize>().ok()) {
                assert!(ground.bytes(&format!("/{file}")) == bytes[nth], "{file} after {signal:?}");
            } else {
                assert!(
                    signal == Signal::KILL && file.starts_with(".aquifer-copy-"),
                    "{file} after {signal:?}"
                );
                ground.told(&["rm", &ground.at(&format!("/{file}"))]);
            }
        }
    }
    let output = ground.run(&["cp", &sources[0], &target]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

//! Volumes that are not as they were written.

use std::fs;
use std::path::Path;

use super::super::{complaint, name, text};
use super::{Ground, find, noise};

const PAGE: usize = 4096;

/// A volume with some files, and the bytes of one of them.
fn ground() -> (Ground, Vec<u8>) {
    let ground = Ground::new("16M");
    let bytes = noise(42, 10 * PAGE);
    ground.told(&["mkdir", &ground.at("/d")]);
    ground.told(&["cp", &ground.host_file("victim", &bytes), &ground.at("/d/victim")]);
    for other in ["/other", "/d/other"] {
        ground.told(&["cp", &ground.host_file("other", &noise(43, 10 * PAGE)), &ground.at(other)]);
    }
    (ground, bytes)
}

#[test]
fn a_scrub_names_the_file_that_is_damaged() {
    let (ground, bytes) = ground();
    // Pages 3, 4 and 7: one bit each.
    for page in [3, 4, 7] {
        ground.overwrite(|image| {
            let at = find(image, &bytes[page * PAGE..][..64]);
            image[at + 17] ^= 4;
        });
    }
    let output = ground.run(&["scrub", name(&ground.volume)]);
    let (said, advice) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    let first = said.lines().next().expect("a line");
    assert_eq!(
        first,
        format!("{} is damaged: bytes 12288 to 20479, 28672 to 32767 cannot be read", ground.at("/d/victim"))
    );
    assert_eq!(said.lines().count(), 4, "{said}");
    assert!(
        said.contains("page 7 of inode ")
            && advice.contains("3 problems; write the files anew that are named"),
        "{advice}"
    );
    // Names and tables are in order, the others are served.
    assert!(ground.told(&["check", name(&ground.volume)]).contains("in order"));
    assert_eq!(
        (ground.bytes("/other"), ground.bytes("/d/other")),
        (noise(43, 10 * PAGE), noise(43, 10 * PAGE))
    );
    let output = ground.run(&["cat", &ground.at("/d/victim")]);
    assert_eq!((output.status.code(), output.stdout), (Some(1), bytes[..3 * PAGE].to_vec()));
    assert!(text(&output.stderr).contains("`aquifer volume scrub VOLUME` finds all"));
    let out = ground.host("out");
    let said = ground.refused(1, &["cp", "-r", &ground.at("/"), name(&out)]);
    assert!(said.lines().count() == 1 && said.contains(":/d/victim: page 3 of inode "), "{said}");
    assert!(out.join("d/other").exists() && out.join("other").exists() && !out.join("d/victim").exists());
    // What can be read is brought out, with zeros in place of the rest, by the command that the scrub has named.
    let saved = ground.host("saved");
    assert!(
        advice.contains(&format!("`aquifer volume salvage {} FOLDER`", name(&ground.volume))),
        "{advice}"
    );
    let said = ground.refused(1, &["salvage", name(&ground.volume), name(&saved)]);
    assert!(
        said.contains(":/d/victim: bytes 12288 to 20479, 28672 to 32767 cannot be read, zeros stand"),
        "{said}"
    );
    let mut expected = bytes.clone();
    for page in [3, 4, 7] {
        expected[page * PAGE..][..PAGE].fill(0);
    }
    assert!(fs::read(saved.join("d/victim")).expect("there") == expected);
    assert!(fs::read(saved.join("other")).expect("there") == noise(43, 10 * PAGE));
    // Not into what is there.
    assert!(ground.refused(2, &["salvage", name(&ground.volume), name(&saved)]).contains("exists"));
    ground.told(&["rm", &ground.at("/d/victim")]);
    ground.check();
}

/// The bytes of all files in a folder and in those below.
fn files_below(folder: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| files_below(folder));
    files.iter().map(|path| fs::read(path).expect("a file")).chain(below).collect()
}

/// Each page of a volume flips a byte in turn: what comes out is right, or named.
#[test]
fn what_is_salvaged_is_right_or_named() {
    let (ground, bytes) = ground();
    let image = fs::read(&ground.volume).expect("there");
    let used: Vec<usize> = (0..image.len())
        .step_by(PAGE)
        .filter(|&at| image[at..at + PAGE].iter().any(|&byte| byte != 0))
        .collect();
    let (mut whole, mut named) = (0, 0);
    for (nth, at) in used.into_iter().enumerate() {
        let mut damaged = image.clone();
        damaged[at + 77] ^= 0x40;
        fs::write(&ground.volume, &damaged).expect("written");
        let saved = ground.host(&format!("saved {nth}"));
        let output = ground.run(&["salvage", name(&ground.volume), name(&saved)]);
        let said = text(&output.stderr);
        match output.status.code() {
            Some(0) => {
                assert!(fs::read(saved.join("d/victim")).expect("there") == bytes, "byte {at}");
                assert!(fs::read(saved.join("d/other")).expect("there") == noise(43, 10 * PAGE), "byte {at}");
                whole += 1;
            }
            Some(1) => {
                let is_named =
                    ["damaged", "cannot be read", "is lost"].iter().any(|word| said.contains(word));
                assert!(is_named, "byte {at}: {said}");
                // One page at most is lost of it, wherever it is.
                let pages_of = |file: &Vec<u8>| {
                    file.chunks(PAGE).zip(bytes.chunks(PAGE)).filter(|(found, page)| found == page).count()
                };
                let most = files_below(&saved).iter().map(pages_of).max();
                assert!(most >= Some(9), "byte {at}: {most:?} pages, {said}");
                named += 1;
            }
            _ => panic!("byte {at}: {said}"),
        }
    }
    assert!(whole > 5 && named > 20, "{whole} whole, {named} named");
}

#[test]
fn damaged_folders_are_named() {
    let (ground, bytes) = ground();
    // The newest page of the folder and all older ones: length of the name, kind, name.
    ground.overwrite(|image| {
        let entry = b"\x06\x01victim";
        let places: Vec<usize> = (0..image.len()).filter(|&at| image[at..].starts_with(entry)).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| image[at + 2] ^= 1);
    });
    let output = ground.run(&["scrub", name(&ground.volume)]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{} is damaged: names in it are lost", ground.at("/d"))), "{said}");
    assert_eq!(ground.bytes("/other"), noise(43, 10 * PAGE));
    assert_eq!(ground.run(&["ls", "-lR", &ground.at("/")]).status.code(), Some(1));
    assert!(ground.refused(1, &["cat", &ground.at("/d/victim")]).contains("is damaged"));
    // The files are there, without their names.
    let saved = ground.host("saved");
    let said = ground.refused(1, &["salvage", name(&ground.volume), name(&saved)]);
    assert!(said.contains(&format!("{}: names in it are lost", ground.at("/d"))), "{said}");
    let expected = format!("{}/inode-4: its name is lost", ground.at("/lost+found"));
    assert!(said.contains(&expected), "{said}");
    assert!(fs::read(saved.join("lost+found/inode-4")).expect("there") == bytes);
    assert!(fs::read(saved.join("other")).expect("there") == noise(43, 10 * PAGE));
}

#[test]
fn one_whole_anchor_is_enough() {
    let (ground, bytes) = ground();
    ground.overwrite(|image| image[..PAGE].fill(0xA5));
    assert_eq!(ground.bytes("/d/victim"), bytes);
    ground.overwrite(|image| anchors(image).into_iter().for_each(|at| image[at] ^= 1));
    let said = complaint(&["volume", "ls", name(&ground.volume)]);
    assert!(said.contains("is not a volume"), "{said}");
}

/// Where anchors are.
fn anchors(image: &[u8]) -> Vec<usize> {
    let found: Vec<usize> =
        (0..image.len()).step_by(PAGE).filter(|&at| image[at..].starts_with(b"AQUIFERV")).collect();
    assert!(!found.is_empty());
    found
}

#[test]
fn damaged_anchors_are_damage() {
    let (ground, _) = ground();
    ground.overwrite(|image| anchors(image).into_iter().for_each(|at| image[at + 30] ^= 1));
    for action in ["check", "scrub"] {
        let output = ground.run(&[action, name(&ground.volume)]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("the volume is damaged: an anchor"));
    }
    assert!(complaint(&["volume", "df", name(&ground.volume)]).contains("copy the file or device away"));
}

#[test]
fn another_version_is_named() {
    let (ground, _) = ground();
    ground.overwrite(|image| anchors(image).into_iter().for_each(|at| image[at + 12] = 9));
    for arguments in [["ls"], ["check"]] {
        let said = complaint(&[&["volume"], &arguments[..], &[name(&ground.volume)]].concat());
        assert!(said.contains("this volume is of version 9, this program knows 2"), "{said}");
        assert!(said.contains("use the program that made it"), "{said}");
    }
}

#[test]
fn an_image_that_was_cut_is_refused_and_left_alone() {
    let (ground, _) = ground();
    let whole = fs::read(&ground.volume).expect("there");
    for len in [whole.len() / 2, whole.len() - 1, 3 * PAGE, PAGE] {
        fs::write(&ground.volume, &whole[..len]).expect("written");
        let said = complaint(&["volume", "ls", name(&ground.volume)]);
        assert!(said.contains(&format!("it should have {} bytes", whole.len())), "{len}: {said}");
        assert!(fs::read(&ground.volume).expect("there") == whole[..len], "{len}");
    }
    fs::write(&ground.volume, &whole[..PAGE - 1]).expect("written");
    assert!(complaint(&["volume", "ls", name(&ground.volume)]).contains("is not a volume"));
    fs::write(&ground.volume, &whole).expect("written");
    ground.check();
}

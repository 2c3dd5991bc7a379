//! Names, attributes and what is shown of them.

use std::fs;

use super::super::{complaint, name, text};
use super::Ground;

#[test]
fn folders_are_made_listed_and_removed() {
    let ground = Ground::new("8M");
    let at = |path: &str| ground.at(path);
    assert_eq!(ground.names("/"), [""; 0]);
    ground.told(&["mkdir", &at("/a"), &at("/b")]);
    ground.told(&["mkdir", "-p", &at("/a/c/d/"), &at("/a")]);
    ground.told(&["cp", &ground.host_file("f", b"bytes"), &at("/a/c/d")]);
    let listed = ground.told(&["ls", "-R", name(&ground.volume)]);
    assert_eq!(listed, "/:\na\nb\n\n/a:\nc\n\n/a/c:\nd\n\n/a/c/d:\nf\n\n/b:\n");
    let said = ground.refused(1, &["mkdir", &at("/a"), &at("/new"), &at("/none/x")]);
    assert!(said.contains(":/a: a file or folder of this name exists") && said.contains(":/none/x: no such"));
    assert_eq!(ground.names("/"), ["a", "b", "new"]);
    let said = ground.refused(1, &["rm", &at("/a"), &at("/b/"), &at("/"), &at("/none")]);
    assert_eq!(said.lines().count(), 4, "{said}");
    assert!(said.contains("-r removes it") && said.contains("this folder stays"), "{said}");
    ground.told(&["rm", "-r", &at("/a"), &at("/b")]);
    assert_eq!(ground.names("/"), ["new"]);
    ground.check();
}

#[test]
fn folders_deeper_than_a_path_is_long() {
    let ground = Ground::new("8M");
    let deep = ["x".repeat(200).as_str(); 20].join("/");
    ground.told(&["mkdir", "-p", &ground.at(&format!("/a/{deep}")), &ground.at(&format!("/b/{deep}"))]);
    ground.told(&["mv", &ground.at("/a"), &ground.at(&format!("/b/{}", &deep[..4000 / 201 * 201 - 1]))]);
    let listed = ground.told(&["ls", "-R", &ground.at("/")]);
    assert!(listed.lines().any(|line| line.len() > 7000));
    assert!(ground.refused(2, &["ls", &ground.at(&"/x".repeat(2048))]).contains("255 bytes"));
    ground.told(&["rm", "-r", &ground.at("/b")]);
    assert_eq!(ground.json(&["df", name(&ground.volume), "--json"])["files"], 1);
    ground.check();
}

#[test]
fn files_are_moved_and_linked() {
    let ground = Ground::new("8M");
    let at = |path: &str| ground.at(path);
    ground.told(&["cp", &ground.host_file("f", b"first"), &at("/f")]);
    ground.told(&["cp", &ground.host_file("g", b"second"), &at("/g")]);
    ground.told(&["mkdir", &at("/d")]);
    ground.told(&["ln", &at("/f"), &at("/f2")]);
    ground.told(&["ln", "-s", "../f", &at("/d/link")]);
    assert_eq!(ground.bytes("/d/link"), b"first");
    assert_eq!(ground.json(&["stat", "--json", &at("/f2")])["links"], 2);
    let link = ground.json(&["stat", "--json", &at("/d/link")]);
    assert_eq!((link["kind"].as_str(), link["target"].as_str()), (Some("symbolic link"), Some("../f")));
    // The new name was taken; the other name of that file stays.
    ground.told(&["mv", &at("/g"), &at("/f")]);
    assert_eq!((ground.bytes("/d/link"), ground.bytes("/f2")), (b"second".to_vec(), b"first".to_vec()));
    assert!(
        ground
            .refused(2, &["mv", &at("/f"), &at("/f2"), &at("/none")])
            .contains("only one file can go there")
    );
    ground.told(&["mv", &at("/f"), &at("/f2"), &at("/d")]);
    assert_eq!((ground.names("/"), ground.names("/d").len()), (vec!["d".to_owned()], 3));
    assert!(ground.refused(1, &["mv", &at("/d"), &at("/d/e")]).contains("cannot be moved into itself"));
    assert!(ground.refused(2, &["ln", &at("/d"), &at("/e")]).contains("-s makes a symbolic link"));
    let elsewhere = format!("{}:/f", name(&ground.host("other.vol")));
    assert!(ground.refused(2, &["mv", &at("/d"), &elsewhere]).contains("aquifer volume cp -rp"));
    ground.told(&["ln", "-s", "loop", &at("/loop")]);
    assert!(ground.refused(1, &["cat", &at("/loop")]).contains("too many symbolic links"));
    ground.check();
}

#[test]
fn permissions_and_owners() {
    let ground = Ground::new("8M");
    let at = |path: &str| ground.at(path);
    ground.told(&["cp", &ground.host_file("f", b"bytes"), &at("/f")]);
    ground.told(&["mkdir", &at("/d")]);
    let stat = |path: &str| {
        let line = ground.json(&["stat", "--json", &at(path)]);
        (line["mode"].as_str().expect("text").to_owned(), line["uid"].clone(), line["gid"].clone())
    };
    for (mode, of_file, of_folder) in [
        ("640", "0640", "0640"),
        ("a+X", "0640", "0751"),
        ("u=rw,g-r", "0600", "0611"),
        ("-w", "0400", "0411"),
        ("7777", "7777", "7777"),
    ] {
        ground.told(&["chmod", mode, &at("/f"), &at("/d")]);
        assert_eq!((stat("/f").0.as_str(), stat("/d").0.as_str()), (of_file, of_folder), "{mode}");
    }
    // Lent rights go with the owner, but not those of a folder.
    ground.told(&["chown", "4711:12", &at("/f"), &at("/d")]);
    assert_eq!(stat("/f"), ("1777".into(), 4711.into(), 12.into()));
    assert_eq!(stat("/d").0, "7777");
    ground.told(&["chown", ":13", &at("/f")]);
    assert_eq!(stat("/f"), ("1777".into(), 4711.into(), 13.into()));
    // What others may not, who runs the command may.
    ground.told(&["chmod", "0", &at("/f"), &at("/d")]);
    assert_eq!(ground.bytes("/f"), b"bytes");
    let listed = ground.told(&["ls", "-l", &at("/")]);
    assert!(listed.contains("----------   1  4711    13            5 20"), "{listed}");
    for (wrong, advice) in [(["chmod", "9"], "u=rw,go-w"), (["chown", "nobody"], "id -u NAME")] {
        let output = ground.run(&[&wrong[..], &[&at("/f")]].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(advice), "{said}");
    }
    let shown = ground.told(&["stat", &at("/f")]);
    assert!(shown.contains("file, inode ") && shown.contains("mode     0000 ----------"), "{shown}");
    ground.check();
}

#[test]
fn what_is_no_volume_is_refused_and_left_alone() {
    let ground = Ground::new("8M");
    let letter = ground.host_file("letter", b"Dear reader");
    let garbage = ground.host_file("garbage", &super::noise(7, 3 << 20));
    let empty = ground.host_file("empty", b"");
    let folder = name(ground.folder.path());
    let missing = ground.host("missing");
    for arguments in [&["ls"][..], &["df"], &["check"], &["scrub"], &["rm"], &["mkdir"], &["cat"], &["stat"]]
    {
        let said = |path: &str| complaint(&[&["volume"], arguments, &[path]].concat());
        for path in [&letter, &garbage, &empty, folder] {
            let said = said(path);
            assert!(said.contains("is not a volume") && said.contains("aquifer volume create"), "{said}");
        }
        assert!(said(name(&missing)).contains("aquifer volume create"));
    }
    assert!(!missing.exists());
    assert_eq!(fs::read(&letter).expect("there"), b"Dear reader");
    assert_eq!(fs::metadata(&empty).expect("there").len(), 0);
}

#[test]
fn a_new_volume_destroys_nothing_by_mistake() {
    let ground = Ground::new("8M");
    let path = name(&ground.volume).to_owned();
    ground.told(&["mkdir", &ground.at("/a")]);
    let said = ground.refused(2, &["create", &path, "--size", "8M"]);
    assert!(said.contains("holds data") && said.contains(&format!("--erase {path}")), "{said}");
    for (wrong, why) in [(&["--erase", "other"][..], "and not other"), (&["--erase"], "a second time")] {
        let said = ground.refused(2, &[&["create", &path, "--size", "8M"], wrong].concat());
        assert!(said.contains(why) && said.contains(&format!("--erase {path}")), "{said}");
    }
    assert_eq!(ground.names("/"), ["a"]);
    ground.told(&["create", &path, "--size", "16M", "--segment", "128K", "--erase", &path]);
    assert_eq!(ground.names("/"), [""; 0]);
    ground.check();
    for (wrong, advice) in [
        (&["--size", "100K"][..], "too small for a volume"),
        (&["--size", "16M", "--segment", "100K"], "a power of two"),
        (&["--size", "16M", "--segment", "128M"], "a power of two"),
        (&[], "Give --size"),
    ] {
        let new = ground.host("new.vol");
        let said = ground.refused(2, &[&["create", name(&new)], wrong].concat());
        assert!(said.contains(advice) && !new.exists(), "{said}");
    }
    assert!(
        ground.refused(2, &["create", name(ground.folder.path()), "--size", "8M"]).contains("is a folder")
    );
}

#[test]
fn one_process_at_a_time() {
    let ground = Ground::new("8M");
    let medium = aquifer_volume::image::open_medium(&ground.volume).expect("a volume");
    let volume =
        aquifer_volume::Volume::open(medium, aquifer_volume::OpenOptions::default()).expect("opened");
    for (action, path) in [("ls", ground.at("/")), ("mkdir", ground.at("/a")), ("check", ground.at(""))] {
        let path = path.trim_end_matches(':');
        let said = complaint(&["volume", action, path]);
        assert!(said.contains("is in use") && said.contains("stop the process"), "{said}");
    }
    volume.close().expect("closed");
    ground.check();
}

//! Full volumes, long names, large files.

use aquifer_volume::access::Credentials;
use aquifer_volume::{OpenHow, OpenOptions, SIZE_BYTES_MAX, Session, Volume, image};

use super::super::name;
use super::{Ground, noise};

#[test]
fn a_full_volume_says_so_and_is_used_again() {
    let ground = Ground::new("8M");
    let room =
        ground.json(&["df", name(&ground.volume), "--json"])["capacity_bytes"].as_u64().expect("a number");
    let too_much = ground.host_file("too_much", &noise(1, room as usize));
    let said = ground.refused(2, &["cp", &too_much, &ground.at("/x")]);
    assert!(said.contains(":/x: no space is left on the volume; remove something"), "{said}");
    assert_eq!(ground.names("/"), [""; 0], "nothing of it stays");
    let quarter = ground.host_file("quarter", &noise(2, room as usize / 4));
    for round in 0..3 {
        let copied = (0..8)
            .take_while(|nth| ground.run(&["cp", &quarter, &ground.at(&format!("/{nth}"))]).status.success())
            .count();
        assert_eq!(copied, 3, "round {round}");
        let said = ground.refused(2, &["cp", &quarter, &ground.at("/more")]);
        assert!(said.contains("no space is left"), "{said}");
        ground.check();
        ground.told(&["rm", &ground.at("/0"), &ground.at("/1"), &ground.at("/2")]);
        assert_eq!(ground.names("/"), [""; 0]);
    }
    ground.check();
}

#[test]
fn the_smallest_volumes() {
    for size in ["640K", "1020K", "1M"] {
        let ground = Ground::new(size);
        let file = ground.host_file("file", b"bytes");
        ground.told(&["cp", &file, &ground.at("/file")]);
        assert_eq!(ground.told(&["cat", &ground.at("/file")]), "bytes", "{size}");
        ground.check();
    }
    let ground = Ground::new("1M");
    let less = ground.host("less");
    let said = ground.refused(2, &["create", name(&less), "--size", "636K"]);
    assert!(said.contains("give it 640 KiB or more"), "{said}");
    let said = ground.refused(2, &["create", name(&less), "--size", "640K", "--segment", "64K"]);
    assert!(said.contains("or its segments smaller"), "{said}");
    assert!(!less.exists());
}

#[test]
fn names_of_255_bytes() {
    let ground = Ground::new("8M");
    let (longest, too_long) = ("n".repeat(255), "n".repeat(256));
    let file = ground.host_file("f", b"bytes");
    ground.told(&["cp", &file, &ground.at(&format!("/{longest}"))]);
    for (status, arguments) in [
        (2, ["cp", &file, &ground.at(&format!("/{too_long}"))]),
        (1, ["mv", &ground.at(&format!("/{longest}")), &ground.at(&format!("/{too_long}"))]),
    ] {
        let said = ground.refused(status, &arguments);
        assert!(said.contains("the name is longer than 255 bytes"), "{said}");
    }
    ground.told(&["mkdir", &ground.at("/ä\u{1b}[2J\n")]);
    assert_eq!(ground.names("/"), ["n".repeat(255).as_str(), "ä\u{1b}[2J", ""]);
    assert!(ground.refused(1, &["cat", &ground.at("/ä\u{1b}[2J\n")]).contains("is a folder"));
    ground.check();
}

#[test]
fn files_of_16_tib() {
    let ground = Ground::new("8M");
    let volume = Volume::open(image::open_medium(&ground.volume).expect("a volume"), OpenOptions::default());
    let volume = volume.expect("opened");
    let session = Session::new(&volume, Credentials::new(0, 0, vec![]));
    let file = session.open(b"/large", &OpenHow::make_new(0o644)).expect("made");
    file.write(SIZE_BYTES_MAX - 4, b"last").expect("room");
    drop(file);
    volume.close().expect("closed");
    ground.told(&["cp", &ground.at("/large"), &ground.at("/copy")]);
    let stat = ground.json(&["stat", "--json", &ground.at("/copy")]);
    assert_eq!(
        (stat["size_bytes"].as_u64(), stat["stored_bytes"].as_u64()),
        (Some(SIZE_BYTES_MAX), Some(4096))
    );
    ground.check();
    ground.told(&["rm", &ground.at("/large")]);
    ground.check();
}

//! A volume that is made where another was: nothing of the old one is left to be found.

use super::*;

#[test]
fn a_volume_made_over_another_is_empty() {
    let flash = Flash::new(8 << 20);
    Volume::create(flash.medium(), (0, 0)).expect("created");
    let volume = open(&flash).expect("opened");
    for number in 0..20 {
        root(&volume).make_folder(format!("/old {number}").as_bytes(), 0o700).expect("room");
        volume.sync().expect("synced");
    }
    volume.close().expect("closed");
    Volume::create(flash.medium(), (0, 0)).expect("created again");
    let volume = open(&flash).expect("opened again");
    let found = volume.check(aquifer_volume::Depth::Contents, |_, _| ()).expect("checked");
    assert_eq!((found.files, found.problems), (1, vec![]));
    write(&volume, "/new", 0, b"bytes").expect("room");
    volume.close().expect("closed");
    let volume = open(&flash).expect("opened");
    assert_eq!(read(&volume, "/new"), Ok(b"bytes".to_vec()));
}

/// Segments are written again and again: what stands where the log would go on is of an earlier opening, and no transaction that was lost.
#[test]
fn a_volume_that_was_closed_has_lost_nothing() {
    let flash = Flash::new(3 << 20);
    Volume::create(flash.medium(), (0, 0)).expect("created");
    for round in 0..60 {
        let volume = open(&flash).expect("opened");
        assert_eq!((volume.recovered().lost, volume.recovered().damaged), (0, 0), "round {round}");
        for file in 0..6 {
            write(&volume, &format!("/{file}"), 0, &contents(file, round, 20_000)).expect("room");
            volume.sync().expect("synced");
        }
        volume.close().expect("closed");
    }
}

/// Gives all whole anchors of an image another version.
fn set_version(image: &mut [u8], version: u32) -> usize {
    let mut anchors = 0;
    for page in image.chunks_exact_mut(PAGE_BYTES).filter(|page| page.starts_with(b"AQUIFERV")) {
        page[12..16].copy_from_slice(&version.to_le_bytes());
        // Of a volume this small an anchor is one page.
        let crc = aquifer_base::checksum::crc32c_seeded(0, &page[12..]);
        page[8..12].copy_from_slice(&crc.to_le_bytes());
        anchors += 1;
    }
    anchors
}

#[test]
fn a_volume_of_version_1_is_read_and_becomes_one_of_version_2() {
    let flash = Flash::new(8 << 20);
    Volume::create(flash.medium(), (0, 0)).expect("created");
    let volume = open(&flash).expect("opened");
    write(&volume, "/old", 0, &contents(1, 0, 9000)).expect("room");
    volume.close().expect("closed");
    let mut image = flash.image();
    assert!(set_version(&mut image, 1) > 0);
    flash.put(&image);
    let to_read = OpenOptions { ram_bytes: 1 << 20, is_read_only: true };
    let volume = Volume::open(flash.medium(), to_read).expect("opened to read");
    assert_eq!(read(&volume, "/old"), Ok(contents(1, 0, 9000)));
    assert_eq!(flash.image(), image, "reading changes nothing");
    drop(volume);
    let volume = open(&flash).expect("opened");
    write(&volume, "/new", 0, b"bytes").expect("room");
    volume.close().expect("closed");
    let volume = open(&flash).expect("opened again");
    assert_eq!(read(&volume, "/old"), Ok(contents(1, 0, 9000)));
    assert_eq!(read(&volume, "/new"), Ok(b"bytes".to_vec()));
    let versions: Vec<u8> = flash
        .image()
        .chunks_exact(PAGE_BYTES)
        .filter(|page| page.starts_with(b"AQUIFERV"))
        .map(|page| page[12])
        .collect();
    assert!(versions.contains(&2), "{versions:?}");
}

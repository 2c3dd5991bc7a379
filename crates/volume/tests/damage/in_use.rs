//! Pages that cannot be read any more while a volume is open, or before it is opened: one costs one.

use super::*;

const FILES: usize = 84;

/// A page of the image that holds a page of a file.
fn page_of(image: &[u8], bytes: &[u8]) -> u64 {
    let page = bytes.get(..PAGE_BYTES).expect("a page");
    image.chunks_exact(PAGE_BYTES).position(|found| found == page).expect("it is on flash") as u64
}

#[test]
fn the_cleaner_goes_around_what_cannot_be_read() {
    let flash = Flash::new(4 << 20);
    Volume::create(flash.medium(), (0, 0)).expect("created");
    let volume = open(&flash).expect("opened");
    let path = |file: usize| format!("/{file}");
    for file in 0..FILES {
        write(&volume, &path(file), 0, &contents(file, 0, 5 * PAGE_BYTES)).expect("room");
    }
    volume.close().expect("closed");
    for broken in [3, 11, 17] {
        flash.make_unreadable(page_of(&flash.image(), &contents(broken, 0, 5 * PAGE_BYTES)));
    }
    let volume = open(&flash).expect("opened");
    // Enough for each segment to be cleaned.
    for round in 1..60 {
        for file in (0..FILES).filter(|file| file % 3 == 0 && *file != 3) {
            write(&volume, &path(file), 0, &contents(file, round, 5 * PAGE_BYTES)).expect("room");
        }
        volume.sync().unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    for file in 0..FILES {
        let version = if file % 3 == 0 { 59 } else { 0 };
        let found = read(&volume, &path(file));
        match file {
            3 | 11 | 17 => assert!(found.is_err_and(|error| says_damage(&error)), "file {file}"),
            _ => assert_eq!(found, Ok(contents(file, version, 5 * PAGE_BYTES)), "file {file}"),
        }
    }
    let found = volume.check(aquifer_volume::Depth::Contents, |_, _| ()).expect("checked");
    assert_eq!(found.damaged.len(), 3, "{found:?}");
    volume.close().expect("closed");
    let volume = open(&flash).expect("opened again");
    // What is written anew is good again.
    write(&volume, &path(3), 0, &contents(3, 1, 5 * PAGE_BYTES)).expect("room");
    assert_eq!(read(&volume, &path(3)), Ok(contents(3, 1, 5 * PAGE_BYTES)));
}

/// A trim goes on behind a node that cannot be read, when it is done again after a crash.
#[test]
fn bytes_of_a_removed_file_are_gone_where_nodes_can_be_read() {
    let flash = Flash::new(8 << 20);
    Volume::create(flash.medium(), (0, 0)).expect("created");
    let volume = open(&flash).expect("opened");
    let leaf = 512 * PAGE_BYTES as u64;
    for nth in 0..3 {
        write(&volume, "/old", nth * leaf, &contents(7, nth as usize, 2 * PAGE_BYTES)).expect("room");
    }
    let last = Last::Keep;
    let (ino, _) = root(&volume).stat(b"/old", last).expect("there");
    volume.close().expect("closed");
    let volume = open(&flash).expect("opened");
    root(&volume).unlink(b"/old").expect("there");
    volume.sync().expect("synced");
    drop(volume);
    let image = flash.image();
    let middle = PageKey::new(ino, 1, 1);
    let of_middle = (0..image.len() / PAGE_BYTES).filter(|&page| key_of(&image, page) == Some(middle));
    of_middle.for_each(|page| flash.make_unreadable(page as u64));
    let volume = open(&flash).expect("opened again");
    write(&volume, "/new", 3 * leaf, b"end").expect("room");
    assert_eq!(root(&volume).stat(b"/new", last).expect("there").0, ino, "the number is given again");
    let mut bytes = [1; PAGE_BYTES];
    for nth in 0..3 {
        let read = volume.read(ino, nth * leaf, &mut bytes);
        assert!(read.is_err() || bytes == [0; PAGE_BYTES], "page 0 of leaf {nth} is of the old file");
    }
}

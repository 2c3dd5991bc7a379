//! What the table takes: full leaves, and the nodes above them.

use std::sync::Arc;

use aquifer_device::MemoryDevice;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Ino, Kind, OpenOptions, PAGE_BYTES, Volume};

const LEAF_PAGES: u64 = 512;

fn write_leaf(volume: &Volume, ino: Ino, leaf: u64) {
    let bytes = vec![leaf as u8 + 1; LEAF_PAGES as usize * PAGE_BYTES];
    let offset = leaf * LEAF_PAGES * PAGE_BYTES as u64;
    assert_eq!(volume.write(ino, offset, &bytes).expect("write"), bytes.len());
}

#[test]
fn full_leaves_take_eight_bytes_a_page_and_the_nodes_above_them() {
    let device = Arc::new(MemoryDevice::new(64 << 20, 4096));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 256).expect("medium"));
    Volume::create(medium(), (0, 0)).expect("create");
    let options = OpenOptions { ram_bytes: 8 << 20, is_read_only: false };
    let volume = Volume::open(medium(), options).expect("open");
    let ino = volume.make(Ino::ROOT_FOLDER, b"file", Kind::File, 0o600, 0, 0).expect("make");
    assert_eq!(volume.table_use(ino).expect("use"), Default::default());
    (0..4).for_each(|leaf| write_leaf(&volume, ino, leaf));
    let four = volume.table_use(ino).expect("use");
    assert_eq!((four.pages, four.nodes, four.node_bytes), (4 * LEAF_PAGES, 5, 5 * PAGE_BYTES as u64));
    assert_eq!((four.nodes_in_ram, four.pages_in_ram), (5, 4 * LEAF_PAGES));
    assert!((5 * 4096..5 * 4400).contains(&four.node_bytes_in_ram), "{four:?}");
    // Far away: it needs nodes of two levels more.
    write_leaf(&volume, ino, 512 * 512);
    let far = volume.table_use(ino).expect("use");
    assert_eq!((far.pages, far.nodes), (5 * LEAF_PAGES, 5 + 1 + 2 + 2));
    drop(volume);
    let volume = Volume::open(medium(), options).expect("open");
    let opened = volume.table_use(ino).expect("use");
    assert_eq!((opened.pages, opened.nodes), (far.pages, far.nodes));
    assert_eq!(opened.pages_in_ram, 0, "nothing was looked up");
}

//! Numbers of an open volume, here and for other processes; and what the table takes: full leaves, and the nodes above them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use aquifer_device::MemoryDevice;
use aquifer_volume::medium::DeviceMedium;
use aquifer_volume::{Ino, Kind, OpenOptions, PAGE_BYTES, Volume};

const PAGES: u64 = 300;

fn ask(socket: &Path, question: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("somebody listens");
    stream.write_all(question.as_bytes()).expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn what_was_written_and_read_is_counted_and_told() {
    let device = Arc::new(MemoryDevice::new(64 << 20, 4096));
    let medium = || Box::new(DeviceMedium::new(Arc::clone(&device), 256).expect("medium"));
    Volume::create(medium(), (0, 0)).expect("create");
    let options = OpenOptions { ram_bytes: 16 << 20, is_read_only: false };
    let volume = Volume::open(medium(), options).expect("open");
    let opened = volume.stats();
    assert!(
        (1..=16 << 20).contains(&opened.ram_budget_bytes) && opened.capacity_bytes > 32 << 20,
        "{opened:?}"
    );

    let ino = volume.make(Ino::ROOT_FOLDER, b"file", Kind::File, 0o600, 0, 0).expect("make");
    let bytes: Vec<u8> = (0..PAGES as usize * PAGE_BYTES).map(|n| (n / 7) as u8).collect();
    volume.write(ino, 0, &bytes).expect("write");
    assert!(volume.stats().dirty_page_bytes >= PAGES * PAGE_BYTES as u64);
    volume.sync().expect("sync");
    let synced = volume.stats();
    assert!(synced.commits > opened.commits && synced.pages_committed >= opened.pages_committed + PAGES);
    assert!(synced.device_written_bytes >= opened.device_written_bytes + PAGES * PAGE_BYTES as u64);
    assert!(synced.device_syncs > opened.device_syncs && synced.used_bytes > opened.used_bytes);
    assert_eq!((synced.dirty_page_bytes, synced.io_errors), (0, 0));

    volume.write(ino, 10, b"a few").expect("write");
    volume.sync().expect("sync");
    assert!(volume.stats().patches_committed > synced.patches_committed, "a small change is written as such");
    drop(volume);

    let volume = Volume::open(medium(), options).expect("open");
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("volume.sock");
    let server = volume.answer_at(&socket).expect("a socket");
    let mut read = vec![0; bytes.len()];
    volume.read(ino, 0, &mut read).expect("read");
    let stats = volume.stats();
    assert!(stats.pages_read >= PAGES && stats.device_read_bytes >= PAGES * PAGE_BYTES as u64, "{stats:?}");
    assert!(stats.nodes_read > 0 && stats.ram_used_bytes >= stats.file_page_bytes + stats.table_node_bytes);

    let told = ask(&socket, "stats\n");
    for part in [
        format!("\"pid\":{}", std::process::id()),
        "\"subject\":\"volume\"".into(),
        format!("\"pages_read\":{}", stats.pages_read),
    ] {
        assert!(told.contains(&part), "{part} is not in {told}");
    }
    assert!(ask(&socket, "latency\n").contains("\"upper_ns\":[1024,"));
    assert!(ask(&socket, "check\n").contains("aquifer volume check"));
    volume.close().expect("close");
    assert!(ask(&socket, "stats\n").contains("the volume is closing"));
    drop(server);
    assert!(!socket.exists());
}

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

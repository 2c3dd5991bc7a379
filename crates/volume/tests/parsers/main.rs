//! Parsers against random and damaged input.

mod anchor;
mod block;
mod client;
mod folder;
mod image;
mod message;
#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use aquifer_volume::anchor::{Anchor, HeadPosition};
use aquifer_volume::block::{BlockBuilder, Header, Kind as Why, Patch, Tag, Trim};
use aquifer_volume::medium::{Geometry, Physical};
use aquifer_volume::serve::entries;
use aquifer_volume::serve::protocol::{Answer, OPERATIONS, Request};
use aquifer_volume::word::{PAGE_BYTES, Place, Word};
use aquifer_volume::{Ino, Kind, Listed, PageKey, folder_page as pages};

/// What the fuzzer has kept of a target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("an input")).collect()
}

#[test]
fn inputs_that_the_fuzzer_has_kept() {
    corpus("volume_anchor").iter().for_each(|input| anchor::property(input));
    corpus("volume_block").iter().for_each(|input| block::property(input));
    corpus("volume_folder").iter().for_each(|input| folder::property(input));
    corpus("volume_message").iter().for_each(|input| message::property(input));
    corpus("volume_image").iter().for_each(|input| image::property(input));
    corpus("volume_client").iter().for_each(|input| client::property(input));
}

#[test]
fn anchors() {
    let sample = |segments: u32, pages_per_segment: u32| {
        let head = HeadPosition { segment: 2, index: 1, next: 3 };
        let anchor = Anchor {
            volume: 7,
            number: 8,
            sequence: 9,
            epoch: 10,
            geometry: Geometry { segments, pages_per_segment },
            root: Word::of(Place::Page { at: Physical(11), check: 12 }),
            root_height: 1,
            is_clean: false,
            made_at: 13,
            heads: [head; 2],
            units: vec![14; segments as usize],
        };
        anchor.encode().to_vec()
    };
    mutations::drive(&[sample(16, 8), sample(1000, 16384), sample(2000, 64)], 20_000, anchor::property);
}

#[test]
fn blocks() {
    let header = Header {
        volume: 7,
        sequence: 8,
        epoch: 9,
        at: Physical(10),
        next_segment: 11,
        kind: Why::Commit,
        is_last: true,
        first_sequence: 8,
        durable: 5,
    };
    let sample = |tags: u32, trims: u32, patches: &[&[u8]]| {
        let mut builder = BlockBuilder::default();
        for nth in 0..tags {
            assert!(builder.add_page(Tag { key: PageKey::data(Ino(nth), nth), crc: nth }));
        }
        for nth in 0..trims {
            assert!(builder.add_trim(Trim { ino: Ino(nth), first: nth, last: u32::MAX }));
        }
        for ranges in patches {
            let key = PageKey::new(Ino(3), 1, 4);
            assert!(builder.add_patch(&Patch { key, base: Physical(5), crc: 6, ranges }));
        }
        let mut bytes = [0; PAGE_BYTES];
        builder.encode(&header, &mut bytes);
        bytes.to_vec()
    };
    let patch = [8, 0, 10, 0, 1, 2, 0, 8, 1, 8, 3];
    let samples = [sample(168, 0, &[]), sample(3, 2, &[&patch]), sample(0, 9, &[&patch, &patch[..6], &[]])];
    mutations::drive(&samples, 20_000, block::property);
}

#[test]
fn folders() {
    let sample = |names: &[&[u8]], removed: &[&[u8]]| {
        let mut page = pages::empty_page();
        let mut places = Vec::new();
        for (name, ino) in names.iter().zip(3..) {
            places.push(pages::insert(&mut page, name, Ino(ino), Kind::Folder).expect("room"));
        }
        for name in removed {
            pages::remove(&mut page, places[names.iter().position(|found| found == name).expect("there")]);
        }
        page.to_vec()
    };
    let samples = [
        sample(&[], &[]),
        sample(&[b"a", b"bb", &[b'c'; 255]], &[]),
        sample(&[b"first", b"second", b"third"], &[b"first", b"third"]),
        sample(&[&[b'x'; 255][..]; 15], &[]),
    ];
    mutations::drive(&samples, 20_000, folder::property);
}

#[test]
fn messages() {
    let request = |operation| {
        let request = Request { operation, handle: 1, a: 2, b: 3, c: u64::MAX, bytes: b"path" };
        request.encode()
    };
    let mut samples: Vec<Vec<u8>> = OPERATIONS.into_iter().map(request).collect();
    samples.push(Answer { errno: 1, handle: 2, a: 3, b: 4, bytes: b"what".to_vec() }.encode());
    let mut names = Vec::new();
    for name in [&b"a"[..], b"bb", &[b'c'; 255]] {
        let listed = Listed { name, ino: Ino(5), kind: Kind::File, next: 0 };
        assert!(entries::push(&mut names, &listed));
    }
    samples.push(names);
    mutations::drive(&samples, 20_000, message::property);
}

#[test]
fn clients() {
    // Opens a file to read and write, makes and maps it, stores to the view and the memory beside it, changes sizes, and leaves.
    let open = |which: u8, path: u8| [1, which, 0, path, 7, 0, 0, 0];
    let session = |which: u8| {
        vec![
            open(which, 0),
            [26, which, 0, 200, 0, 0, 0, 0],
            [7, which, 0, 0, 0, 0, 0, 0],
            [27, which, 0, 1, 0, 0, 0, 0],
            [30, which, 0, 1, 1, 0, 0, 0],
            [29, which, 0, 0, 7, 0, 0, 0],
            [30, which, 0, 1, 0, 0, 0, 0],
            [7, which, 0, 0, 0, 0, 0, 0],
            [30, which, 0, 0, 0, 0, 0, 0],
            [29, which, 0, 1, 0, 0, 0, 0],
            [30, which, 0, 0, 1, 0, 0, 0],
            [7, which, 0, 0, 0, 0, 0, 0],
            [6, which, 0, 0, 6, 0, 0, 0],
            [30, which, 0, 5, 1, 0, 0, 0],
        ]
    };
    let names = vec![
        [11, 0, 0, 2, 0, 0, 0, 0],
        open(0, 3),
        [12, 0, 0, 3, 0, 0, 0, 0],
        [18, 0, 0, 8, 1, 0, 0, 0],
        [16, 0, 0, 0, 0, 0, 0, 0],
        [17, 0, 0, 1, 1, 0, 0, 0],
        [21, 0, 0, 0, 0, 0, 0, 0],
        [31; 8],
    ];
    let odd = vec![
        [22, 0, 0, 3, 1, 2, 3, 4],
        open(0, 0),
        [24, 0, 0, 0, 0, 0, 0, 0],
        open(0, 0),
        [28, 0, 0, 1, 6, 2, 0, 0],
        [3, 0, 250, 0, 0, 8, 0, 0],
        [3, 0, 250, 0, 0, 8, 0, 0],
        [23, 0, 1, 4, 9, 255, 1, 0],
        [25; 8],
    ];
    let both = [session(0), session(1)].concat();
    let samples: Vec<Vec<u8>> = [session(0), both, names, odd].iter().map(|steps| steps.concat()).collect();
    mutations::drive(&samples, 400, client::property);
}

#[test]
fn images() {
    // Edits of one byte each in pages of all kinds, with and without checksums that agree.
    let samples: Vec<Vec<u8>> = (0..64u8)
        .map(|nth| {
            (0..4)
                .flat_map(|at| {
                    [nth % 4, nth.wrapping_mul(5).wrapping_add(at), nth * 3 + at * 16, at, 1 << (nth % 8)]
                })
                .collect()
        })
        .collect();
    // Found by the fuzzer: a node of a level above all others, and a table that was walked for ever.
    let found = [
        vec![0x81, 0x32, 0xAC, 0x11, 0x93, 0x23, 0x62, 0x58, 0x11, 0x18],
        vec![1, 36, 90, 2, 0, 32, 197, 139, 139, 139, 131, 1, 249, 1, 63, 0xE7, 63, 0, 40, 0xFF],
    ];
    // Numbers at the limits, in pages of all kinds, where all checksums agree.
    let numbers = (0..64u8).map(|nth| {
        let edit = |at: u8| {
            [0b1101 | (nth & 1) << 4 | (nth & 2), nth.wrapping_mul(5).wrapping_add(at), nth * 4, at, nth + at]
        };
        (0..4).flat_map(edit).collect()
    });
    let samples: Vec<Vec<u8>> = samples.into_iter().chain(found).chain(numbers).collect();
    mutations::drive(&samples, 1_500, image::property);
}

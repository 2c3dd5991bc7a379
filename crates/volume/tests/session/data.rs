//! Where files have bytes.

use std::ops::Range;

use aquifer_volume::access::Access;
use aquifer_volume::{Ino, OpenHow, SIZE_BYTES_MAX, Volume, VolumeError};

use super::{check, root, volume};

const PAGE: u64 = 4096;

/// All ranges of a file, asked for `at_once` at a time.
fn ranges(volume: &Volume, ino: Ino, at_once: usize) -> Vec<Range<u64>> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let some = volume.data_ranges(ino, from, at_once).expect("ranges");
        let is_end = some.len() < at_once;
        from = some.last().map_or(from, |range| range.end);
        all.extend(some);
        if is_end {
            return all;
        }
    }
}

/// The same, by the places where data and holes begin.
fn ranges_by_seeking(volume: &Volume, ino: Ino) -> Vec<Range<u64>> {
    let (mut all, mut from) = (Vec::new(), 0);
    while let Some(start) = volume.next_data(ino, from).expect("known") {
        from = volume.next_hole(ino, start).expect("known").expect("before the end");
        all.push(start..from);
    }
    all
}

#[test]
fn holes_are_passed_over() {
    let volume = volume();
    let how = OpenHow { access: Access::READ.and(Access::WRITE), ..OpenHow::make_new(0o600) };
    let file = root(&volume).open(b"/sparse", &how).expect("made");
    let last = SIZE_BYTES_MAX - 5;
    let starts = [0, 3 * PAGE, 4 * PAGE, 511 * PAGE, 512 * PAGE, 1 << 21, (1 << 30) + 7, 1 << 40, last];
    for start in starts {
        file.write(start, b"bytes").expect("room");
    }
    let expected = [
        0..PAGE,
        3 * PAGE..5 * PAGE,
        511 * PAGE..513 * PAGE,
        1 << 30..(1 << 30) + PAGE,
        1 << 40..(1 << 40) + PAGE,
        SIZE_BYTES_MAX - PAGE..SIZE_BYTES_MAX,
    ];
    for round in 0..3 {
        for at_once in [1, 2, 100] {
            assert_eq!(ranges(&volume, file.ino(), at_once), expected, "round {round}");
        }
        assert_eq!(ranges_by_seeking(&volume, file.ino()), expected, "round {round}");
        // Zeros that were read from a hole are no data.
        assert_eq!(file.read(6 * PAGE, &mut [1; 3 * PAGE as usize]), Ok(3 * PAGE as usize));
        volume.sync().expect("synced");
    }
    let from = |from| volume.data_ranges(file.ino(), from, 1).expect("ranges");
    assert_eq!(from(4 * PAGE + 1), Vec::from_iter(Some(4 * PAGE + 1..5 * PAGE)));
    assert_eq!(from(5 * PAGE), Vec::from_iter(Some(511 * PAGE..513 * PAGE)));
    assert_eq!(from(SIZE_BYTES_MAX - 1), Vec::from_iter(Some(SIZE_BYTES_MAX - 1..SIZE_BYTES_MAX)));
    assert_eq!(from(u64::MAX), []);
    file.punch(3 * PAGE, (1 << 40) - 3 * PAGE).expect("punched");
    assert_eq!(volume.next_hole(file.ino(), 3 * PAGE + 9), Ok(Some(3 * PAGE + 9)));
    let left = [0..PAGE, 1 << 40..(1 << 40) + PAGE, SIZE_BYTES_MAX - PAGE..SIZE_BYTES_MAX];
    assert_eq!(ranges(&volume, file.ino(), 100), left);
    assert_eq!(ranges_by_seeking(&volume, file.ino()), left);
    for from in [SIZE_BYTES_MAX, u64::MAX] {
        assert_eq!(
            (volume.next_data(file.ino(), from), volume.next_hole(file.ino(), from)),
            (Ok(None), Ok(None))
        );
    }
    file.truncate(2).expect("cut");
    assert_eq!(ranges(&volume, file.ino(), 1), Vec::from_iter(Some(0..2)));
    file.truncate(0).expect("cut");
    assert_eq!(ranges(&volume, file.ino(), 1), []);
    check(&volume);
}

#[test]
fn a_file_ends_at_16_tib() {
    let volume = volume();
    let file = root(&volume).open(b"/large", &OpenHow::make_new(0o600)).expect("made");
    assert_eq!(file.write(SIZE_BYTES_MAX - 1, b"z"), Ok(1));
    for outcome in [
        file.write(SIZE_BYTES_MAX, b"z").map(drop),
        file.write(SIZE_BYTES_MAX - 1, b"zz").map(drop),
        file.write(u64::MAX, b"z").map(drop),
        file.append(b"z").map(drop),
        file.truncate(SIZE_BYTES_MAX + 1),
    ] {
        assert_eq!(outcome, Err(VolumeError::TooLarge));
    }
    assert_eq!(file.inode().expect("known").size_bytes, SIZE_BYTES_MAX);
    assert_eq!(volume.data_ranges(Ino::ROOT_FOLDER, 0, 1), Err(VolumeError::IsAFolder));
    check(&volume);
}

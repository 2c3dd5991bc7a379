//! Ranges of a file that one view shows, and what becomes of them when others want to see them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aquifer_volume::{FRAME_BYTES, PAGE_BYTES, Protection, Volume, VolumeError};

use super::{Rig, check, make, words};

const WORDS_OF_PAGE: usize = PAGE_BYTES / 8;

fn pages_in_ram(volume: &Volume) -> u64 {
    volume.stats().file_page_bytes / FRAME_BYTES
}

#[test]
fn a_second_view_comes_while_threads_store() {
    const PAGES: usize = 3000;
    const THREADS: usize = 4;
    let rig = Rig::new();
    let volume = rig.open();
    let _background = volume.start_background(Duration::from_millis(10)).expect("background");
    let ino = make(&volume, "file", (PAGES * PAGE_BYTES) as u64);
    let first = volume.map(ino, 0, PAGES * PAGE_BYTES, Protection::Write).expect("map");
    let is_over = AtomicBool::new(false);
    let (counts, second) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (words, is_over) = (words(&first), &is_over);
                scope.spawn(move || {
                    let mut steps = 0u64;
                    while !is_over.load(Ordering::Relaxed) {
                        let page = super::mix(steps << 3 | thread as u64) as usize % PAGES;
                        words[page * WORDS_OF_PAGE + thread].fetch_add(1, Ordering::Relaxed);
                        steps += 1;
                    }
                    steps
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(100));
        let second = volume.map(ino, 0, PAGES * PAGE_BYTES, Protection::Read).expect("second map");
        std::thread::sleep(Duration::from_millis(100));
        is_over.store(true, Ordering::Relaxed);
        let counts: Vec<u64> = workers.into_iter().map(|worker| worker.join().expect("worker")).collect();
        (counts, second)
    });
    for view in [&first, &second] {
        for (thread, count) in counts.iter().enumerate() {
            let stored =
                (0..PAGES).map(|page| words(view)[page * WORDS_OF_PAGE + thread].load(Ordering::Relaxed));
            assert_eq!(stored.sum::<u64>(), *count, "thread {thread}");
        }
    }
    // Once it is shared, it stays so: stores are seen at once.
    words(&first)[7].store(70, Ordering::Relaxed);
    assert_eq!(words(&second)[7].load(Ordering::Relaxed), 70);
    volume.sync().expect("sync");
    check(&volume);
}

#[test]
fn views_of_parts_and_calls_see_one_file() {
    const PAGES: usize = 8;
    let rig = Rig::new();
    let volume = rig.open();
    let ino = make(&volume, "file", (3 * PAGES * PAGE_BYTES) as u64);
    let map = |part: usize, access| {
        let offset = (part * PAGES * PAGE_BYTES) as u64;
        volume.map(ino, offset, PAGES * PAGE_BYTES, access).expect("map")
    };
    let (front, back) = (map(0, Protection::Write), map(2, Protection::Write));
    for (value, view) in [(1, &front), (3, &back)] {
        words(view).iter().for_each(|word| word.store(value, Ordering::Relaxed));
    }
    // A call that reaches over both views and what lies between them, beginning and ending within words.
    let (start, len) = (PAGES * PAGE_BYTES - 4, PAGES * PAGE_BYTES + 8);
    assert_eq!(volume.write(ino, start as u64, &vec![0x22; len]).expect("write"), len);
    assert_eq!(words(&front)[PAGES * WORDS_OF_PAGE - 1].load(Ordering::Relaxed), 0x2222_2222_0000_0001);
    assert_eq!(words(&back)[0].load(Ordering::Relaxed), 0x0000_0000_2222_2222);
    // And stores after the call are seen by calls.
    words(&back)[0].store(u64::MAX, Ordering::Relaxed);
    let mut bytes = [0; 16];
    volume.read(ino, (start + len - 8) as u64, &mut bytes).expect("read");
    assert_eq!(bytes, *b"\x22\x22\x22\x22\xff\xff\xff\xff\xff\xff\xff\xff\x03\0\0\0");
    volume.sync().expect("sync");
    words(&front)[0].store(9, Ordering::Relaxed);
    drop(front);
    let mut word = [0; 8];
    volume.read(ino, 0, &mut word).expect("read");
    assert_eq!(u64::from_le_bytes(word), 9, "what was stored is there after its view has gone");
    let front = map(0, Protection::Write);
    assert_eq!(words(&front)[0].load(Ordering::Relaxed), 9);
    volume.sync().expect("sync");
    check(&volume);
    drop((front, back));
    drop(volume);
    let volume = rig.open();
    volume.read(ino, 0, &mut word).expect("read");
    assert_eq!(u64::from_le_bytes(word), 9);
}

#[test]
fn calls_and_stores_to_the_same_pages_lose_nothing() {
    const PAGES: usize = 4;
    const ROUNDS: u64 = 2000;
    let rig = Rig::new();
    let volume = rig.open();
    let _background = volume.start_background(Duration::from_millis(5)).expect("background");
    let ino = make(&volume, "file", (PAGES * PAGE_BYTES) as u64);
    let mapping = volume.map(ino, 0, PAGES * PAGE_BYTES, Protection::Write).expect("map");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                let at = (round as usize % PAGES * PAGE_BYTES + 8) as u64;
                volume.write(ino, at, &round.to_le_bytes()).expect("write");
                let mut found = [0; 8];
                volume.read(ino, at, &mut found).expect("read");
                assert_eq!(u64::from_le_bytes(found), round);
            }
        });
        for round in 1..=ROUNDS {
            let word = &words(&mapping)[round as usize % PAGES * WORDS_OF_PAGE];
            word.store(round, Ordering::Relaxed);
            assert_eq!(word.load(Ordering::Relaxed), round);
        }
    });
    for page in 0..PAGES {
        let last = (ROUNDS - PAGES as u64 + 1..=ROUNDS).find(|round| *round as usize % PAGES == page);
        let found = [0, 1].map(|nth| words(&mapping)[page * WORDS_OF_PAGE + nth].load(Ordering::Relaxed));
        assert_eq!(found.map(Some), [last, last], "page {page}");
    }
}

#[test]
fn of_much_that_is_unmapped_what_changed_stays() {
    const PAGES: usize = 20 << 10;
    let rig = Rig::new();
    let options = aquifer_volume::OpenOptions { ram_bytes: 128 << 20, is_read_only: false };
    let volume = std::sync::Arc::new(aquifer_volume::Volume::open(rig.medium(), options).expect("open"));
    let ino = make(&volume, "file", (PAGES * PAGE_BYTES) as u64);
    let mapping = volume.map(ino, 0, PAGES * PAGE_BYTES, Protection::Write).expect("map");
    let page_of = |nth: usize| &words(&mapping)[nth * WORDS_OF_PAGE];
    assert!((0..PAGES).all(|nth| page_of(nth).load(Ordering::Relaxed) == 0));
    (0..PAGES).step_by(100).for_each(|nth| page_of(nth).store(nth as u64 + 1, Ordering::Relaxed));
    assert!(pages_in_ram(&volume) >= PAGES as u64);
    drop(mapping);
    assert!(pages_in_ram(&volume) < PAGES as u64 * 9 / 10, "{} pages", pages_in_ram(&volume));
    for nth in (0..PAGES).step_by(50) {
        let mut word = [0; 8];
        volume.read(ino, (nth * PAGE_BYTES) as u64, &mut word).expect("read");
        let expected = if nth % 100 == 0 { nth as u64 + 1 } else { 0 };
        assert_eq!(u64::from_le_bytes(word), expected, "page {nth}");
    }
    volume.sync().expect("sync");
    check(&volume);
}

#[test]
fn what_the_program_discarded_is_an_error_and_not_zeros() {
    let rig = Rig::new();
    let volume = rig.open();
    let ino = make(&volume, "file", 2 * PAGE_BYTES as u64);
    let mapping = volume.map(ino, 0, 2 * PAGE_BYTES, Protection::Write).expect("map");
    words(&mapping).iter().for_each(|word| word.store(1, Ordering::Relaxed));
    volume.sync().expect("sync");
    words(&mapping)[0].store(2, Ordering::Relaxed);
    // SAFETY: the page is mapped, and nobody looks at it.
    let discarded = unsafe { libc::madvise(mapping.as_ptr().cast(), PAGE_BYTES, libc::MADV_DONTNEED) };
    assert_eq!(discarded, 0);
    let error = volume.sync().expect_err("the page cannot be written");
    assert!(error.to_string().contains("discarded"), "{error}");
    assert!(matches!(volume.write(ino, 0, b"a"), Err(VolumeError::Stopped(_))));
    assert_eq!(words(&mapping)[WORDS_OF_PAGE].load(Ordering::Relaxed), 1, "other pages can be read");
    drop(mapping);
    drop(volume);
    let volume = rig.open();
    let mut word = [0; 8];
    volume.read(ino, 0, &mut word).expect("read");
    assert_eq!(u64::from_le_bytes(word), 1, "the last sync");
}

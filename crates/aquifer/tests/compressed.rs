//! Compressed pages: no byte is lost or another one, whichever way a page is reached, and RAM holds more of what shrinks.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer::{Compression, Faults, Heap, Options};
use common::{Rng, Watchdog, long_or};

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;

fn heap(ram: u64, faults: Faults, compression: Compression) -> Heap {
    let options = Options::new().ram_bytes(ram).flash_bytes(256 << 20).object_bytes(PAGE);
    Heap::open(options.faults(faults).compression(compression)).unwrap()
}

/// The words of a page as a thread has written them: of some pages all are random, of others one in four, in sixteen or none.
struct Expected {
    rng: Rng,
    version: u64,
    random_one_in: usize,
}

impl Expected {
    fn of(page: usize, version: u64) -> Self {
        let random_one_in = [1, 4, 16, WORDS + 1][page % 4];
        Self { rng: Rng::new((page as u64) << 32 | version), version, random_one_in }
    }

    fn word(&mut self, nth: usize) -> u64 {
        if (nth + 1).is_multiple_of(self.random_one_in) { self.rng.word() } else { self.version }
    }
}

fn word(block: *mut u8, page: usize, nth: usize) -> &'static AtomicU64 {
    // SAFETY: callers stay within their block; everybody uses the words as atomics.
    unsafe { AtomicU64::from_ptr(block.wrapping_add(page * PAGE + nth * 8).cast()) }
}

fn write(block: *mut u8, page: usize, version: u64) {
    let mut expected = Expected::of(page, version);
    (0..WORDS).for_each(|nth| word(block, page, nth).store(expected.word(nth), Ordering::Relaxed));
}

fn check(block: *mut u8, page: usize, version: u64) {
    let mut expected = Expected::of(page, version);
    for nth in 0..WORDS {
        let (found, wanted) = (word(block, page, nth).load(Ordering::Relaxed), expected.word(nth));
        assert_eq!(found, wanted, "word {nth} of page {page}, version {version}");
    }
}

#[test]
fn pages_keep_their_bytes_in_every_form() {
    const PAGES: usize = 16 << 10;
    const THREADS: usize = 4;
    let always = [Faults::Signal, Faults::Thread, Faults::Fence].map(|faults| (faults, Compression::Always));
    for (faults, compression) in always.into_iter().chain([(Faults::Signal, Compression::Auto)]) {
        let watchdog = Watchdog::new(format!("compressed pages with {faults:?}, {compression:?}"));
        let heap = heap(16 << 20, faults, compression);
        let block = heap.allocate_block(PAGES * PAGE, PAGE).unwrap();
        let address = block.addr();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (heap, watchdog) = (&heap, &watchdog);
                scope.spawn(move || {
                    let block = std::ptr::with_exposed_provenance_mut::<u8>(address);
                    let mut rng = Rng::new(thread as u64 + 1);
                    let mut versions = vec![0; PAGES / THREADS];
                    for step in 0..long_or(400_000, 40_000) {
                        // Most are among a quarter of the pages.
                        let among = if rng.below(4) > 0 { PAGES / 4 } else { PAGES };
                        let pick = rng.below(among / THREADS);
                        let (page, version) = (pick * THREADS + thread, &mut versions[pick]);
                        if *version > 0 {
                            check(block, page, *version);
                        }
                        if *version == 0 || rng.below(3) == 0 {
                            *version += 1;
                            write(block, page, *version);
                        }
                        if step % 64 == 0 {
                            let pages = (0..32).map(|_| {
                                // SAFETY: within the block.
                                unsafe { block.add(rng.below(PAGES) * PAGE) }.cast_const()
                            });
                            heap.prefetch(&pages.collect::<Vec<_>>()).unwrap();
                        }
                        watchdog.step();
                    }
                    for (pick, version) in
                        versions.into_iter().enumerate().filter(|(_, version)| *version > 0)
                    {
                        check(block, pick * THREADS + thread, version);
                        watchdog.step();
                    }
                });
            }
        });
        heap.check().unwrap();
        let stats = heap.stats();
        // How many, where processors have to have time left, is theirs to say.
        let is_sure = compression == Compression::Always;
        assert!(
            !is_sure || stats.compressed > 1000 && stats.decompressed > 1000 && stats.incompressible > 100,
            "{stats:?}"
        );
        assert!(stats.ram_used_bytes <= stats.ram_budget_bytes, "{stats:?}");
        heap.free(block).unwrap();
    }
}

#[test]
fn references_and_addresses_agree() {
    const PAGES: usize = 12 << 10;
    let watchdog = Watchdog::new("references to compressed pages".to_string());
    let heap = heap(16 << 20, Faults::Signal, Compression::Always);
    let array = heap.array(PAGES, PAGE).unwrap();
    let refs: Vec<_> = (0..PAGES).map(|page| heap.reference(array.element(page)).unwrap()).collect();
    let mut versions = vec![0; PAGES];
    let mut rng = Rng::new(11);
    for _ in 0..long_or(300_000, 60_000) {
        let page = rng.below(PAGES);
        let version = &mut versions[page];
        match rng.below(4) {
            0 if *version > 0 => check(array.element(page).wrapping_sub(page * PAGE), page, *version),
            1 if *version > 0 => {
                let used = heap.read(refs[page]).unwrap();
                check(used.as_ptr().cast_mut().wrapping_sub(page * PAGE), page, *version);
            }
            2 => {
                *version += 1;
                let mut used = heap.write(refs[page]).unwrap();
                write(used.as_mut_ptr().wrapping_sub(page * PAGE), page, *version);
            }
            3 => {
                *version += 1;
                write(array.element(page).wrapping_sub(page * PAGE), page, *version);
            }
            _ => {}
        }
        watchdog.step();
    }
    heap.check().unwrap();
    let stats = heap.stats();
    assert!(stats.compressed > 1000, "{stats:?}");
}

/// Twice as much as RAM holds, in any order: what shrinks to a third fits.
#[test]
fn what_shrinks_needs_less_flash() {
    const RAM: usize = 16 << 20;
    const PAGES: usize = 2 * RAM / PAGE;
    let watchdog = Watchdog::new("reads of what shrinks".to_string());
    let [never, always] = [Compression::Never, Compression::Always].map(|compression| {
        let heap = heap(RAM as u64, Faults::Signal, compression);
        let block = heap.allocate_block(PAGES * PAGE, PAGE).unwrap();
        let mut rng = Rng::new(7);
        // Of each four, the one that shrinks to a third.
        let tag = |page: usize| page * 4 + 1;
        for page in 0..PAGES {
            let mut expected = Expected::of(tag(page), 1);
            (0..WORDS).for_each(|nth| word(block, page, nth).store(expected.word(nth), Ordering::Relaxed));
        }
        let mut read = |count: usize| {
            for _ in 0..count {
                let page = rng.below(PAGES);
                let mut expected = Expected::of(tag(page), 1);
                for nth in 0..WORDS {
                    assert_eq!(word(block, page, nth).load(Ordering::Relaxed), expected.word(nth));
                }
                watchdog.step();
            }
        };
        read(40_000);
        let before = heap.stats();
        read(40_000);
        let after = heap.stats();
        println!(
            "{compression:?}: {} misses, {} decompressed, {} compressed, {} hits, {} faults",
            after.misses - before.misses,
            after.decompressed - before.decompressed,
            after.compressed - before.compressed,
            after.hits - before.hits,
            after.faults - before.faults
        );
        after.misses - before.misses
    });
    assert!(always * 10 < never * 9, "{always} reads of flash where {never} were needed without compression");
}

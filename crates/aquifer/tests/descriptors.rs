//! A process that has hardly any descriptors left. There are no pipes then to hold written pages while they are
//! unmapped, and each is write-protected instead. In a process of its own, because it lowers a limit.

use std::sync::atomic::{AtomicU64, Ordering};

use aquifer::{Array, Heap, Options};

const OBJECTS: usize = 200_000;
const THREADS: usize = 4;
const ADDITIONS: usize = 30_000;

fn limit_descriptors(count: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours, and the soft limit may be changed at any time.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = count;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

/// A heap that got the fewest descriptors with which it opens.
fn heap_with_few_descriptors() -> Heap {
    let open = || Heap::open(Options::new().ram_bytes(8 << 20).flash_bytes(128 << 20));
    let heap = (4..200).find_map(|count| {
        limit_descriptors(count);
        open().ok()
    });
    heap.expect("a heap opens with 200 descriptors")
}

fn pipes() -> usize {
    let link = |fd: i32| std::fs::read_link(format!("/proc/self/fd/{fd}"));
    (3..300).filter(|&fd| link(fd).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"))).count()
}

fn word(array: &Array, n: usize) -> &AtomicU64 {
    // SAFETY: the element has 128 bytes, is aligned, and is used only as this atomic.
    unsafe { AtomicU64::from_ptr(array.element(n).cast()) }
}

#[test]
fn no_addition_is_lost_without_pipes() {
    let pipes_before = pipes();
    let heap = heap_with_few_descriptors();
    assert_eq!(pipes(), pipes_before, "the heap has pipes after all");
    let array = heap.array(OBJECTS, 128).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let array = &array;
            scope.spawn(move || {
                let mut n = thread;
                for _ in 0..ADDITIONS {
                    n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    word(array, (n >> 20) % OBJECTS).fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let total: u64 = (0..OBJECTS).map(|n| word(&array, n).load(Ordering::Relaxed)).sum();
    assert_eq!(total, (THREADS * ADDITIONS) as u64);
    assert!(heap.stats().evicted_pages > ADDITIONS as u64, "{:?}", heap.stats());
    heap.check().unwrap();
}

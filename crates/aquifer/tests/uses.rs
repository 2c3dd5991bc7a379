//! Objects used in place and at their addresses are the same bytes.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aquifer::{Array, ErrorCode, Heap, Options, Ref};
use common::{Rng, Watchdog};

fn heap() -> Heap {
    Heap::open(Options::new().ram_bytes(8 << 20).flash_bytes(128 << 20)).unwrap()
}

fn word_at(pointer: *mut u8, number: usize) -> &'static AtomicU64 {
    // SAFETY: callers stay within an object that is in use or at its address; everybody uses the words as atomics.
    unsafe { AtomicU64::from_ptr(pointer.cast::<u64>().add(number)) }
}

fn refs(heap: &Heap, array: &Array) -> Vec<Ref> {
    (0..array.len()).map(|n| heap.reference(array.element(n)).unwrap()).collect()
}

#[test]
fn uses_and_addresses_agree() {
    let heap = heap();
    for bytes in [8, 100, 1000, 4096] {
        let array = heap.array(20_000_000 / (bytes + 100), bytes).unwrap();
        let refs = refs(&heap, &array);
        let mut model = vec![0u64; array.len()];
        let mut rng = Rng::new(bytes as u64);
        for _ in 0..100_000 {
            let n = rng.below(array.len());
            match rng.below(4) {
                0 => assert_eq!(word_at(array.element(n), 0).load(Ordering::Relaxed), model[n]),
                1 => {
                    model[n] = rng.word();
                    word_at(array.element(n), 0).store(model[n], Ordering::Relaxed);
                }
                2 => {
                    let used = heap.read(refs[n]).unwrap();
                    assert!(used.len() >= bytes);
                    assert_eq!(word_at(used.as_ptr().cast_mut(), 0).load(Ordering::Relaxed), model[n]);
                }
                _ => {
                    model[n] = rng.word();
                    let mut used = heap.write(refs[n]).unwrap();
                    word_at(used.as_mut_ptr(), 0).store(model[n], Ordering::Relaxed);
                }
            }
        }
        heap.check().unwrap();
        heap.free(array.base()).unwrap();
    }
}

#[test]
fn uses_nest_and_keep_objects_alive() {
    let heap = heap();
    let object = heap.allocate(200).unwrap();
    let number = heap.reference(object).unwrap();
    assert_eq!(Ref::from_bits(number.to_bits()), Some(number));
    let mut first = heap.write(number).unwrap();
    let second = heap.read(number).unwrap();
    let third = heap.read(number).unwrap();
    assert_eq!(first.as_mut_ptr().cast_const(), second.as_ptr());
    word_at(first.as_mut_ptr(), 1).store(42, Ordering::Relaxed);
    assert!(heap.free(object).is_err(), "it is in use");
    drop((first, third));
    heap.check().unwrap();
    assert!(heap.free(object).is_err(), "it still is");
    drop(second);
    assert_eq!(word_at(object, 1).load(Ordering::Relaxed), 42);
    assert!(heap.end_use(number).is_err());
    heap.free(object).unwrap();
    assert!(heap.read(number).is_err());
    assert!(heap.reference(std::ptr::without_provenance(4096)).is_err());
    heap.check().unwrap();
}

#[test]
fn large_objects_and_blocks_are_used_at_their_addresses() {
    let heap = heap();
    for object in [heap.allocate(20_000).unwrap(), heap.allocate_block(100, 16).unwrap()] {
        let mut used = heap.write(heap.reference(object).unwrap()).unwrap();
        assert!(used.as_mut_ptr() == object && used.len() >= 100);
        word_at(used.as_mut_ptr(), 3).store(7, Ordering::Relaxed);
        drop(used);
        assert_eq!(word_at(object, 3).load(Ordering::Relaxed), 7);
    }
}

/// Threads add to counters by either way. None may be lost, though objects leave RAM all the time.
#[test]
fn no_addition_is_lost() {
    const THREADS: u64 = 4;
    const ADDITIONS: u64 = 60_000;
    let heap = heap();
    let watchdog = Watchdog::new("additions by references and addresses".to_owned());
    let array = heap.array(60_000, 300).unwrap();
    let refs = refs(&heap, &array);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (heap, array, refs, watchdog) = (&heap, &array, &refs, &watchdog);
            scope.spawn(move || {
                let mut rng = Rng::new(thread + 1);
                for _ in 0..ADDITIONS {
                    // Half of them in a hundred objects, so that uses meet.
                    let n = if rng.below(2) == 0 { rng.below(100) } else { rng.below(array.len()) };
                    if rng.below(2) == 0 {
                        word_at(array.element(n), 5).fetch_add(1, Ordering::Relaxed);
                    } else {
                        let mut used = heap.write(refs[n]).unwrap();
                        word_at(used.as_mut_ptr(), 5).fetch_add(1, Ordering::Relaxed);
                    }
                    watchdog.step();
                }
            });
        }
    });
    let sum: u64 = (0..array.len()).map(|n| word_at(array.element(n), 5).load(Ordering::Relaxed)).sum();
    assert_eq!(sum, THREADS * ADDITIONS);
    heap.check().unwrap();
}

/// Pins and references of one object are not mixed up: the pin is refused, in bounded time, and nothing is left over.
#[test]
fn an_object_in_use_cannot_be_pinned() {
    let _watchdog = Watchdog::new("waits of references and pins");
    let heap = heap();
    for references in 1..4 {
        // The object is still in its slot, not at its address.
        let object = heap.allocate(200).unwrap();
        let number = heap.reference(object).unwrap();
        let uses: Vec<_> = (0..references).map(|_| heap.read(number).unwrap()).collect();
        let error = heap.pin(object, 200).unwrap_err();
        assert!(error.code() == ErrorCode::Pinned && error.to_string().contains("reference"), "{error}");
        drop(uses);
        assert!(heap.unpin(object, 200).is_err());
        word_at(object, 1).store(references, Ordering::Relaxed);
        heap.pin(object, 200).unwrap();
        // A reference to a pinned object is one to its address.
        assert_eq!(heap.read(number).unwrap().as_ptr(), object.cast_const());
        heap.unpin(object, 200).unwrap();
        assert_eq!(word_at(object, 1).load(Ordering::Relaxed), references);
        heap.check().unwrap();
    }
}

/// Threads that want an absent object at the same moment all get it, while the others have it.
#[test]
fn references_of_one_moment_are_shared() {
    const THREADS: usize = 8;
    let watchdog = Watchdog::new("references of one moment");
    let heap = heap();
    let array = heap.array(if cfg!(debug_assertions) { 3000 } else { 9000 }, 200).unwrap();
    let refs = refs(&heap, &array);
    let barrier = std::sync::Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for &number in &refs {
                    barrier.wait();
                    let used = heap.read(number);
                    // Nobody ends its reference before all have theirs, or an error.
                    barrier.wait();
                    drop(used.unwrap());
                    watchdog.step();
                }
            });
        }
    });
    heap.check().unwrap();
}

/// Threads that wait for an object that is in use keep nothing that others need.
#[test]
fn who_waits_for_an_object_in_use_stops_nobody() {
    let _watchdog = Watchdog::new("waits of references and pins");
    let heap = heap();
    let (held, others) = (heap.allocate(200).unwrap(), heap.array(1000, 200).unwrap());
    let number = heap.reference(held).unwrap();
    let mut used = heap.write(number).unwrap();
    let (held, waiting) = (held as usize, AtomicU64::new(0));
    std::thread::scope(|scope| {
        // More than there are contexts.
        for _ in 0..24 {
            scope.spawn(|| {
                waiting.fetch_add(1, Ordering::SeqCst);
                assert_eq!(word_at(held as *mut u8, 2).load(Ordering::Relaxed), 42);
            });
        }
        while waiting.load(Ordering::SeqCst) < 24 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        for n in 0..others.len() {
            word_at(others.element(n), 0).store(n as u64, Ordering::Relaxed);
        }
        heap.prefetch(&(0..others.len()).map(|n| others.element(n).cast_const()).collect::<Vec<_>>())
            .unwrap();
        word_at(used.as_mut_ptr(), 2).store(42, Ordering::Relaxed);
        drop(used);
    });
    heap.check().unwrap();
}

#[test]
fn more_references_than_there_is_room_for_are_refused() {
    let _watchdog = Watchdog::new("references beyond RAM");
    let heap = heap();
    for bytes in [200, 4096] {
        let array = heap.array(24_000_000 / bytes, bytes).unwrap();
        let refs = refs(&heap, &array);
        let mut uses = Vec::new();
        let error = refs.iter().find_map(|&number| match heap.read(number) {
            Ok(used) => {
                uses.push(used);
                None
            }
            Err(error) => Some(error),
        });
        let error = error.unwrap_or_else(|| panic!("{} objects of {bytes} bytes in 8 MiB", refs.len()));
        assert_eq!(error.code(), ErrorCode::Pinned, "{error}");
        assert!(uses.len() * bytes > 2 << 20, "{} of {bytes} bytes", uses.len());
        drop(uses);
        refs.iter().for_each(|&number| drop(heap.read(number).unwrap()));
        heap.check().unwrap();
        heap.free(array.base()).unwrap();
    }
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_signal(_signal: i32) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

/// A signal is handled while a fault waits, however long it does.
#[test]
fn a_fault_that_waits_takes_signals() {
    let _watchdog = Watchdog::new("waits of references and pins");
    let heap = heap();
    let object = heap.allocate(200).unwrap();
    let mut used = heap.write(heap.reference(object).unwrap()).unwrap();
    let (object, thread) = (object as usize, AtomicU64::new(0));
    // SAFETY: the handler only counts.
    unsafe { libc::signal(libc::SIGUSR1, count_signal as *const () as usize) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: a plain call.
            thread.store(unsafe { libc::pthread_self() }, Ordering::SeqCst);
            assert_eq!(word_at(object as *mut u8, 0).load(Ordering::Relaxed), 7);
        });
        while thread.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: the thread lives until the reference to the object ends.
        assert_eq!(unsafe { libc::pthread_kill(thread.load(Ordering::SeqCst), libc::SIGUSR1) }, 0);
        while SIGNALS.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        word_at(used.as_mut_ptr(), 0).store(7, Ordering::Relaxed);
        drop(used);
    });
}

/// Waits for an object that it holds itself, for ever.
#[test]
#[ignore = "run by the test below"]
fn waits_for_itself() {
    let socket = std::env::var("SOCKET").unwrap();
    let heap = Heap::open(Options::new().ram_bytes(8 << 20).flash_bytes(128 << 20).socket(socket)).unwrap();
    let object = heap.allocate(200).unwrap();
    let _used = heap.write(heap.reference(object).unwrap()).unwrap();
    let _again = heap.read(heap.reference(object).unwrap()).unwrap();
    word_at(object, 0).store(1, Ordering::Relaxed);
}

/// What a heap answers.
fn asked(socket: &std::path::Path, question: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(question.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_long_wait_is_told_of_and_ends_by_sigterm() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "waits_for_itself", "--ignored", "--nocapture"])
        .env("SOCKET", &socket)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let told = lines.map_while(Result::ok).find(|line| line.contains("has waited 10 s"));
    let told = told.expect("it says so");
    assert!(
        told.contains("a reference holds the page") && told.contains("the last was taken by thread"),
        "{told}"
    );
    let answer = asked(&socket, "check\n");
    assert!(
        answer.contains("has waited 1") && answer.contains("referenced 2 times, the last by thread"),
        "{answer}"
    );
    // SAFETY: the child of this test.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
}

/// The writer writes nothing back that is in use: what is written to it later would not be new any more.
#[test]
fn what_is_written_late_in_a_use_is_kept() {
    // No more than may be pinned: those that are at their addresses are.
    const HELD: usize = 24;
    let heap = heap();
    let array = heap.array(45_000, 200).unwrap();
    let refs = refs(&heap, &array);
    let write_others = |value: u64| {
        for n in HELD..array.len() {
            word_at(array.element(n), 0).store(value, Ordering::Relaxed);
        }
    };
    for round in 1..3u64 {
        let written = heap.stats().objects_written;
        let mut used: Vec<_> = refs[..HELD].iter().map(|&object| heap.write(object).unwrap()).collect();
        used.iter_mut().for_each(|used| word_at(used.as_mut_ptr(), 0).store(0, Ordering::Relaxed));
        write_others(round);
        assert!(heap.stats().objects_written > written + 1000, "the writer has been at it");
        for (n, used) in used.iter_mut().enumerate() {
            word_at(used.as_mut_ptr(), 0).store(round * 1000 + n as u64, Ordering::Relaxed);
        }
        drop(used);
        write_others(round);
        for n in 0..HELD {
            assert_eq!(
                word_at(array.element(n), 0).load(Ordering::Relaxed),
                round * 1000 + n as u64,
                "object {n}, round {round}"
            );
        }
    }
    heap.check().unwrap();
}

#[test]
fn hints_change_nothing_but_speed() {
    use aquifer::Hint;
    let heap = heap();
    let array = heap.array(60_000, 200).unwrap();
    for n in 0..array.len() {
        word_at(array.element(n), 2).store(n as u64, Ordering::Relaxed);
    }
    let pages = array.len() * array.stride_bytes();
    for hint in [Hint::Cold, Hint::WillNeed, Hint::Sequential, Hint::Random, Hint::Cold] {
        heap.advise(array.base(), pages, hint).unwrap();
        for n in (0..array.len()).step_by(7) {
            assert_eq!(word_at(array.element(n), 2).load(Ordering::Relaxed), n as u64, "{hint:?}");
        }
    }
    let prefetched = heap.stats().evicted_objects;
    heap.advise(array.element(100), 100, Hint::WillNeed).unwrap();
    assert!(heap.stats().evicted_objects >= prefetched);
    assert!(heap.advise(std::ptr::without_provenance(4096), 1, Hint::Cold).is_err());
    heap.check().unwrap();
}

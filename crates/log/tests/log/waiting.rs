//! Threads that wait for one another at the log.

use aquifer_log::log::reserve_segments;
use aquifer_log::record::{lone_record_bytes, record_bytes};
use aquifer_log::victim::{Greedy, choose};
use aquifer_log::{AppendError, Geometry, Kind};

use crate::bench::{BLOCK_BYTES, Bench, GEOMETRY, Places, SEGMENTS, id, payload};

const RESERVE: u32 = reserve(SEGMENTS);

const fn reserve(segments: u32) -> u32 {
    // As `reserve_segments`, which is no constant function.
    let share = segments / 64;
    if share < 3 { 3 } else { share }
}

#[test]
fn the_reserve_is_what_the_log_says() {
    assert_eq!(RESERVE, reserve_segments(SEGMENTS));
}

/// A writer that overwrites one record goes on for as long as the cleaner gives back what it left behind.
#[test]
fn a_writer_waits_for_the_cleaner() {
    const ROUNDS: u64 = 400;
    let Bench { log, mut fresh, mut survivor, device, .. } = Bench::new();
    let writer = std::thread::spawn(move || {
        let mut before = None;
        for round in 0..ROUNDS {
            fresh.make_room(Kind::Page, lone_record_bytes(3000)).expect("the cleaner makes room");
            let address = fresh.append(id(1), &payload(round, 3000));
            let log = fresh.log();
            before.replace(address).into_iter().for_each(|old| log.release(old, record_bytes(3000)));
        }
        before
    });
    let mut buffer = aquifer_device::AlignedBuffer::new(BLOCK_BYTES);
    let mut cleaned = 0;
    // The writer fills `ROUNDS / 2` segments, each with two records. All but those that fit must be given
    // back.
    let wanted = ROUNDS / 2 - u64::from(SEGMENTS - RESERVE);
    while cleaned < wanted {
        assert!(log.wait_until_cleaning_is_wanted(RESERVE + 1));
        let geometry = log.geometry();
        let Some(victim) = choose(&Greedy, log.segments(), |kind| geometry.segment_room(kind), log.now())
        else {
            continue;
        };
        if log.segments().live_bytes(victim) > 0 {
            // Its one live record is just being replaced.
            std::thread::yield_now();
            continue;
        }
        aquifer_log::cleaner::clean(&log, victim, &mut Places::default(), &mut survivor, &mut buffer)
            .unwrap();
        cleaned += 1;
    }
    let last = writer.join().unwrap().expect("the last record");
    let mut scratch = aquifer_device::AlignedBuffer::new(BLOCK_BYTES + 512);
    let range = log.read_in_fault(last, record_bytes(3000), id(1), &mut scratch).unwrap();
    assert_eq!(scratch[range], payload(ROUNDS - 1, 3000));
    assert!(log.free_segments() >= RESERVE);
    assert!(device.counters().writes >= ROUNDS - 1);
}

#[test]
fn a_waiting_writer_is_woken_when_the_log_closes() {
    let Bench { log, mut fresh, .. } = Bench::new();
    let writer = std::thread::spawn(move || {
        loop {
            if let Err(error) = fresh.make_room(Kind::Page, lone_record_bytes(4000)) {
                return error;
            }
            fresh.append(id(1), &payload(1, 4000));
        }
    });
    // True as soon as the writer is down to the reserve.
    assert!(log.wait_until_cleaning_is_wanted(RESERVE + 1));
    assert_eq!(log.free_segments(), RESERVE);
    log.close();
    assert_eq!(writer.join().unwrap(), AppendError::Closing);
    assert_eq!(log.free_segments(), RESERVE, "the reserve was left alone");
    assert!(!log.wait_until_cleaning_is_wanted(RESERVE + 1), "nobody cleans a log that closes");
}

#[test]
fn a_waiting_cleaner_is_woken_when_the_log_closes() {
    let bench = Bench::new();
    let log = bench.log.clone();
    let cleaner = std::thread::spawn(move || log.wait_until_cleaning_is_wanted(1));
    bench.log.close();
    assert!(!cleaner.join().unwrap());
}

/// Readers look for records while a writer and a cleaner move them: what they get is right or an error.
#[test]
fn readers_never_get_other_bytes() {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    const KEYS: u64 = 12;
    let geometry = Geometry { segment_bytes: BLOCK_BYTES, ..GEOMETRY };
    let mut bench = Bench::with(geometry, aquifer_device::FaultPlan::new(0));
    let log = bench.log.clone();
    let (places, done) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut scratch = aquifer_device::AlignedBuffer::new(BLOCK_BYTES + 512);
                while !done.load(Ordering::Acquire) {
                    let now: Vec<_> = places.lock().unwrap().clone();
                    for (key, address) in now {
                        if let Ok(range) =
                            log.read_in_fault(address, record_bytes(900), id(key), &mut scratch)
                        {
                            assert_eq!(scratch[range][8..], payload(key, 900)[8..]);
                        }
                    }
                    std::thread::yield_now();
                }
            });
        }
        for round in 0..3000u64 {
            bench.make_segments_free(&Greedy).unwrap();
            let key = round * 7 % KEYS;
            let mut bytes = payload(key, 900);
            bytes[..8].copy_from_slice(&round.to_le_bytes());
            bench.write(key, &bytes).unwrap();
            *places.lock().unwrap() =
                bench.places.keys().iter().map(|&key| (key, bench.places.get(key).unwrap().0)).collect();
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(bench.log.segments().live_bytes_total(), bench.places.live_bytes());
}

//! Many threads, a donor that comes and goes, and what each page should be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aquifer_device::{AlignedBuffer, Device, ReadRequest};
use aquifer_remote::far::{FarDevice, PAGE_BYTES};
use aquifer_remote::transport::fake::Behaviour;

use crate::donors::{DEVICE_BYTES, Donors, filled, flash, mirror, read, wait_until};

const THREADS: u64 = 4;
const PAGES: u64 = DEVICE_BYTES / PAGE_BYTES as u64 / THREADS;
const ROUNDS: u64 = 3000;

/// Writes and reads runs of a thread's own pages, and all that they should hold.
fn use_own_pages(mirror: &FarDevice, thread: u64) {
    let (mut dice, mut model) = (Dice(thread), vec![0u8; PAGES as usize]);
    for round in 0..ROUNDS {
        let count = 1 + dice.below(8);
        let first = dice.below(PAGES - count);
        let offset = (thread * PAGES + first) * PAGE_BYTES as u64;
        match dice.below(100) {
            0..40 => {
                mirror.write_at(offset, &filled(round as u8, count as usize)).expect("write");
                model[first as usize..(first + count) as usize].fill(round as u8);
            }
            99 => mirror.sync().expect("sync"),
            70..99 => {
                // Neighbours, and pages that are far from each other.
                let pages: Vec<_> = (first..first + count).chain((0..4).map(|_| dice.below(PAGES))).collect();
                check(&read_together(mirror, thread * PAGES, &pages), &pages, &model, round);
            }
            _ => {
                let mut got = filled(0, count as usize);
                mirror.read_at(offset, &mut got).expect("read");
                check(&got, &(first..first + count).collect::<Vec<_>>(), &model, round);
            }
        }
    }
    for page in 0..PAGES {
        assert_eq!(read(mirror, thread * PAGES + page), model[page as usize]);
    }
}

fn check(got: &[u8], pages: &[u64], model: &[u8], round: u64) {
    for (bytes, page) in got.chunks_exact(PAGE_BYTES).zip(pages) {
        let wanted = model[*page as usize];
        assert!(bytes.iter().all(|byte| *byte == wanted), "round {round}: {} != {wanted}", bytes[0]);
    }
}

/// Reads pages, counted from `begin`, by one batch.
fn read_together(mirror: &FarDevice, begin: u64, pages: &[u64]) -> AlignedBuffer {
    let mut got = filled(0, pages.len());
    let mut requests: Vec<_> = pages
        .iter()
        .zip(got.chunks_exact_mut(PAGE_BYTES))
        .map(|(page, bytes)| ReadRequest::new((begin + page) * PAGE_BYTES as u64, bytes))
        .collect();
    mirror.read_batch(&mut requests);
    requests.iter().for_each(|request| request.result.expect("read"));
    got
}

#[test]
fn neighbours_of_a_batch_are_one_transfer() {
    const RUN: u64 = 64;
    let donors = Donors::new();
    let mirror = mirror(flash(), &donors);
    (0..RUN).for_each(|page| {
        mirror.write_at(page * PAGE_BYTES as u64, &filled(page as u8, 1)).expect("write");
    });
    wait_until(&mirror, "both parts have their slabs", |mirror| mirror.placed() == (2, 2));
    let transfers = || donors.lent()[0].link().traffic().so_far().reads;
    let (before, counters) = (transfers(), mirror.counters());
    let pages: Vec<_> = (0..RUN).rev().collect();
    let model: Vec<_> = (0..RUN as u8).collect();
    check(&read_together(&mirror, 0, &pages), &pages, &model, 0);
    assert_eq!(mirror.counters().remote_reads - counters.remote_reads, RUN);
    assert_eq!(transfers() - before, 2, "of 128 KiB each");
}

#[test]
fn donors_come_and_go() {
    let donors = Donors::new();
    let mirror = mirror(flash(), &donors);
    let is_over = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let trouble = scope.spawn(|| {
            let behaviours = [
                Behaviour::Late(Duration::from_micros(200)),
                Behaviour::Stopped,
                Behaviour::Flipping,
                Behaviour::Silent,
                Behaviour::Failing(-libc::ENOTCONN),
            ];
            let mut rounds = 0;
            for behaviour in behaviours.into_iter().cycle() {
                for behaviour in [behaviour, Behaviour::Prompt] {
                    if is_over.load(Ordering::Relaxed) {
                        return rounds;
                    }
                    donors.donor.resume();
                    donors.donor.behave(behaviour);
                    std::thread::sleep(Duration::from_millis(20));
                    rounds += 1;
                }
            }
            rounds
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let mirror = &mirror;
                    move || use_own_pages(mirror, thread)
                })
            })
            .collect();
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.expect("no panic"));
        trouble.join().expect("no panic")
    });
    let counters = mirror.counters();
    println!("{rounds} changes of behaviour, {counters:?}");
    assert!(counters.remote_reads > 0 && counters.remote_writes > 0);
}

#[test]
fn one_page_at_once() {
    // Writers of one page: afterwards it is what one of them wrote, wherever it is read from.
    let donors = Donors::new();
    let mirror = Arc::new(mirror(flash(), &donors));
    for round in 0..50u8 {
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let mirror = &mirror;
                scope.spawn(move || {
                    for n in 0..20u8 {
                        mirror.write_at(0, &filled(thread << 6 | n, 1)).expect("write");
                    }
                });
            }
        });
        let first = read(&mirror, 0);
        donors.donor.behave(Behaviour::Failing(-libc::EIO));
        assert_eq!(read(&mirror, 0), first, "round {round}: donor and flash differ");
        donors.donor.behave(Behaviour::Prompt);
    }
    assert_eq!(mirror.counters().wrong_pages, 0);
}

/// Numbers that look random, the same ones for each seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

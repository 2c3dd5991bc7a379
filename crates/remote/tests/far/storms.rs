//! Seeded runs in which donors, the network and flash fail in any order: no wrong byte, no error without a reason, no hang, and donors are used again when it is over.
//!
//! `AQUIFER_STORMS=1000 cargo test -p aquifer-remote --test far storms -- --nocapture` runs 1,000 seeds;
//! `AQUIFER_STORM=17` runs seed 17 only.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aquifer_device::{Device, FaultKind, FaultPlan, Faulty, Operation, ReadRequest};
use aquifer_remote::far::{Code, FarCounters, FarDevice, FarOptions, PAGE_BYTES, Slabs};
use aquifer_remote::transport::fake::Behaviour;

use crate::donors::{DEVICE_BYTES, Donors, Several, filled, flash, options, wait_until};
use crate::model::Dice;

const PAGES: u64 = DEVICE_BYTES / PAGE_BYTES as u64;
const RUN_PAGES: u64 = 8;
/// Of some requests.
const LONG_PAGES: u64 = 80;
/// Runs of a test that is to be over soon, and how many of them at once: most of the time they wait for deadlines.
const STORMS: u64 = 200;
const AT_ONCE: u64 = 8;
const TROUBLES: u64 = 4;

/// What is known of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// It is this byte.
    Is(u8),
    /// One of these two: a write failed.
    Either(u8, u8),
    /// Anything: writes failed one after the other.
    Unknown,
}

impl Known {
    fn allows(self, byte: u8) -> bool {
        match self {
            Known::Is(is) => byte == is,
            Known::Either(one, other) => byte == one || byte == other,
            Known::Unknown => true,
        }
    }

    fn after_failed_write(self, byte: u8) -> Known {
        match self {
            Known::Is(is) => Known::Either(is, byte),
            _ => Known::Unknown,
        }
    }
}

fn any_code(dice: &mut Dice) -> Code {
    let code = |data, parity| Code::new(data, parity).expect("a code");
    match dice.below(6) {
        0 => Code::FLASH,
        1 | 2 => Code::COPY,
        3 => code(2, 1),
        4 => code(2, 2),
        _ => code(3, 1),
    }
}

/// One run.
struct Storm {
    seed: u64,
    code: Code,
    flash_fails: bool,
    donors: Arc<Several>,
    mirror: FarDevice,
    pages: Vec<Known>,
    /// Donors that failed since all pages were where they should be.
    failed: BTreeSet<usize>,
    /// Connections of each donor that had ended by then.
    ends: Vec<u64>,
    /// Pages that all of their donors lost: gone until they are written again.
    lost: BTreeSet<u64>,
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let mut dice = Dice(seed);
        let code = any_code(&mut dice);
        let seals = dice.below(2) == 0;
        let flash_fails = dice.below(4) == 0;
        let donors = Several::new(1 + dice.below(6));
        let plan = match flash_fails {
            true => FaultPlan::new(seed).from_nth(Operation::Write, 20 + dice.below(200), FaultKind::NoSpace),
            false => FaultPlan::new(seed),
        };
        let slabs = Arc::clone(&donors) as Arc<dyn Slabs>;
        let local = Arc::new(Faulty::new(flash(), plan));
        // The rows of copies are slabs, or there are five of seven pages in each.
        let slab_bytes = [32, 35][dice.below(2) as usize] * PAGE_BYTES as u64;
        let options = FarOptions { slab_bytes, ..options(code, seals) };
        let mirror = FarDevice::new(local, slabs, &options).expect("threads");
        let pages = vec![Known::Is(0); PAGES as usize];
        let ends = ends(&donors);
        Storm {
            seed,
            code,
            flash_fails,
            donors,
            mirror,
            pages,
            failed: BTreeSet::new(),
            ends,
            lost: BTreeSet::new(),
        }
    }

    fn run(mut self) -> FarCounters {
        let mut dice = Dice(self.seed ^ 0x5707);
        self.work(&mut dice);
        for _ in 0..TROUBLES {
            self.trouble(&mut dice);
            self.work(&mut dice);
        }
        self.calm_down();
        (0..PAGES).step_by(RUN_PAGES as usize).for_each(|first| self.read(first, RUN_PAGES));
        self.recovers();
        self.mirror.counters()
    }

    /// Writes and reads at random.
    fn work(&mut self, dice: &mut Dice) {
        for _ in 0..30 {
            let most = if dice.below(4) == 0 { LONG_PAGES } else { RUN_PAGES };
            let count = 1 + dice.below(most);
            let first = dice.below(PAGES - count);
            match dice.below(10) {
                0..5 => self.write(first, count, dice.below(256) as u8),
                9 => self.sync(),
                _ => self.read(first, count),
            }
        }
    }

    fn write(&mut self, first: u64, count: u64, byte: u8) {
        let outcome = self.mirror.write_at(first * PAGE_BYTES as u64, &filled(byte, count as usize));
        assert!(outcome.is_ok() || self.flash_fails, "seed {}: {outcome:?}", self.seed);
        for known in &mut self.pages[first as usize..(first + count) as usize] {
            *known = if outcome.is_ok() { Known::Is(byte) } else { known.after_failed_write(byte) };
        }
        if outcome.is_ok() {
            self.lost.retain(|page| !(first..first + count).contains(page));
        }
    }

    fn read(&mut self, first: u64, count: u64) {
        let mut got = filled(0, count as usize);
        // Every other run by a batch of its pages.
        let outcome = if first.is_multiple_of(2) {
            self.mirror.read_at(first * PAGE_BYTES as u64, &mut got)
        } else {
            let pages = (first..).map(|page| page * PAGE_BYTES as u64).zip(got.chunks_exact_mut(PAGE_BYTES));
            let mut requests: Vec<_> = pages.map(|(offset, page)| ReadRequest::new(offset, page)).collect();
            self.mirror.read_batch(&mut requests);
            requests.iter().try_for_each(|request| request.result)
        };
        if let Err(error) = outcome {
            self.note_failures();
            // Donors that may fail at once, all others being well, without a page being lost.
            let spare = if self.code == Code::FLASH { usize::MAX } else { self.code.parity };
            let may_lose = self.failed.len() > spare || (self.flash_fails && spare < usize::MAX);
            let has_reason = may_lose || self.lost.range(first..first + count).next().is_some();
            assert!(has_reason, "seed {}: {error}, {:?}", self.seed, self.mirror.counters());
            if count == 1 {
                self.lost.insert(first);
            }
            return;
        }
        for (bytes, known) in got.chunks_exact(PAGE_BYTES).zip(&self.pages[first as usize..]) {
            let is_right = bytes.iter().all(|byte| *byte == bytes[0]) && known.allows(bytes[0]);
            assert!(is_right, "seed {}: {} where {known:?} was written", self.seed, bytes[0]);
        }
    }

    fn sync(&self) {
        let outcome = self.mirror.sync();
        assert!(outcome.is_ok() || self.flash_fails, "seed {}: {outcome:?}", self.seed);
    }

    /// A busy machine can make a donor miss a deadline that is well.
    fn note_failures(&mut self) {
        let now = ends(&self.donors);
        let ended = (0..now.len()).filter(|donor| now[*donor] > self.ends[*donor]);
        self.failed.extend(ended);
    }

    /// One or two donors fail, or are to be left, or come back.
    fn trouble(&mut self, dice: &mut Dice) {
        let donors = &self.donors.0;
        let which = dice.below(donors.len() as u64) as usize;
        let donor = &donors[which];
        match dice.below(8) {
            0 => donor.ask_back(),
            1 => donor.lends.store(false, Ordering::Relaxed),
            2 => {
                self.calm_down();
                if dice.below(2) == 0 && !self.flash_fails {
                    self.settle();
                }
            }
            3 => {
                // Two at once.
                donors.iter().take(2).for_each(|donor| fail(donor, Behaviour::Failing(-libc::ENOTCONN)));
                self.failed.extend([0, 1]);
            }
            n => {
                let behaviours = [
                    Behaviour::Failing(-libc::ENOTCONN),
                    Behaviour::Stopped,
                    Behaviour::Silent,
                    Behaviour::Flipping,
                ];
                fail(donor, behaviours[n as usize - 4]);
                self.failed.insert(which);
            }
        }
    }

    /// All donors are well again; what they were asked for meanwhile is answered, whether anybody waits for it or not.
    fn calm_down(&self) {
        for donor in &self.donors.0 {
            donor.donor.resume();
            donor.lends.store(true, Ordering::Relaxed);
        }
    }

    /// Pages are on donors again.
    fn recovers(&mut self) {
        if self.flash_fails {
            return;
        }
        for page in (0..PAGES).step_by(RUN_PAGES as usize) {
            self.write(page, RUN_PAGES, page as u8);
        }
        if self.settle() {
            let before = self.mirror.counters();
            (0..PAGES).for_each(|page| self.read(page, 1));
            let after = self.mirror.counters();
            self.note_failures();
            let remote = after.remote_reads - before.remote_reads;
            assert!(remote == PAGES || !self.failed.is_empty(), "seed {}: {after:?}", self.seed);
        }
    }

    /// Waits until all pages are where they should be, if there are as many donors.
    fn settle(&mut self) -> bool {
        let has_enough = self.donors.0.len() >= self.code.slabs();
        if has_enough {
            let ends = ends(&self.donors);
            // A donor that failed may not have been asked for anything since.
            (0..PAGES).for_each(|page| self.read(page, 1));
            wait_until(&self.mirror, "all parts have slabs", |mirror| mirror.placed().1 == mirror.placed().0);
            self.failed.clear();
            self.ends = ends;
        }
        has_enough
    }
}

fn ends(donors: &Several) -> Vec<u64> {
    donors.0.iter().map(|donor| donor.ended()).collect()
}

fn fail(donor: &Donors, behaviour: Behaviour) {
    donor.lends.store(false, Ordering::Relaxed);
    donor.donor.behave(behaviour);
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_byte_is_wrong() {
    if let Some(seed) = number("AQUIFER_STORM") {
        println!("{:?}", Storm::new(seed).run());
        return;
    }
    let (storms, next) = (number("AQUIFER_STORMS").unwrap_or(STORMS), AtomicU64::new(0));
    let counters: Vec<_> = std::thread::scope(|scope| {
        let run = || {
            std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < storms))
                .map(|seed| Storm::new(seed).run())
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let sum = |of: fn(&FarCounters) -> u64| counters.iter().map(of).sum::<u64>();
    let (slabs, wrong) = (sum(|counters| counters.lost_slabs), sum(|counters| counters.wrong_pages));
    println!(
        "{storms} storms: {slabs} slabs lost, {wrong} wrong pages noticed, {} pages lost",
        sum(|counters| counters.lost_pages)
    );
    assert!(slabs > 0 && wrong > 0, "nothing went wrong, so nothing was shown");
}

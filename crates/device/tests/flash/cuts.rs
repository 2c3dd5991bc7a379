//! Power cuts at every operation of a small device, each in several ways.

use aquifer_device::ftl::{Frontiers, Ftl, FtlError, FtlOptions, VictimPolicy, WearLeveling};
use aquifer_device::nand::{Geometry, Nand, NandError, PageId, PowerCut, Tear, Urgency};

use crate::{Random, nand, page};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 2,
    planes_per_die: 1,
    blocks_per_plane: 8,
    pages_per_block: 4,
    page_bytes: 512,
};
const TEARS: [Tear; 4] = [Tear::Nothing, Tear::Part(400), Tear::Part(980), Tear::Everything];

fn options(victim: VictimPolicy) -> FtlOptions {
    FtlOptions {
        over_provisioning: 1.8,
        victim,
        frontiers: Frontiers::Separate,
        wear_leveling: WearLeveling { dynamic: true, static_threshold: Some(1) },
        ..FtlOptions::default()
    }
}

/// What a logical page was told to hold, in order; `None` for a trim.
type History = Vec<Vec<Option<u64>>>;

/// A program of writes, trims and syncs until the power is gone or `steps` are over. `synced` is how long each history was at the last sync.
struct Run {
    history: History,
    synced: Vec<usize>,
}

impl Run {
    fn new(ftl: &Ftl) -> Self {
        let pages = ftl.user_pages() as usize;
        Run { history: vec![vec![None]; pages], synced: vec![1; pages] }
    }

    fn go(&mut self, ftl: &mut Ftl, random: &mut Random, steps: u32) {
        for step in 0..steps {
            // Some are written often and some hardly ever, so that wear must be levelled.
            let any = random.below(ftl.user_pages());
            let logical = if random.below(4) == 0 { any } else { any / 4 };
            let pages = &mut self.history[logical as usize];
            match random.below(20) {
                0..16 => {
                    let tag = u64::from(step + 1) << 32 | u64::from(random.below(u32::MAX));
                    pages.push(Some(tag));
                    match ftl.write(logical, &page(tag), 0) {
                        Ok(_) => self.synced[logical as usize] = pages.len(),
                        Err(error) => return assert_cut(error),
                    }
                }
                16..19 => {
                    ftl.trim(logical);
                    pages.push(None);
                }
                _ => match ftl.sync(0) {
                    Ok(_) => self.synced = self.history.iter().map(Vec::len).collect(),
                    Err(error) => return assert_cut(error),
                },
            }
        }
    }

    /// What the device holds now is durable.
    fn accept(&mut self, ftl: &mut Ftl) {
        let mut bytes = page(0);
        for logical in 0..ftl.user_pages() {
            ftl.read(logical, &mut bytes, 0).unwrap();
            let tag = u64::from_le_bytes(*bytes.first_chunk().unwrap());
            self.history[logical as usize].push((tag != 0).then_some(tag));
        }
        self.synced = self.history.iter().map(Vec::len).collect();
    }

    /// Every page must hold what it was last told durably. A page that was trimmed since may hold anything that it ever held, and one whose write
    /// was cut the new bytes.
    fn verify(&self, ftl: &mut Ftl, at: &str) {
        let mut bytes = page(0);
        for logical in 0..ftl.user_pages() {
            ftl.read(logical, &mut bytes, 0).unwrap();
            let history = &self.history[logical as usize];
            let durable = self.synced[logical as usize];
            let held = |state: &Option<u64>| bytes == state.map_or_else(|| vec![0; 512], page);
            let was_trimmed = history[durable..].contains(&None);
            let possible = if was_trimmed { history.as_slice() } else { &history[durable - 1..] };
            assert!(possible.iter().any(held), "{at}: logical page {logical}");
        }
    }
}

fn assert_cut(error: FtlError) {
    assert_eq!(error, FtlError::Nand(NandError::PowerLost));
}

fn cut_at(victim: VictimPolicy, operation: u64, tear: Tear, steps: u32) -> (Run, Ftl) {
    let mut ftl = Ftl::open(nand(GEOMETRY), options(victim)).unwrap();
    ftl.nand_mut().cut_power(PowerCut { after_operations: operation, tear });
    let mut run = Run::new(&ftl);
    run.go(&mut ftl, &mut Random(11), steps);
    (run, ftl)
}

fn reopen(ftl: Ftl, victim: VictimPolicy) -> Ftl {
    let mut nand = ftl.into_nand();
    nand.restore_power();
    Ftl::open(nand, options(victim)).unwrap()
}

/// Operations of the whole program, in which everything happens that can.
fn operations(victim: VictimPolicy, steps: u32) -> u64 {
    let (_, ftl) = cut_at(victim, u64::MAX, Tear::Nothing, steps);
    let counters = ftl.counters();
    let kinds =
        [counters.cleaning_programs, counters.leveling_programs, counters.metadata_programs, counters.erases];
    assert!(!kinds.contains(&0), "{counters:?}");
    ftl.nand().counters().programs + ftl.nand().counters().erases
}

#[test]
fn whatever_was_durable_is_found_after_a_cut_at_any_operation() {
    const STEPS: u32 = 600;
    for victim in [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::CostBenefit] {
        let operations = operations(victim, STEPS);
        for operation in 0..operations {
            for tear in TEARS {
                let at = format!("{victim:?}, {operation}, {tear:?}");
                let (run, ftl) = cut_at(victim, operation, tear, STEPS);
                let mut found = reopen(ftl, victim);
                run.verify(&mut found, &at);
                found.check().unwrap_or_else(|error| panic!("{at}: {error}"));
                go_on(&mut found, &at);
            }
        }
    }
}

/// Whatever was left must be good to work with.
fn go_on(ftl: &mut Ftl, at: &str) {
    let mut bytes = page(0);
    for logical in (0..ftl.user_pages()).chain(0..ftl.user_pages()) {
        let tag = u64::from(logical) + 5;
        ftl.write(logical, &page(tag), 0).unwrap_or_else(|error| panic!("{at}: {error}"));
        ftl.read(logical, &mut bytes, 0).unwrap();
        assert_eq!(bytes, page(tag), "{at}");
    }
    ftl.check().unwrap_or_else(|error| panic!("{at}: {error}"));
}

/// The table itself, page by page, where no trim waits for a sync: the same as before the cut, but for the page whose program the
/// power cut. That one is where it was, or where it was to go.
#[test]
fn the_table_that_is_found_is_the_one_that_was_lost() {
    const STEPS: u32 = 200;
    let victim = VictimPolicy::Greedy;
    let mut steps_done = 0;
    for operation in 0..operations_without_trims(victim, STEPS) {
        for tear in TEARS {
            let mut ftl = Ftl::open(nand(GEOMETRY), options(victim)).unwrap();
            ftl.nand_mut().cut_power(PowerCut { after_operations: operation, tear });
            steps_done += write_only(&mut ftl, STEPS);
            let lost: Vec<Option<PageId>> = ftl.places().collect();
            let found: Vec<_> = reopen(ftl, victim).places().collect();
            let different: Vec<_> =
                (0..lost.len()).filter(|&logical| lost[logical] != found[logical]).collect();
            let expected_max = usize::from(tear == Tear::Everything);
            assert!(different.len() <= expected_max, "{operation}, {tear:?}: {different:?} differ");
        }
    }
    assert!(steps_done > 0);
}

fn write_only(ftl: &mut Ftl, steps: u32) -> u32 {
    let mut random = Random(3);
    (0..steps)
        .take_while(|&step| ftl.write(random.below(ftl.user_pages()), &page(step.into()), 0).is_ok())
        .count() as u32
}

fn operations_without_trims(victim: VictimPolicy, steps: u32) -> u64 {
    let mut ftl = Ftl::open(nand(GEOMETRY), options(victim)).unwrap();
    assert_eq!(write_only(&mut ftl, steps), steps);
    ftl.nand().counters().programs + ftl.nand().counters().erases
}

#[test]
fn a_second_cut_while_it_goes_on_is_no_worse() {
    let victim = VictimPolicy::Greedy;
    let mut random = Random(5);
    for round in 0..400 {
        let tear = TEARS[round % TEARS.len()];
        let mut ftl = Ftl::open(nand(GEOMETRY), options(victim)).unwrap();
        let mut run = Run::new(&ftl);
        for cut in 0..6 {
            ftl.nand_mut().cut_power(PowerCut { after_operations: random.below(150).into(), tear });
            run.go(&mut ftl, &mut random, 1000);
            ftl = reopen(ftl, victim);
            run.verify(&mut ftl, &format!("round {round}, cut {cut}"));
            run.accept(&mut ftl);
        }
    }
}

#[test]
fn without_power_nothing_works() {
    let mut flash: Nand = nand(GEOMETRY);
    flash.cut_power(PowerCut { after_operations: 0, tear: Tear::Nothing });
    assert_eq!(flash.erase(aquifer_device::nand::BlockId(0), 0), Err(NandError::PowerLost));
    assert_eq!(flash.read(PageId(0), &mut page(0), Urgency::Now, 0), Err(NandError::PowerLost));
    flash.restore_power();
    flash.erase(aquifer_device::nand::BlockId(0), 0).unwrap();
}

#[test]
fn a_snapshot_does_not_change_with_its_original() {
    let mut ftl = Ftl::open(nand(GEOMETRY), options(VictimPolicy::Greedy)).unwrap();
    ftl.write(1, &page(1), 0).unwrap();
    let snapshot = ftl.nand().snapshot().unwrap();
    for step in 0..100 {
        ftl.write(1, &page(100 + step), 0).unwrap();
    }
    let mut bytes = page(0);
    let mut old = Ftl::open(snapshot, options(VictimPolicy::Greedy)).unwrap();
    old.read(1, &mut bytes, 0).unwrap();
    assert_eq!(bytes, page(1));
    ftl.read(1, &mut bytes, 0).unwrap();
    assert_eq!(bytes, page(199));
}

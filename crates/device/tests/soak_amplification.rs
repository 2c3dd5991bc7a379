//! Write amplification of the translation layer against theory: within one percent. Millions of programs each, so only with optimisation.
#![cfg(not(debug_assertions))]

use aquifer_device::ftl::theory;
use aquifer_device::ftl::{Frontiers, Ftl, FtlOptions, VictimPolicy};
use aquifer_device::nand::{Backing, Geometry, Nand, NandOptions};

const BLOCKS: u32 = 3000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

struct Study {
    ftl: Ftl,
    random: Random,
    page: Vec<u8>,
}

impl Study {
    fn new(blocks: u32, pages_per_block: u32, options: FtlOptions) -> Self {
        let geometry = Geometry::single_die(blocks, pages_per_block, 512);
        let nand =
            Nand::new(NandOptions { backing: Backing::OobOnly, ..NandOptions::new(geometry) }).unwrap();
        Study { ftl: Ftl::open(nand, options).unwrap(), random: Random(0x9E37_79B9), page: vec![0; 512] }
    }

    /// Over-provisioning without the reserve, which never holds anything.
    fn spare(&self) -> f64 {
        let blocks = self.ftl.nand().geometry().blocks();
        theory::effective(self.ftl.over_provisioning(), blocks.into(), self.ftl.reserve_blocks().into())
    }

    fn fill(&mut self, pages: u32) {
        for logical in 0..pages {
            self.ftl.write(logical, &self.page, 0).unwrap();
        }
    }

    /// Write amplification of `rounds` times the device's pages, after as many to warm up.
    fn measure(&mut self, rounds: f64, mut step: impl FnMut(&mut Ftl, &mut Random, &[u8])) -> f64 {
        let pages = f64::from(self.ftl.nand().geometry().pages()) * rounds;
        let mut run = |study: &mut Self| {
            let before = study.ftl.counters();
            while ((study.ftl.counters().host_programs - before.host_programs) as f64) < pages {
                step(&mut study.ftl, &mut study.random, &study.page);
            }
            study.ftl.counters().since(&before)
        };
        run(self);
        let measured = run(self);
        self.ftl.check().unwrap();
        measured.write_amplification()
    }
}

fn uniform(ftl: &mut Ftl, random: &mut Random, page: &[u8]) {
    let logical = random.below(ftl.user_pages());
    ftl.write(logical, page, 0).unwrap();
}

/// A study of uniform writes to a full device.
fn measure_uniform(rho: f64, pages_per_block: u32, victim: VictimPolicy, rounds: f64) -> (f64, f64) {
    let options =
        FtlOptions { over_provisioning: rho, victim, frontiers: Frontiers::Shared, ..FtlOptions::default() };
    let mut study = Study::new(BLOCKS, pages_per_block, options);
    let pages = study.ftl.user_pages();
    study.fill(pages);
    let expected = theory::write_amplification(&options, study.spare(), pages_per_block).unwrap();
    (study.measure(rounds, uniform), expected)
}

fn assert_within_a_percent(measured: f64, expected: f64, what: &str) {
    println!("{what}: {measured:.3}, by theory {expected:.3}");
    assert!((measured / expected - 1.0).abs() < 0.01, "{what}: {measured}, by theory {expected}");
}

const OVER_PROVISIONINGS: [f64; 4] = [0.07, 0.1, 0.28, 0.5];

fn compare_with_theory(victim: VictimPolicy, pages_per_block: u32) {
    for rho in OVER_PROVISIONINGS {
        let (measured, expected) = measure_uniform(rho, pages_per_block, victim, 2.0);
        assert_within_a_percent(measured, expected, &format!("{victim:?}, {pages_per_block} pages, {rho}"));
    }
}

#[test]
fn random_victims() {
    compare_with_theory(VictimPolicy::Random, 64);
}

#[test]
fn fifo_does_not_depend_on_the_size_of_blocks() {
    for pages_per_block in [16, 64, 256] {
        compare_with_theory(VictimPolicy::Fifo, pages_per_block);
    }
}

#[test]
fn greedy_with_blocks_of_16() {
    compare_with_theory(VictimPolicy::Greedy, 16);
}

#[test]
fn greedy_with_blocks_of_64() {
    compare_with_theory(VictimPolicy::Greedy, 64);
}

#[test]
fn greedy_with_blocks_of_256() {
    compare_with_theory(VictimPolicy::Greedy, 256);
}

#[test]
fn choices() {
    for count in [2, 5, 10] {
        compare_with_theory(VictimPolicy::Choices(count), 32);
    }
}

#[test]
fn trims_are_spare_room() {
    for (victim, q) in
        [VictimPolicy::Greedy, VictimPolicy::Fifo].into_iter().flat_map(|v| [0.1, 0.2, 0.3].map(|q| (v, q)))
    {
        let options = FtlOptions {
            over_provisioning: 0.1,
            victim,
            frontiers: Frontiers::Shared,
            ..FtlOptions::default()
        };
        let mut study = Study::new(BLOCKS, 32, options);
        let pages = study.ftl.user_pages();
        study.fill(pages);
        let mut in_use: Vec<u32> = (0..pages).collect();
        let mut places: Vec<Option<u32>> = (0..pages).map(Some).collect();
        let measured = study.measure(4.0, |ftl, random, page| {
            if random.unit() < q && !in_use.is_empty() {
                let place = random.below(in_use.len() as u32);
                let logical = in_use.swap_remove(place as usize);
                places[logical as usize] = None;
                if let Some(&moved) = in_use.get(place as usize) {
                    places[moved as usize] = Some(place);
                }
                ftl.trim(logical);
            } else {
                let logical = random.below(pages);
                if places[logical as usize].is_none() {
                    places[logical as usize] = Some(in_use.len() as u32);
                    in_use.push(logical);
                }
                ftl.write(logical, page, 0).unwrap();
            }
        });
        let rho = theory::at_fill(study.spare(), theory::share_in_use(q));
        let expected = theory::write_amplification(&options, rho, 32).unwrap();
        assert_within_a_percent(measured, expected, &format!("{victim:?} with {q} trims"));
    }
}

#[test]
fn unused_pages_are_spare_room() {
    for share in [0.5, 0.7, 0.9] {
        let options = FtlOptions { frontiers: Frontiers::Shared, ..FtlOptions::default() };
        let mut study = Study::new(BLOCKS, 64, options);
        let pages = (f64::from(study.ftl.user_pages()) * share) as u32;
        study.fill(pages);
        let measured = study.measure(2.0, |ftl, random, page| {
            ftl.write(random.below(pages), page, 0).unwrap();
        });
        let expected = theory::greedy(theory::at_fill(study.spare(), share), 64);
        assert_within_a_percent(measured, expected, &format!("{share} full"));
    }
}

/// A share of the pages that takes a share of the writes.
fn measure_skewed(blocks: u32, options: FtlOptions, hot_space: f64, hot_writes: f64) -> (f64, f64) {
    let mut study = Study::new(blocks, 32, options);
    let pages = study.ftl.user_pages();
    study.fill(pages);
    let hot = (f64::from(pages) * hot_space) as u32;
    let measured = study.measure(4.0, |ftl, random, page| {
        let logical =
            if random.unit() < hot_writes { random.below(hot) } else { hot + random.below(pages - hot) };
        ftl.write(logical, page, 0).unwrap();
    });
    (measured, study.spare())
}

#[test]
fn fifo_mixes_hot_and_cold() {
    for (rho, hot_space, hot_writes) in [(0.1, 0.2, 0.8), (0.1, 0.1, 0.9), (0.3, 0.2, 0.8), (0.3, 0.1, 0.9)] {
        let options = FtlOptions {
            over_provisioning: rho,
            victim: VictimPolicy::Fifo,
            frontiers: Frontiers::Shared,
            ..FtlOptions::default()
        };
        let (measured, spare) = measure_skewed(12_000, options, hot_space, hot_writes);
        let classes = [(hot_space, hot_writes), (1.0 - hot_space, 1.0 - hot_writes)];
        let expected = theory::fifo_classes(spare, &classes);
        assert_within_a_percent(measured, expected, &format!("{hot_writes} of writes to {hot_space}, {rho}"));
    }
}

#[test]
fn policies_have_their_order_when_a_tenth_is_hot() {
    for rho in [0.1, 0.3] {
        let measure = |victim, frontiers| {
            let options = FtlOptions { over_provisioning: rho, victim, frontiers, ..FtlOptions::default() };
            measure_skewed(BLOCKS, options, 0.1, 0.9).0
        };
        let cost_benefit = measure(VictimPolicy::CostBenefit, Frontiers::Separate);
        let separate = measure(VictimPolicy::Greedy, Frontiers::Separate);
        let greedy = measure(VictimPolicy::Greedy, Frontiers::Shared);
        let fifo = measure(VictimPolicy::Fifo, Frontiers::Shared);
        println!(
            "{rho}: cost-benefit {cost_benefit:.3}, greedy apart {separate:.3}, greedy {greedy:.3}, FIFO {fifo:.3}"
        );
        assert!(cost_benefit < separate && separate < greedy && greedy < fifo);
    }
}

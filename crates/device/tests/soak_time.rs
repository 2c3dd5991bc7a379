//! Simulated throughput against the bounds that dies and channels set. Millions of programs, so only with optimisation.
#![cfg(not(debug_assertions))]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aquifer_device::ftl::{Ftl, FtlCounters, FtlOptions, theory};
use aquifer_device::nand::{Backing, Geometry, Nand, NandOptions, Timing};

const PAGE_BYTES: u32 = 4096;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u32
    }
}

/// A layer, and the time at which it has done all that it was asked.
struct Simulation {
    ftl: Ftl,
    random: Random,
    page: Vec<u8>,
    now_ns: u64,
}

impl Simulation {
    fn new(geometry: Geometry, timing: Timing, over_provisioning: f64) -> Self {
        let options = NandOptions { timing, backing: Backing::OobOnly, ..NandOptions::new(geometry) };
        let options_of_layer = FtlOptions { over_provisioning, ..FtlOptions::default() };
        let ftl = Ftl::open(Nand::new(options).unwrap(), options_of_layer).unwrap();
        Simulation { ftl, random: Random(9), page: vec![0; PAGE_BYTES as usize], now_ns: 0 }
    }

    /// Keeps `depth` requests under way until `count` have ended; requests per second of simulated time.
    fn rate(
        &mut self,
        depth: usize,
        count: u64,
        mut request: impl FnMut(&mut Ftl, &mut Random, &mut [u8], u64) -> u64,
    ) -> f64 {
        let start_ns = self.now_ns;
        let mut ends: BinaryHeap<Reverse<u64>> = (0..depth).map(|_| Reverse(start_ns)).collect();
        for _ in 0..count {
            let Reverse(at_ns) = ends.pop().unwrap();
            self.ftl.forget_before(at_ns);
            ends.push(Reverse(request(&mut self.ftl, &mut self.random, &mut self.page, at_ns)));
        }
        // The last ones run out together; the rate is up to the first of them.
        let steady_ns = ends.peek().unwrap().0 - start_ns;
        self.now_ns = ends.into_iter().map(|Reverse(end)| end).max().unwrap();
        (count - depth as u64) as f64 * 1e9 / steady_ns as f64
    }

    fn write_randomly(&mut self, depth: usize, pages: u32, count: u64) -> f64 {
        self.rate(depth, count, |ftl, random, page, at| ftl.write(random.below(pages), page, at).unwrap())
    }

    fn write_in_order(&mut self, depth: usize, pages: u32, count: u64) -> f64 {
        let mut logical = 0;
        self.rate(depth, count, |ftl, _, page, at| {
            logical = (logical + 1) % pages;
            ftl.write(logical, page, at).unwrap()
        })
    }

    fn read_randomly(&mut self, depth: usize, count: u64) -> f64 {
        let pages = self.ftl.user_pages();
        self.rate(depth, count, |ftl, random, page, at| ftl.read(random.below(pages), page, at).unwrap())
    }

    fn read_in_order(&mut self, depth: usize, count: u64) -> f64 {
        let (pages, mut logical) = (self.ftl.user_pages(), 0);
        self.rate(depth, count, |ftl, _, page, at| {
            logical = (logical + 1) % pages;
            ftl.read(logical, page, at).unwrap()
        })
    }
}

fn assert_within(got: f64, expected: f64, share: f64, what: &str) {
    println!("{what}: {got:.0}, expected {expected:.0}");
    assert!((got / expected - 1.0).abs() < share, "{what}: {got}, expected {expected}");
}

/// Seconds of die time for one page that the host writes.
fn die_time(counters: &FtlCounters, timing: &Timing) -> f64 {
    let transfer_ns = timing.transfer_ns(PAGE_BYTES);
    let programs = counters.programs() * (timing.program_ns + transfer_ns);
    let reads = counters.cleaning_reads * (timing.read_ns + transfer_ns);
    (programs + reads + counters.erases * timing.erase_ns) as f64 / counters.host_programs as f64 / 1e9
}

#[test]
fn random_writes_reach_what_the_dies_can_do() {
    for (channels, dies_per_channel, over_provisioning) in [(1, 1, 0.1), (4, 2, 0.07), (2, 4, 0.28)] {
        let geometry = Geometry {
            channels,
            dies_per_channel,
            ..Geometry::single_die(2400 / (channels * dies_per_channel), 64, PAGE_BYTES)
        };
        let mut simulation = Simulation::new(geometry, Timing::COMMON, over_provisioning);
        let pages = simulation.ftl.user_pages();
        let dies = geometry.dies();
        simulation.write_in_order(32, pages, pages.into());
        simulation.write_randomly(8 * dies as usize, pages, 3 * u64::from(pages));
        let before = simulation.ftl.counters();
        let rate = simulation.write_randomly(8 * dies as usize, pages, u64::from(pages));
        let counters = simulation.ftl.counters().since(&before);
        let bound = f64::from(dies) / die_time(&counters, &Timing::COMMON);
        assert_within(rate, bound, 0.03, &format!("{dies} dies, A {:.2}", counters.write_amplification()));
        simulation.ftl.check().unwrap();
    }
}

#[test]
fn random_writes_reach_what_the_channel_can_do() {
    // 16 dies behind 40 MB/s.
    let timing = Timing { bus_bytes_per_s: 40_000_000, ..Timing::COMMON };
    let geometry = Geometry { dies_per_channel: 16, ..Geometry::single_die(150, 64, PAGE_BYTES) };
    let mut simulation = Simulation::new(geometry, timing, 0.28);
    let pages = simulation.ftl.user_pages();
    let in_order = simulation.write_in_order(128, pages, pages.into());
    assert_within(in_order, 40e6 / f64::from(PAGE_BYTES), 0.03, "in order");
    simulation.write_randomly(128, pages, 3 * u64::from(pages));
    let before = simulation.ftl.counters();
    let rate = simulation.write_randomly(128, pages, u64::from(pages));
    let a = simulation.ftl.counters().since(&before).write_amplification();
    // Each page goes in once, and each moved page out and in.
    assert_within(rate, 40e6 / ((2.0 * a - 1.0) * f64::from(PAGE_BYTES)), 0.03, &format!("A {a:.2}"));
}

#[test]
fn random_reads_reach_what_dies_and_channels_can_do() {
    for (channels, dies_per_channel, bus) in [(1, 1, 800_000_000), (4, 2, 800_000_000), (2, 16, 100_000_000)]
    {
        let timing = Timing { bus_bytes_per_s: bus, ..Timing::COMMON };
        let geometry = Geometry { channels, dies_per_channel, ..Geometry::single_die(40, 64, PAGE_BYTES) };
        let mut simulation = Simulation::new(geometry, timing, 0.5);
        let pages = simulation.ftl.user_pages();
        simulation.write_in_order(64, pages, pages.into());
        let rate = simulation.read_randomly(1024, 200_000);
        let by_dies =
            f64::from(geometry.dies()) * 1e9 / (timing.read_ns + timing.transfer_ns(PAGE_BYTES)) as f64;
        let by_channels = f64::from(channels) * bus as f64 / f64::from(PAGE_BYTES);
        assert_within(rate, by_dies.min(by_channels), 0.03, &format!("{channels} x {dies_per_channel} dies"));
    }
}

/// Reads go before what is planned, and yet a die does no more than it can.
#[test]
fn reads_and_writes_share_the_time_of_the_dies() {
    let geometry = Geometry { channels: 4, dies_per_channel: 2, ..Geometry::single_die(200, 64, PAGE_BYTES) };
    let mut simulation = Simulation::new(geometry, Timing::COMMON, 0.28);
    let pages = simulation.ftl.user_pages();
    simulation.write_in_order(64, pages, pages.into());
    simulation.write_randomly(64, pages, 2 * u64::from(pages));
    for reads_in_8 in [2, 4, 6] {
        let before = simulation.ftl.counters();
        let rate = simulation.rate(512, u64::from(pages), |ftl, random, page, at| {
            let logical = random.below(pages);
            if random.below(8) < reads_in_8 {
                ftl.read(logical, page, at).unwrap()
            } else {
                ftl.write(logical, page, at).unwrap()
            }
        });
        let counters = simulation.ftl.counters().since(&before);
        let read_share = counters.host_reads as f64 / (counters.host_reads + counters.host_programs) as f64;
        let read_s = (Timing::COMMON.read_ns + Timing::COMMON.transfer_ns(PAGE_BYTES)) as f64 / 1e9;
        let mean_s = read_share * read_s + (1.0 - read_share) * die_time(&counters, &Timing::COMMON);
        assert_within(rate, f64::from(geometry.dies()) / mean_s, 0.03, &format!("{reads_in_8} reads in 8"));
    }
}

#[test]
fn more_requests_help_up_to_rate_times_latency() {
    // 16 dies on one channel of 400 MB/s: the channel's limit is 97,656 reads per second, one read takes 50.24 us, so 4.9 reads
    // fill the channel (Little's law).
    let timing = Timing { bus_bytes_per_s: 400_000_000, ..Timing::COMMON };
    let geometry = Geometry { dies_per_channel: 16, ..Geometry::single_die(40, 64, PAGE_BYTES) };
    let mut simulation = Simulation::new(geometry, timing, 0.5);
    let pages = simulation.ftl.user_pages();
    simulation.write_in_order(64, pages, pages.into());
    let latency_s = (timing.read_ns + timing.transfer_ns(PAGE_BYTES)) as f64 / 1e9;
    let limit = 400e6 / f64::from(PAGE_BYTES);
    let knee = limit * latency_s;
    assert!((4.0..6.0).contains(&knee));
    for depth in 1..=16 {
        let rate = simulation.read_in_order(depth, 40_000);
        let expected = limit.min(depth as f64 / latency_s);
        assert_within(rate, expected, 0.03, &format!("depth {depth}"));
    }
}

/// The study's fragmentation: random writes of a device with little spare room, by how full it is.
#[test]
fn a_full_device_writes_a_quarter_of_what_a_fresh_one_does() {
    let geometry =
        Geometry { channels: 4, dies_per_channel: 2, ..Geometry::single_die(240, 256, PAGE_BYTES) };
    let fresh = {
        let mut simulation = Simulation::new(geometry, Timing::COMMON, 0.07);
        let pages = simulation.ftl.user_pages();
        simulation.write_randomly(64, pages, u64::from(pages) / 2)
    };
    for (share, low, high) in [(0.5, 0.70, 0.82), (0.7, 0.45, 0.58), (0.9, 0.21, 0.29), (1.0, 0.08, 0.13)] {
        let mut simulation = Simulation::new(geometry, Timing::COMMON, 0.07);
        let pages = (f64::from(simulation.ftl.user_pages()) * share) as u32;
        simulation.write_in_order(64, pages, pages.into());
        simulation.write_randomly(64, pages, 3 * u64::from(geometry.pages()));
        let before = simulation.ftl.counters();
        let rate = simulation.write_randomly(64, pages, u64::from(pages)) / fresh;
        let a = simulation.ftl.counters().since(&before).write_amplification();
        println!(
            "{share} full: {rate:.2} of fresh, A {a:.2}, FIFO's {:.2}",
            theory::fifo(theory::at_fill(0.07, share))
        );
        assert!((low..high).contains(&rate), "{share} full: {rate} of fresh");
    }
}

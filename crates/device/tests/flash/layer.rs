//! The translation layer against a model, and its equations.

use std::collections::HashMap;

use aquifer_device::ftl::{Frontiers, Ftl, FtlOpenError, FtlOptions, VictimPolicy, WearLeveling};
use aquifer_device::nand::{Geometry, Nand, NandOptions, Wear};
use proptest::prelude::*;

use crate::{Random, ftl, nand, page};

const GEOMETRY: Geometry = Geometry {
    channels: 2,
    dies_per_channel: 2,
    planes_per_die: 1,
    blocks_per_plane: 12,
    pages_per_block: 8,
    page_bytes: 512,
};

fn policies() -> impl Strategy<Value = VictimPolicy> {
    prop_oneof![
        Just(VictimPolicy::Random),
        Just(VictimPolicy::Fifo),
        Just(VictimPolicy::Greedy),
        (1u32..5).prop_map(VictimPolicy::Choices),
        Just(VictimPolicy::CostBenefit),
    ]
}

fn all_options() -> impl Strategy<Value = FtlOptions> {
    (policies(), any::<bool>(), any::<bool>(), prop::option::of(0u32..4), any::<u64>()).prop_map(
        |(victim, apart, dynamic, static_threshold, seed)| FtlOptions {
            over_provisioning: 0.9,
            victim,
            frontiers: if apart { Frontiers::Separate } else { Frontiers::Shared },
            wear_leveling: WearLeveling { dynamic, static_threshold },
            seed,
            ..FtlOptions::default()
        },
    )
}

/// Writes, trims, syncs and openings at random; `model` is what a reader must find.
fn drive(ftl: Ftl, model: &mut HashMap<u32, u64>, random: &mut Random, steps: u32) -> Ftl {
    let mut ftl = ftl;
    for step in 0..steps {
        let logical = random.below(ftl.user_pages());
        match random.below(100) {
            0..80 => {
                let tag = u64::from(step) << 32 | u64::from(logical);
                ftl.write(logical, &page(tag), 0).unwrap();
                model.insert(logical, tag);
            }
            80..97 => {
                ftl.trim(logical);
                model.remove(&logical);
            }
            97 => {
                ftl.check().unwrap();
            }
            98 => {
                ftl.sync(0).unwrap();
            }
            _ => {
                ftl.sync(0).unwrap();
                let options = FtlOptions { over_provisioning: 0.9, ..FtlOptions::default() };
                let before: Vec<_> = ftl.places().collect();
                ftl = Ftl::open(ftl.into_nand(), options).unwrap();
                assert!(ftl.places().eq(before), "the table that is found again is the one that was lost");
            }
        }
    }
    ftl
}

fn assert_as_model(ftl: &mut Ftl, model: &HashMap<u32, u64>) {
    let mut bytes = page(0);
    for logical in 0..ftl.user_pages() {
        ftl.read(logical, &mut bytes, 0).unwrap();
        let expected = model.get(&logical).map_or_else(|| vec![0; 512], |&tag| page(tag));
        assert!(bytes == expected, "logical page {logical}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn is_as_a_model_with_every_policy(options in all_options(), seed in 1u64..) {
        let layer = Ftl::open(nand(GEOMETRY), options).unwrap();
        let (mut model, mut random) = (HashMap::new(), Random(seed));
        let mut layer = drive(layer, &mut model, &mut random, 3000);
        assert_as_model(&mut layer, &model);
        layer.check().unwrap();
    }

    #[test]
    fn failing_programs_lose_nothing(options in all_options(), seed in 1u64..) {
        // One program in 500 fails; with it goes a block.
        let wear = Wear { program_failures_ppb: 2_000_000, ..Wear::default() };
        let flash = Nand::new(NandOptions { wear, seed, ..NandOptions::new(GEOMETRY) }).unwrap();
        let mut layer = Ftl::open(flash, options).unwrap();
        let (mut model, mut random) = (HashMap::new(), Random(seed));
        for step in 0..20_000u64 {
            // Whether a program fails is chance: one seed in a thousand has none in so few writes.
            if step >= 2000 && layer.counters().failed_programs > 0 {
                break;
            }
            let logical = random.below(layer.user_pages());
            // A device that has worn out holds what it held.
            if layer.write(logical, &page(step), 0).is_ok() {
                model.insert(logical, step);
            }
        }
        prop_assert!(layer.counters().failed_programs > 0);
        layer.check().unwrap();
        assert_as_model(&mut layer, &model);
    }
}

#[test]
fn over_provisioning_is_spare_by_user_pages() {
    let layer = ftl(Geometry::single_die(100, 10, 512), 0.25);
    assert_eq!(layer.user_pages(), 800);
    assert_eq!(layer.over_provisioning(), 0.25);
}

#[test]
fn too_little_spare_room_is_refused_with_advice() {
    let options = FtlOptions { over_provisioning: 0.01, ..FtlOptions::default() };
    let error = Ftl::open(nand(GEOMETRY), options).unwrap_err();
    assert!(matches!(error, FtlOpenError::TooFewSpareBlocks { .. }), "{error:?}");
    assert!(error.to_string().contains("raise the over-provisioning"));
    for over_provisioning in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let options = FtlOptions { over_provisioning, ..FtlOptions::default() };
        assert!(matches!(Ftl::open(nand(GEOMETRY), options), Err(FtlOpenError::OverProvisioning(_))));
    }
}

#[test]
fn flash_of_another_layer_is_refused() {
    let mut layer = ftl(GEOMETRY, 0.9);
    let last = layer.user_pages() - 1;
    layer.write(last, &page(1), 0).unwrap();
    let options = FtlOptions { over_provisioning: 1.5, ..FtlOptions::default() };
    let error = Ftl::open(layer.into_nand(), options).unwrap_err();
    assert_eq!(error, FtlOpenError::ForeignPage { logical: last.into(), user_pages: 153 });
}

#[test]
fn greedy_leaves_as_many_blocks_of_each_validity_as_theory_says() {
    // i f(i) is the same for all i above the fewest valid pages.
    let mut layer = ftl(Geometry::single_die(2000, 16, 512), 0.3);
    let (pages, mut random) = (layer.user_pages(), Random(7));
    for step in 0..8 * u64::from(pages) {
        let logical = if step < pages.into() { step as u32 } else { random.below(pages) };
        layer.write(logical, &page(step), 0).unwrap();
    }
    let histogram = layer.valid_histogram();
    let products: Vec<f64> =
        (11..16).map(|valid| f64::from(valid) * f64::from(histogram[valid as usize])).collect();
    let mean = products.iter().sum::<f64>() / products.len() as f64;
    assert!(products.iter().all(|product| (product / mean - 1.0).abs() < 0.2), "{products:?}");
}

//! Wear: how it spreads, and what it does.

use aquifer_device::Pacing;
use aquifer_device::ftl::{Ftl, FtlDevice, FtlError, FtlOptions, WearLeveling};
use aquifer_device::nand::{BlockId, Geometry, Nand, NandError, NandOptions, OOB_BYTES, PageId, Wear};
use aquifer_device::{AlignedBuffer, Device, DeviceError};

use crate::{Random, nand, page};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 1,
    planes_per_die: 1,
    blocks_per_plane: 200,
    pages_per_block: 8,
    page_bytes: 512,
};

/// Erase counts after `rounds` times the device was written, where half of the pages are never written again.
fn spreads(static_threshold: Option<u32>, rounds: [u32; 2]) -> [u32; 2] {
    let wear_leveling = WearLeveling { dynamic: true, static_threshold };
    let options = FtlOptions { over_provisioning: 0.2, wear_leveling, ..FtlOptions::default() };
    let mut ftl = Ftl::open(nand(GEOMETRY), options).unwrap();
    let pages = ftl.user_pages();
    for logical in 0..pages {
        ftl.write(logical, &page(logical.into()), 0).unwrap();
    }
    let mut random = Random(1);
    rounds.map(|rounds| {
        for _ in 0..rounds * pages {
            ftl.write(random.below(pages / 2), &page(9), 0).unwrap();
        }
        ftl.check().unwrap();
        assert_eq!(static_threshold.is_some(), ftl.counters().leveling_programs > 0);
        let (fewest, most) = ftl.erase_spread();
        most - fewest
    })
}

#[test]
fn without_static_levelling_the_spread_grows_with_every_write() {
    let [early, late] = spreads(None, [20, 20]);
    assert!(early > 20 && f64::from(late) > 1.8 * f64::from(early), "{early}, then {late}");
}

#[test]
fn with_static_levelling_the_spread_has_a_bound() {
    for threshold in [4, 16] {
        let spread = spreads(Some(threshold), [20, 20]);
        assert!(spread.iter().all(|&spread| spread <= threshold + 4), "{threshold}: {spread:?}");
    }
}

#[test]
fn dynamic_levelling_gives_new_pages_to_rested_blocks() {
    let spread = |dynamic| {
        let wear_leveling = WearLeveling { dynamic, static_threshold: None };
        let options = FtlOptions { over_provisioning: 0.5, wear_leveling, ..FtlOptions::default() };
        let mut ftl = Ftl::open(nand(GEOMETRY), options).unwrap();
        let mut random = Random(1);
        // Few pages are in use, so most blocks wait to be used.
        for step in 0..200_000 {
            ftl.write(random.below(40), &page(step), 0).unwrap();
        }
        let (fewest, most) = ftl.erase_spread();
        most - fewest
    };
    assert!(spread(true) <= 2, "{}", spread(true));
    assert!(spread(true) <= spread(false));
}

#[test]
fn worn_out_flash_refuses_writes_and_is_still_read() {
    let wear = Wear { erase_limit: 30, ..Wear::default() };
    let nand = Nand::new(NandOptions { wear, ..NandOptions::new(GEOMETRY) }).unwrap();
    let mut ftl = Ftl::open(nand, FtlOptions { over_provisioning: 0.2, ..FtlOptions::default() }).unwrap();
    let pages = ftl.user_pages();
    let (mut random, mut held) = (Random(1), vec![0u64; pages as usize]);
    let error = (1..).find_map(|step| {
        let logical = random.below(pages);
        let outcome = ftl.write(logical, &page(step), 0);
        if outcome.is_ok() {
            held[logical as usize] = step;
        }
        outcome.err()
    });
    assert_eq!(error, Some(FtlError::WornOut));
    assert!(ftl.counters().retired_blocks > 0);
    let mut bytes = page(0);
    for logical in 0..pages {
        ftl.read(logical, &mut bytes, 0).unwrap();
        assert_eq!(bytes, page(held[logical as usize]));
    }
    let mut ftl =
        Ftl::open(ftl.into_nand(), FtlOptions { over_provisioning: 0.2, ..FtlOptions::default() }).unwrap();
    ftl.read(7, &mut bytes, 0).unwrap();
    assert_eq!(bytes, page(held[7]), "also after it was opened again");
    let device = FtlDevice::new(ftl, Pacing::Simulated);
    let block = device.block_bytes();
    let refused = (0..10_000).find_map(|_| device.write_at(0, &AlignedBuffer::new(block)).err());
    assert!(matches!(refused, Some(DeviceError::WornOut { .. })), "{refused:?}");
}

#[test]
fn errors_that_can_be_mended_are_and_others_are_told() {
    let wear = Wear {
        erase_limit: 200,
        bit_error_rate_fresh: 1e-3,
        bit_error_rate_worn: 1e-2,
        correctable_bits: 8,
        ..Wear::default()
    };
    let options = NandOptions { wear, ..NandOptions::new(GEOMETRY) };
    let mut ftl = Ftl::open(
        Nand::new(options).unwrap(),
        FtlOptions { over_provisioning: 0.5, ..FtlOptions::default() },
    )
    .unwrap();
    let pages = ftl.user_pages();
    let mut bytes = page(0);
    for logical in 0..pages {
        ftl.write(logical, &page(logical.into()), 0).unwrap();
    }
    let mut lost = 0;
    let mut random = Random(1);
    for step in 0..60_000u64 {
        let logical = random.below(pages);
        match ftl.read(logical, &mut bytes, 0) {
            Ok(_) => assert_eq!(bytes[..4], logical.to_le_bytes(), "never wrong bytes"),
            Err(FtlError::Lost(_)) => lost += 1,
            Err(error) => panic!("{error}"),
        }
        let logical = random.below(pages);
        ftl.write(logical, &page(u64::from(logical) | step << 32), 0).unwrap();
    }
    assert!(ftl.nand().counters().corrected_bits > 100_000);
    assert!(lost > 0 && ftl.counters().lost_pages > 0, "{lost} {}", ftl.counters().lost_pages);
    // A page whose bytes were lost when it was moved says so ever after, until it is written.
    let options = FtlOptions { over_provisioning: 0.5, ..FtlOptions::default() };
    let mut ftl = Ftl::open(ftl.into_nand(), options).unwrap();
    let marked: Vec<_> =
        (0..pages).filter(|&logical| (0..9).all(|_| ftl.read(logical, &mut bytes, 0).is_err())).collect();
    for logical in marked {
        ftl.write(logical, &page(1), 0).unwrap();
        assert!((0..9).any(|_| ftl.read(logical, &mut bytes, 0).is_ok()));
    }
}

#[test]
fn planned_failures_come_when_they_were_planned() {
    let mut nand = nand(GEOMETRY);
    [1, 2].into_iter().for_each(|after| nand.fail(after));
    let mut program = |index| nand.program(PageId(index), &page(1), &[0; OOB_BYTES], 0);
    assert_eq!(program(0), Ok(0));
    assert_eq!(program(1), Err(NandError::ProgramFailed(PageId(1))));
    assert_eq!(nand.erase(BlockId(0), 0), Err(NandError::EraseFailed(BlockId(0))));
    assert_eq!((nand.used_pages(BlockId(0)), nand.is_bad(BlockId(0))), (2, true));
    assert_eq!(nand.erase(BlockId(1), 0), Ok(0));
}

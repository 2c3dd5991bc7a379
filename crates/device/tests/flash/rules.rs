//! Each broken rule of NAND is reported as its own error.

use aquifer_device::nand::Nand;
use aquifer_device::nand::{
    BlockId, Geometry, GeometryError, NandError, NandOpenError, NandOptions, OOB_BYTES, PageId, Urgency,
    Violation, Wear,
};

use crate::{nand, page};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    dies_per_channel: 2,
    planes_per_die: 1,
    blocks_per_plane: 2,
    pages_per_block: 4,
    page_bytes: 512,
};
const OOB: [u8; OOB_BYTES] = [7; OOB_BYTES];

fn violation(outcome: Result<u64, NandError>) -> Violation {
    match outcome {
        Err(NandError::Violation(violation)) => violation,
        other => panic!("no violation: {other:?}"),
    }
}

#[test]
fn a_page_is_programmed_once_between_erases() {
    let mut nand = nand(GEOMETRY);
    nand.program(PageId(0), &page(1), &OOB, 0).unwrap();
    let again = violation(nand.program(PageId(0), &page(2), &OOB, 0));
    assert_eq!(again, Violation::ProgramTwice { page: PageId(0), next: 1 });
    let mut bytes = page(0);
    assert_eq!(nand.read(PageId(0), &mut bytes, Urgency::Now, 0).unwrap().oob, OOB);
    assert_eq!(bytes, page(1), "the first program stands");
    nand.erase(BlockId(0), 0).unwrap();
    nand.read(PageId(0), &mut bytes, Urgency::Now, 0).unwrap();
    assert_eq!(bytes, [0xFF; 512]);
    nand.program(PageId(0), &page(2), &OOB, 0).unwrap();
}

#[test]
fn pages_of_a_block_are_programmed_in_order() {
    let mut nand = nand(GEOMETRY);
    let skipped = violation(nand.program(PageId(5), &page(1), &OOB, 0));
    assert_eq!(skipped, Violation::OutOfOrder { page: PageId(5), next: 0 });
    nand.program(PageId(4), &page(1), &OOB, 0).unwrap();
    nand.program(PageId(5), &page(1), &OOB, 0).unwrap();
    assert_eq!(nand.used_pages(BlockId(1)), 2);
}

#[test]
fn what_does_not_exist_and_what_does_not_fit_is_refused() {
    let mut nand = nand(GEOMETRY);
    assert_eq!(violation(nand.program(PageId(16), &page(1), &OOB, 0)), Violation::OutOfRange(PageId(16)));
    assert_eq!(violation(nand.erase(BlockId(4), 0)), Violation::OutOfRange(PageId(16)));
    let short = violation(nand.program(PageId(0), &page(1)[..511], &OOB, 0));
    assert_eq!(short, Violation::WrongLength { page_bytes: 512, got: 511 });
    assert_eq!(nand.counters().programs, 0, "nothing was done");
}

#[test]
fn bad_blocks_are_left_alone() {
    let mut nand = nand(GEOMETRY);
    nand.program(PageId(0), &page(1), &OOB, 0).unwrap();
    nand.retire(BlockId(0)).unwrap();
    assert_eq!(violation(nand.program(PageId(1), &page(1), &OOB, 0)), Violation::BadBlock(BlockId(0)));
    assert_eq!(violation(nand.erase(BlockId(0), 0)), Violation::BadBlock(BlockId(0)));
    let mut bytes = page(0);
    nand.read(PageId(0), &mut bytes, Urgency::Now, 0).unwrap();
    assert_eq!(bytes, page(1), "what it holds can still be read");
}

#[test]
fn the_factory_marks_bad_blocks_by_the_seed() {
    let wear = Wear { factory_bad_ppm: 100_000, ..Wear::default() };
    let geometry = Geometry::single_die(1000, 1, 512);
    let bad = |seed| {
        let nand = Nand::new(NandOptions { wear, seed, ..NandOptions::new(geometry) }).unwrap();
        (0..1000).filter(|&block| nand.is_bad(BlockId(block))).collect::<Vec<_>>()
    };
    assert!((60..140).contains(&bad(1).len()), "{}", bad(1).len());
    assert_eq!(bad(1), bad(1));
    assert_ne!(bad(1), bad(2));
}

#[test]
fn a_geometry_that_cannot_be_is_refused() {
    let options = NandOptions::new(Geometry { page_bytes: 1000, ..GEOMETRY });
    let error = Nand::new(options).unwrap_err();
    assert!(matches!(error, NandOpenError::Geometry(GeometryError::PageBytes(1000))));
}

//! A leaf of the translation table that is unpacked.

use aquifer_base::limits::{LEAF_PAGES, LOG_ADDRESS_BITS, OS_PAGE_BYTES};
use aquifer_log::record::record_bytes;
use aquifer_map::packed::{PACKED_BYTES_MAX, decode, encode, place_of};
use aquifer_map::{Image, Place};

const BLOCK_BYTES: usize = 256 << 10;
/// What a fault reads at once must fit its memory, whatever the leaf says.
const SPAN_BYTES_MAX: usize = OS_PAGE_BYTES + 512;

/// A leaf that is understood leads every page to a place that can be read, the same one whether all pages
/// are asked for or one, and can be packed again. The first two bytes are the size of its pages.
pub fn property(input: &[u8]) {
    let Some((size, packed)) = input.split_first_chunk() else { return };
    let page_bytes = usize::from(u16::from_le_bytes(*size)) % OS_PAGE_BYTES + 1;
    let mut image = Image::default();
    let whole = decode(packed, page_bytes, &mut image);
    for index in 0..LEAF_PAGES {
        let place = place_of(packed, index, page_bytes);
        if let Ok(place) = place {
            check_place(place, page_bytes);
        }
        if whole.is_ok() {
            assert_eq!(place, Ok(image.place(index)), "page {index}");
        }
    }
    if whole.is_ok() {
        check_packing(&image, page_bytes);
    }
}

fn check_place(place: Place, page_bytes: usize) {
    let Some(address) = place.address() else { return };
    assert!(address.0 > 0 && address.0 >> LOG_ADDRESS_BITS == 0, "{place:?}");
    assert!(place.records() > 0, "{place:?}");
    let limit = record_bytes(page_bytes).max(SPAN_BYTES_MAX);
    assert!(place.span_bytes(page_bytes) <= limit, "{place:?}");
}

fn check_packing(image: &Image, page_bytes: usize) {
    let mut packed = [0; PACKED_BYTES_MAX];
    let len = encode(image, page_bytes, BLOCK_BYTES, &mut packed);
    let mut unpacked = Image::default();
    decode(&packed[..len], page_bytes, &mut unpacked).expect("what was packed can be unpacked");
    for index in 0..LEAF_PAGES {
        let (before, after) = (image.place(index), unpacked.place(index));
        match before.address() {
            None => assert_eq!(after, Place::ZERO, "page {index}"),
            Some(address) => {
                assert!(after.covers(address, page_bytes), "page {index}: {before:?}, {after:?}")
            }
        }
    }
}

//! What changed in a leaf since it was written to the log.
//!
//! A packed leaf has hundreds of bytes, a group of pages that is written together changes a few dozen. So when RAM is
//! short of room for whole leaves, only the changes stay there, until there are enough of them to write the
//! leaf anew.
//!
//! ```text
//! group, repeated: address (5 bytes) | records u8 | count u8 | first index u16 | count - 1 x distance u8
//! ```
//! The pages of a group are in the cluster of `records` records at `address`; address 0: they are zero. Groups are
//! in no order and name different pages.

use aquifer_base::LogAddress;
use aquifer_base::limits::LEAF_PAGES;

use crate::image::{Image, Place};
use crate::packed::{self, Malformed};

const GROUP_BYTES: usize = 9;
const PAGES_MAX: usize = u8::MAX as usize;

/// Writes the changes from `base` to `image` to `out`; the bytes used, or `None` if they do not fit.
pub fn encode(
    base: &Image,
    image: &Image,
    page_bytes: usize,
    block_bytes: usize,
    out: &mut [u8],
) -> Option<usize> {
    let mut changes = Image::default();
    let mut changed = [(0u16, 0u16); LEAF_PAGES];
    let mut changed_len = 0;
    for index in (0..LEAF_PAGES).filter(|&index| base.place(index) != image.place(index)) {
        changes.replace(index, image.place(index));
        changed[changed_len].0 = index as u16;
        changed_len += 1;
    }
    let changed = &mut changed[..changed_len];
    let mut clusters = [0u64; LEAF_PAGES];
    let count = packed::collect_clusters(&changes, page_bytes, block_bytes, &mut clusters);
    for (index, number) in &mut *changed {
        *number = packed::cluster_of(&clusters[..count], changes.place(usize::from(*index))) as u16;
    }
    let mut used = 0;
    for number in 0..=count {
        let place = if number == 0 { Place::ZERO } else { Place::from_word(clusters[number - 1]) };
        let members = changed.iter().filter(|(_, in_cluster)| usize::from(*in_cluster) == number);
        let mut pages = members.map(|&(index, _)| usize::from(index)).peekable();
        while let Some(first) = pages.next() {
            let group = out.get_mut(used..used + GROUP_BYTES)?;
            packed::write_address(group, place.address().map_or(0, |a| a.0));
            group[5] = place.records();
            group[7..9].copy_from_slice(&(first as u16).to_le_bytes());
            let (count_at, mut last, mut members) = (used + 6, first, 1);
            used += GROUP_BYTES;
            while let Some(next) = pages.next_if(|&next| next - last <= 255 && members < PAGES_MAX) {
                *out.get_mut(used)? = (next - last) as u8;
                (last, members, used) = (next, members + 1, used + 1);
            }
            out[count_at] = members as u8;
        }
    }
    Some(used)
}

/// Calls `visit` for each changed page until that returns false.
pub(crate) fn for_each(patch: &[u8], visit: &mut dyn FnMut(usize, Place) -> bool) -> Result<(), Malformed> {
    let mut rest = patch;
    while !rest.is_empty() {
        let (group, behind) = rest.split_at_checked(GROUP_BYTES).ok_or(Malformed)?;
        let address = LogAddress(packed::read_address(group));
        let (records, members) = (group[5], usize::from(group[6]));
        let place = match (address.0, records) {
            (0, 0) => Place::ZERO,
            (1.., 1..) => Place::cluster(address, records),
            _ => return Err(Malformed),
        };
        let (distances, behind) =
            behind.split_at_checked(members.checked_sub(1).ok_or(Malformed)?).ok_or(Malformed)?;
        let mut index = usize::from(u16::from_le_bytes([group[7], group[8]]));
        for distance in std::iter::once(0).chain(distances.iter().copied()) {
            index += usize::from(distance);
            if index >= LEAF_PAGES {
                return Err(Malformed);
            }
            if !visit(index, place) {
                return Ok(());
            }
        }
        rest = behind;
    }
    Ok(())
}

/// The new place of the page at `index`; `None` if it has not changed.
///
/// # Errors
/// [`Malformed`] if the bytes are no patch.
///
/// # Context
/// Runs in fault handlers.
pub fn place_of(patch: &[u8], index: usize) -> Result<Option<Place>, Malformed> {
    let mut found = None;
    for_each(patch, &mut |at, place| {
        found = (at == index).then_some(place);
        found.is_none()
    })?;
    Ok(found)
}

/// Makes the changes in `image`.
///
/// # Errors
/// [`Malformed`] if the bytes are no patch; some changes may have been made.
pub fn apply(patch: &[u8], image: &mut Image) -> Result<(), Malformed> {
    for_each(patch, &mut |index, place| {
        image.replace(index, place);
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use aquifer_log::record::record_bytes;

    const PAGE_BYTES: usize = 128;
    const BLOCK_BYTES: usize = 128 << 10;

    fn address(n: usize) -> LogAddress {
        LogAddress::from_offset((BLOCK_BYTES + n * record_bytes(PAGE_BYTES)) as u64)
    }

    fn loaded() -> Image {
        let mut image = Image::default();
        for n in 0..LEAF_PAGES {
            image.replace(n, Place::exact(address(n)));
        }
        image
    }

    fn check(base: &Image, image: &Image) -> usize {
        let mut out = [0; 4096];
        let len = encode(base, image, PAGE_BYTES, BLOCK_BYTES, &mut out).expect("fits");
        let patch = &out[..len];
        let mut patched = base.clone();
        apply(patch, &mut patched).expect("intact");
        for index in 0..LEAF_PAGES {
            let (wanted, got) = (image.place(index), patched.place(index));
            match wanted.address() {
                None => assert_eq!(got, Place::ZERO, "page {index}"),
                Some(address) => assert!(got.covers(address, PAGE_BYTES), "page {index}: {wanted:?} {got:?}"),
            }
            let changed = base.place(index) != wanted;
            let place = place_of(patch, index).expect("intact");
            assert_eq!(place, changed.then_some(got), "page {index}");
        }
        len
    }

    #[test]
    fn a_group_takes_little_more_than_a_byte_per_page() {
        let base = loaded();
        assert_eq!(check(&base, &base), 0);
        let mut image = base.clone();
        for (n, index) in (3..LEAF_PAGES).step_by(21).enumerate() {
            image.replace(index, Place::exact(address(1000 + n)));
        }
        assert_eq!(check(&base, &image), 9 + 24);
    }

    #[test]
    fn zeros_far_neighbours_and_second_changes() {
        let base = loaded();
        let mut image = base.clone();
        for index in [0, 1, 300, 511] {
            image.replace(index, Place::ZERO);
        }
        for (n, index) in [7, 290, 400].into_iter().enumerate() {
            image.replace(index, Place::exact(address(2000 + n)));
        }
        check(&base, &image);
        for index in [1, 290, 5] {
            image.replace(index, Place::exact(address(3000 + index)));
        }
        check(&base, &image);
        for n in 0..LEAF_PAGES {
            image.replace(n, Place::exact(address(7 * n + 5000)));
        }
        let mut out = [0; 4096];
        assert_eq!(encode(&base, &image, PAGE_BYTES, BLOCK_BYTES, &mut out), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for patch in [&[1u8][..], &[0; 9], &[1, 0, 0, 0, 0, 1, 1, 0, 2], &[1, 0, 0, 0, 0, 0, 1, 0, 0]] {
            assert_eq!(place_of(patch, 0), Err(Malformed), "{patch:?}");
            assert_eq!(apply(patch, &mut Image::default()), Err(Malformed));
        }
    }
}

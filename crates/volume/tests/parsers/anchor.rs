//! An anchor, the superblock of a volume.

use aquifer_volume::anchor::Anchor;
use aquifer_volume::word::{PAGE_BYTES, crc_of};

/// What is taken for an anchor is one: it comes back from its own bytes. The checksum of the input is made to agree as well.
pub fn property(input: &[u8]) {
    look(input);
    let mut signed = input.to_vec();
    if let Ok(geometry) = Anchor::geometry_in(&signed)
        && let Some(whole) = signed.get(12..Anchor::pages(geometry) as usize * PAGE_BYTES)
    {
        let crc = crc_of(whole);
        signed[8..12].copy_from_slice(&crc.to_le_bytes());
        look(&signed);
    }
}

fn look(bytes: &[u8]) {
    let Ok(anchor) = Anchor::decode(bytes) else { return };
    assert_eq!(Anchor::geometry_in(bytes), Ok(anchor.geometry));
    assert_eq!(anchor.units.len(), anchor.geometry.segments as usize);
    assert_eq!(Anchor::decode(&anchor.encode()), Ok(anchor));
}

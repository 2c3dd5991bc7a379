//! A page of a folder as it is on flash: entries one after the other, which fill it. What is done with names is in `names`.
//!
//! ```text
//! ino u32 (0: free) | length u16, a multiple of 8 | name length u8 | kind u8 | the name | zeros
//! ```

use crate::inode::Kind;
use crate::key::Ino;
use crate::word::{PAGE_BYTES, PageBytes};

/// Longest name.
pub const NAME_BYTES_MAX: usize = 255;

const HEADER_BYTES: usize = 8;

/// An entry of a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Bytes from the start of the page.
    pub at: usize,
    /// Bytes to the next.
    pub len: usize,
    /// Whose name; `None` for room that is free.
    pub target: Option<(Ino, Kind)>,
    /// The name.
    pub name: &'a [u8],
}

/// Bytes that an entry named `name` takes.
#[must_use]
pub fn entry_bytes(name: &[u8]) -> usize {
    (HEADER_BYTES + name.len()).next_multiple_of(8)
}

/// The entries of a page; a damaged one ends with `None`.
pub fn entries(page: &PageBytes) -> impl Iterator<Item = Option<Entry<'_>>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= PAGE_BYTES {
            return None;
        }
        let entry = entry_at(page, at);
        at = entry.as_ref().map_or(PAGE_BYTES, |entry| at + entry.len);
        Some(entry)
    })
}

fn entry_at(page: &PageBytes, at: usize) -> Option<Entry<'_>> {
    let header = page.get(at..at + HEADER_BYTES)?;
    let ino = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let len = usize::from(u16::from_le_bytes([header[4], header[5]]));
    let name_len = usize::from(header[6]);
    if len < HEADER_BYTES || !len.is_multiple_of(8) || at + len > PAGE_BYTES || HEADER_BYTES + name_len > len
    {
        return None;
    }
    let target = match ino {
        0 => None,
        _ if ino >> Ino::BITS == 0 => Some((Ino(ino), Kind::of_name(header[7])?)),
        _ => return None,
    };
    let name = if target.is_some() { &page[at + HEADER_BYTES..][..name_len] } else { &[] };
    Some(Entry { at, len, target, name })
}

/// A page without entries.
#[must_use]
pub fn empty_page() -> PageBytes {
    let mut page = [0; PAGE_BYTES];
    page[4..6].copy_from_slice(&(PAGE_BYTES as u16).to_le_bytes());
    page
}

/// Puts an entry where there is room; says where, or that there is none.
#[must_use]
pub fn insert(page: &mut PageBytes, name: &[u8], ino: Ino, kind: Kind) -> Option<usize> {
    let needed = entry_bytes(name);
    let room = |entry: &Entry<'_>| match entry.target {
        None => (entry.at, entry.len),
        Some(_) => (entry.at + entry_bytes(entry.name), entry.len - entry_bytes(entry.name)),
    };
    let host = entries(page).flatten().find(|entry| room(entry).1 >= needed)?;
    let ((at, len), host_at, is_shared) = (room(&host), host.at, host.target.is_some());
    if is_shared {
        page[host_at + 4..host_at + 6].copy_from_slice(&((at - host_at) as u16).to_le_bytes());
    }
    page[at..at + 4].copy_from_slice(&ino.0.to_le_bytes());
    page[at + 4..at + 6].copy_from_slice(&(len as u16).to_le_bytes());
    page[at + 6] = name.len() as u8;
    page[at + 7] = kind as u8;
    page[at + HEADER_BYTES..][..name.len()].copy_from_slice(name);
    Some(at)
}

/// Takes away the entry at a place; its room goes to the one before, or stays free.
pub fn remove(page: &mut PageBytes, at: usize) {
    let mut before = None;
    let mut found = None;
    for entry in entries(page).flatten() {
        if entry.at == at {
            found = Some(entry.len);
            break;
        }
        before = Some((entry.at, entry.len));
    }
    let Some(len) = found else { return };
    match before {
        Some((before_at, before_len)) => {
            page[before_at + 4..before_at + 6].copy_from_slice(&((before_len + len) as u16).to_le_bytes());
        }
        None => page[at..at + 4].fill(0),
    }
}

/// Points the entry at a place to something else.
pub fn retarget(page: &mut PageBytes, at: usize, ino: Ino, kind: Kind) {
    page[at..at + 4].copy_from_slice(&ino.0.to_le_bytes());
    page[at + 7] = kind as u8;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn names(page: &PageBytes) -> BTreeMap<Vec<u8>, Ino> {
        entries(page)
            .map(|entry| entry.expect("whole"))
            .filter_map(|entry| Some((entry.name.to_vec(), entry.target?.0)))
            .collect()
    }

    #[test]
    fn damaged_pages_end() {
        let mut page = empty_page();
        insert(&mut page, b"a", Ino(3), Kind::File).expect("room");
        for (at, byte) in [(4, 1), (5, 0), (5, 0xFF), (7, 9), (3, 0xFF)] {
            let mut damaged = page;
            damaged[at] = byte;
            assert_eq!(entries(&damaged).last(), Some(None), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn a_page_is_a_map(steps in proptest::collection::vec((0..40u32, any::<bool>()), 0..300)) {
            let mut page = empty_page();
            let mut model = BTreeMap::new();
            for (number, is_insert) in steps {
                let name = vec![b'a' + (number % 26) as u8; number as usize * 6 + 1];
                let place = entries(&page).flatten().find(|entry| entry.name == name).map(|entry| entry.at);
                match place {
                    None if is_insert => {
                        let has_room = insert(&mut page, &name, Ino(number + 3), Kind::File).is_some();
                        has_room.then(|| model.insert(name, Ino(number + 3)));
                    }
                    Some(at) if is_insert => {
                        retarget(&mut page, at, Ino(number + 50), Kind::Symlink);
                        model.insert(name, Ino(number + 50));
                    }
                    Some(at) => {
                        remove(&mut page, at);
                        model.remove(&name);
                    }
                    None => {}
                }
                prop_assert_eq!(&names(&page), &model);
            }
        }
    }
}

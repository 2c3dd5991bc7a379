//! A page of a folder.

use aquifer_volume::folder_page::{entries, insert, remove, retarget};
use aquifer_volume::word::{PAGE_BYTES, PageBytes};
use aquifer_volume::{Ino, Kind};

/// Entries fill a page, or it ends with damage; what is whole stays whole, and takes a name as long as there is room.
pub fn property(input: &[u8]) {
    let mut page = [0; PAGE_BYTES];
    let len = input.len().min(PAGE_BYTES);
    page[..len].copy_from_slice(&input[..len]);
    let Some(before) = names(&page) else { return };
    let name = &input[..(len % 256).max(1)];
    if let Some(at) = insert(&mut page, name, Ino(77), Kind::File) {
        let with = names(&page).expect("is whole");
        assert_eq!(with.len(), before.len() + 1);
        assert!(with.contains(&(at, name.to_vec())));
        retarget(&mut page, at, Ino(78), Kind::Folder);
        assert!(
            entries(&page)
                .flatten()
                .any(|entry| entry.at == at && entry.target == Some((Ino(78), Kind::Folder)))
        );
        remove(&mut page, at);
    }
    assert_eq!(names(&page).expect("is whole"), before);
    for (at, _) in before.iter().rev() {
        remove(&mut page, *at);
    }
    assert_eq!(names(&page), Some(vec![]));
}

/// Where names are, if the page is whole.
fn names(page: &PageBytes) -> Option<Vec<(usize, Vec<u8>)>> {
    let (mut names, mut end) = (Vec::new(), 0);
    for entry in entries(page) {
        let entry = entry?;
        assert_eq!(entry.at, end);
        end += entry.len;
        if entry.target.is_some() {
            names.push((entry.at, entry.name.to_vec()));
        }
    }
    assert_eq!(end, PAGE_BYTES);
    Some(names)
}

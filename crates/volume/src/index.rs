//! Where the names of a folder are, in RAM.

use std::collections::HashMap;

use crate::folder_page;
use crate::inode::Kind;
use crate::key::Ino;
use crate::word::PageBytes;

/// Where an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// What the name stands for.
    pub ino: Ino,
    /// Which kind that is.
    pub kind: Kind,
    /// The folder's page.
    pub page: u32,
    /// Bytes from the start of the page.
    pub at: u16,
}

/// All names of a folder, and where there is room for more.
#[derive(Debug, Default)]
pub struct Index {
    slots: HashMap<Box<[u8]>, Slot>,
    /// Of all names.
    names_bytes: usize,
    /// Bytes of the largest entry that fits on each page.
    room: Vec<u16>,
}

impl Index {
    /// Adds the entries of the folder's next page; `false` if the page is damaged.
    #[must_use]
    pub fn add_page(&mut self, bytes: &PageBytes) -> bool {
        let page = self.room.len() as u32;
        for entry in folder_page::entries(bytes) {
            let Some(entry) = entry else { return false };
            if let Some((ino, kind)) = entry.target {
                self.insert(entry.name, Slot { ino, kind, page, at: entry.at as u16 });
            }
        }
        self.room.push(room_of(bytes));
        true
    }

    /// About the bytes of RAM that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        /// Of a name, besides its own: the key, the slot and what the allocator takes.
        const NAME_BYTES: usize = 64;
        self.slots.capacity() * NAME_BYTES + self.names_bytes + self.room.capacity() * 2
    }

    /// The entry of a name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Slot> {
        self.slots.get(name).copied()
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Pages of the folder.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.room.len() as u32
    }

    /// A page that has room for a name.
    #[must_use]
    pub fn page_for(&self, name: &[u8]) -> Option<u32> {
        let needed = folder_page::entry_bytes(name);
        self.room.iter().position(|&room| usize::from(room) >= needed).map(|page| page as u32)
    }

    /// Notes a new or changed entry.
    pub fn insert(&mut self, name: &[u8], slot: Slot) {
        if self.slots.insert(name.into(), slot).is_none() {
            self.names_bytes += name.len();
        }
    }

    /// Forgets a name.
    pub fn remove(&mut self, name: &[u8]) {
        if self.slots.remove(name).is_some() {
            self.names_bytes -= name.len();
        }
    }

    /// Notes that a page changed, or is new.
    pub fn note_page(&mut self, page: u32, bytes: &PageBytes) {
        let room = room_of(bytes);
        match self.room.get_mut(page as usize) {
            Some(known) => *known = room,
            None => self.room.push(room),
        }
    }
}

fn room_of(bytes: &PageBytes) -> u16 {
    let rooms = folder_page::entries(bytes).flatten().map(|entry| match entry.target {
        None => entry.len,
        Some(_) => entry.len - folder_page::entry_bytes(entry.name),
    });
    rooms.max().unwrap_or(0) as u16
}

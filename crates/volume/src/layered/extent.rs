//! A node of an extent tree: as in ext4, a header and entries of 12 bytes.

/// Bytes of the header, and of each entry.
const ENTRY_BYTES: usize = 12;
/// Bytes of a root, which lies in the inode: four entries.
pub const ROOT_BYTES: usize = 5 * ENTRY_BYTES;
/// Pages of the longest extent.
pub const EXTENT_PAGES_MAX: u32 = 1 << 15;

/// Consecutive pages of a file in consecutive blocks; in a node above leaves, where the entries from `first` on are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First page of the file.
    pub first: u32,
    /// Pages; 0 above leaves.
    pub len: u32,
    /// First block, or the node below.
    pub at: u32,
}

impl Entry {
    /// Where a page is, if this extent has it.
    pub fn place(self, page: u32) -> Option<u32> {
        let offset = page.checked_sub(self.first)?;
        (offset < self.len).then(|| self.at + offset)
    }

    /// Whether another extent goes on where this one ends, and one extent can hold both.
    pub fn goes_on_as(self, next: Entry) -> bool {
        self.first + self.len == next.first
            && self.at + self.len == next.at
            && self.len + next.len <= EXTENT_PAGES_MAX
    }
}

/// How many entries a node holds.
pub fn count(node: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([node[0], node[1]]))
}

/// How many entries it can hold.
pub fn capacity(node: &[u8]) -> usize {
    node.len() / ENTRY_BYTES - 1
}

/// Levels of nodes below; 0 for a leaf.
pub fn level(node: &[u8]) -> u32 {
    u16::from_le_bytes([node[2], node[3]]).into()
}

/// Makes it a node of this level that holds nothing.
pub fn clear(node: &mut [u8], level: u32) {
    node.fill(0);
    node[2..4].copy_from_slice(&(level as u16).to_le_bytes());
}

fn set_count(node: &mut [u8], count: usize) {
    node[..2].copy_from_slice(&(count as u16).to_le_bytes());
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn first_of(node: &[u8], position: usize) -> u32 {
    let at = (position + 1) * ENTRY_BYTES;
    word(&node[at..at + 4])
}

/// The entry at a position.
pub fn entry(node: &[u8], position: usize) -> Entry {
    let bytes = &node[(position + 1) * ENTRY_BYTES..][..ENTRY_BYTES];
    Entry { first: word(&bytes[..4]), len: word(&bytes[4..8]), at: word(&bytes[8..]) }
}

/// Replaces the entry at a position.
pub fn set(node: &mut [u8], position: usize, entry: Entry) {
    let bytes = &mut node[(position + 1) * ENTRY_BYTES..][..ENTRY_BYTES];
    bytes[..4].copy_from_slice(&entry.first.to_le_bytes());
    bytes[4..8].copy_from_slice(&entry.len.to_le_bytes());
    bytes[8..].copy_from_slice(&entry.at.to_le_bytes());
}

/// Inserts an entry; there is room.
pub fn insert(node: &mut [u8], position: usize, entry: Entry) {
    let (at, end) = ((position + 1) * ENTRY_BYTES, (count(node) + 1) * ENTRY_BYTES);
    node.copy_within(at..end, at + ENTRY_BYTES);
    set_count(node, count(node) + 1);
    set(node, position, entry);
}

/// Removes an entry.
pub fn remove(node: &mut [u8], position: usize) {
    let (at, end) = ((position + 1) * ENTRY_BYTES, (count(node) + 1) * ENTRY_BYTES);
    node.copy_within(at + ENTRY_BYTES..end, at);
    set_count(node, count(node) - 1);
}

/// Moves the entries from a position on to the end of another node, which has room.
pub fn move_tail(from: &mut [u8], position: usize, to: &mut [u8]) {
    for source in position..count(from) {
        let end = count(to);
        insert(to, end, entry(from, source));
    }
    set_count(from, position);
}

/// The last entry that begins at `page` or before it.
pub fn find(node: &[u8], page: u32) -> Option<usize> {
    let (mut low, mut high) = (0, count(node));
    while low < high {
        let middle = low.midpoint(high);
        if first_of(node, middle) <= page {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low.checked_sub(1)
}

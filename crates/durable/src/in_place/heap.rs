//! The whole: two files, the versions of partitions, and recovery.

use std::sync::atomic::AtomicU64;

use aquifer_base::HomeAddress;
use aquifer_base::limits::LOG_GRAIN_BYTES;
use aquifer_map::partitions::{Hint, Partitions};

use super::journal::{Journal, Kind};
use super::layout;
use super::transaction::{InPlaceTransaction, Session};
use crate::access::{Access, Transactional};
use crate::block;
use crate::draft::Committed;
use crate::error::{Error, Result};
use crate::homes::{self, AREA_BYTES, CLASS_BYTES, Homes, SizeClass};
use crate::persist::Persist;
use crate::sessions::{Apart, SESSIONS, Sessions};
use crate::view::Versions;

/// A heap whose objects have one place each.
///
/// # Durability
/// That of the durable heap: what has committed survives a crash whole, what has not leaves nothing. Damage to the homes is not noticed.
pub struct InPlaceHeap {
    pub(super) journal: Journal,
    pub(super) home: Box<dyn Persist>,
    pub(super) words: Partitions,
    clock: Apart<AtomicU64>,
    pub(super) homes: Homes,
    sessions: Sessions<Session>,
}

impl InPlaceHeap {
    /// Opens the heap in `home`, whose transactions under way are in `journal`, or makes one of two empty files.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the journal is something else, [`Error::Io`].
    pub fn on(journal: Box<dyn Persist>, home: Box<dyn Persist>, kind: Kind) -> Result<Self> {
        let is_new = home.len_bytes() == 0;
        let journal = Journal::open(journal, kind)?;
        home.grow(layout::file_bytes(1))?;
        let mut heap = Self {
            journal,
            home,
            words: Partitions::new(0).map_err(|errno| {
                Error::io("reserving address space")(std::io::Error::from_raw_os_error(errno.0))
            })?,
            clock: Apart(AtomicU64::new(0)),
            homes: Homes::new(layout::OBJECTS_END),
            sessions: Sessions::new(Session::new),
        };
        (0..SESSIONS).try_for_each(|session| heap.recover(session))?;
        heap.journal.begin()?;
        if is_new {
            let mut transaction = heap.begin();
            transaction.format((homes::FORMATTED_BYTES / LOG_GRAIN_BYTES) as u32);
            transaction.commit()?;
        }
        heap.restore_homes()?;
        Ok(heap)
    }

    /// Finishes the transaction that a session's part of the journal has, or takes it back.
    fn recover(&self, session: usize) -> Result<()> {
        let mut entries = Vec::new();
        self.journal.read(session, &mut |bytes, block| {
            for entry in block.entries() {
                let len = entry.grains as usize * LOG_GRAIN_BYTES;
                match entry.kind {
                    block::Kind::Bytes => {
                        entries.push((entry.home, bytes[entry.payload..entry.payload + len].to_vec()));
                    }
                    block::Kind::Zeros => entries.push((entry.home, vec![0; len])),
                    block::Kind::Hole | block::Kind::Commit => {}
                }
            }
        });
        for (home, bytes) in &entries {
            let ranges: Vec<_> = layout::runs(*home, bytes.len())
                .map(|(at, offset, len)| (offset, &bytes[at..at + len]))
                .collect();
            // The file may be shorter than it was: a length is durable when something behind it is.
            let end = ranges.iter().map(|&(offset, bytes)| offset + bytes.len() as u64).max();
            self.home.grow(end.unwrap_or(0))?;
            self.home.persist_in_place(&ranges)?;
        }
        self.journal.truncate(session)
    }

    /// Makes the allocator's tables again, and the file as long as they say.
    fn restore_homes(&self) -> Result<()> {
        for area in 1..(layout::OBJECTS_END / AREA_BYTES) as u32 {
            let mut code = [0; CLASS_BYTES];
            self.read_home(homes::class_home(area), &mut code);
            let code = u16::from_le_bytes(code);
            if code == 0 {
                continue;
            }
            self.home.grow(layout::file_bytes(area + 1))?;
            self.homes.restore_area(area, code, self.holes(area, SizeClass::from_code(code)));
        }
        Ok(())
    }

    /// The runs of an area in which nothing is allocated.
    fn holes(&self, area: u32, class: Option<SizeClass>) -> impl Iterator<Item = (HomeAddress, HomeAddress)> {
        let first = HomeAddress(u64::from(area) * AREA_BYTES);
        let bytes = class.map_or(AREA_BYTES, SizeClass::slot_bytes);
        let taken = (0..AREA_BYTES / LOG_GRAIN_BYTES as u64)
            .map(move |grain| first.plus_bytes(grain * LOG_GRAIN_BYTES as u64))
            .filter(|&home| self.is_allocated(home));
        let mut from = first;
        taken.chain([first.plus_bytes(AREA_BYTES)]).filter_map(move |home| {
            let hole = (from, home);
            from = home.plus_bytes(bytes);
            (hole.0 < hole.1).then_some(hole)
        })
    }

    fn is_allocated(&self, home: HomeAddress) -> bool {
        let (word, bit) = layout::bit_of(home);
        let mut bytes = [0; 4];
        self.read_home(word, &mut bytes);
        u32::from_le_bytes(bytes) & bit != 0
    }

    /// Fills `out` with the bytes at a home address.
    pub(super) fn read_home(&self, home: HomeAddress, out: &mut [u8]) {
        for (at, offset, len) in layout::runs(home, out.len()) {
            self.home.read(offset, &mut out[at..at + len]);
        }
    }

    /// What the journal and the homes are kept in.
    pub fn persists(&self) -> [&dyn Persist; 2] {
        [self.journal.persist(), &*self.home]
    }
}

impl Committed for InPlaceHeap {
    #[inline]
    fn versions(&self) -> Versions<'_> {
        Versions { words: &self.words, clock: &self.clock, era: self.homes.era() }
    }

    /// All of it is there: whether it is allocated is not looked at, as in other heaps in place.
    #[inline]
    fn copy(&self, home: HomeAddress, out: &mut [u8], _hint: &mut Hint) -> Result<usize> {
        self.home.read(layout::offset_of(home), out);
        Ok(0)
    }

    fn is_allocated(&self, _home: HomeAddress, _hint: &mut Hint) -> bool {
        true
    }

    fn homes(&self) -> &Homes {
        &self.homes
    }

    fn give_area(&self, area: u32, class: SizeClass) -> Result<()> {
        if u64::from(area) >= layout::OBJECTS_END / AREA_BYTES {
            return Err(Error::Full { capacity_bytes: self.capacity_bytes() });
        }
        self.home.grow(layout::file_bytes(area + 1))?;
        self.transaction(|tx| tx.store(homes::class_home(area), &class.0.to_le_bytes()))?;
        self.homes.add_area(area, class);
        Ok(())
    }

    fn capacity_bytes(&self) -> u64 {
        layout::OBJECTS_END
    }
}

impl Transactional for InPlaceHeap {
    type Transaction<'a> = InPlaceTransaction<'a>;

    fn begin(&self) -> InPlaceTransaction<'_> {
        InPlaceTransaction::begin(self, self.sessions.take())
    }
}

//! The table of inodes: file 1, whose pages hold 32 inodes each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::core::{Change, Core};
use crate::error::{Result, VolumeError};
use crate::followed::Followed;
use crate::frame::{Frame, FrameState, PageMemory};
use crate::index::Index;
use crate::inode::{INODE_BYTES, INODES_PER_PAGE, Inode, InodesHeader, decode_free, encode_free};
use crate::key::{Ino, PageKey};
use crate::mapping::{Pages, Region, SharedPages};

/// What is known in RAM of a file that is used.
pub struct Cell {
    /// Held for reading by reads, for writing by writes and changes of the size.
    content: RwLock<()>,
    /// Handles that have the file open: while there is one, its bytes stay, also without a name.
    holds: AtomicU32,
    /// Of a folder.
    index: Mutex<Option<Index>>,
    /// About the bytes that the index takes, as it was counted last.
    index_bytes: AtomicUsize,
    mapped: RwLock<MappedAs>,
    /// Reads by calls.
    pub followed: Followed,
}

/// How programs have mapped a file.
enum MappedAs {
    /// Each range of it by one view at most.
    Alone(Vec<Arc<Region>>),
    /// By many, or by other processes.
    Shared(Arc<SharedPages>),
}

impl Cell {
    fn new() -> Self {
        Cell {
            content: RwLock::new(()),
            holds: AtomicU32::new(0),
            index: Mutex::new(None),
            index_bytes: AtomicUsize::new(0),
            mapped: RwLock::new(MappedAs::Alone(Vec::new())),
            followed: Followed::default(),
        }
    }

    /// Others may read, nobody may write.
    pub fn read(&self) -> RwLockReadGuard<'_, ()> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody else may read or write.
    pub fn write(&self) -> RwLockWriteGuard<'_, ()> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder's names, if they were read.
    pub fn index(&self) -> MutexGuard<'_, Option<Index>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where programs have mapped the file.
    pub fn memory(&self) -> Option<Arc<dyn PageMemory>> {
        match &*self.mapped() {
            MappedAs::Alone(regions) => regions.first().and_then(|region| match &*region.pages() {
                Pages::Alone(pages) => Some(Arc::clone(pages) as _),
                Pages::Shared(pages) => Some(Arc::clone(pages) as _),
                Pages::Nowhere => None,
            }),
            MappedAs::Shared(pages) => Some(Arc::clone(pages) as _),
        }
    }

    /// Whether programs have mapped the file, or may have it in shared memory still.
    pub fn is_mapped(&self) -> bool {
        !matches!(&*self.mapped(), MappedAs::Alone(regions) if regions.is_empty())
    }

    /// Whether the file is not shared, and no page of `pages` from `first` on is mapped.
    pub fn is_free(&self, first: u32, pages: u32) -> bool {
        match &*self.mapped() {
            MappedAs::Alone(regions) => !regions.iter().any(|region| region.view.overlaps(first, pages)),
            MappedAs::Shared(_) => false,
        }
    }

    /// Views that have their ranges of the file for themselves.
    pub fn alone(&self) -> Vec<Arc<Region>> {
        match &*self.mapped() {
            MappedAs::Alone(regions) => regions.clone(),
            MappedAs::Shared(_) => Vec::new(),
        }
    }

    /// One more of these.
    pub fn add_alone(&self, region: &Arc<Region>) {
        if let MappedAs::Alone(regions) = &mut *self.mapped_mut() {
            regions.push(Arc::clone(region));
        }
    }

    /// One less.
    pub fn remove_alone(&self, region: &Arc<Region>) {
        if let MappedAs::Alone(regions) = &mut *self.mapped_mut() {
            regions.retain(|known| !Arc::ptr_eq(known, region));
        }
    }

    /// The file's shared memory, if it has it.
    pub fn shared_pages(&self) -> Option<Arc<SharedPages>> {
        match &*self.mapped() {
            MappedAs::Alone(_) => None,
            MappedAs::Shared(pages) => Some(Arc::clone(pages)),
        }
    }

    /// From now on the file has shared memory.
    pub fn set_shared(&self, pages: Arc<SharedPages>) {
        *self.mapped_mut() = MappedAs::Shared(pages);
    }

    /// From now on it has none, and nobody has mapped it.
    pub fn set_alone(&self) {
        *self.mapped_mut() = MappedAs::Alone(Vec::new());
    }

    fn mapped(&self) -> RwLockReadGuard<'_, MappedAs> {
        self.mapped.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn mapped_mut(&self) -> RwLockWriteGuard<'_, MappedAs> {
        self.mapped.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the file's bytes.
    pub fn hold(&self) {
        self.holds.fetch_add(1, Ordering::AcqRel);
    }

    /// No longer keeps them; says whether nobody does any more.
    pub fn let_go(&self) -> bool {
        self.holds.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether anybody keeps them.
    pub fn is_held(&self) -> bool {
        self.holds.load(Ordering::Acquire) > 0
    }
}

/// Cells of the files that are used.
pub struct Cells {
    state: Mutex<CellsState>,
    /// About the bytes that all folders' indexes take, and how many may be.
    index_bytes: AtomicUsize,
    index_bytes_max: usize,
}

#[derive(Default)]
struct CellsState {
    cells: HashMap<Ino, Arc<Cell>>,
    /// Number of cells at which unused ones are dropped: twice as many as were in use at the last time. So
    /// looking through all cells stays rare when many files are held.
    full: usize,
}

/// Fewest cells at which some are dropped.
const CELLS_MIN: usize = 16 << 10;

impl Cells {
    /// None yet. Indexes of folders take `index_bytes_max` bytes, or those of one folder.
    #[must_use]
    pub fn new(index_bytes_max: usize) -> Self {
        Cells { state: Mutex::default(), index_bytes: AtomicUsize::new(0), index_bytes_max }
    }

    /// Counts an index that was read or changed. If all take too much, others are dropped: they are read again when they are needed. The caller has the
    /// cell's index locked.
    pub fn note_index(&self, cell: &Arc<Cell>, index: &Index) {
        let bytes = index.bytes();
        let before = cell.index_bytes.swap(bytes, Ordering::Relaxed);
        let all = self.index_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.index_bytes.fetch_sub(before, Ordering::Relaxed);
        if bytes <= before || all - before <= self.index_bytes_max {
            return;
        }
        let state = self.lock();
        for other in state.cells.values().filter(|other| !Arc::ptr_eq(other, cell)) {
            if self.index_bytes.load(Ordering::Relaxed) <= self.index_bytes_max / 2 {
                break;
            }
            // An index that is in use stays.
            if let Ok(mut index) = other.index.try_lock() {
                *index = None;
                self.forget_index(other);
            }
        }
    }

    fn forget_index(&self, cell: &Cell) {
        self.index_bytes.fetch_sub(cell.index_bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// About the bytes that the indexes of all folders take.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        self.index_bytes.load(Ordering::Relaxed)
    }

    /// The cell of a file.
    pub fn get(&self, ino: Ino) -> Arc<Cell> {
        let mut state = self.lock();
        if let Some(cell) = state.cells.get(&ino) {
            return Arc::clone(cell);
        }
        if state.cells.len() >= state.full.max(CELLS_MIN) {
            let is_used =
                |cell: &Arc<Cell>| Arc::strong_count(cell) > 1 || cell.is_held() || cell.is_mapped();
            state.cells.retain(|_, cell| {
                let is_used = is_used(cell);
                if !is_used {
                    self.forget_index(cell);
                }
                is_used
            });
            state.full = state.cells.len() * 2;
        }
        Arc::clone(state.cells.entry(ino).or_insert_with(|| Arc::new(Cell::new())))
    }

    /// Forgets a file that is gone.
    pub fn forget(&self, ino: Ino) {
        if let Some(cell) = self.lock().cells.remove(&ino) {
            self.forget_index(&cell);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CellsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// What `look` makes of a page that is there.
    ///
    /// # Errors
    /// It could not be read; those of `look`.
    pub fn with_page<T>(
        &self,
        key: PageKey,
        memory: Option<&Arc<dyn PageMemory>>,
        mut look: impl FnMut(&Arc<Frame>, &mut FrameState) -> Result<T>,
    ) -> Result<T> {
        loop {
            let frame = self.page(key, memory.cloned())?;
            // It may have left since; then it is read again.
            if let Some(mut state) = frame.ready()? {
                return look(&frame, &mut state);
            }
        }
    }

    fn inode_place(ino: Ino) -> (PageKey, usize) {
        (
            PageKey::data(Ino::INODES, ino.0 / INODES_PER_PAGE),
            (ino.0 % INODES_PER_PAGE) as usize * INODE_BYTES,
        )
    }

    fn inode_bytes(&self, ino: Ino) -> Result<[u8; INODE_BYTES]> {
        let (key, at) = Self::inode_place(ino);
        let mut bytes = [0; INODE_BYTES];
        self.with_page(key, None, |_, state| state.read(key, at, &mut bytes))?;
        Ok(bytes)
    }

    /// The inode of a file.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`] if there is none.
    pub fn inode(&self, ino: Ino) -> Result<Inode> {
        if ino < Ino::ROOT_FOLDER || ino.0 >> Ino::BITS != 0 {
            return Err(VolumeError::NotFound);
        }
        Inode::decode(&self.inode_bytes(ino)?).ok_or(VolumeError::NotFound)
    }

    /// The free number after a free number.
    ///
    /// # Errors
    /// It could not be read.
    pub fn next_free(&self, ino: Ino) -> Result<u32> {
        Ok(decode_free(&self.inode_bytes(ino)?).1)
    }

    /// The header of the table.
    ///
    /// # Errors
    /// It could not be read.
    pub fn inodes_header(&self) -> Result<InodesHeader> {
        let header = InodesHeader::decode(&self.inode_bytes(Ino(0))?);
        header.refuse_impossible(self.flash.medium().geometry())?;
        Ok(header)
    }
}

impl Change<'_> {
    /// Changes bytes of a page.
    ///
    /// # Errors
    /// It could not be read; [`VolumeError::NoSpace`].
    pub fn write_page(
        &self,
        key: PageKey,
        offset: usize,
        bytes: &[u8],
        memory: Option<&Arc<dyn PageMemory>>,
    ) -> Result<bool> {
        loop {
            let frame = if bytes.len() == crate::word::PAGE_BYTES && memory.is_none() {
                self.core().blank_page(key)?
            } else {
                self.core().page(key, memory.cloned())?
            };
            if let Some(mut state) = frame.changeable()? {
                let is_first = state.is_new && !state.is_promised;
                self.page(&frame, &mut state)?;
                state.write(key, offset, bytes, self.core().cache.room())?;
                return Ok(is_first);
            }
        }
    }

    fn put_inode_bytes(&self, ino: Ino, bytes: &[u8; INODE_BYTES]) -> Result<()> {
        let (key, at) = Core::inode_place(ino);
        self.write_page(key, at, bytes, None).map(drop)
    }

    /// Changes an inode that others may be changing too; gives it as it is then.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`]; as [`Change::write_page`].
    pub fn update_inode(&self, ino: Ino, change: impl FnOnce(&mut Inode)) -> Result<Inode> {
        let (key, at) = Core::inode_place(ino);
        loop {
            let frame = self.core().page(key, None)?;
            let Some(mut state) = frame.changeable()? else { continue };
            let mut bytes = [0; INODE_BYTES];
            state.read(key, at, &mut bytes)?;
            let mut inode = Inode::decode(&bytes).ok_or(VolumeError::NotFound)?;
            self.page(&frame, &mut state)?;
            change(&mut inode);
            state.write(key, at, &inode.encode(), self.core().cache.room())?;
            return Ok(inode);
        }
    }

    /// Writes a new inode, or one of which the caller knows that nobody else changes it.
    ///
    /// # Errors
    /// As [`Change::write_page`].
    pub fn put_inode(&self, ino: Ino, inode: &Inode) -> Result<()> {
        self.put_inode_bytes(ino, &inode.encode())
    }

    /// Changes the header of the table.
    ///
    /// # Errors
    /// As [`Change::write_page`].
    pub fn put_inodes_header(&self, header: &InodesHeader) -> Result<()> {
        self.put_inode_bytes(Ino(0), &header.encode())
    }

    /// Gives a new inode a number. The caller has all names to itself.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`] also when there are no more numbers.
    pub fn make_inode(&self, mut inode: Inode) -> Result<Ino> {
        let mut header = self.core().inodes_header()?;
        let ino = Ino(if header.first_free == 0 { header.next_new } else { header.first_free });
        if ino.0 >> Ino::BITS != 0 || ino < Ino::ROOT_FOLDER {
            return Err(VolumeError::NoSpace);
        }
        if header.first_free == 0 {
            header.next_new += 1;
        } else {
            let (generation, next) = decode_free(&self.core().inode_bytes(ino)?);
            (inode.generation, header.first_free) = (generation, next);
        }
        header.files = header.files.saturating_add(1);
        self.put_inode(ino, &inode)?;
        self.put_inodes_header(&header)?;
        Ok(ino)
    }

    /// Frees the number of a file without a name and without bytes. The caller has all names to itself.
    ///
    /// # Errors
    /// As [`Change::write_page`].
    pub fn free_inode(&self, ino: Ino, inode: &Inode) -> Result<()> {
        let mut header = self.core().inodes_header()?;
        self.put_inode_bytes(ino, &encode_free(inode.generation.wrapping_add(1), header.first_free))?;
        header.first_free = ino.0;
        header.files = header.files.saturating_sub(1);
        self.put_inodes_header(&header)
    }

    /// Notes that a file lost its last name.
    ///
    /// # Errors
    /// As [`Change::write_page`].
    pub fn note_nameless(&self, ino: Ino) -> Result<()> {
        let mut header = self.core().inodes_header()?;
        self.update_inode(ino, |inode| inode.next = header.first_nameless)?;
        self.note_before(Ino(header.first_nameless), Some(ino));
        header.first_nameless = ino.0;
        self.put_inodes_header(&header)
    }

    /// Takes a file out of the list of those without a name.
    ///
    /// # Errors
    /// As [`Change::write_page`]; [`VolumeError::Corrupt`] if it is not in it.
    pub fn forget_nameless(&self, ino: Ino, inode: &Inode) -> Result<()> {
        let mut header = self.core().inodes_header()?;
        if header.first_nameless == ino.0 {
            header.first_nameless = inode.next;
            self.note_before(Ino(inode.next), None);
            return self.put_inodes_header(&header);
        }
        let before = self.nameless_before(ino, &header)?;
        self.update_inode(before, |before| before.next = inode.next)?;
        self.note_before(ino, None);
        self.note_before(Ino(inode.next), Some(before));
        Ok(())
    }

    /// The file before `ino` in the list: as it was noted, or found by a walk.
    fn nameless_before(&self, ino: Ino, header: &InodesHeader) -> Result<Ino> {
        let noted = lock(&self.core().before_nameless).get(&ino).copied();
        if let Some(before) = noted
            && self.core().inode(before).is_ok_and(|before| before.links == 0 && before.next == ino.0)
        {
            return Ok(before);
        }
        let mut at = Ino(header.first_nameless);
        for _ in 0..header.next_new {
            let next = self.core().inode(at)?.next;
            if next == ino.0 {
                return Ok(at);
            }
            at = Ino(next);
        }
        Err(VolumeError::Corrupt(format!("{ino} is not among the files without a name")))
    }

    /// Notes the file before `ino` in the list, if there is one: to go through the list for each file would take long where many are held.
    fn note_before(&self, ino: Ino, before: Option<Ino>) {
        let mut noted = lock(&self.core().before_nameless);
        match before {
            Some(before) if ino.0 != 0 => drop(noted.insert(ino, before)),
            _ => drop(noted.remove(&ino)),
        }
    }
}

//! A file on the layered stack.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aquifer_device::Pacing;
use aquifer_device::nand::{Nand, Timing};

use super::below::{Below, CombinedFlash, FtlFlash, Kind, Known, Outgoing};
use super::extent;
use super::mapping::Mapped;
use super::tree::{Nodes, Tree};
use crate::cache::{Cache, Loaded};
use crate::error::{Result, VolumeError};
use crate::frame::{Content, Frame, FrameState, PageMemory};
use crate::inode::Time;
use crate::key::{Ino, PageKey};
use crate::room::RoomPage;
use crate::volume::FRAME_BYTES;
use crate::word::{PAGE_BYTES, PageBytes};

/// The block of the inode; nodes come after it.
const INODE: u32 = 0;
/// Pages that are written at once.
const BATCH: usize = 256;

/// How a stack is put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackOptions {
    /// RAM for pages, nodes and the table below.
    pub ram_bytes: u64,
    /// Which tables there are.
    pub kind: Kind,
    /// Whether callers wait as long.
    pub pacing: Pacing,
}

/// What the RAM of a stack goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    /// Pages of data and of nodes, with what is known of each.
    pub frames: u64,
    /// Bytes of each.
    pub frame_bytes: u64,
    /// The table below the file system.
    pub table_bytes: u64,
}

/// What was read of the flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reads {
    /// Pages of the file.
    pub pages: u64,
    /// Nodes of the tree that translates them.
    pub nodes: u64,
    /// All reads of the flash, also those of cleaning.
    pub flash: u64,
}

/// A file that nobody uses now: its flash, and what a mount would find there.
pub struct Image {
    nand: Nand,
    pages: u32,
    tree: Tree,
    next_node: u32,
    below: Remembered,
}

#[derive(Clone)]
enum Remembered {
    Ftl { used: u32 },
    Combined(Option<Box<Known>>),
}

impl Image {
    /// A file of `pages` pages, all of them holes, on new flash.
    #[must_use]
    pub fn new(nand: Nand, pages: u32, kind: Kind) -> Self {
        let below = match kind {
            Kind::Ftl { .. } => Remembered::Ftl { used: 0 },
            Kind::Combined => Remembered::Combined(None),
        };
        Image { nand, pages, tree: Tree::new(), next_node: INODE + 1, below }
    }

    /// The same file once more, in time and memory for what changes alone. `None` for flash in a file.
    #[must_use]
    pub fn snapshot(&self) -> Option<Self> {
        let (tree, below) = (self.tree.clone(), self.below.clone());
        Some(Image { nand: self.nand.snapshot()?, tree, below, ..*self })
    }
}

enum AnyBelow {
    Ftl(Box<FtlFlash>),
    Combined(Box<CombinedFlash>),
}

/// A file, mapped memory over an extent tree over flash or what a translation layer makes of it. For benchmarks: nothing of it survives a crash.
///
/// All methods may be called from many threads at once. Lock order: writer, gate, tree, page.
pub struct Stack {
    cache: Cache,
    tree: RwLock<Tree>,
    below: AnyBelow,
    pages: u32,
    frames: usize,
    /// Held open by who changes pages, closed by a commit while it takes them.
    gate: RwLock<()>,
    writer: Mutex<()>,
    nodes: NodePages,
    /// Of the inode: seconds of the last change, and whether that was written.
    written_at: AtomicI64,
    is_inode_dirty: AtomicBool,
    page_reads: AtomicU64,
    pub(super) mapped: Mapped,
}

/// Nodes that are not written yet. They stay in RAM.
struct NodePages {
    dirty: Mutex<HashMap<u32, Arc<Frame>>>,
    next: AtomicU64,
    reads: AtomicU64,
}

impl Stack {
    /// Mounts a file. Its flash takes no time until [`Stack::set_timing`].
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] if the table leaves no RAM for pages; the flash's.
    pub fn mount(image: Image, options: StackOptions) -> Result<Self> {
        let StackOptions { ram_bytes, kind, pacing } = options;
        let Image { nand, pages, tree, next_node, below } = image;
        let below = match (below, kind) {
            (Remembered::Ftl { used }, Kind::Ftl { entry_bytes, is_scattered }) => {
                let layout = (entry_bytes, is_scattered);
                AnyBelow::Ftl(Box::new(FtlFlash::new(nand, pacing, pages, used, layout)?))
            }
            (Remembered::Combined(known), Kind::Combined) => {
                let known = known.map(|known| *known);
                AnyBelow::Combined(Box::new(CombinedFlash::new(nand, pacing, pages, known)?))
            }
            _ => return Err(VolumeError::Invalid("the file was written by the other kind of stack")),
        };
        let table_bytes = below.get().ram_bytes();
        let frames = (ram_bytes.saturating_sub(table_bytes) / FRAME_BYTES) as usize;
        if frames < 64 {
            return Err(VolumeError::Invalid("the table of the translation layer leaves no RAM for pages"));
        }
        Ok(Stack {
            cache: Cache::new(frames, None)?,
            tree: RwLock::new(tree),
            below,
            pages,
            frames,
            gate: RwLock::new(()),
            writer: Mutex::new(()),
            nodes: NodePages {
                dirty: Mutex::default(),
                next: AtomicU64::new(next_node.into()),
                reads: AtomicU64::new(0),
            },
            written_at: AtomicI64::new(0),
            is_inode_dirty: AtomicBool::new(false),
            page_reads: AtomicU64::new(0),
            mapped: Mapped::new()?,
        })
    }

    /// Writes everything and gives the file back.
    ///
    /// # Errors
    /// As [`Stack::sync`].
    pub fn unmount(self) -> Result<Image> {
        self.sync()?;
        let tree = self.tree.into_inner().unwrap_or_else(PoisonError::into_inner);
        let next_node = self.nodes.next.into_inner() as u32;
        let (nand, below) = match self.below {
            AnyBelow::Ftl(below) => {
                let (nand, used) = below.into_parts();
                (nand, Remembered::Ftl { used })
            }
            AnyBelow::Combined(below) => {
                let (nand, known) = below.into_parts();
                (nand, Remembered::Combined(Some(Box::new(known))))
            }
        };
        Ok(Image { nand, pages: self.pages, tree, next_node, below })
    }

    /// From now on the flash takes so long. The caller sees that nobody uses it meanwhile.
    pub fn set_timing(&self, timing: Timing) {
        match &self.below {
            AnyBelow::Ftl(below) => below.set_timing(timing),
            AnyBelow::Combined(below) => below.set_timing(timing),
        }
    }

    /// Pages of the file.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// What the RAM goes to.
    #[must_use]
    pub fn division(&self) -> Division {
        let table_bytes = self.below.get().ram_bytes();
        Division { frames: self.frames as u64, frame_bytes: FRAME_BYTES, table_bytes }
    }

    /// What was read so far.
    #[must_use]
    pub fn reads(&self) -> Reads {
        Reads {
            pages: self.page_reads.load(Ordering::Relaxed),
            nodes: self.nodes.reads.load(Ordering::Relaxed),
            flash: self.below.get().flash_reads(),
        }
    }

    /// Extents of the file, and nodes of its tree.
    ///
    /// # Errors
    /// A node could not be read.
    pub fn extents(&self) -> Result<(u64, u64)> {
        self.read_tree().counts(self)
    }

    /// Writes a page of the file.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] behind its end; as [`Stack::sync`].
    ///
    /// # Durability
    /// None before [`Stack::sync`].
    pub fn write(&self, index: u32, bytes: &PageBytes) -> Result<()> {
        self.check(index)?;
        loop {
            let _open = self.begin()?;
            let frame = self.blank_page(index)?;
            if let Some(mut state) = frame.changeable()? {
                self.change(&frame, &mut state)?;
                return state.write(frame.key(), 0, bytes, self.cache.room());
            }
        }
    }

    /// Reads a page of the file.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] behind its end; the flash's.
    pub fn read(&self, index: u32, bytes: &mut PageBytes) -> Result<()> {
        self.check(index)?;
        loop {
            let frame = self.page_placed(index, own)?;
            if let Some(state) = frame.ready()? {
                return state.read(frame.key(), 0, bytes);
            }
        }
    }

    /// Makes everything durable that was changed before this call, as far as a file system without a journal can.
    ///
    /// # Errors
    /// The flash's; what was changed is then lost.
    pub fn sync(&self) -> Result<()> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.take_dirty()?;
        for batch in taken.chunks(BATCH) {
            self.clean()?;
            self.write_pages(batch)?;
        }
        self.write_nodes()?;
        self.below.get().sync()
    }

    /// Fails behind the end of the file.
    pub(super) fn check(&self, index: u32) -> Result<()> {
        if index < self.pages {
            return Ok(());
        }
        Err(VolumeError::Invalid("the file ends before this page"))
    }

    /// Lets pages change while it lives. Writes first if too many have.
    pub(super) fn begin(&self) -> Result<RwLockReadGuard<'_, ()>> {
        if self.cache.dirty() >= (self.frames / 3).max(4) {
            self.sync()?;
        }
        Ok(self.gate.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says that a page is about to change. The gate is open.
    pub(super) fn change(&self, frame: &Arc<Frame>, state: &mut FrameState) -> Result<()> {
        self.written_at.store(Time::now().0, Ordering::Relaxed);
        self.is_inode_dirty.store(true, Ordering::Relaxed);
        self.cache.begin_change(frame, state)
    }

    /// A page in RAM; what is not there is read, and put where `place` says.
    pub(super) fn page_placed(
        &self,
        index: u32,
        place: impl FnOnce(RoomPage) -> Result<Content>,
    ) -> Result<Arc<Frame>> {
        let load = |bytes: &mut PageBytes| {
            let below = self.below.get();
            let _reading = below.reading();
            let found = self.read_tree().get(self, index)?;
            match found {
                Some(at) => {
                    self.page_reads.fetch_add(1, Ordering::Relaxed);
                    below.read(index, at, bytes)?;
                }
                None => bytes.fill(0),
            }
            Ok(LOADED)
        };
        self.cache.get(PageKey::data(Ino::FIRST_FREE, index), load, place)
    }

    fn blank_page(&self, index: u32) -> Result<Arc<Frame>> {
        let key = PageKey::data(Ino::FIRST_FREE, index);
        let zeros = |bytes: &mut PageBytes| {
            bytes.fill(0);
            Ok(LOADED)
        };
        self.cache.get(key, zeros, own)
    }

    /// Takes the pages of the file out of a memory that nobody sees any more.
    pub(super) fn take_back(&self, memory: &Arc<dyn PageMemory>) -> Result<()> {
        self.cache.take_all_out(Ino::FIRST_FREE, memory, usize::MAX)
    }

    fn read_tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_tree(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_dirty(&self) -> Result<Vec<Arc<Frame>>> {
        let _closed = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut taken = self.cache.take_dirty();
        for frame in &taken {
            let mut state = frame.lock();
            self.cache.note_taken();
            if let (true, Content::Mapped(memory)) = (state.is_writable, &state.content) {
                memory.protect(&[frame.key().index()])?;
                state.is_writable = false;
            }
            state.stage.take();
        }
        taken.sort_unstable_by_key(|frame| frame.key());
        Ok(taken)
    }

    fn write_pages(&self, batch: &[Arc<Frame>]) -> Result<()> {
        let mut copies = Vec::with_capacity(batch.len());
        for frame in batch {
            let index = frame.key().index();
            let old = self.read_tree().get(self, index)?;
            let mut state = frame.lock();
            let bytes = state.copy(frame.key())?;
            state.stage.copied();
            drop(state);
            frame.notify();
            copies.push((index, old, bytes));
        }
        let outgoing: Vec<_> =
            copies.iter().map(|(index, old, bytes)| Outgoing { index: *index, old: *old, bytes }).collect();
        let below = self.below.get();
        let places = below.write(&outgoing)?;
        for ((index, old, _), at) in copies.iter().zip(places) {
            if *old == Some(at) {
                continue;
            }
            if let Some(old) = self.write_tree().set(self, *index, at)? {
                below.free(old);
            }
        }
        batch.iter().for_each(|frame| frame.lock().stage.pointed());
        Ok(())
    }

    fn clean(&self) -> Result<()> {
        self.below.get().clean(&mut |index, at| self.write_tree().set(self, index, at).map(drop))
    }

    fn write_nodes(&self) -> Result<()> {
        let dirty = std::mem::take(&mut *lock(&self.nodes.dirty));
        let mut pages = Vec::with_capacity(dirty.len() + 1);
        for (number, frame) in &dirty {
            pages.push((*number, frame.lock().copy(frame.key())?));
        }
        if self.is_inode_dirty.swap(false, Ordering::Relaxed) {
            let mut inode = Box::new([0; PAGE_BYTES]);
            inode[..8].copy_from_slice(&self.written_at.load(Ordering::Relaxed).to_le_bytes());
            pages.push((INODE, inode));
        }
        pages.sort_unstable_by_key(|(number, _)| *number);
        for batch in pages.chunks(BATCH) {
            self.below.get().write_nodes(batch)?;
        }
        Ok(())
    }

    /// The node's page in RAM.
    fn node(&self, number: u32, is_new: bool) -> Result<Arc<Frame>> {
        let load = |bytes: &mut PageBytes| {
            if is_new {
                bytes.fill(0);
            } else {
                self.nodes.reads.fetch_add(1, Ordering::Relaxed);
                self.below.get().read_node(number, bytes)?;
            }
            Ok(LOADED)
        };
        self.cache.get(PageKey::data(Ino::INODES, number), load, own)
    }

    fn with_node<T>(
        &self,
        number: u32,
        is_new: bool,
        mut look: impl FnMut(&Arc<Frame>, &mut PageBytes) -> T,
    ) -> Result<T> {
        loop {
            let frame = self.node(number, is_new)?;
            if let Some(mut state) = frame.ready()?
                && let Content::Own(bytes) = &mut state.content
            {
                return Ok(look(&frame, bytes));
            }
        }
    }
}

/// A page in memory of its own.
fn own(page: RoomPage) -> Result<Content> {
    Ok(Content::Own(page))
}

/// The bytes from before a change are of no use here, so pages say that flash has nothing of them.
const LOADED: Loaded = Loaded { patched: None, is_new: true, is_blank: false, sum: None };

impl Nodes for Stack {
    fn look<T>(&self, number: u32, mut look: impl FnMut(&[u8]) -> T) -> Result<T> {
        self.with_node(number, false, |_, bytes| look(&bytes[..]))
    }

    fn change<T>(&self, number: u32, mut change: impl FnMut(&mut [u8]) -> T) -> Result<T> {
        self.with_node(number, false, |frame, bytes| {
            lock(&self.nodes.dirty).entry(number).or_insert_with(|| Arc::clone(frame));
            change(&mut bytes[..])
        })
    }

    fn make(&self, level: u32) -> Result<u32> {
        let number = self.nodes.next.fetch_add(1, Ordering::Relaxed) as u32;
        if number >= self.below.get().nodes_max() {
            return Err(VolumeError::NoSpace);
        }
        self.with_node(number, true, |frame, bytes| {
            lock(&self.nodes.dirty).insert(number, Arc::clone(frame));
            extent::clear(&mut bytes[..], level);
        })?;
        Ok(number)
    }
}

impl AnyBelow {
    fn get(&self) -> &dyn Below {
        match self {
            AnyBelow::Ftl(below) => &**below,
            AnyBelow::Combined(below) => &**below,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

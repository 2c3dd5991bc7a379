//! A page in RAM.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError};

use crate::error::{Result, VolumeError};
use crate::key::PageKey;
use crate::patch::Ranges;
use crate::room::{PageRoom, RoomPage};
use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard};
#[cfg(feature = "layered")]
use crate::word::PAGE_BYTES;
use crate::word::PageBytes;

/// Memory of a file that programs have mapped: a page of it can be in RAM at its place only.
pub trait PageMemory: Send + Sync {
    /// Makes page `index` present, with these bytes. `false` if it becomes present only when a program asks for it, and has to stay elsewhere until
    /// then.
    ///
    /// # Errors
    /// The system's.
    fn fill(&self, index: u32, bytes: &PageBytes) -> Result<bool>;

    /// Copies bytes out of a present page.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, index: u32, offset: usize, bytes: &mut [u8]) -> Result<()>;

    /// Copies whole present pages, each to its bytes.
    ///
    /// # Errors
    /// The system's, if it fails for one of them.
    fn read_pages(&self, pages: &mut [(u32, &mut PageBytes)]) -> Result<()> {
        pages.iter_mut().try_for_each(|(index, bytes)| self.read(*index, 0, &mut bytes[..]))
    }

    /// Copies bytes into a present page. `false` if only programs can: the page has to be taken out first.
    ///
    /// # Errors
    /// The system's.
    fn write(&self, index: u32, offset: usize, bytes: &[u8]) -> Result<bool>;

    /// Makes sure that no program can change present pages without asking; ascending. When this returns, no store to them is under way.
    ///
    /// # Errors
    /// The system's; which of them can be changed is unknown then.
    fn protect(&self, pages: &[u32]) -> Result<()>;

    /// Makes programs ask again for present pages, if they can be made to. Ascending. `false` if these have to be taken out for that.
    ///
    /// # Errors
    /// The system's.
    fn hide(&self, pages: &[u32]) -> Result<bool>;

    /// Takes present pages away from all programs; their bytes are lost. Ascending.
    ///
    /// # Errors
    /// The system's.
    fn drop_pages(&self, pages: &[u32]) -> Result<()>;

    /// Whether programs can change present pages also where they were protected: bytes that nobody changed may be others than flash has.
    fn is_handed_out(&self) -> bool {
        false
    }
}

/// Whether both are the same memory.
pub fn is_same(one: &Arc<dyn PageMemory>, other: &Arc<dyn PageMemory>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// Where the bytes of a page in RAM are.
pub enum Content {
    /// Not there: it is loading, or has left.
    Absent,
    /// Here.
    Own(RoomPage),
    /// Where programs see them.
    Mapped(Arc<dyn PageMemory>),
}

/// How far a page's stay in RAM is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Its bytes are being read.
    Loading,
    /// Its bytes are there.
    Ready,
    /// Its bytes are being taken out of where programs see them.
    Moving,
    /// It is being dropped.
    Leaving,
    /// They could not be read.
    Failed(VolumeError),
    /// It has left, or its file was cut.
    Gone,
}

/// How a page stands to commits.
///
/// | stage | what it means | what follows |
/// |---|---|---|
/// | `Clean` | the table points to these bytes, or reads as zeros as they do | `Dirty` by a change |
/// | `Dirty` | changed, and in the list of the next commit | `Taken` by a commit |
/// | `Taken` | a commit needs its bytes as they are: nobody changes it | `Copied`; `Dirty` if the commit fails |
/// | `Copied` | the commit has its bytes, and the table does not point to them yet | `Clean`; `CopiedDirty` by a change; `Dirty` if the commit fails |
/// | `CopiedDirty` | as `Copied`, and in the list of the next commit | `Dirty`, whether the commit fails or not |
///
/// Only a clean page may leave: of all others RAM has what reading flash would not bring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// The table points to these bytes.
    #[default]
    Clean,
    /// It changed.
    Dirty,
    /// A commit needs its bytes as they are.
    Taken,
    /// A commit has its bytes.
    Copied,
    /// A commit has its bytes, and it changed again.
    CopiedDirty,
}

impl Stage {
    /// Whether it changed since a commit took it: it is in the list of the next.
    #[must_use]
    pub fn is_dirty(self) -> bool {
        matches!(self, Stage::Dirty | Stage::CopiedDirty)
    }

    /// Notes a change; `false` if it is dirty already.
    #[must_use]
    pub fn change(&mut self) -> bool {
        debug_assert_ne!(*self, Stage::Taken, "a page changes that a commit needs as it is");
        let before = *self;
        *self = match before {
            Stage::Clean | Stage::Dirty | Stage::Taken => Stage::Dirty,
            Stage::Copied | Stage::CopiedDirty => Stage::CopiedDirty,
        };
        !before.is_dirty()
    }

    /// A commit takes it.
    pub fn take(&mut self) {
        debug_assert_eq!(*self, Stage::Dirty);
        *self = Stage::Taken;
    }

    /// The commit has its bytes.
    pub fn copied(&mut self) {
        debug_assert_eq!(*self, Stage::Taken);
        *self = Stage::Copied;
    }

    /// The table points to what the commit has copied.
    pub fn pointed(&mut self) {
        *self = if self.is_dirty() { Stage::Dirty } else { Stage::Clean };
    }

    /// The commit has failed; `false` if it is in the list of the next already.
    #[must_use]
    pub fn give_back(&mut self) -> bool {
        let was_dirty = self.is_dirty();
        *self = Stage::Dirty;
        !was_dirty
    }
}

/// What is known of a page in RAM.
pub struct FrameState {
    /// How far its stay is.
    pub phase: Phase,
    /// Where its bytes are.
    pub content: Content,
    /// What the patch changed that it was read with, or written as.
    pub patched: Option<Ranges>,
    /// Whether flash has nothing of it.
    pub is_new: bool,
    /// Whether its bytes are not what flash has, though nobody changed them: all of them are going to be written.
    pub is_blank: bool,
    /// Whether flash was promised to it.
    pub is_promised: bool,
    /// How it stands to commits.
    pub stage: Stage,
    /// Whether some program can change it without asking.
    pub is_writable: bool,
    /// Its bytes before the first change since the last commit. If it did not change since, these are its bytes, for when it will.
    pub twin: Option<RoomPage>,
    /// Of a page that may be, or was, in memory that was handed out: the sum of its bytes as flash has them ([`crate::sums`]).
    pub sum: Option<u64>,
}

/// The sum of a page of which nobody knows whether it is as flash has it. That a page has this sum is as likely as that another has its own.
const UNKNOWN_SUM: u64 = 0;

/// Nobody sees this: who reads and writes pages waits until they are ready.
const ABSENT: VolumeError = VolumeError::Invalid("the page is not in RAM");

impl FrameState {
    /// Whether programs can change its bytes without asking.
    pub fn is_handed_out(&self) -> bool {
        matches!(&self.content, Content::Mapped(memory) if memory.is_handed_out())
    }

    /// Says that it moves to `bytes` from where programs see it.
    pub fn move_to(&mut self, bytes: RoomPage) {
        if self.is_handed_out() {
            self.sum.get_or_insert(UNKNOWN_SUM);
        }
        self.content = Content::Own(bytes);
    }

    /// Copies bytes out of the page.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&self, key: PageKey, offset: usize, bytes: &mut [u8]) -> Result<()> {
        match &self.content {
            Content::Absent => Err(ABSENT),
            Content::Own(page) => {
                bytes.copy_from_slice(&page[offset..offset + bytes.len()]);
                Ok(())
            }
            Content::Mapped(memory) => memory.read(key.index(), offset, bytes),
        }
    }

    /// Copies bytes into the page, which is dirty already. If programs see it where only they can write, it goes to `room`.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, key: PageKey, offset: usize, bytes: &[u8], room: &Arc<PageRoom>) -> Result<()> {
        debug_assert!(self.stage.is_dirty());
        if let Content::Mapped(memory) = &self.content {
            if memory.write(key.index(), offset, bytes)? {
                return Ok(());
            }
            self.take_out(key, room)?;
        }
        match &mut self.content {
            Content::Own(page) => {
                page[offset..offset + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            Content::Absent | Content::Mapped(_) => Err(ABSENT),
        }
    }

    /// Takes the page out of where programs see it, to `room`: they must ask for it.
    ///
    /// # Errors
    /// The system's.
    pub fn take_out(&mut self, key: PageKey, room: &Arc<PageRoom>) -> Result<()> {
        let Content::Mapped(memory) = &self.content else { return Ok(()) };
        if self.is_writable {
            memory.protect(&[key.index()])?;
        }
        let mut bytes = room.take()?;
        self.read(key, 0, &mut bytes[..])?;
        memory.drop_pages(&[key.index()])?;
        self.move_to(bytes);
        self.is_writable = false;
        Ok(())
    }

    /// All bytes of the page.
    ///
    /// # Errors
    /// The system's.
    #[cfg(feature = "layered")]
    pub fn copy(&self, key: PageKey) -> Result<Box<PageBytes>> {
        let mut bytes = Box::new([0; PAGE_BYTES]);
        self.read(key, 0, &mut bytes[..])?;
        Ok(bytes)
    }
}

/// One page in RAM, shared by the cache and by who uses it.
pub struct Frame {
    key: PageKey,
    state: Mutex<FrameState>,
    changed: Condvar,
    /// Threads that wait for a change of the state: mostly none, and then no wake-up is needed.
    waiting: AtomicU32,
    uses: AtomicU8,
}

impl Frame {
    /// A page whose bytes will come.
    #[must_use]
    pub fn loading(key: PageKey) -> Self {
        let state = FrameState {
            phase: Phase::Loading,
            content: Content::Absent,
            patched: None,
            is_new: false,
            is_blank: false,
            is_promised: false,
            stage: Stage::Clean,
            is_writable: false,
            twin: None,
            sum: None,
        };
        Frame {
            key,
            state: Mutex::new(state),
            changed: Condvar::new(),
            waiting: AtomicU32::new(0),
            uses: AtomicU8::new(UNUSED),
        }
    }

    /// Which page it is.
    #[must_use]
    pub fn key(&self) -> PageKey {
        self.key
    }

    /// What is known of it, whatever its phase.
    pub fn lock(&self) -> MutexGuard<'_, FrameState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of it, once its bytes are there; `None` if it has gone.
    ///
    /// # Errors
    /// Why its bytes could not be read.
    pub fn ready(&self) -> Result<Option<MutexGuard<'_, FrameState>>> {
        let is_underway =
            |state: &FrameState| matches!(state.phase, Phase::Loading | Phase::Moving | Phase::Leaving);
        let state = self.wait_while(self.lock(), is_underway);
        match &state.phase {
            Phase::Ready => Ok(Some(state)),
            Phase::Failed(error) => Err(error.clone()),
            Phase::Gone | Phase::Loading | Phase::Moving | Phase::Leaving => Ok(None),
        }
    }

    /// As [`Frame::ready`], once no commit needs its bytes as they are.
    ///
    /// # Errors
    /// As [`Frame::ready`].
    pub fn changeable(&self) -> Result<Option<MutexGuard<'_, FrameState>>> {
        let Some(state) = self.ready()? else { return Ok(None) };
        let state =
            self.wait_while(state, |state| state.stage == Stage::Taken || state.phase == Phase::Moving);
        Ok((state.phase == Phase::Ready).then_some(state))
    }

    fn wait_while<'a>(
        &'a self,
        mut state: MutexGuard<'a, FrameState>,
        condition: impl Fn(&FrameState) -> bool,
    ) -> MutexGuard<'a, FrameState> {
        while condition(&state) {
            // Counts under the lock: a thread that changes the state after this sees the count.
            self.waiting.fetch_add(1, Ordering::Relaxed);
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        state
    }

    /// Wakes who waits for a change of the state, after it was made under the lock.
    pub fn notify(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }

    /// Notes that it was read before anybody asked for it.
    pub fn note_ahead(&self) {
        self.uses.store(AHEAD, Ordering::Relaxed);
    }

    /// Notes a use.
    pub fn touch(&self) {
        match self.uses.load(Ordering::Relaxed) {
            USED_AGAIN => {}
            AHEAD => self.uses.store(UNUSED, Ordering::Relaxed),
            _ => self.uses.store(USED_AGAIN, Ordering::Relaxed),
        }
    }

    /// Whether it was used again since it came, or since this was asked last.
    pub fn take_used(&self) -> bool {
        let (before, after) = (USED_AGAIN, UNUSED);
        self.uses.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Nobody used it but who brought it.
const UNUSED: u8 = 0;
/// Somebody did.
const USED_AGAIN: u8 = 1;
/// Nobody has used it at all.
const AHEAD: u8 = 2;

//! Pages in RAM.

mod kept;
#[cfg(all(test, feature = "loom"))]
mod loom_tests;
mod shown;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use foldhash::fast::RandomState;

use crate::error::Result;
use crate::frame::{Content, Frame, FrameState, PageMemory, Phase, Stage, is_same};
use crate::key::{Ino, PageKey};
use crate::order::{Order, RECENT_PART, Standing};
use crate::patch::Ranges;
use crate::room::{PageRoom, RoomPage};
use crate::sums::Sums;
use crate::sync::{Mutex, MutexGuard};
use crate::twins::Twins;
use crate::word::PageBytes;
pub use kept::Kept;
pub use shown::{by_memory, indices};
use shown::{hide, leaving, take_out};

const SHARDS: usize = 64;
/// Pages that are dropped together: neighbours take one call of the system.
const DROPPED_AT_ONCE: usize = 32;
/// Pages that are taken out of a memory together.
const TAKEN_AT_ONCE: usize = 128;

/// Places for pages, in multiples of the pages that there are at most: the limit gives way when all are dirty or in use.
const ROOM_TIMES: usize = 4;
const ROOM_MIN: usize = 4096;

type Shard = HashMap<PageKey, Arc<Frame>, RandomState>;

/// What was found where a page should be.
#[derive(Default)]
pub struct Loaded {
    /// What a patch changed.
    pub patched: Option<Ranges>,
    /// Whether flash has nothing of it.
    pub is_new: bool,
    /// Whether its bytes are not what flash has.
    pub is_blank: bool,
    /// The sum of its bytes.
    pub sum: Option<u64>,
}

/// What else takes RAM of the same budget.
pub trait Neighbour: Send + Sync {
    /// Pages of RAM that it takes.
    fn pages(&self) -> usize;

    /// Looks at one of them, and drops it if it was not used since the last look.
    fn look_at_one(&self);
}

/// Pages in RAM, with those that changed.
pub struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    order: Mutex<Order>,
    frames_max: usize,
    frames: AtomicUsize,
    neighbour: Option<Arc<dyn Neighbour>>,
    /// Pages' worth of RAM that others take of the budget, and look after themselves.
    reserved: AtomicUsize,
    /// Where the one hand is that goes around our pages and the neighbour's.
    hand: AtomicUsize,
    /// Pages that the next commit takes, each once.
    dirty: Mutex<Vec<Arc<Frame>>>,
    dirty_count: AtomicUsize,
    twins: Twins,
    /// Pages that are not where programs see them.
    room: Arc<PageRoom>,
    sums: Sums,
}

impl Cache {
    /// At most about `frames_max` pages, with the older versions of those that change and with a neighbour's.
    ///
    /// # Errors
    /// There is no address space.
    pub fn new(frames_max: usize, neighbour: Option<Arc<dyn Neighbour>>) -> Result<Self> {
        Ok(Cache {
            shards: std::array::from_fn(|_| Mutex::default()),
            order: Mutex::new(Order::new(frames_max)),
            frames_max,
            frames: AtomicUsize::new(0),
            neighbour,
            reserved: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
            dirty: Mutex::default(),
            dirty_count: AtomicUsize::new(0),
            twins: Twins::new(frames_max / 4, frames_max)?,
            room: PageRoom::new(frames_max.saturating_mul(ROOM_TIMES).max(ROOM_MIN))?,
            sums: Sums::default(),
        })
    }

    fn shard(&self, key: PageKey) -> MutexGuard<'_, Shard> {
        let hash = key.word().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        lock(&self.shards[(hash >> 58) as usize])
    }

    /// Where pages are that programs do not see.
    pub fn room(&self) -> &Arc<PageRoom> {
        &self.room
    }

    /// Sums of pages that other processes can change.
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Pages in RAM.
    pub fn frames(&self) -> usize {
        self.frames.load(Ordering::Relaxed)
    }

    /// About how many pages can come before the first of them goes unused.
    pub fn recent_max(&self) -> u32 {
        (self.frames_max / RECENT_PART) as u32
    }

    /// Pages that changed since a commit took them.
    pub fn dirty(&self) -> usize {
        self.dirty_count.load(Ordering::Relaxed)
    }

    /// The page, if it is in RAM.
    pub fn peek(&self, key: PageKey) -> Option<Arc<Frame>> {
        self.shard(key).get(&key).cloned()
    }

    /// The page, after `load` has put all of its bytes where they are given and `place` has put them where they stay, if need be. The caller looks whether
    /// it is [`Frame::ready`].
    ///
    /// # Errors
    /// Of both, which others who wait for the page get too; the page is not in RAM then.
    pub fn get(
        &self,
        key: PageKey,
        load: impl FnOnce(&mut PageBytes) -> Result<Loaded>,
        place: impl FnOnce(RoomPage) -> Result<Content>,
    ) -> Result<Arc<Frame>> {
        let frame = match self.begin_load(key) {
            Ok(frame) => frame,
            Err(frame) => {
                frame.touch();
                return Ok(frame);
            }
        };
        let outcome = self.make_room().and_then(|()| {
            // Nobody else touches a page that is loading, so its state need not be locked during the read.
            let mut bytes = self.room.take()?;
            let mut loaded = load(&mut bytes)?;
            loaded.sum = self.sums.of(&bytes);
            Ok((loaded, place(bytes)?))
        });
        self.end_load(&frame, outcome)?;
        Ok(frame)
    }

    /// A page whose bytes the caller will bring, or that is in RAM already.
    ///
    /// # Errors
    /// The page that is in RAM already.
    pub fn begin_load(&self, key: PageKey) -> std::result::Result<Arc<Frame>, Arc<Frame>> {
        let mut shard = self.shard(key);
        if let Some(frame) = shard.get(&key) {
            return Err(Arc::clone(frame));
        }
        let frame = Arc::new(Frame::loading(key));
        shard.insert(key, Arc::clone(&frame));
        self.frames.fetch_add(1, Ordering::Relaxed);
        Ok(frame)
    }

    /// Says where a page's bytes are that the caller has brought, or that they could not be brought.
    ///
    /// # Errors
    /// That they could not; others who wait for the page get it too.
    pub fn end_load(&self, frame: &Arc<Frame>, outcome: Result<(Loaded, Content)>) -> Result<()> {
        let outcome = match outcome {
            Ok((loaded, content)) => {
                let mut state = frame.lock();
                (state.content, state.patched, state.sum) = (content, loaded.patched, loaded.sum);
                (state.is_new, state.is_blank) = (loaded.is_new, loaded.is_blank);
                state.phase = Phase::Ready;
                drop(state);
                lock(&self.order).add(Arc::clone(frame));
                Ok(())
            }
            Err(error) => {
                frame.lock().phase = Phase::Failed(error.clone());
                self.forget(frame.key());
                Err(error)
            }
        };
        frame.notify();
        outcome
    }

    /// Gives up bringing a page's bytes: threads that wait for them try again.
    pub fn give_up(&self, frame: &Frame) {
        frame.lock().phase = Phase::Gone;
        self.forget(frame.key());
        frame.notify();
    }

    fn forget(&self, key: PageKey) {
        self.shard(key).remove(&key);
        self.frames.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether pages will soon have to be dropped.
    pub fn is_nearly_full(&self) -> bool {
        self.needed() + self.ahead() / 2 > self.frames_max
    }

    /// Whether there is RAM that nothing needs now, for copies that only make commits cheaper.
    pub fn has_spare_room(&self) -> bool {
        self.taken() + self.ahead() < self.frames_max
    }

    /// Pages' worth of RAM that is taken: by pages, by what they were before they changed, and by the neighbour.
    fn taken(&self) -> usize {
        self.needed() + self.twins.kept()
    }

    /// As [`Cache::taken`], but for copies that only make commits cheaper.
    fn needed(&self) -> usize {
        self.frames() + self.twins.made() + self.beside() + self.reserved.load(Ordering::Relaxed)
    }

    /// Says how many pages' worth of RAM others take.
    pub fn set_reserved(&self, pages: usize) {
        self.reserved.store(pages, Ordering::Relaxed);
    }

    fn beside(&self) -> usize {
        self.neighbour.as_ref().map_or(0, |neighbour| neighbour.pages())
    }

    /// Room that is made before it is needed.
    fn ahead(&self) -> usize {
        (self.frames_max / 32).min(8 * DROPPED_AT_ONCE)
    }

    /// Makes room before it is needed.
    ///
    /// # Errors
    /// The system's.
    pub fn drop_ahead(&self) -> Result<()> {
        self.make_room_until(self.frames_max - self.ahead())
    }

    /// Drops pages, many at once, until there is room. If all are in use or dirty, the limit gives way.
    ///
    /// # Errors
    /// The system's.
    pub fn make_room(&self) -> Result<()> {
        self.make_room_until(self.frames_max)
    }

    fn make_room_until(&self, frames: usize) -> Result<()> {
        let batch = DROPPED_AT_ONCE.min(self.frames_max / 8).max(1);
        loop {
            let before = self.taken();
            if before <= frames {
                break;
            }
            // What makes the next commit cheaper leaves before what programs use.
            if self.drop_kept_twins(batch) > 0 {
                continue;
            }
            let (victims, tried) = self.take_victims(batch);
            let is_stuck = victims.is_empty();
            // Drops the victims whatever becomes of the pages on trial: threads wait for them.
            self.drop_frames(victims).and(hide(tried, &self.room))?;
            if is_stuck && self.taken() >= before {
                break;
            }
        }
        Ok(())
    }

    /// Takes up to `count` unneeded pages out of the order, and puts others on trial. A thread that asks for
    /// a taken page waits until it is gone.
    fn take_victims(&self, count: usize) -> (Vec<Arc<Frame>>, Vec<Arc<Frame>>) {
        let mut victims = Vec::with_capacity(count);
        let mut order = lock(&self.order);
        let beside = self.beside();
        let mut looks = (order.len() + beside) * 2;
        let mut search = order.search();
        while victims.len() < count && looks > 0 {
            looks -= 1;
            if let Some(neighbour) = self.neighbour.as_ref().filter(|_| self.is_turn_of(beside)) {
                neighbour.look_at_one();
                continue;
            }
            let Some((frame, standing)) = order.next(&mut search) else { break };
            if frame.take_used() {
                order.prove(frame);
                continue;
            }
            let shard = self.shard(frame.key());
            let mut state = frame.lock();
            // One is the map's, one is ours.
            let is_held = Arc::strong_count(&frame) > 2;
            let is_needed = state.stage != Stage::Clean || state.phase == Phase::Moving || is_held;
            match state.phase {
                Phase::Moving | Phase::Ready if is_needed => {
                    drop((state, shard));
                    order.keep(standing, frame);
                }
                Phase::Ready => {
                    state.phase = Phase::Leaving;
                    drop((state, shard));
                    order.note_gone(standing, frame.key());
                    victims.push(frame);
                }
                _ => {}
            }
        }
        (victims, order.try_more())
    }

    /// Whether the next page that is looked at is one of these, if the hand goes around all evenly.
    fn is_turn_of(&self, pages: usize) -> bool {
        let before = self.hand.fetch_add(pages, Ordering::Relaxed);
        before / self.frames_max != before.wrapping_add(pages) / self.frames_max
    }

    fn drop_frames(&self, mut victims: Vec<Arc<Frame>>) -> Result<()> {
        let mut outcome = Ok(());
        for (memory, frames) in by_memory(&mut victims, |_| true) {
            outcome = outcome.and(memory.drop_pages(&indices(&frames)));
        }
        for frame in victims {
            let mut state = frame.lock();
            if outcome.is_err() {
                state.phase = Phase::Ready;
                drop(state);
                lock(&self.order).keep(Standing::Recent, Arc::clone(&frame));
            } else {
                (state.phase, state.content) = (Phase::Gone, Content::Absent);
                state.twin = None;
                drop(state);
                self.forget(frame.key());
            }
            frame.notify();
        }
        outcome
    }

    /// Notes that a page is about to change: it is dirty when this returns. The caller holds the gate open.
    ///
    /// # Errors
    /// The system's.
    pub fn begin_change(&self, frame: &Arc<Frame>, state: &mut FrameState) -> Result<()> {
        if state.stage.is_dirty() {
            return Ok(());
        }
        if !state.is_new && !state.is_blank && state.twin.is_none() {
            state.twin = self.twins.make(|bytes| state.read(frame.key(), 0, &mut bytes[..]))?;
            let is_doubtful = state.sum.is_some() || state.is_handed_out();
            if is_doubtful && state.twin.as_ref().and_then(|twin| self.sums.of(twin)) != state.sum {
                // Not what flash has: the page is written whole.
                state.twin = None;
            }
        }
        state.is_blank = false;
        if state.stage.change() {
            self.add_dirty(frame);
        }
        Ok(())
    }

    fn add_dirty(&self, frame: &Arc<Frame>) {
        self.dirty_count.fetch_add(1, Ordering::Relaxed);
        lock(&self.dirty).push(Arc::clone(frame));
    }

    /// What a commit compares changed pages with.
    pub fn twins(&self) -> &Twins {
        &self.twins
    }

    /// All dirty pages, which are the caller's now. Nobody may change a page meanwhile.
    pub fn take_dirty(&self) -> Vec<Arc<Frame>> {
        std::mem::take(&mut *lock(&self.dirty))
    }

    /// Says that a commit has one of the pages from [`Cache::take_dirty`], or that it is not in RAM any more.
    pub fn note_taken(&self) {
        self.dirty_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives a page back that a commit took: the next one takes it.
    pub fn give_back(&self, frame: &Arc<Frame>, state: &mut FrameState) {
        if state.stage.give_back() {
            self.add_dirty(frame);
        }
    }

    /// Gives pages back from [`Cache::take_dirty`] that the commit did not come to.
    pub fn give_back_untaken(&self, frames: Vec<Arc<Frame>>) {
        lock(&self.dirty).extend(frames);
    }

    /// Takes a page away whose file was cut. Waits for a commit that is copying it. `forget` is told its state.
    ///
    /// # Errors
    /// The system's.
    pub fn cut(&self, key: PageKey, forget: impl FnOnce(&mut FrameState)) -> Result<()> {
        let Some(frame) = self.peek(key) else { return Ok(()) };
        let Some(mut state) = frame.changeable().unwrap_or(None) else { return Ok(()) };
        if let Content::Mapped(memory) = &state.content {
            memory.drop_pages(&[key.index()])?;
        }
        forget(&mut state);
        (state.phase, state.content) = (Phase::Gone, Content::Absent);
        state.twin = None;
        drop(state);
        self.forget(key);
        frame.notify();
        Ok(())
    }

    /// Takes all pages of a file out of a memory that programs see no more. Beyond the first `pages_max`, those that are as on flash go.
    ///
    /// # Errors
    /// The system's, for example if the program has unmapped the memory itself: what only was there is lost.
    pub fn take_all_out(&self, ino: Ino, memory: &Arc<dyn PageMemory>, pages_max: usize) -> Result<()> {
        let frames: Vec<_> = self.keys_of(ino).into_iter().filter_map(|key| self.peek(key)).collect();
        let (kept, others) = frames.split_at(pages_max.min(frames.len()));
        let mut outcome = Ok(());
        for some in kept.chunks(TAKEN_AT_ONCE) {
            outcome = outcome.and(take_out(memory, some, &self.room));
        }
        for some in others.chunks(TAKEN_AT_ONCE) {
            outcome = outcome.and(self.drop_frames(leaving(memory, some)));
        }
        for frame in frames {
            let Some(mut state) = frame.changeable().unwrap_or(None) else { continue };
            if matches!(&state.content, Content::Mapped(of_page) if is_same(of_page, memory)) {
                let taken = state.take_out(frame.key(), &self.room);
                if taken.is_err() {
                    (state.phase, state.content, state.twin) = (Phase::Gone, Content::Absent, None);
                    drop(state);
                    self.forget(frame.key());
                    frame.notify();
                }
                outcome = outcome.and(taken);
            }
        }
        outcome
    }

    /// Keys of a file's pages in RAM, ascending.
    pub fn keys_of(&self, ino: Ino) -> Vec<PageKey> {
        let mut keys = Vec::new();
        for shard in &self.shards {
            keys.extend(lock(shard).keys().filter(|key| key.ino() == ino));
        }
        keys.sort_unstable();
        keys
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Pages where programs see them.

use std::sync::Arc;

use crate::error::Result;
use crate::frame::{Content, Frame, FrameState, PageMemory, Phase, Stage, is_same};
use crate::room::PageRoom;

/// Pages in one memory.
type OfMemory = (Arc<dyn PageMemory>, Vec<Arc<Frame>>);

/// Makes programs ask again for pages that they have mapped, so that a use shows.
///
/// # Errors
/// The system's.
pub fn hide(mut frames: Vec<Arc<Frame>>, room: &Arc<PageRoom>) -> Result<()> {
    let can_hide = |state: &FrameState| state.phase == Phase::Ready && !state.stage.is_dirty();
    for (memory, frames) in by_memory(&mut frames, can_hide) {
        for frame in &frames {
            // What was noted are the faults that brought it.
            frame.take_used();
        }
        if !memory.hide(&indices(&frames))? {
            take_out(&memory, &frames, room)?;
        }
    }
    Ok(())
}

/// Those of the pages that are in a memory and as on flash. From now on they are leaving.
pub fn leaving(memory: &Arc<dyn PageMemory>, frames: &[Arc<Frame>]) -> Vec<Arc<Frame>> {
    let mut leaving = Vec::with_capacity(frames.len());
    for frame in frames {
        let mut state = frame.lock();
        if is_idle_in(memory, &state) && state.stage == Stage::Clean {
            state.phase = Phase::Leaving;
            leaving.push(Arc::clone(frame));
        }
    }
    leaving
}

fn is_idle_in(memory: &Arc<dyn PageMemory>, state: &FrameState) -> bool {
    let is_there = matches!(&state.content, Content::Mapped(of_page) if is_same(of_page, memory));
    is_there && state.phase == Phase::Ready && matches!(state.stage, Stage::Clean | Stage::Copied)
}

/// Takes pages out of a memory to `room`, which neither changed nor are just being written.
///
/// # Errors
/// The system's.
pub fn take_out(memory: &Arc<dyn PageMemory>, frames: &[Arc<Frame>], room: &Arc<PageRoom>) -> Result<()> {
    let mut moving = Vec::with_capacity(frames.len());
    let mut outcome = Ok(());
    for frame in frames {
        let mut state = frame.lock();
        if !is_idle_in(memory, &state) {
            continue;
        }
        let copied = room.take().and_then(|mut bytes| {
            state.read(frame.key(), 0, &mut bytes[..])?;
            Ok(bytes)
        });
        match copied {
            Ok(bytes) => {
                state.phase = Phase::Moving;
                moving.push((frame, bytes));
            }
            Err(error) => outcome = Err(error),
        }
    }
    let pages: Vec<u32> = moving.iter().map(|(frame, _)| frame.key().index()).collect();
    let dropped = memory.drop_pages(&pages);
    for (frame, bytes) in moving {
        let mut state = frame.lock();
        if dropped.is_ok() {
            state.move_to(bytes);
        }
        state.phase = Phase::Ready;
        drop(state);
        frame.notify();
    }
    outcome.and(dropped)
}

/// Pages that are where programs see them, by where that is; ascending.
pub fn by_memory(frames: &mut [Arc<Frame>], is_wanted: impl Fn(&FrameState) -> bool) -> Vec<OfMemory> {
    frames.sort_unstable_by_key(|frame| frame.key());
    let mut groups: Vec<OfMemory> = Vec::new();
    for frame in frames {
        let state = frame.lock();
        let Content::Mapped(memory) = &state.content else { continue };
        if !is_wanted(&state) {
            continue;
        }
        match groups.last_mut() {
            Some((same, frames)) if is_same(same, memory) => frames.push(Arc::clone(frame)),
            _ => groups.push((Arc::clone(memory), vec![Arc::clone(frame)])),
        }
    }
    groups
}

/// Which pages of their file these are.
pub fn indices(frames: &[Arc<Frame>]) -> Vec<u32> {
    frames.iter().map(|frame| frame.key().index()).collect()
}

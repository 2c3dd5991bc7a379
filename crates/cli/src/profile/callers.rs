//! The callers of a sample, found in the copy of its stack.

use std::rc::Rc;

use aquifer_base::samples::Sample;
use framehop::{CacheNative, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder, UnwinderNative};

use crate::profile::image::{Bytes, Image};
use crate::profile::modules::Module;

/// Most functions of one stack.
const DEPTH_MAX: usize = 512;

/// The tables of one process.
pub struct Callers {
    unwinder: UnwinderNative<Bytes, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Callers {
    /// For a process with these modules, of which some have an image.
    pub fn new<'a>(modules: impl Iterator<Item = (&'a Module, Option<Rc<Image>>)>) -> Self {
        let mut unwinder = UnwinderNative::new();
        for (module, image) in modules {
            let Some(image) = image else { continue };
            let Some(bias) = image.bias(module.start, module.offset) else { continue };
            let range = module.start..module.end;
            unwinder.add_module(framehop::Module::new(module.name(), range, bias, image.sections()));
        }
        Self { unwinder, cache: CacheNative::new() }
    }

    /// The address of the instruction that faulted, then of the call in each of its callers, as far as the stack was copied.
    pub fn of(&mut self, sample: &Sample<'_>) -> Vec<u64> {
        let mut read_stack = |address| sample.stack_word(address).ok_or(());
        let (pc, registers) = (sample.head.pc, registers(sample));
        let mut frames = self.unwinder.iter_frames(pc, registers, &mut self.cache, &mut read_stack);
        let next = || frames.next().ok().flatten().map(|frame| frame.address_for_lookup());
        std::iter::from_fn(next).take(DEPTH_MAX).collect()
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(sample: &Sample<'_>) -> UnwindRegsNative {
    UnwindRegsNative::new(sample.head.pc, sample.head.sp, sample.head.fp)
}

#[cfg(target_arch = "aarch64")]
fn registers(sample: &Sample<'_>) -> UnwindRegsNative {
    UnwindRegsNative::new(sample.head.lr, sample.head.sp, sample.head.fp)
}

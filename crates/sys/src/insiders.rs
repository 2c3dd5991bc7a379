//! Code that works for the library in a process that does not know of it: the C library, the dynamic linker, and what the library has loaded.
//!
//! A library that stands in front of `malloc` asks here: memory of such code must not be managed, because it may be needed to bring managed memory.

use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Modules that are noted; further ones are the program's.
const NOTED_MAX: usize = 64;
/// Modules that are compared when some are loaded; a process with more has those noted that are not among the first.
const MODULES_MAX: usize = 1024;

/// First byte and length of code.
static NOTED: [[AtomicUsize; 2]; NOTED_MAX] = [const { [const { AtomicUsize::new(0) }; 2] }; NOTED_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A module's code.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// Its file's name, without folders.
    pub name: &'a [u8],
    /// First byte of its code.
    pub start: usize,
    /// Bytes of its code.
    pub len: usize,
}

impl Module<'_> {
    /// Whether this is an address of its code.
    #[must_use]
    pub fn has(&self, address: usize) -> bool {
        address.wrapping_sub(self.start) < self.len
    }
}

/// Whether code that was noted is at an address. Signal-safe.
#[must_use]
pub fn is_one(address: usize) -> bool {
    let count = COUNT.load(Ordering::Acquire).min(NOTED_MAX);
    NOTED[..count]
        .iter()
        .any(|[start, len]| address.wrapping_sub(start.load(Ordering::Relaxed)) < len.load(Ordering::Relaxed))
}

/// Notes all modules for which `is_one` holds.
///
/// # Context
/// Takes the dynamic linker's lock: not for signal handlers.
pub fn note_modules(mut is_one: impl FnMut(&Module<'_>) -> bool) {
    for_each_module(&mut |module| {
        if is_one(module) {
            note(module);
        }
    });
}

/// Notes the modules that are loaded by a call, and those of this name (the beginning of it) that the program has loaded before.
///
/// # Context
/// As [`note_modules`].
pub fn note_loaded<T>(name: &[u8], load: impl FnOnce() -> T) -> T {
    let (mut known, mut count) = ([0usize; MODULES_MAX], 0);
    for_each_module(&mut |module| {
        if count < MODULES_MAX {
            known[count] = module.start;
            count += 1;
        }
    });
    let loaded = load();
    note_modules(|module| !known[..count].contains(&module.start) || module.name.starts_with(name));
    loaded
}

fn note(module: &Module<'_>) {
    if is_one(module.start) {
        return;
    }
    let nth = COUNT.load(Ordering::Relaxed);
    if let Some([start, len]) = NOTED.get(nth) {
        start.store(module.start, Ordering::Relaxed);
        len.store(module.len, Ordering::Relaxed);
        COUNT.store(nth + 1, Ordering::Release);
    }
}

fn for_each_module(visit: &mut dyn FnMut(&Module<'_>)) {
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, visit: *mut c_void) -> i32 {
        // SAFETY: the linker describes a module that stays while it is looked at; `visit` is what is passed below.
        unsafe {
            let info = &*info;
            let visit = &mut *visit.cast::<&mut dyn FnMut(&Module<'_>)>();
            let name = core::ffi::CStr::from_ptr(info.dlpi_name).to_bytes();
            let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
            let headers = core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
            let code = headers.iter().find(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0);
            if let Some(code) = code {
                let start = (info.dlpi_addr + code.p_vaddr) as usize;
                visit(&Module { name, start, len: code.p_memsz as usize });
            }
        }
        0
    }
    let mut visit = visit;
    // SAFETY: the callback is as above, and what it is passed lives for the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut visit).cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_found_by_its_name() {
        let address = libc::malloc as *const () as usize;
        let own = for_each_module as *const () as usize;
        assert!(!is_one(own));
        note_modules(|module| module.name.starts_with(b"libc.so"));
        assert!(is_one(address));
        assert!(!is_one(own));
    }

    #[test]
    fn what_a_call_loads_is_noted() {
        // SAFETY: the library does nothing when it is loaded.
        let load = || unsafe { libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW) };
        let handle = note_loaded(b"libm.so", load);
        assert!(!handle.is_null());
        // SAFETY: a function of the library that was loaded.
        let cos = unsafe { libc::dlsym(handle, c"lgamma_r".as_ptr()) } as usize;
        assert!(is_one(cos));
    }
}

//! What runs before and after the program.

use aquifer_sys::signal::{Sigaction, alternate_stacks_have_room, set_real_sigaction};
use aquifer_sys::stderr;

use std::sync::atomic::{AtomicU32, Ordering};

use crate::real::real;
use crate::settings::Settings;
use crate::{profile, report, route};

/// The process that began.
static STARTED: AtomicU32 = AtomicU32::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn start() {
    stderr::note();
    if let Some(sigaction) = real!(sigaction: Sigaction) {
        // SAFETY: it is the C library's.
        unsafe { set_real_sigaction(sigaction) };
    }
    // Those without have substitutes.
    alternate_stacks_have_room();
    crate::hooks::unblock_ours();
    crate::hooks::install_at_fork();
    crate::hooks::prepare_substitutes();
    STARTED.store(std::process::id(), Ordering::Relaxed);
    crate::real::find_all();
    aquifer_sys::helper::look_at_stacks();
    let begun = Settings::from_env().and_then(route::begin);
    if let Err(error) = begun {
        crate::tell::tell!(
            "aquifer: {} runs without managed memory: {error}{}",
            route::program(),
            route::Hint(&error)
        );
    }
    if route::route().is_some() && !crate::hooks::streams::begin() {
        crate::tell::tell!(
            "aquifer: {}: this C library hands the memory of streams to the kernel in a way that is not known here; \
             printf or fwrite of memory beyond RAM may fail with EFAULT; `aquifer run --faults thread` serves them",
            route::program()
        );
    }
    if route::route().is_some_and(|route| route.settings.is_fenced) {
        crate::hooks::take_segv();
    }
    if let Some(settings) = route::route().map(|route| &route.settings)
        && let Some(path) = &settings.profile
    {
        profile::begin(path, settings.is_child);
    }
}

extern "C" fn end() {
    let Some(route) = route::route() else { return };
    // Not in a child that was forked and never was another program.
    if std::process::id() != STARTED.load(Ordering::Relaxed) {
        return;
    }
    profile::end();
    report::tell_of_unmanaged(route);
    report::write(route);
}

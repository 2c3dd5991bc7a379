//! Samples of faults for `aquifer run --profile`: registers and stack of the thread, in a file that the command has made.
//!
//! Names are found when the program has ended, by the command. Here nothing is understood: the fault handler copies.

mod modules;
mod reservoir;

use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;

use aquifer_base::samples::{Layout, SampleHead};
use aquifer_vm::fault::observer::{ResolvedFault, observe};

use modules::Modules;
use reservoir::Reservoir;

struct Profile {
    reservoir: Reservoir,
    modules: Modules,
}

/// The registers of an interrupted thread that finding its callers begins with.
struct Registers {
    /// The instruction.
    pc: u64,
    /// Stack pointer.
    sp: u64,
    /// Frame pointer.
    fp: u64,
    /// Where the function returns to, on processors that keep that in a register; 0 on others.
    lr: u64,
}

impl Registers {
    /// # Safety
    /// `context` is the third argument of a signal handler that runs.
    #[cfg(target_arch = "x86_64")]
    unsafe fn of(context: *const c_void) -> Self {
        // SAFETY: the kernel wrote the registers of the interrupted thread there.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let register = |which: libc::c_int| registers[which as usize] as u64;
        Self { pc: register(libc::REG_RIP), sp: register(libc::REG_RSP), fp: register(libc::REG_RBP), lr: 0 }
    }

    /// # Safety
    /// `context` is the third argument of a signal handler that runs.
    #[cfg(target_arch = "aarch64")]
    unsafe fn of(context: *const c_void) -> Self {
        // SAFETY: the kernel wrote the registers of the interrupted thread there.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        Self { pc: machine.pc, sp: machine.sp, fp: machine.regs[29], lr: machine.regs[30] }
    }
}

static PROFILE: OnceLock<Profile> = OnceLock::new();

/// Begins to take samples into the file at `path`. A child of the program that is not allowed to open it goes without.
pub fn begin(path: &Path, is_child: bool) {
    match open(path) {
        Ok(reservoir) => {
            reservoir.count_program();
            if PROFILE.set(Profile { reservoir, modules: Modules::new() }).is_ok() {
                observe(note_in_fault);
            }
        }
        Err(error) if !is_child => crate::tell::tell!("aquifer: no profile can be taken: {error}"),
        Err(_) => {}
    }
}

fn open(path: &Path) -> std::io::Result<Reservoir> {
    let file = std::fs::File::options().read(true).write(true).open(path)?;
    let mut head = [0; 24];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut head, 0)?;
    let unknown = || std::io::Error::other("the file for samples is of another version");
    let (layout, seed) = Layout::of(&head).ok_or_else(unknown)?;
    if file.metadata()?.len() < layout.file_bytes() as u64 {
        return Err(unknown());
    }
    Reservoir::map(file.as_raw_fd(), layout, seed)
}

/// Notes where the program's code is; before it ends.
pub fn end() {
    if let Some(profile) = PROFILE.get().filter(|profile| profile.reservoir.has_faults()) {
        profile.modules.note_in_fault(&profile.reservoir, std::process::id(), true);
    }
}

fn note_in_fault(fault: &ResolvedFault) {
    let Some(profile) = PROFILE.get() else { return };
    let Some(slot) = profile.reservoir.choose_in_fault() else { return };
    let process = std::process::id();
    // SAFETY: the observer is called with a handler's context.
    let Registers { pc, sp, fp, lr } = unsafe { Registers::of(fault.context) };
    let head = SampleHead {
        process,
        thread: aquifer_sys::process::thread_id(),
        found: fault.found,
        duration_ns: fault.duration.as_nanos() as u64,
        address: fault.address as u64,
        pc,
        sp,
        fp,
        lr,
    };
    slot.write_in_fault(&head);
    profile.modules.note_in_fault(&profile.reservoir, process, false);
}

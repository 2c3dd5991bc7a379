//! The registers that finding a thread's callers begins with.

use std::ffi::c_void;

/// Those of an interrupted thread.
pub struct Registers {
    /// The instruction.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Where the function returns to, on processors that keep that in a register; 0 on others.
    pub lr: u64,
}

impl Registers {
    /// # Safety
    /// `context` is the third argument of a signal handler that runs.
    #[cfg(target_arch = "x86_64")]
    pub unsafe fn of(context: *const c_void) -> Self {
        // SAFETY: the kernel wrote the registers of the interrupted thread there.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let register = |which: libc::c_int| registers[which as usize] as u64;
        Self { pc: register(libc::REG_RIP), sp: register(libc::REG_RSP), fp: register(libc::REG_RBP), lr: 0 }
    }

    /// # Safety
    /// `context` is the third argument of a signal handler that runs.
    #[cfg(target_arch = "aarch64")]
    pub unsafe fn of(context: *const c_void) -> Self {
        // SAFETY: the kernel wrote the registers of the interrupted thread there.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        Self { pc: machine.pc, sp: machine.sp, fp: machine.regs[29], lr: machine.regs[30] }
    }
}

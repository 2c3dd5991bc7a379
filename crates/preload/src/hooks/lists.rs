//! The functions that become a program and have its arguments one by one: `execl` and its family. Blocks of the program's strings may be
//! small and lie anywhere in managed memory.

use std::arch::naked_asm;

use libc::{c_char, c_int};

use super::process::{List, execv, execve, execvp};

/// A function with arguments of a number that is not known, after the first: passes them to `$inner` as a list in memory, where those
/// are already for which there was no register.
macro_rules! with_list {
    ($(fn $name:ident = $inner:path;)*) => {$(
        /// # Safety
        /// As the manual page of the function says.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(_: *const c_char, _: *const c_char) -> c_int {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                "pop rax",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push rax",
                "call {inner}",
                "pop rcx",
                "add rsp, 40",
                "push rcx",
                "ret",
                inner = sym $inner
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                "sub sp, sp, #80",
                "str x30, [sp]",
                "str x1, [sp, #24]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "add x1, sp, #24",
                "bl {inner}",
                "ldr x30, [sp]",
                "add sp, sp, #80",
                "ret",
                inner = sym $inner
            );
        }
    )*};
}

with_list! {
    fn execl = execv;
    fn execlp = execvp;
    fn execle = execle_list;
}

/// # Safety
/// The list ends with NULL, and the environment follows.
unsafe extern "C" fn execle_list(path: *const c_char, arguments: List) -> c_int {
    let mut end = arguments;
    // SAFETY: the caller says so.
    unsafe {
        while !(*end).is_null() {
            end = end.add(1);
        }
        execve(path, arguments, (*end.add(1)).cast())
    }
}

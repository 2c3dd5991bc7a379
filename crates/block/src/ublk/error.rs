//! Why there is no device.

use std::io;
use std::path::PathBuf;

use aquifer_device::DeviceError;

use super::abi::CONTROL_PATH;

/// Why there is no device, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The kernel has no driver, or it is not loaded.
    #[error(
        "there is no {CONTROL_PATH}: load the kernel's module with `modprobe ublk_drv`; `aquifer version` says whether this kernel has it. Linux has it since 6.0, but not every distribution builds it: Debian 13 does, Debian 12 in the kernel of bookworm-backports (6.12). Without it use --socket with nbd-client, or --fuse"
    )]
    NoDriver,
    /// Only root may.
    #[error(
        "block devices are made by root only ({0}): be root, with CAP_SYS_ADMIN where the container takes it"
    )]
    NoRights(io::Error),
    /// The kernel's driver knows other commands.
    #[error(
        "the kernel's ublk_drv does not know the command {command} ({source}): it needs Linux 6.5 or later. Use --socket with nbd-client, or --fuse"
    )]
    OldKernel {
        /// By the kernel's name.
        command: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refuses `io_uring`.
    #[error(
        "io_uring cannot be used ({0}): allow it (sysctl kernel.io_uring_disabled=0, and the container's seccomp profile), or use --socket with nbd-client, or --fuse"
    )]
    NoRing(io::Error),
    /// A command failed.
    #[error("the kernel does not do {command}: {source}; `dmesg` may say more")]
    Command {
        /// By the kernel's name.
        command: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The device's own file cannot be used.
    #[error("{} cannot be opened: {source}; /dev must be the kernel's own (devtmpfs), also in a container", path.display())]
    Node {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A thread could not be started, or its memory not be allocated.
    #[error("queue {queue} cannot be served: {source}; name fewer --threads")]
    Queue {
        /// Which.
        queue: u16,
        /// The system's answer.
        source: io::Error,
    },
    /// Something uses the device.
    #[error(
        "{} is in use, and stays: end that first (swapoff, umount). A second signal does not wait, and whoever uses it gets errors",
        .0.display()
    )]
    InUse(PathBuf),
    /// Somebody else took the device away.
    #[error("{} was ended by somebody else", .0.display())]
    Gone(PathBuf),
    /// The device failed at the end.
    #[error("what was written is not durable: {0}")]
    Device(#[from] DeviceError),
}

impl UblkError {
    /// Why a command to the control device failed.
    pub(super) fn of_command(command: &'static str, number: i32) -> Self {
        let source = io::Error::from_raw_os_error(number);
        match number {
            libc::EPERM | libc::EACCES => UblkError::NoRights(source),
            // How kernels before 6.5 call a command that they do not know; what is wished for is never invalid.
            libc::EINVAL if command == "ADD_DEV" => UblkError::OldKernel { command, source },
            libc::EOPNOTSUPP => UblkError::OldKernel { command, source },
            _ => UblkError::Command { command, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_say_what_to_do() {
        let said = |number| UblkError::of_command("SET_PARAMS", number).to_string();
        assert!(UblkError::of_command("ADD_DEV", libc::EINVAL).to_string().contains("6.5 or later"));
        assert!(said(libc::EPERM).contains("be root"));
        assert!(said(libc::EOPNOTSUPP).contains("6.5 or later"));
        assert!(said(libc::EINVAL).contains("dmesg"));
        assert!(UblkError::NoDriver.to_string().contains("modprobe ublk_drv"));
    }
}

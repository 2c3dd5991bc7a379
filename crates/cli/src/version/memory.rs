//! What heaps need of the kernel: its version, userfaultfd, and rings for batches.

use std::fs;
use std::io;

use aquifer_device::try_ring;
use aquifer_sys::uffd::{Features, Userfaultfd};
use aquifer_sys::{Errno, Fence, process};

use super::part::Part;

/// What gives a container userfaultfd.
const USERFAULTFD: &str = "`docker run --device /dev/userfaultfd` gives it the device, if its user may use that; else its seccomp profile must allow the call, as \
     `--security-opt seccomp=unconfined` does";
/// What a container's profile must allow.
const IN_A_CONTAINER: &str =
    "its seccomp profile must allow it, as `docker run --security-opt seccomp=unconfined` does";

/// The parts, on the kernel of this release.
pub fn parts(release: &str) -> Vec<Part> {
    let managed = Userfaultfd::open(Features::SIGBUS | Features::PAGEFAULT_FLAG_WP).map(drop);
    let fence = Fence::open().map(drop);
    let full = Userfaultfd::open_full(Features::PAGEFAULT_FLAG_WP).map(drop);
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
    let rings = try_ring();
    vec![
        kernel(release, process::kernel_version()),
        managed_memory(managed, fence),
        fault_threads(full, managed.is_ok()),
        io_uring(&rings, disabled.as_deref().map(str::trim)),
    ]
}

fn kernel(release: &str, version: (u32, u32)) -> Part {
    let serves = "heaps, run, mapped files of volumes";
    let (major, minor) = aquifer::KERNEL_MIN;
    if version >= (major, minor) {
        return Part::ready("kernel", serves, format!("Linux {release}; {major}.{minor} is enough"));
    }
    Part::missing(
        "kernel",
        serves,
        format!("Linux {release} is older than {major}.{minor}"),
        "a newer kernel; Debian 13 and Ubuntu 24.04 have one, Debian 12 in bookworm-backports",
    )
}

/// Absent memory is noticed by userfaultfd, or by its protection where there is none.
fn managed_memory(outcome: Result<(), Errno>, fence: Result<(), Errno>) -> Part {
    let (name, serves) = ("userfaultfd", "heaps, run, mapped files of volumes");
    let Err(errno) = outcome else {
        return Part::ready(name, serves, "the system call or /dev/userfaultfd answers");
    };
    let remedy: String = match errno {
        Errno::EINVAL => "a newer kernel: this one has an older userfaultfd".into(),
        Errno::ENOSYS => format!("a kernel with CONFIG_USERFAULTFD; in a container {USERFAULTFD}"),
        _ => format!("in a container {USERFAULTFD}"),
    };
    let refused = format!("the system call and /dev/userfaultfd are refused: {errno}");
    let state = match fence {
        Ok(()) => format!(
            "{refused}; heaps and run notice absent memory by its protection, which is three times slower (--faults thread needs userfaultfd)"
        ),
        Err(fence) => {
            format!("{refused}; and /proc/self/mem, by which heaps and run would do without: {fence}")
        }
    };
    let remedy = if fence.is_ok() { remedy } else { format!("{remedy}; or mount /proc") };
    Part::missing(name, serves, state, remedy)
}

/// Reports whether faults inside of system calls can be handled, which takes a privilege. `is_managed`: other
/// faults can.
fn fault_threads(outcome: Result<(), Errno>, is_managed: bool) -> Part {
    let (name, serves) = ("fault threads", "system calls on absent memory with --faults thread");
    match outcome {
        Ok(()) => Part::ready(name, serves, "this user may handle faults inside of system calls"),
        Err(errno) => {
            let state = format!("this user may not handle faults inside of system calls: {errno}");
            let remedy = if is_managed {
                "`sysctl vm.unprivileged_userfaultfd=1`, or let this user read and write /dev/userfaultfd"
            } else {
                "userfaultfd first, above"
            };
            Part::missing(name, serves, state, remedy)
        }
    }
}

/// `disabled` is the kernel's own switch: 0 for all users, 1 for root and a group, 2 for nobody.
fn io_uring(outcome: &io::Result<()>, disabled: Option<&str>) -> Part {
    let (name, serves) = ("io_uring", "probe, block --ublk, batches at full depth");
    let Err(error) = outcome else {
        return Part::ready(name, serves, "the kernel gives this user rings");
    };
    let remedy = match (disabled, error.kind()) {
        (Some("1" | "2"), _) => "`sysctl kernel.io_uring_disabled=0`".to_owned(),
        (_, io::ErrorKind::Unsupported) => {
            format!("a kernel with CONFIG_IO_URING; in a container {IN_A_CONTAINER}")
        }
        (_, io::ErrorKind::PermissionDenied) => format!("in a container {IN_A_CONTAINER}"),
        _ => "a kernel of Linux 5.19 or later, and memory for rings".into(),
    };
    let state = format!("the kernel gives this user no rings: {error}; batches are shared by eight threads");
    Part::missing(name, serves, state, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(part: Part) -> String {
        assert!(!part.is_ready);
        part.remedy.expect("it is missing")
    }

    #[test]
    fn an_old_kernel_is_to_be_replaced() {
        let (major, minor) = aquifer::KERNEL_MIN;
        assert!(kernel("6.99", (6, 99)).is_ready && kernel("7.0", (7, 0)).is_ready);
        assert!(kernel("as needed", (major, minor)).is_ready);
        assert!(remedy(kernel("6.1.0", (6, 1))).contains("backports"));
    }

    #[test]
    fn what_refuses_userfaultfd_decides_what_allows_it() {
        assert!(managed_memory(Ok(()), Ok(())).is_ready);
        let refused = |errno| remedy(managed_memory(Err(errno), Ok(())));
        assert!(refused(Errno::EPERM).contains("seccomp=unconfined"));
        assert!(!refused(Errno::EPERM).contains("CONFIG"));
        assert!(refused(Errno::ENOSYS).contains("CONFIG_USERFAULTFD"));
        assert!(refused(Errno::EINVAL).contains("newer kernel"));
        assert!(fault_threads(Ok(()), true).is_ready);
        assert!(remedy(fault_threads(Err(Errno::EPERM), true)).contains("vm.unprivileged_userfaultfd=1"));
        assert!(!remedy(fault_threads(Err(Errno::EPERM), false)).contains("sysctl"));
    }

    #[test]
    fn the_kernels_switch_is_told_from_a_containers_profile() {
        assert!(io_uring(&Ok(()), Some("1")).is_ready);
        let refused =
            |errno: i32, disabled| remedy(io_uring(&Err(io::Error::from_raw_os_error(errno)), disabled));
        let (eperm, enomem, enosys) = (1, 12, 38);
        assert_eq!(refused(eperm, Some("2")), "`sysctl kernel.io_uring_disabled=0`");
        for disabled in [Some("0"), None] {
            assert!(refused(eperm, disabled).contains("seccomp=unconfined"));
        }
        assert!(refused(enosys, None).contains("CONFIG_IO_URING"));
        assert!(refused(enomem, Some("0")).contains("memory for rings"));
    }

    /// What the command says is what heaps find.
    #[test]
    fn this_machine_is_fit_for_heaps_or_is_not() {
        let parts = parts("of the test");
        let is_fit = parts[0].is_ready && (parts[1].is_ready || Fence::open().is_ok());
        assert_eq!(is_fit, aquifer::Options::new().check().is_ok(), "{parts:?}");
    }
}

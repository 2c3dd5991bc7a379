//! Volumes as folders, and block devices: what they need of the kernel and of other packages.

use std::path::{Path, PathBuf};

use aquifer_block::ublk::{self, UblkError};
use aquifer_mount::MountError;

use super::libraries::program;
use super::module::{Module, Modules};
use super::part::Part;
use crate::error::Error;
use crate::library::{self, NBDKIT};

/// The file by which FUSE is used.
const FUSE: &str = "/dev/fuse";
const NBD_CLIENT: &str = "nbd-client";
/// What works on a kernel that can attach no device.
const BY_FUSE: &str = "`aquifer block --fuse` and losetup do without";

/// The parts, on the kernel of this release.
pub fn parts(release: &str) -> Vec<Part> {
    let modules = Modules::of(release);
    vec![
        folders(aquifer_mount::possible(), modules.find("fuse")),
        nbd_server(aquifer_block::nbdkit::program().as_deref(), library::find(NBDKIT)),
        nbd_client(program(NBD_CLIENT).as_deref(), modules.find("nbd")),
        ublk(ublk::possible(), modules.find("ublk_drv")),
    ]
}

fn folders(outcome: Result<(), MountError>, module: Module) -> Part {
    let (name, serves) = ("FUSE", "volume mount, block --fuse");
    let container = "give the container the device: `docker run --device /dev/fuse --cap-add SYS_ADMIN`";
    match outcome {
        Ok(()) => Part::ready(name, serves, format!("{FUSE} can be opened, and this user may mount")),
        Err(MountError::NoHelper) => Part::missing(
            name,
            serves,
            "this user may not mount without fusermount3",
            "`apt-get install fuse3`",
        ),
        Err(MountError::Forbidden) => Part::missing(
            name,
            serves,
            format!("this user may not open {FUSE}"),
            format!("`chmod 666 {FUSE}`"),
        ),
        Err(MountError::NoDevice(error)) => Part::missing(
            name,
            serves,
            format!("{FUSE} cannot be opened: {error}"),
            module.remedy("fuse", container),
        ),
        Err(error) => Part::missing(name, serves, error.to_string(), container),
    }
}

/// What serves NBD: `program`, which is nbdkit, and our plugin.
fn nbd_server(program: Option<&Path>, plugin: Result<PathBuf, Error>) -> Part {
    let (name, serves) = ("NBD server", "block --listen, block --socket");
    match (program, plugin) {
        (Some(program), Ok(plugin)) => {
            Part::ready(name, serves, format!("{} and {}", program.display(), plugin.display()))
        }
        (None, _) => Part::missing(name, serves, "nbdkit is not installed", "`apt-get install nbdkit`"),
        (_, Err(error)) => Part::missing(name, serves, error.to_string(), "`make lib`, or `make install`"),
    }
}

/// What attaches a device of NBD to this kernel: `program` and the kernel's module.
fn nbd_client(program: Option<&Path>, module: Module) -> Part {
    let (name, serves) = ("NBD client", "an NBD device on this machine");
    match (program, module) {
        (Some(program), Module::Loaded) => {
            Part::ready(name, serves, format!("{} and the kernel's module nbd", program.display()))
        }
        (None, Module::Loaded) => {
            Part::missing(name, serves, "nbd-client is not installed", "`apt-get install nbd-client`")
        }
        (None, Module::OnDisk) => {
            let remedy = "`apt-get install nbd-client && modprobe nbd`";
            Part::missing(name, serves, "nbd-client is not installed, and the module nbd not loaded", remedy)
        }
        (_, module) => {
            let state = "this kernel attaches no device of NBD";
            Part::missing(name, serves, state, module.remedy("nbd", BY_FUSE))
        }
    }
}

fn ublk(outcome: Result<(), UblkError>, module: Module) -> Part {
    let (name, serves) = ("ublk", "block --ublk");
    match outcome {
        Ok(()) => Part::ready(name, serves, "/dev/ublk-control can be opened"),
        Err(UblkError::NoDriver) => {
            let state = "there is no /dev/ublk-control";
            Part::missing(name, serves, state, module.remedy("ublk_drv", BY_FUSE))
        }
        Err(UblkError::NoRights(error)) => {
            let state = format!("/dev/ublk-control cannot be opened: {error}");
            Part::missing(name, serves, state, "be root, as by sudo")
        }
        Err(UblkError::NoRing(error)) => {
            Part::missing(name, serves, format!("there are no rings: {error}"), "io_uring first, above")
        }
        Err(error) => Part::missing(name, serves, "the driver does not answer", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn remedy(part: Part) -> String {
        assert!(!part.is_ready);
        part.remedy.expect("it is missing")
    }

    fn denied() -> io::Error {
        io::ErrorKind::PermissionDenied.into()
    }

    #[test]
    fn what_keeps_from_mounting_decides_what_helps() {
        assert!(folders(Ok(()), Module::Unknown).is_ready);
        let missing =
            |module| remedy(folders(Err(MountError::NoDevice(io::ErrorKind::NotFound.into())), module));
        assert_eq!(missing(Module::OnDisk), "`modprobe fuse`");
        assert!(missing(Module::Loaded).contains("--device /dev/fuse"));
        assert!(missing(Module::Missing).contains("no module fuse"));
        assert_eq!(remedy(folders(Err(MountError::NoHelper), Module::Loaded)), "`apt-get install fuse3`");
        assert_eq!(remedy(folders(Err(MountError::Forbidden), Module::Loaded)), "`chmod 666 /dev/fuse`");
    }

    #[test]
    fn a_client_of_nbd_is_a_program_and_a_module() {
        let client = Some(Path::new("/usr/sbin/nbd-client"));
        assert!(nbd_client(client, Module::Loaded).is_ready);
        assert_eq!(remedy(nbd_client(client, Module::OnDisk)), "`modprobe nbd`");
        assert_eq!(remedy(nbd_client(None, Module::Loaded)), "`apt-get install nbd-client`");
        let both = remedy(nbd_client(None, Module::OnDisk));
        assert!(both.contains("install nbd-client") && both.contains("modprobe nbd"));
        // A package does not help where the kernel cannot.
        for program in [client, None] {
            let other = remedy(nbd_client(program, Module::Missing));
            assert!(other.contains("--fuse") && !other.contains("apt-get"), "{other}");
        }
        let plugin = || Ok(PathBuf::from("/lib/libaquifer_nbdkit.so"));
        assert!(nbd_server(Some(Path::new("/usr/bin/nbdkit")), plugin()).is_ready);
        assert_eq!(remedy(nbd_server(None, plugin())), "`apt-get install nbdkit`");
    }

    #[test]
    fn what_keeps_from_ublk_decides_what_helps() {
        assert!(ublk(Ok(()), Module::Unknown).is_ready);
        assert_eq!(remedy(ublk(Err(UblkError::NoDriver), Module::OnDisk)), "`modprobe ublk_drv`");
        assert!(remedy(ublk(Err(UblkError::NoDriver), Module::Missing)).contains("--fuse"));
        assert!(remedy(ublk(Err(UblkError::NoRights(denied())), Module::Loaded)).contains("root"));
        assert!(remedy(ublk(Err(UblkError::NoRing(denied())), Module::Loaded)).contains("io_uring"));
    }

    /// What the command says is what mounting and serving find.
    #[test]
    fn this_machine_is_fit_or_is_not() {
        let parts = parts("of the test");
        assert_eq!(parts[0].is_ready, aquifer_mount::possible().is_ok());
        assert_eq!(parts[3].is_ready, ublk::possible().is_ok());
    }
}

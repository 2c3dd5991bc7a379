//! Swap on a device that `aquifer block` shows as a file: a loop device makes a disk of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::service::Service;
use crate::swap::SwapArea;
use crate::workdir::c_path;

const FUSE: &str = "/dev/fuse";
/// The file in the folder.
const DEVICE: &str = "device";

/// A swap area whose pages go to donors, and to flash behind. Undone in the order of the fields.
#[derive(Debug)]
pub struct BlockSwap {
    area: SwapArea,
    _loop_device: LoopDevice,
    _service: Service,
    _files_removed_on_drop: Guard,
}

impl BlockSwap {
    /// Makes one of `bytes`, with its flash and its folder in `dir`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with what is missing: root, FUSE, a loop device, donors that answer.
    pub fn start(aquifer: &Path, dir: &Path, bytes: u64, donors: &str) -> Result<Self> {
        check_machine()?;
        let name = format!("aquifer-bench-far-{}", std::process::id());
        let (folder, flash) = (dir.join(format!("{name}.mnt")), dir.join(format!("{name}.flash")));
        fs::create_dir_all(&folder).map_err(Error::io("creating", &folder))?;
        let owned = (folder.clone(), flash.clone());
        let files = cleanup::register(move || remove(&owned.0, &owned.1));
        let mut command = Command::new(aquifer);
        command.arg("block").arg("--flash").arg(&flash).args(["--size", &bytes.to_string()]);
        command.arg("--fuse").arg(&folder).args(["--donors", donors]);
        let mut service = Service::start("block device", command)?;
        service.wait_for(|line| line.contains(" is the file ").then_some(()))?;
        let loop_device = LoopDevice::over(&folder.join(DEVICE))?;
        let area = SwapArea::on_device(&loop_device.path, bytes)?;
        Ok(Self { area, _loop_device: loop_device, _service: service, _files_removed_on_drop: files })
    }

    /// Size of the area.
    pub fn bytes(&self) -> u64 {
        self.area.bytes()
    }
}

/// What can be known before anything is made.
fn check_machine() -> Result<()> {
    // SAFETY: a plain question.
    if unsafe { libc::geteuid() } != 0 {
        return Err(Error::Unavailable("swap on a block device needs root".to_owned()));
    }
    if !Path::new(FUSE).exists() {
        return Err(Error::Unavailable(format!("there is no {FUSE} here")));
    }
    Ok(())
}

/// The folder is unmounted already if the server has ended in order.
fn remove(folder: &Path, flash: &Path) {
    if fs::remove_dir(folder).is_err() {
        let name = c_path(folder);
        // SAFETY: a terminated string that outlives the call.
        let unmounted = unsafe { libc::umount2(name.as_ptr(), libc::MNT_DETACH) } == 0;
        if !unmounted || fs::remove_dir(folder).is_err() {
            eprintln!("{}; try: umount {}", Error::last_os("removing", folder), folder.display());
        }
    }
    if flash.exists() && fs::remove_file(flash).is_err() {
        eprintln!("{}", Error::last_os("removing", flash));
    }
}

/// A disk made of a file; let go when dropped.
#[derive(Debug)]
struct LoopDevice {
    path: PathBuf,
    _detached_on_drop: Guard,
}

impl LoopDevice {
    /// One without the page cache of the file: that would need memory to free memory.
    fn over(file: &Path) -> Result<Self> {
        let mut command = losetup();
        let said = run(command.args(["--find", "--show", "--direct-io=on"]).arg(file))?;
        let path = PathBuf::from(said.trim());
        let owned = path.clone();
        let guard = cleanup::register(move || {
            if let Err(error) = run(losetup().arg("--detach").arg(&owned)) {
                eprintln!("{error}; try: losetup -d {}", owned.display());
            }
        });
        Ok(Self { path, _detached_on_drop: guard })
    }
}

fn losetup() -> Command {
    let mut command = Command::new("losetup");
    // Administrators' directories are often missing from the PATH of ordinary users.
    command.env("PATH", std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin");
    command
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| {
        Error::Unavailable(format!("losetup does not run ({error}); install the package mount"))
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(Error::Unavailable(format!("losetup failed: {}", message.trim())))
}

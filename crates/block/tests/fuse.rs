//! The file through FUSE, where this user may mount.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use aquifer_block::fuse::{FILE_NAME, FuseError, Mounted, Options, Unmounter};
use aquifer_device::{Device, FaultKind, FaultPlan, Faulty, MemoryDevice, Operation};

const DEVICE_BYTES: u64 = 16 << 20;
type Broken = Faulty<MemoryDevice>;

/// A device at a folder of its own; unmounted when it is dropped.
struct Shown {
    device: Arc<Broken>,
    unmounter: Unmounter,
    thread: Option<JoinHandle<Result<(), FuseError>>>,
    folder: tempfile::TempDir,
}

impl Shown {
    /// `None` where nothing can be mounted, which is said.
    fn new(plan: FaultPlan) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let device = Arc::new(Faulty::new(MemoryDevice::new(DEVICE_BYTES, 512), plan));
        let options = Options { source: "a test, of fuse".into(), threads: 3 };
        let shared: Arc<dyn Device> = Arc::<Broken>::clone(&device);
        match Mounted::new(shared, folder.path(), &options) {
            Ok(mounted) => {
                let unmounter = mounted.unmounter();
                let thread = Some(std::thread::spawn(|| mounted.serve()));
                Some(Shown { device, unmounter, thread, folder })
            }
            Err(error) => {
                println!("SKIP fuse: {error}");
                None
            }
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(FILE_NAME)
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.path()).unwrap()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // A test that failed may have it open.
        let _ = self.unmounter.leave();
    }
}

#[test]
fn the_file_has_the_bytes_of_the_device() {
    let Some(shown) = Shown::new(FaultPlan::default()) else { return };
    let names: Vec<_> =
        shown.folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [FILE_NAME]);
    let file = shown.open();
    assert_eq!(file.metadata().unwrap().len(), DEVICE_BYTES);
    // Longer than a request of the kernel.
    let bytes: Vec<u8> = (0..3u32 << 18).flat_map(|at| at.wrapping_mul(0x9E37_79B9).to_ne_bytes()).collect();
    file.write_all_at(&bytes, 512).unwrap();
    let mut back = vec![0; bytes.len()];
    file.read_exact_at(&mut back, 512).unwrap();
    assert!(back == bytes);
    // Reads begin and end anywhere.
    let mut some = [0; 700];
    file.read_exact_at(&mut some, 512 + 1001).unwrap();
    assert!(some == bytes[1001..1701]);
    assert_eq!(file.read_at(&mut some, DEVICE_BYTES - 100).unwrap(), 100);
    assert_eq!(file.read_at(&mut some, DEVICE_BYTES).unwrap(), 0);
    // And so do writes.
    file.write_all_at(b"across", 1021).unwrap();
    file.read_exact_at(&mut some, 512).unwrap();
    assert!(some[..509] == bytes[..509] && &some[509..515] == b"across" && some[515..] == bytes[515..700]);
    file.write_all_at(&[3; 100], DEVICE_BYTES - 100).unwrap();
    file.sync_all().unwrap();
    assert_eq!(shown.device.calls(Operation::Sync), 1);
}

#[test]
fn what_a_block_device_cannot_do_is_refused() {
    let Some(shown) = Shown::new(FaultPlan::default()) else { return };
    let file = shown.open();
    let number = |outcome: std::io::Result<usize>| outcome.unwrap_err().raw_os_error();
    assert_eq!(number(file.write_at(&[1; 512], DEVICE_BYTES - 256)), Some(libc::ENOSPC));
    assert_eq!(number(file.write_at(&[1; 512], DEVICE_BYTES)), Some(libc::ENOSPC));
    assert_eq!(file.set_len(4096).unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert!(File::create(shown.folder.path().join("other")).is_err());
    assert!(std::fs::remove_file(shown.path()).is_err());
    assert_eq!(file.write_at(&[1; 512], 0).unwrap(), 512);
}

#[test]
fn errors_of_the_device_are_those_of_the_file() {
    let plan = FaultPlan::default()
        .on_nth(Operation::Write, 1, FaultKind::Eio)
        .on_nth(Operation::Write, 2, FaultKind::NoSpace)
        .on_nth(Operation::Read, 1, FaultKind::Eio)
        .on_nth(Operation::Sync, 1, FaultKind::Eio);
    let Some(shown) = Shown::new(plan) else { return };
    let file = shown.open();
    assert_eq!(file.write_at(&[1; 512], 0).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(file.write_at(&[1; 512], 0).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(file.read_at(&mut [0; 512], 0).unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(file.write_at(&[1; 512], 0).unwrap(), 512);
}

#[test]
fn it_stays_while_it_is_used_and_goes_then() {
    let Some(mut shown) = Shown::new(FaultPlan::default()) else { return };
    let file = shown.open();
    let said = shown.unmounter.unmount().unwrap_err();
    assert!(matches!(said, FuseError::InUse { .. }) && said.to_string().contains("swapoff"), "{said}");
    assert_eq!(file.write_at(&[1; 512], 0).unwrap(), 512);
    drop(file);
    shown.unmounter.unmount().unwrap();
    shown.thread.take().unwrap().join().unwrap().unwrap();
    assert!(shown.device.calls(Operation::Sync) >= 1);
    assert!(!shown.path().exists());
}

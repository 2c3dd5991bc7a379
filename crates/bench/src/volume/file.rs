//! A mapped file of any peer.

use std::fs::OpenOptions;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use aquifer_volume::{Ino, Protection, Volume, VolumeError, image};

use super::peer::{Peer, Setup};
use crate::error::{Error, Result};
use crate::peer::mapping::Mapping;

/// Name of the mapped file in a volume.
pub const NAME: &[u8] = b"data";

/// As `aquifer volume serve` and `mount` do by default.
const COMMIT_INTERVAL: Duration = Duration::from_secs(5);

/// A file as memory that is written through to it. Unmapped when dropped.
pub struct MappedFile {
    base: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

enum Owner {
    Kernel(Mapping),
    Volume {
        mapping: aquifer_volume::Mapping,
        background: aquifer_volume::Background,
        volume: Arc<Volume>,
        path: std::path::PathBuf,
    },
}

impl MappedFile {
    /// Maps the whole file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Unavailable`] where the kernel lacks what a mapped volume needs.
    pub fn open(setup: &Setup) -> Result<Self> {
        let bytes = setup.data_bytes as usize;
        let owner = match setup.volume_ram_bytes {
            None => kernel(setup)?,
            Some(ram_bytes) => volume(setup, ram_bytes)?,
        };
        let base = match &owner {
            Owner::Kernel(mapping) => mapping.base(),
            Owner::Volume { mapping, .. } => {
                NonNull::new(mapping.as_ptr()).expect("a mapping begins somewhere")
            }
        };
        Ok(Self { base, bytes, owner })
    }

    /// First byte; aligned to a page.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// All of it, as words that threads may race for.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `bytes` are mapped as long as this lives, aligned to a page; they are used through atomics alone.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.bytes / 8) }
    }

    /// Waits until everything that was stored is on the device: `msync` with `MS_SYNC`, or the volume's sync.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<()> {
        match &self.owner {
            Owner::Kernel(mapping) => mapping.sync_all(),
            Owner::Volume { volume, path, .. } => volume.sync().map_err(failed("syncing", path)),
        }
    }

    /// Tells the kernel that `range` of a file that it has mapped is read in order. A volume has no such call.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn advise_sequential(&self, range: std::ops::Range<usize>) -> Result<()> {
        match &self.owner {
            Owner::Kernel(mapping) => mapping.advise_range(range, libc::MADV_SEQUENTIAL),
            Owner::Volume { .. } => Ok(()),
        }
    }

    /// Brings everything to the device and closes the file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn close(self) -> Result<()> {
        self.sync()?;
        match self.owner {
            Owner::Kernel(_) => Ok(()),
            Owner::Volume { mapping, background, volume, path } => {
                drop((mapping, background));
                // The last holder of the volume closes it by ending; what was synced is durable either way.
                Arc::into_inner(volume)
                    .map_or(Ok(()), |volume| volume.close().map_err(failed("closing", path)))
            }
        }
    }
}

fn kernel(setup: &Setup) -> Result<Owner> {
    let path = &setup.path;
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(Error::io("opening", path))?;
    let mapping = Mapping::shared(&file, setup.data_bytes as usize)?;
    if setup.peer == Peer::MmapRandom {
        mapping.advise(libc::MADV_RANDOM)?;
    }
    Ok(Owner::Kernel(mapping))
}

fn volume(setup: &Setup, ram_bytes: u64) -> Result<Owner> {
    let path = setup.path.clone();
    let open = || {
        let medium = image::open_medium(&path)?;
        let options = aquifer_volume::OpenOptions { ram_bytes, is_read_only: false };
        let volume = Arc::new(Volume::open(medium, options)?);
        let ino = volume.lookup(Ino::ROOT_FOLDER, NAME)?;
        let mapping = volume.map(ino, 0, setup.data_bytes as usize, Protection::Write)?;
        let background = volume.start_background(COMMIT_INTERVAL)?;
        Ok((volume, background, mapping))
    };
    match open() {
        Ok((volume, background, mapping)) => Ok(Owner::Volume { mapping, background, volume, path }),
        Err(error @ VolumeError::System { .. }) => Err(Error::Unavailable(error.to_string())),
        Err(error) => Err(failed("opening", &path)(error)),
    }
}

/// What a volume's error comes to.
pub fn failed(doing: &'static str, path: impl AsRef<std::path::Path>) -> impl FnOnce(VolumeError) -> Error {
    move |error| Error::io(doing, path)(std::io::Error::other(error))
}

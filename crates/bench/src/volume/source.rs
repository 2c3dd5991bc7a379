//! The same bytes in a file of the host's file system and in a file of a volume.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use aquifer_base::units::format_size;
use aquifer_volume::{Ino, Kind, OpenOptions, Volume, image};
use serde::Serialize;

use super::file::{NAME, failed};
use super::peer::{Peer, Setup, VolumeOptions, volume_ram_bytes};
use crate::cleanup::{self, Guard};
use crate::error::{Error, Result};
use crate::payload::Payload;
use crate::study::{Fields, Session};
use crate::workdir::free_bytes;

/// Below the folder of the command line; ours alone, because that one is locked.
const DIR: &str = "aquifer-bench-volume";
/// Bytes that are made and written at once.
pub const CHUNK_BYTES: usize = 1 << 20;
/// RAM of the volume while its file is filled.
const FILL_RAM_BYTES: u64 = 64 << 20;
/// What a volume keeps for itself, whatever its size: anchors, heads, room to clean.
const KEPT_BYTES: u64 = 96 << 20;
/// Room on the disk beside both files.
const ROOM_BYTES: u64 = 1 << 30;

/// Both files; removed when dropped, and by an interrupt.
pub struct Source {
    host: PathBuf,
    image: PathBuf,
    data_bytes: u64,
    reserve_bytes: u64,
    payload: Payload,
    _removed: Guard,
}

impl Source {
    /// Writes both files. `make` is told where each chunk of [`CHUNK_BYTES`] begins and makes its bytes. A volume is as large as `--fill` says.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without room, [`Error::Io`], those of `make`.
    pub fn write(
        session: &Session,
        options: &VolumeOptions,
        data_bytes: u64,
        mut make: impl FnMut(u64, &mut [u8]) -> Result<()>,
    ) -> Result<Self> {
        session.try_group()?;
        let image_bytes = image_bytes_for(data_bytes, options.fill);
        check_room(&session.common.dir, data_bytes + image_bytes + ROOM_BYTES)?;
        let dir = session.common.dir.join(DIR);
        // What a benchmark left that was killed.
        remove(&dir);
        let removed = dir.clone();
        let removed = cleanup::register(move || remove(&removed));
        fs::create_dir(&dir).map_err(Error::io("creating", &dir))?;
        let (host, image) = (dir.join("host"), dir.join("volume"));
        let mut file = File::create(&host).map_err(Error::io("creating", &host))?;
        let (volume, ino) = new_volume(&image, image_bytes)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        for offset in (0..data_bytes).step_by(CHUNK_BYTES) {
            let bytes = &mut chunk[..CHUNK_BYTES.min((data_bytes - offset) as usize)];
            make(offset, bytes)?;
            let flipped = options
                .flip_byte
                .and_then(|at| bytes.get_mut(usize::try_from(at.checked_sub(offset)?).ok()?));
            if let Some(byte) = flipped {
                *byte ^= 0xff;
            }
            file.write_all(bytes).map_err(Error::io("writing", &host))?;
            let written = volume.write(ino, offset, bytes).map_err(failed("writing", &image))?;
            if written < bytes.len() {
                return Err(Error::Unavailable(format!("the volume is full at {}", format_size(offset))));
            }
            session.progress.doing(format!("writing the data to both: {} %", offset * 100 / data_bytes));
        }
        volume.close().map_err(failed("closing", &image))?;
        file.sync_all().map_err(Error::io("syncing", &host))?;
        Ok(Self {
            host,
            image,
            data_bytes,
            reserve_bytes: options.reserve,
            payload: session.payload,
            _removed: removed,
        })
    }

    /// The figures of a child in a control group of `--ram`, while the kernel has nothing of the host's file; `task` is told what the peer is given.
    ///
    /// # Errors
    /// [`Error::Input`] if nothing is left for a volume; the child's.
    pub fn child<T: Serialize>(
        &self,
        session: &mut Session,
        peer: Peer,
        task: impl FnOnce(Setup) -> T,
    ) -> Result<Fields> {
        let limit_bytes = session.common.ram;
        let setup = self.setup(peer, limit_bytes)?;
        self.forget_cached()?;
        let ram_bytes = setup.volume_ram_bytes;
        let figures = session.child(&peer.to_string(), &task(setup), Some(limit_bytes))?;
        Ok(figures.with("volume_ram_bytes", ram_bytes))
    }

    /// What a peer is given of a limit.
    fn setup(&self, peer: Peer, limit_bytes: u64) -> Result<Setup> {
        let of_volume = peer == Peer::Volume;
        let ram_bytes = || {
            volume_ram_bytes(limit_bytes, self.reserve_bytes, self.data_bytes).ok_or_else(|| {
                Error::Input(format!(
                    "--ram {} leaves nothing for a volume of {} beside --reserve {}",
                    format_size(limit_bytes),
                    format_size(self.data_bytes),
                    format_size(self.reserve_bytes)
                ))
            })
        };
        Ok(Setup {
            peer,
            path: if of_volume { self.image.clone() } else { self.host.clone() },
            data_bytes: self.data_bytes,
            volume_ram_bytes: of_volume.then(ram_bytes).transpose()?,
            payload: self.payload,
        })
    }

    /// The host's file.
    pub fn host(&self) -> &Path {
        &self.host
    }

    /// Brings what is dirty of the host's file to the device and takes the file out of the kernel's page cache.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn forget_cached(&self) -> Result<()> {
        uncached(&self.host).map_err(Error::io("emptying the page cache of", &self.host))
    }
}

fn uncached(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    // SAFETY: a plain call on an open descriptor; only clean pages leave the cache.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Size of a volume that `data_bytes` fill to `fill_percent`.
pub fn image_bytes_for(data_bytes: u64, fill_percent: u32) -> u64 {
    let bytes = data_bytes * 100 / u64::from(fill_percent) + KEPT_BYTES;
    bytes.next_multiple_of(4 << 20)
}

/// Zeros everywhere: the first write to a block that was only reserved costs the host's file system a change of its own books, and the host's
/// other file has none such.
pub fn write_once(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let zeros = vec![0; CHUNK_BYTES];
    for offset in (0..bytes).step_by(CHUNK_BYTES) {
        file.write_all(&zeros[..CHUNK_BYTES.min((bytes - offset) as usize)])?;
    }
    file.sync_all()
}

fn new_volume(path: &Path, image_bytes: u64) -> Result<(Volume, Ino)> {
    write_once(path, image_bytes).map_err(Error::io("writing", path))?;
    let make = || {
        Volume::create(image::new_medium(path, image_bytes, 0)?, (0, 0))?;
        let options = OpenOptions { ram_bytes: FILL_RAM_BYTES, is_read_only: false };
        let volume = Volume::open(image::open_medium(path)?, options)?;
        let ino = volume.make(Ino::ROOT_FOLDER, NAME, Kind::File, 0o600, 0, 0)?;
        Ok((volume, ino))
    };
    make().map_err(failed("making a volume in", path))
}

/// Refuses to fill the disk.
///
/// # Errors
/// [`Error::Unavailable`] if `dir` has less than `needed_bytes` left, [`Error::Io`].
pub fn check_room(dir: &Path, needed_bytes: u64) -> Result<()> {
    let free = free_bytes(dir)?;
    if needed_bytes <= free {
        return Ok(());
    }
    let (needed, free, dir) = (format_size(needed_bytes), format_size(free), dir.display());
    Err(Error::Unavailable(format!("{needed} are needed in {dir}, which has {free} left")))
}

fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            eprintln!("could not remove {}: {error}", path.display());
        }
        _ => {}
    }
}

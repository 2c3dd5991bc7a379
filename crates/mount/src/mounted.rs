//! A volume that is mounted, and how.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use aquifer_volume::Volume;
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::fs::statvfs;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::direct::Direct;
use crate::error::{MountError, Result};
use crate::holes::ZerosRead;
use crate::lookups::Lookups;
use crate::possible::{has_helper, possible};
use crate::room::Room;
use crate::server::Server;
use crate::write_back::WriteBack;

/// How a volume is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the table of mounts names as the source, such as the volume's path.
    pub source: String,
    /// Whether nothing may be changed.
    pub is_read_only: bool,
    /// Whether other users may use the folder, as far as modes and owners let them. Without this only the user who mounts may, not even root.
    pub is_for_all_users: bool,
    /// Whether the folder may hold files, which nobody sees while the volume is mounted there.
    pub may_hide_files: bool,
    /// Whether the kernel may keep what programs write until they sync or close, or for half a minute.
    pub writes_back: bool,
    /// Whether files have extended attributes. Without them the kernel needs fewer requests; those that files have stay, and are not seen.
    pub has_xattrs: bool,
    /// How long a change may wait for flash when nobody calls `fsync`; `None` for as long as it takes.
    pub sync_interval: Option<Duration>,
    /// Requests that are served at a time: threads that wait for slow requests, such as `fsync`, are not free
    /// for others.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            source: "aquifer".into(),
            is_read_only: false,
            is_for_all_users: false,
            may_hide_files: false,
            writes_back: false,
            has_xattrs: true,
            sync_interval: Some(Duration::from_secs(5)),
            threads: 16,
        }
    }
}

/// A volume at a folder of the system. Programs wait until [`Mounted::serve`] runs.
pub struct Mounted {
    session: Session<Server>,
    volume: Arc<Volume>,
    folder: PathBuf,
    options: Options,
}

/// Ends a mount from another thread, such as that of a signal.
pub struct Unmounter {
    session: SessionUnmounter,
    volume: Weak<Volume>,
    folder: PathBuf,
}

/// How a mount ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmounted {
    /// At once.
    Now,
    /// The folder no longer shows the volume, but programs have files open in it; it ends when the last is closed.
    WhenClosed,
}

impl Mounted {
    /// Mounts a volume. What a process that was killed left mounted at the same folder is removed.
    ///
    /// # Errors
    /// Those of [`possible`]; [`MountError::NoFolder`], [`MountError::NotEmpty`], [`MountError::Refused`]. The volume is closed as after [`Volume::sync`].
    pub fn new(volume: Volume, folder: &Path, options: Options) -> Result<Self> {
        possible()?;
        let folder = usable(folder)?;
        if !options.may_hide_files {
            check_empty(&folder)?;
        }
        let volume = Arc::new(volume);
        let zeros_read = Arc::new(ZerosRead::default());
        let writes_back = options.writes_back && !options.is_read_only && options.threads > 1;
        let server = Server {
            volume: Arc::clone(&volume),
            lookups: Lookups::default(),
            room: Room::new(options.threads.max(1)),
            zeros_read: Arc::clone(&zeros_read),
            has_xattrs: options.has_xattrs,
            direct: Arc::new(Direct::new(options.threads)),
            write_back: writes_back.then(|| Arc::new(WriteBack::new(options.threads))),
            is_read_only: options.is_read_only,
        };
        let (direct, write_back) = (Arc::clone(&server.direct), server.write_back.clone());
        let session =
            Session::new(server, &folder, &config(&options)).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound if !has_helper() => MountError::NoHelper,
                // The helper's complaint is a line.
                _ if source.raw_os_error().is_none() => {
                    let said = io::Error::new(source.kind(), source.to_string().trim_end());
                    MountError::Refused { path: folder.clone(), source: said }
                }
                _ => MountError::Refused { path: folder.clone(), source },
            })?;
        if options.threads > 1 {
            zeros_read.ask_by(session.notifier());
            direct.ask_by(session.notifier());
            if let Some(write_back) = write_back {
                write_back.ask_by(session.notifier());
            }
        }
        Ok(Mounted { session, volume, folder, options })
    }

    /// What can end this mount while it is served.
    pub fn unmounter(&mut self) -> Unmounter {
        Unmounter {
            session: self.session.unmount_callable(),
            volume: Arc::downgrade(&self.volume),
            folder: self.folder.clone(),
        }
    }

    /// Answers the kernel until the folder is unmounted, then closes the volume.
    ///
    /// # Errors
    /// [`MountError::Ended`]; the volume could not be closed.
    ///
    /// # Durability
    /// Everything is durable when this returns without an error.
    pub fn serve(self) -> Result<()> {
        let Mounted { session, volume, options, .. } = self;
        let background =
            options.sync_interval.map(|interval| volume.start_background(interval)).transpose()?;
        let ended = session.run();
        drop(background);
        if let Err(error) = ended {
            // Threads may be left that answer requests, so the volume stays open.
            volume.sync()?;
            // Some thread was between two requests when it was unmounted.
            let is_unmounted = error.raw_os_error() == Some(libc::ECONNABORTED);
            return if is_unmounted { Ok(()) } else { Err(MountError::Ended(error)) };
        }
        Ok(alone(volume).close()?)
    }
}

impl Unmounter {
    /// Ends the mount. What programs have open stays usable until they close it.
    ///
    /// # Errors
    /// [`MountError::Refused`]: it goes on.
    pub fn unmount(&mut self) -> Result<Unmounted> {
        match self.session.unmount() {
            Ok(()) => Ok(Unmounted::Now),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                self.sync()?;
                unmount(&self.folder, UnmountFlags::DETACH).map_err(|error| self.refused(error.into()))?;
                Ok(Unmounted::WhenClosed)
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Makes durable what was changed until now, for a process that will not wait for the end of the mount.
    ///
    /// # Errors
    /// The volume's.
    pub fn sync(&self) -> Result<()> {
        self.volume.upgrade().map_or(Ok(()), |volume| Ok(volume.sync()?))
    }

    fn refused(&self, source: io::Error) -> MountError {
        MountError::Refused { path: self.folder.clone(), source }
    }
}

/// The volume, when nobody else looks at it any more: an unmounter may, for as long as a sync takes.
fn alone(mut volume: Arc<Volume>) -> Volume {
    loop {
        match Arc::try_unwrap(volume) {
            Ok(volume) => return volume,
            Err(shared) => volume = shared,
        }
        thread::yield_now();
    }
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    let access = if options.is_read_only { MountOption::RO } else { MountOption::RW };
    config.mount_options = vec![
        MountOption::FSName(options.source.replace(',', "_")),
        MountOption::Subtype("aquifer".into()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        access,
    ];
    config.acl = if options.is_for_all_users { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(1));
    config
}

/// The folder's own path. A mount whose process is gone is taken away from it.
fn usable(folder: &Path) -> Result<PathBuf> {
    let no_folder = |source| MountError::NoFolder { path: folder.to_owned(), source };
    // What the kernel has of a folder does not show a dead mount, not even by opening it; of room it always asks the process that serves it.
    if statvfs(folder).is_err_and(|error| error == Errno::NOTCONN) {
        detach(folder).map_err(no_folder)?;
    }
    let is_folder = folder.metadata().map_err(no_folder)?.is_dir();
    if !is_folder {
        return Err(no_folder(io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    folder.canonicalize().map_err(no_folder)
}

/// Refuses a folder with files. Of a folder that cannot be listed the kernel decides.
fn check_empty(folder: &Path) -> Result<()> {
    let holds_files = folder.read_dir().is_ok_and(|mut files| files.next().is_some());
    if holds_files { Err(MountError::NotEmpty { path: folder.to_owned() }) } else { Ok(()) }
}

/// Unmounts a folder whose serving process is gone.
fn detach(folder: &Path) -> io::Result<()> {
    match unmount(folder, UnmountFlags::DETACH) {
        Err(Errno::PERM) => {
            std::process::Command::new("fusermount3").arg("-u").arg("-z").arg("--").arg(folder).status()?;
            Ok(())
        }
        outcome => Ok(outcome?),
    }
}

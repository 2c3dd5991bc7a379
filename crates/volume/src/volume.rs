//! A volume that is open.

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::anchor::{Anchor, Anchors, HeadPosition, SEGMENTS_MIN};
use crate::cache::Cache;
use crate::core::{Core, Limits};
use crate::error::{Result, VolumeError};
use crate::flash::Flash;
use crate::index::Index;
use crate::inode::{INODES_PER_PAGE, Inode, InodesHeader, Kind, Time};
use crate::inodes::{Cell, Cells};
use crate::key::Ino;
use crate::mapping::MappedSlot;
use crate::medium::Medium;
use crate::recovery::{Loss, Recovered, recover};
use crate::salvage::{Salvaged, salvage};
use crate::segments::Segments;
use crate::table::{Root, Table};
use crate::word::{PAGE_BYTES, PAGE_UNITS, Word};
use crate::writer::{Start, Writer};

/// How a volume is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    /// RAM for pages and for the table.
    pub ram_bytes: u64,
    /// Whether nothing may be changed, the medium least of all.
    pub is_read_only: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { ram_bytes: 64 << 20, is_read_only: false }
    }
}

/// Least RAM that a volume can do with.
pub const RAM_BYTES_MIN: u64 = 1 << 20;

/// How much there is of everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes that files can take.
    pub capacity_bytes: u64,
    /// Bytes that they take, with the table.
    pub used_bytes: u64,
    /// Of the others, bytes that only folders and tables may take, so that files can be removed from a full volume.
    pub kept_bytes: u64,
    /// Files, folders, and what else has a name.
    pub files: u64,
    /// How many there can be.
    pub files_max: u64,
}

/// What to change of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// Permissions.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last read.
    pub read_at: Option<Time>,
    /// Last change of its bytes.
    pub written_at: Option<Time>,
    /// Last change of it or of its bytes; now, if nothing is said.
    pub changed_at: Option<Time>,
}

/// Files and folders on a medium.
///
/// All methods may be called from many threads at once. What they change is durable after [`Volume::sync`], and a crash comes back to a moment of the
/// whole volume: that of the last sync, or a later one.
pub struct Volume {
    core: Arc<Core>,
    pub(crate) mapped: MappedSlot,
    cells: Cells,
    names: RwLock<()>,
    recovered: Recovered,
    salvaged: Salvaged,
    ram_bytes: u64,
}

impl Volume {
    /// Makes an empty volume. What the medium held is lost.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] for a medium that is too small; the medium's.
    ///
    /// # Durability
    /// The volume is durable when this returns; before, the medium holds none.
    pub fn create(medium: Box<dyn Medium>, owner: (u32, u32)) -> Result<()> {
        let geometry = medium.geometry();
        if geometry.segments < SEGMENTS_MIN || Anchor::pages(geometry) > geometry.pages_per_segment {
            return Err(VolumeError::Invalid(
                "too small for a volume, which has at least 16 segments: make it larger, or its segments smaller",
            ));
        }
        let segments = Segments::new(&*medium);
        let (anchors, number) = Anchors::new(&*medium)?;
        let anchor = Anchor {
            volume: random()?,
            number,
            sequence: 1,
            epoch: 0,
            geometry,
            root: Word::ZERO,
            root_height: 0,
            is_clean: false,
            made_at: Time::now().0.unsigned_abs() / 1_000_000_000,
            heads: [HeadPosition::default(); 2],
            units: Vec::new(),
        };
        let mut writer = Writer::new(Start { anchor, anchors, segments, sequence: 1 });
        writer.make_heads(&*medium)?;
        let options = OpenOptions { ram_bytes: RAM_BYTES_MIN, is_read_only: false };
        let volume = Self::assemble(medium, writer, Root::default(), options, Recovered::default())?;
        let change = volume.core.begin()?;
        let next_new = Ino::FIRST_FREE.0;
        change.put_inodes_header(&InodesHeader { next_new, first_free: 0, first_nameless: 0, files: 1 })?;
        change.put_inode(Ino::ROOT_FOLDER, &Inode::new(Kind::Folder, 0o755, owner.0, owner.1))?;
        drop(change);
        volume.close()
    }

    /// Opens a volume; what was committed is there.
    ///
    /// # Durability
    /// All that an open volume shows is durable, also if a program that was killed had written it and not synced it.
    ///
    /// # Errors
    /// [`VolumeError::NotAVolume`], [`VolumeError::OtherVersion`]; [`VolumeError::Corrupt`], also if nobody knows what damage has lost; the medium's.
    pub fn open(medium: Box<dyn Medium>, options: OpenOptions) -> Result<Self> {
        Self::open_with(medium, options, Loss::Refused)
    }

    /// Opens a volume for reading as far as it can be, also where nobody knows what damage has lost: files may be as they were before they were changed
    /// last. [`Volume::recovered`] says how much is unknown. Where the table, inodes or folders are damaged, what the log still has of them is shown in
    /// their place; [`Volume::salvaged`] says where. Files whose names are lost are in a folder `lost+found`, as `inode-N`.
    ///
    /// # Errors
    /// As [`Volume::open`]; [`VolumeError::Corrupt`] if no anchor is whole.
    ///
    /// # Context
    /// Reads the whole table, all inodes and all folders; if some of them are damaged, all of the log as well.
    pub fn open_damaged(medium: Box<dyn Medium>, ram_bytes: u64) -> Result<Self> {
        Self::open_with(medium, OpenOptions { ram_bytes, is_read_only: true }, Loss::Accepted)
    }

    fn open_with(medium: Box<dyn Medium>, options: OpenOptions, loss: Loss) -> Result<Self> {
        if options.ram_bytes < RAM_BYTES_MIN {
            return Err(VolumeError::Invalid("a volume needs at least 1 MiB of RAM"));
        }
        let (anchors, anchor) = Anchors::find(&*medium)?;
        let mut segments = Segments::from_units(&*medium, &anchor.units);
        let flash = Flash::new(medium);
        let top = Root { word: anchor.root, height: anchor.root_height };
        let table = Table::new(top, nodes_for(options.ram_bytes));
        let (recovered, heads) = recover(&flash, &table, &mut segments, &anchor, loss)?;
        let salvaged = match loss {
            Loss::Accepted => salvage(&flash, &table, &anchor)?,
            Loss::Refused => Salvaged::default(),
        };
        let is_clean = anchor.is_clean && recovered.blocks + recovered.lost + recovered.damaged == 0;
        let sequence = recovered.sequence;
        let mut writer = Writer::new(Start { anchor, anchors, segments, sequence });
        let core = if options.is_read_only {
            // A killed program may have left what was found in the medium's cache: it is durable before anybody sees it. Damaged flash is read without that.
            let synced = flash.medium().sync();
            if loss == Loss::Refused {
                synced?;
            }
            Self::core_of(flash, table, writer, options)?
        } else {
            writer.renew_epoch();
            if !is_clean {
                writer.renew_heads(flash.medium(), heads)?;
            }
            let core = Self::core_of(flash, table, writer, options)?;
            core.checkpoint(&mut core.lock_writer(), false)?;
            if !is_clean {
                // The ends of the log have taken segments. What cannot be cleaned can still be read.
                let _ = core.clean_after_opening(&mut core.lock_writer());
            }
            core
        };
        let volume = Volume { salvaged, ..Self::around(core, recovered, options) };
        if !options.is_read_only {
            volume.free_nameless()?;
        }
        Ok(volume)
    }

    fn assemble(
        medium: Box<dyn Medium>,
        writer: Writer,
        top: Root,
        options: OpenOptions,
        recovered: Recovered,
    ) -> Result<Self> {
        let table = Table::new(top, nodes_for(options.ram_bytes));
        let core = Self::core_of(Flash::new(medium), table, writer, options)?;
        Ok(Self::around(core, recovered, options))
    }

    fn around(core: Core, recovered: Recovered, options: OpenOptions) -> Self {
        let (core, mapped) = (Arc::new(core), MappedSlot::new());
        let (cells, names) = (Cells::new((options.ram_bytes / INDEX_PART) as usize), RwLock::new(()));
        let salvaged = Salvaged::default();
        Volume { core, mapped, cells, names, recovered, salvaged, ram_bytes: options.ram_bytes }
    }

    fn core_of(flash: Flash, table: Table, writer: Writer, options: OpenOptions) -> Result<Core> {
        aquifer_sys::stderr::note_once();
        let frames = frames_for(options.ram_bytes);
        let usable = writer.segments.usable();
        let limits = Limits::new(flash.medium().geometry(), usable, frames / 8 * 7, frames / 8);
        let cache = Cache::new(frames, Some(table.nodes_in_ram()))?;
        Ok(Core::new(flash, table, cache, writer, limits, options.is_read_only))
    }

    /// Makes everything durable that was changed before this call.
    ///
    /// # Errors
    /// [`VolumeError::Stopped`], and what stopped it.
    pub fn sync(&self) -> Result<()> {
        if self.core.is_read_only() {
            return Ok(());
        }
        self.core.commit()
    }

    /// Makes everything durable, and the next opening quick.
    ///
    /// # Errors
    /// As [`Volume::sync`].
    pub fn close(self) -> Result<()> {
        if self.core.is_read_only() {
            return Ok(());
        }
        self.core.commit()?;
        self.core.checkpoint(&mut self.core.lock_writer(), true)
    }

    /// What opening found behind the last checkpoint.
    #[must_use]
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// What is not known of files to be as it was last, because the table, inodes or folders are damaged. Empty unless the volume was opened by
    /// [`Volume::open_damaged`].
    #[must_use]
    pub fn salvaged(&self) -> &Salvaged {
        &self.salvaged
    }

    /// The inode of a file.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`].
    pub fn inode(&self, ino: Ino) -> Result<Inode> {
        self.core.inode(ino)
    }

    /// Changes permissions, owner or times.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`].
    pub fn set_attributes(&self, ino: Ino, attributes: &Attributes) -> Result<Inode> {
        let _names = self.write_names();
        let change = self.core.begin()?;
        change.update_inode(ino, |inode| {
            inode.mode = attributes.mode.map_or(inode.mode, |mode| mode & 0o7777);
            inode.uid = attributes.uid.unwrap_or(inode.uid);
            inode.gid = attributes.gid.unwrap_or(inode.gid);
            inode.read_at = attributes.read_at.unwrap_or(inode.read_at);
            inode.written_at = attributes.written_at.unwrap_or(inode.written_at);
            inode.changed_at = attributes.changed_at.unwrap_or_else(Time::now);
        })
    }

    /// Commits if there is room that was taken from files and is not free yet. Returns whether there was.
    ///
    /// # Errors
    /// As [`Volume::sync`].
    pub fn reclaim(&self) -> Result<bool> {
        if self.core.is_read_only() || self.core.trims.are_applied() {
            return Ok(false);
        }
        self.core.commit()?;
        Ok(true)
    }

    /// Whether there is a file without a name, whose bytes stay because it is held. If not, all that was let go of is room for [`Volume::reclaim`].
    ///
    /// # Errors
    /// The table of inodes could not be read.
    pub fn has_nameless(&self) -> Result<bool> {
        let _names = self.read_names();
        Ok(self.core.inodes_header()?.first_nameless != 0)
    }

    /// How much there is of everything. Room that was taken from files is told as free: it is committed before.
    ///
    /// # Errors
    /// The table of inodes could not be read.
    pub fn space(&self) -> Result<Space> {
        // A volume that takes no more changes tells what it has.
        let _ = self.reclaim();
        let header = self.core.inodes_header()?;
        let unit = PAGE_BYTES as u64 / u64::from(PAGE_UNITS);
        let capacity = self.core.capacity_units();
        let room = capacity.saturating_sub(self.core.used_units()) * unit / (PAGE_BYTES as u64);
        let files_max = (u64::from(header.files) + room * u64::from(INODES_PER_PAGE)).min(1 << Ino::BITS);
        Ok(Space {
            capacity_bytes: capacity * unit,
            used_bytes: self.core.used_units().min(capacity) * unit,
            kept_bytes: self.core.kept_units() * unit,
            files: header.files.into(),
            files_max,
        })
    }

    /// RAM for its pages and its table.
    pub(crate) fn ram_bytes(&self) -> u64 {
        self.ram_bytes
    }

    /// What the volume is made of.
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn core_arc(&self) -> Arc<Core> {
        Arc::clone(&self.core)
    }

    pub(crate) fn cell(&self, ino: Ino) -> Arc<Cell> {
        self.cells.get(ino)
    }

    pub(crate) fn note_index(&self, cell: &Arc<Cell>, index: &Index) {
        self.cells.note_index(cell, index);
        self.core.cache.set_reserved(self.cells.index_bytes() / FRAME_BYTES as usize);
    }

    pub(crate) fn forget_cell(&self, ino: Ino) {
        self.cells.forget(ino);
    }

    pub(crate) fn read_names(&self) -> RwLockReadGuard<'_, ()> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody else looks at names while the guard lives. What is to be committed before a change is committed before that.
    pub(crate) fn write_names(&self) -> RwLockWriteGuard<'_, ()> {
        if !self.core.is_read_only() {
            // The change itself meets the error again.
            let _ = self.core.make_way();
        }
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of the RAM that indexes of folders may take: names are looked up in them.
const INDEX_PART: u64 = 8;

/// RAM of a page or a node, with what is known of it.
pub const FRAME_BYTES: u64 = PAGE_BYTES as u64 + 256;

/// Pages and nodes that fit in RAM.
pub(crate) fn frames_for(ram_bytes: u64) -> usize {
    (ram_bytes / FRAME_BYTES) as usize
}

/// How many of them may be nodes.
fn nodes_for(ram_bytes: u64) -> usize {
    frames_for(ram_bytes) / 4 * 3
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)).map_err(|error| {
        VolumeError::System { step: "reading /dev/urandom", errno: error.raw_os_error().unwrap_or(libc::EIO) }
    })?;
    Ok(u64::from_le_bytes(bytes))
}

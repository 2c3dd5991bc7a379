//! One client of the process that owns a volume.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use aquifer_sys::memory::SharedMemory;
use aquifer_sys::process::peer_groups;

use super::channel::{Channel, Packet};
use super::entries;
use super::protocol::{APPEND_BYTES_MAX, Answer, Operation, PAYLOAD_BYTES_MAX, Request, VERSION, open};
use super::quota::{Limited, Quota, Share};
use super::refusal::refusal;
use super::views::{Memory, Views, is_userfaultfd};
use crate::access::{Access, Credentials};
use crate::error::{Result, VolumeError};
use crate::inode::Inode;
use crate::key::Ino;
use crate::names::IfTaken;
use crate::path::Last;
use crate::session::{OpenFile, OpenHow, Session};
use crate::volume::{Space, Volume};

/// Most open files, and most views, of a client.
pub const HANDLES_MAX: usize = 4096;
/// Most groups of a user.
const GROUPS_MAX: usize = 1024;

/// A file that a client has open.
pub struct Opened {
    /// Its memory, once the client has asked for it.
    pub memory: Option<Memory>,
    /// With the rights it was opened with.
    pub file: OpenFile<Arc<Volume>>,
    /// Loads and reads.
    pub may_read: bool,
    /// Stores and writes.
    pub may_write: bool,
    _share: Share,
}

/// A connected client.
pub struct Connection {
    volume: Arc<Volume>,
    quota: Quota,
    channel: Arc<Channel>,
    session: Session<Arc<Volume>>,
    files: HashMap<u32, Opened>,
    views: Views,
    /// The first bytes of a step that appends, until the last ones come.
    kept: Vec<u8>,
    kept_shares: Vec<Share>,
    /// Descriptors that nobody asked for, with which the connection ends.
    strange: Vec<OwnedFd>,
    next_handle: u32,
    is_known: bool,
}

impl Connection {
    /// Begins a session with the rights of the peer, as the kernel knows them.
    ///
    /// # Errors
    /// The system's.
    pub fn new(volume: Arc<Volume>, channel: Arc<Channel>, quota: Quota) -> Result<Self> {
        let peer = channel.peer()?;
        let mut groups = vec![0; GROUPS_MAX];
        let count = peer_groups(channel.as_fd().as_raw_fd(), &mut groups).map_err(|errno| {
            VolumeError::System { step: "asking for the client's groups", errno: errno.0 }
        })?;
        groups.truncate(count);
        let who = Credentials::new(peer.uid.as_raw(), peer.gid.as_raw(), groups);
        Ok(Connection {
            channel,
            session: Session::new(Arc::clone(&volume), who),
            files: HashMap::new(),
            views: Views::new(&volume, &quota),
            volume,
            quota,
            kept: Vec::new(),
            kept_shares: Vec::new(),
            strange: Vec::new(),
            next_handle: 1,
            is_known: false,
        })
    }

    /// Answers until the other end is gone.
    ///
    /// # Errors
    /// The system's, of the connection.
    pub fn run(&mut self) -> Result<()> {
        while let Some(packet) = self.channel.receive()? {
            if !self.expects(&packet) {
                self.strange = packet.descriptors;
                let error =
                    VolumeError::Invalid("this descriptor is none that was asked for: the connection ends");
                return self.channel.send(&refusal(&error).encode(), None);
            }
            let (answer, memory) = self.answer(packet).unwrap_or_else(|error| (refusal(&error), None));
            let memory = memory.as_ref().map(|memory| {
                // SAFETY: the memory lives until the packet is sent.
                unsafe { BorrowedFd::borrow_raw(memory.raw_fd()) }
            });
            self.channel.send(&answer.encode(), memory)?;
        }
        Ok(())
    }

    /// Ends it, but for descriptors that nobody asked for: to close them may take as long as their sender wishes.
    pub fn into_strange(self) -> Vec<OwnedFd> {
        self.strange
    }

    /// Whether the descriptors beside a packet are those that belong to it: a userfaultfd with the first view, and no others.
    fn expects(&self, packet: &Packet) -> bool {
        let is_view = || Request::decode(&packet.bytes).is_some_and(|one| one.operation == Operation::Attach);
        match &packet.descriptors[..] {
            [] => true,
            [one] => is_view() && !self.views.has_faults() && is_userfaultfd(one),
            _ => false,
        }
    }

    fn answer(&mut self, packet: Packet) -> Result<(Answer, Option<SharedMemory>)> {
        let Packet { bytes, descriptors } = packet;
        let request =
            Request::decode(&bytes).ok_or(VolumeError::Invalid("this is no message for a volume"))?;
        if !self.is_known && request.operation != Operation::Hello {
            return Err(VolumeError::Invalid("the first message must say the version"));
        }
        let answer = match request.operation {
            Operation::Hello => self.hello(&request),
            Operation::Pages => {
                let opened = self.files.get_mut(&request.handle).ok_or(UNKNOWN_HANDLE)?;
                let memory = self.views.memory(opened)?;
                return Ok((Answer::default(), Some(memory)));
            }
            Operation::Attach => self.attach(&request, descriptors.into_iter().next())?,
            Operation::Detach => {
                self.views.detach(request.handle).map(|()| Answer::default()).ok_or(UNKNOWN_HANDLE)?
            }
            Operation::Open => self.open(&request)?,
            Operation::Close => {
                self.files.remove(&request.handle).map(|_| Answer::default()).ok_or(UNKNOWN_HANDLE)?
            }
            Operation::Append => self.append(&request)?,
            Operation::Read
            | Operation::Write
            | Operation::Stat
            | Operation::Truncate
            | Operation::Punch
            | Operation::List => self.of_file(&request)?,
            _ => self.of_volume(&request)?,
        };
        Ok((answer, None))
    }

    fn hello(&mut self, request: &Request<'_>) -> Answer {
        self.is_known = request.a == VERSION;
        let errno = if self.is_known { 0 } else { libc::EPROTO.unsigned_abs() };
        Answer { a: VERSION, errno, ..Answer::default() }
    }

    /// What is done with an open file.
    fn of_file(&self, request: &Request<'_>) -> Result<Answer> {
        let file = &self.opened(request.handle)?.file;
        let done = |()| Answer::default();
        Ok(match request.operation {
            Operation::Read => {
                let mut bytes = vec![0; (request.b as usize).min(PAYLOAD_BYTES_MAX)];
                let got = file.read(request.a, &mut bytes)?;
                bytes.truncate(got);
                Answer { bytes, ..Answer::default() }
            }
            Operation::Write => {
                Answer { a: file.write(request.a, request.bytes)? as u64, ..Answer::default() }
            }
            Operation::Stat => inode_answer(file.ino(), &file.inode()?),
            Operation::Truncate => file.truncate(request.a).map(done)?,
            Operation::Punch => file.punch(request.a, request.b).map(done)?,
            _ => self.list(request)?,
        })
    }

    /// What is done by path, and with all of the volume.
    fn of_volume(&self, request: &Request<'_>) -> Result<Answer> {
        let (session, path) = (&self.session, request.bytes);
        let done = |()| Answer::default();
        Ok(match request.operation {
            Operation::MakeFolder => {
                session.make_folder(path, request.b as u16).map(|_| Answer::default())?
            }
            Operation::Remove => match session.unlink(path) {
                Err(VolumeError::IsAFolder) => session.remove_folder(path).map(done)?,
                outcome => outcome.map(done)?,
            },
            Operation::Rename => {
                let (from, to) = two_paths(request)?;
                session.rename(from, to, if_taken(request.b)?).map(done)?
            }
            Operation::Link => {
                let (path, new) = two_paths(request)?;
                session.link(path, new).map(done)?
            }
            Operation::Symlink => {
                let (target, path) = two_paths(request)?;
                session.make_symlink(target, path).map(|_| Answer::default())?
            }
            Operation::ReadLink => Answer { bytes: session.read_link(path)?, ..Answer::default() },
            Operation::StatPath => {
                let last = if request.a == 0 { Last::Keep } else { Last::Follow };
                let (ino, inode) = session.stat(path, last)?;
                inode_answer(ino, &inode)
            }
            Operation::Space => space_answer(&self.volume.space()?),
            _ => self.volume.sync().map(done)?,
        })
    }

    fn opened(&self, handle: u32) -> Result<&Opened> {
        self.files.get(&handle).ok_or(UNKNOWN_HANDLE)
    }

    fn new_handle(&mut self) -> u32 {
        loop {
            let handle = self.next_handle;
            self.next_handle = self.next_handle.wrapping_add(1).max(1);
            if !self.files.contains_key(&handle) && !self.views.has(handle) {
                return handle;
            }
        }
    }

    fn open(&mut self, request: &Request<'_>) -> Result<Answer> {
        let has = |flag: u64| request.a & flag != 0;
        if request.a & !open::ALL != 0 || !(has(open::READ) || has(open::WRITE)) {
            return Err(VolumeError::Invalid("these are no flags to open a file with"));
        }
        if self.files.len() >= HANDLES_MAX {
            return Err(VolumeError::System { step: "opening a file", errno: libc::EMFILE });
        }
        let access = match (has(open::READ), has(open::WRITE)) {
            (true, true) => Access::READ.and(Access::WRITE),
            (true, false) => Access::READ,
            _ => Access::WRITE,
        };
        let how = OpenHow {
            access,
            make: has(open::CREATE).then_some(request.b as u16),
            is_new: has(open::EXCLUSIVE),
            is_truncated: has(open::TRUNCATE),
            keeps_link: false,
        };
        let share = self.quota.take(Limited::Files, 1)?;
        let file = self.session.open(request.bytes, &how)?;
        let size_bytes = file.inode()?.size_bytes;
        let handle = self.new_handle();
        let (may_read, may_write) = (has(open::READ), has(open::WRITE));
        self.files.insert(handle, Opened { memory: None, file, may_read, may_write, _share: share });
        Ok(Answer { handle, a: size_bytes, ..Answer::default() })
    }

    fn attach(&mut self, request: &Request<'_>, descriptor: Option<OwnedFd>) -> Result<Answer> {
        let handle = self.new_handle();
        let opened = self.files.get(&request.handle).ok_or(UNKNOWN_HANDLE)?;
        self.views.attach(handle, opened, request, descriptor)?;
        Ok(Answer { handle, ..Answer::default() })
    }

    fn append(&mut self, request: &Request<'_>) -> Result<Answer> {
        if self.kept.len() + request.bytes.len() > APPEND_BYTES_MAX {
            self.forget_kept();
            return Err(VolumeError::Invalid("more than 4 MiB are appended at once"));
        }
        if request.a != 0 {
            let share = self.quota.take(Limited::KeptBytes, request.bytes.len());
            let share = share.inspect_err(|_| self.forget_kept())?;
            self.kept_shares.push(share);
            self.kept.extend_from_slice(request.bytes);
            return Ok(Answer::default());
        }
        let mut bytes = std::mem::take(&mut self.kept);
        self.kept_shares.clear();
        bytes.extend_from_slice(request.bytes);
        let (offset, written) = self.opened(request.handle)?.file.append(&bytes)?;
        Ok(Answer { a: written as u64, b: offset, ..Answer::default() })
    }

    fn forget_kept(&mut self) {
        self.kept = Vec::new();
        self.kept_shares = Vec::new();
    }

    fn list(&self, request: &Request<'_>) -> Result<Answer> {
        let opened = self.opened(request.handle)?;
        if !opened.may_read {
            return Err(VolumeError::PermissionDenied);
        }
        let mut answer = Answer { a: request.a, b: 1, ..Answer::default() };
        self.volume.list(opened.file.ino(), request.a, |listed| {
            if !entries::push(&mut answer.bytes, &listed) {
                answer.b = 0;
                return ControlFlow::Break(());
            }
            answer.a = listed.next;
            ControlFlow::Continue(())
        })?;
        Ok(answer)
    }
}

const UNKNOWN_HANDLE: VolumeError =
    VolumeError::System { step: "there is no such handle", errno: libc::EBADF };

fn two_paths<'a>(request: &Request<'a>) -> Result<(&'a [u8], &'a [u8])> {
    let at = usize::try_from(request.a).unwrap_or(usize::MAX);
    request.bytes.split_at_checked(at).ok_or(VolumeError::Invalid("a path is cut off"))
}

fn if_taken(number: u64) -> Result<IfTaken> {
    match number {
        0 => Ok(IfTaken::Replace),
        1 => Ok(IfTaken::Fail),
        2 => Ok(IfTaken::Exchange),
        _ => Err(VolumeError::Invalid("a new name replaces, fails or exchanges")),
    }
}

fn inode_answer(ino: Ino, inode: &Inode) -> Answer {
    Answer { a: ino.0.into(), bytes: inode.encode().to_vec(), ..Answer::default() }
}

fn space_answer(space: &Space) -> Answer {
    let Space { capacity_bytes, used_bytes, kept_bytes, files, files_max } = *space;
    let numbers = [capacity_bytes, used_bytes, kept_bytes, files, files_max];
    Answer { bytes: numbers.iter().flat_map(|number| number.to_le_bytes()).collect(), ..Answer::default() }
}

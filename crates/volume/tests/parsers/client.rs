//! Clients of a volume that is served, which say and do what the input says.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use aquifer_device::MemoryDevice;
use aquifer_sys::Userfaultfd;
use aquifer_sys::memory::{MappedRange, Protection, SharedMemory};
use aquifer_sys::uffd::Features;
use aquifer_volume::medium::{DeviceMedium, Medium};
use aquifer_volume::serve::protocol::{Answer, OPERATIONS, Operation, Request, VERSION};
use aquifer_volume::serve::{listen_at, serve, stop_listening};
use aquifer_volume::{Depth, Ino, Kind, OpenOptions, PAGE_BYTES, Volume};

#[path = "packets.rs"]
mod packets;

use packets::Packets;

const SEGMENT_PAGES: u32 = 8;
const PAGES: usize = 64 * SEGMENT_PAGES as usize;
const STEPS_MAX: usize = 60;
const CONNECTIONS_MAX: usize = 3;
/// Pages of a view.
const VIEW_PAGES: usize = 8;
/// In which a fault is resolved that is resolved at all.
const RESOLVED: Duration = Duration::from_millis(20);
/// What takes longer hangs.
const TOO_LONG: Duration = Duration::from_secs(60);
/// A name that no input spells.
const VICTIM: &[u8] = b"the victim, whom nobody names";
const PATHS: [&[u8]; 10] = [b"a", b"b", b"d", b"d/x", b"", b"..", b"/", b"a/", b"d/../b", b"nul\0"];
const NUMBERS: [u64; 12] = [0, 1, 2, 3, 7, 100, 4096, 5000, 65536, 1 << 32 | 3, 1 << 44, u64::MAX];

/// Whatever clients say and do, the server answers or ends the connection, and ends when it is told to. A file of somebody else has its bytes, and all of the
/// volume fits together, also when it is opened again.
pub fn property(input: &[u8]) {
    let device = Arc::new(MemoryDevice::new((PAGES * PAGE_BYTES) as u64, PAGE_BYTES));
    Volume::create(medium(&device), (0, 0)).expect("created");
    let options = OpenOptions { ram_bytes: 1 << 20, is_read_only: false };
    let volume = Arc::new(Volume::open(medium(&device), options).expect("opened"));
    let victim = volume.make(Ino::ROOT_FOLDER, VICTIM, Kind::File, 0o600, 0, 0).expect("made");
    volume.write(victim, 0, &victims_bytes(0)).expect("written");
    let served = Served::new(&volume);
    let mut clients = Clients { served: &served, connections: Vec::new(), touching: Vec::new() };
    let mut round = 0;
    for step in input.chunks(8).take(STEPS_MAX) {
        let mut bytes = [0; 8];
        bytes[..step.len()].copy_from_slice(step);
        if bytes[0] % 32 == 31 {
            round += 1;
            volume.write(victim, 0, &victims_bytes(round)).expect("written");
        } else {
            clients.step(bytes);
        }
    }
    let touching = clients.end();
    served.end();
    // No descriptor that faults wait at is open any more.
    for thread in touching {
        thread.join().expect("a thread that has touched a view");
    }
    volume.sync().expect("synced");
    assert_whole(&volume, victim, round);
    let volume = Arc::try_unwrap(volume).ok().expect("nobody has it");
    volume.close().expect("closed");
    let volume = Volume::open(medium(&device), options).expect("opened again");
    assert_whole(&volume, victim, round);
}

fn medium(device: &Arc<MemoryDevice>) -> Box<dyn Medium> {
    Box::new(DeviceMedium::new(Arc::clone(device), SEGMENT_PAGES).expect("a medium"))
}

fn victims_bytes(round: u8) -> Vec<u8> {
    (0..3 * PAGE_BYTES).map(|at| (at % 251) as u8 ^ round).collect()
}

fn assert_whole(volume: &Volume, victim: Ino, round: u8) {
    let mut bytes = vec![0; 3 * PAGE_BYTES + 1];
    assert_eq!(volume.read(victim, 0, &mut bytes).expect("read"), 3 * PAGE_BYTES);
    assert!(bytes[..3 * PAGE_BYTES] == victims_bytes(round), "the victim's bytes");
    let findings = volume.check(Depth::Contents, |_, _| ()).expect("checked");
    assert!(findings.problems.is_empty(), "{:#?}", findings.problems);
}

/// A server in a thread.
struct Served {
    folder: tempfile::TempDir,
    listening: Arc<OwnedFd>,
    ended: Receiver<()>,
}

impl Served {
    fn new(volume: &Arc<Volume>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listening = Arc::new(listen_at(&folder.path().join("socket")).expect("a socket"));
        let (says, ended) = channel();
        let (volume, on) = (Arc::clone(volume), Arc::clone(&listening));
        std::thread::spawn(move || {
            serve(&volume, &on).expect("served");
            drop(volume);
            // The property waits, or has failed.
            let _ = says.send(());
        });
        Served { folder, listening, ended }
    }

    fn end(&self) {
        stop_listening(&self.listening);
        self.ended.recv_timeout(TOO_LONG).expect("the server ends");
    }
}

/// A client.
struct Connection {
    packets: Packets,
    handles: Vec<u32>,
    faults: Option<Arc<Userfaultfd>>,
    /// Whether the server has the userfaultfd, as far as the client knows.
    is_attached: bool,
    memory: Option<SharedMemory>,
    ranges: Vec<Arc<MappedRange>>,
    /// Requests whose answers were not read.
    unread: usize,
}

struct Clients<'a> {
    served: &'a Served,
    connections: Vec<Connection>,
    touching: Vec<JoinHandle<()>>,
}

impl Clients<'_> {
    /// One step: what, by which connection, handle and path, then three numbers.
    fn step(&mut self, [what, which, handle, path, numbers @ ..]: [u8; 8]) {
        let number = |nth: usize| NUMBERS[usize::from(numbers[nth]) % NUMBERS.len()];
        let which = usize::from(which) % CONNECTIONS_MAX;
        while self.connections.len() <= which {
            self.connections.push(Connection::new(self.served));
        }
        let is_gone = match what % 32 {
            code @ 0..=21 => {
                let connection = &mut self.connections[which];
                let request = Request {
                    operation: OPERATIONS[usize::from(code)],
                    handle: connection.handle(handle),
                    a: if code == 1 { u64::from(numbers[0] % 32) } else { number(0) },
                    b: number(1),
                    c: number(2),
                    bytes: PATHS[usize::from(path) % PATHS.len()],
                };
                !connection.ask(&request.encode(), &[], handle < 240)
            }
            22 => !self.connections[which].ask(&numbers[..usize::from(path) % 5], &[], true),
            23 => {
                let request =
                    Request::new(OPERATIONS[usize::from(path) % OPERATIONS.len()], u32::from(handle));
                let mut packet = request.encode();
                let at = usize::from(numbers[0]) % packet.len();
                packet[at] ^= numbers[1];
                packet.truncate(packet.len() - usize::from(numbers[2]) % 3);
                !self.connections[which].ask(&packet, &[], true)
            }
            24 => !self.connections[which].send_strange(handle, path),
            25 => true,
            26 => !self.connections[which].write(handle, number(0), path),
            27 => !self.connections[which].map(handle, path),
            28 => !self.connections[which].attach(handle, number(0), number(1), u64::from(path % 4)),
            29 => {
                self.connections[which].disturb_memory(path, number(0));
                false
            }
            _ => {
                self.touching.extend(self.connections[which].touch(path, numbers[0] % 2 == 0));
                false
            }
        };
        if is_gone {
            self.connections[which] = Connection::new(self.served);
        }
    }

    fn end(self) -> Vec<JoinHandle<()>> {
        self.touching
    }
}

impl Connection {
    fn new(served: &Served) -> Self {
        let packets = Packets::connect(&served.folder.path().join("socket"), TOO_LONG);
        // Touches in system calls get an error in place of SIGBUS; without the right to have such faults, nothing is touched.
        let wanted = Features::MISSING_SHMEM | Features::MINOR_SHMEM | Features::WP_SHMEM;
        let faults = Userfaultfd::open_full(wanted | Features::PAGEFAULT_FLAG_WP | Features::POISON).ok();
        let mut connection = Connection {
            packets,
            handles: Vec::new(),
            faults: faults.map(Arc::new),
            is_attached: false,
            memory: None,
            ranges: Vec::new(),
            unread: 0,
        };
        connection.ask(&Request { a: VERSION, ..Request::new(Operation::Hello, 0) }.encode(), &[], true);
        connection
    }

    fn handle(&self, which: u8) -> u32 {
        let known = self.handles.get(usize::from(which) % (self.handles.len() + 1));
        known.copied().unwrap_or(u32::from(which))
    }

    /// Sends a packet and reads the answers, or leaves them; `false` once the connection has ended.
    fn ask(&mut self, packet: &[u8], beside: &[BorrowedFd<'_>], reads: bool) -> bool {
        const UNREAD_MAX: usize = 3;
        if !self.packets.send(packet, beside) {
            return false;
        }
        self.unread += 1;
        if !reads && self.unread < UNREAD_MAX {
            return true;
        }
        (0..std::mem::take(&mut self.unread)).all(|_| self.receive())
    }

    fn receive(&mut self) -> bool {
        let Some((answer, descriptor)) = self.packets.receive() else { return false };
        let Answer { errno, handle, .. } = Answer::decode(&answer).expect("an answer");
        if errno == 0 && handle != 0 {
            self.handles.push(handle);
        }
        if let Some(descriptor) = descriptor {
            // SAFETY: the descriptor was received, and is given away here.
            self.memory = Some(unsafe { SharedMemory::from_raw_fd(descriptor.into_raw_fd()) });
        }
        true
    }

    /// Bytes of some length.
    fn write(&mut self, handle: u8, a: u64, fill: u8) -> bool {
        let bytes = vec![fill; usize::from(fill) * 40];
        let operation = if handle.is_multiple_of(2) { Operation::Write } else { Operation::Append };
        let request = Request { a, bytes: &bytes, ..Request::new(operation, self.handle(handle / 2)) };
        self.ask(&request.encode(), &[], true)
    }

    /// Descriptors that nobody asked for, beside one request or another.
    fn send_strange(&mut self, handle: u8, count: u8) -> bool {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let operation = if count.is_multiple_of(2) { Operation::Attach } else { Operation::Stat };
        let packet = Request { a: 4096, b: 1, ..Request::new(operation, self.handle(handle)) }.encode();
        self.ask(&packet, &vec![reader.as_fd(); usize::from(count) % 7 + 1], true)
    }

    /// Gets the memory of a file and maps it, for the server to resolve its faults.
    fn map(&mut self, handle: u8, access: u8) -> bool {
        let handle = self.handle(handle);
        if !self.ask(&Request::new(Operation::Pages, handle).encode(), &[], true) {
            return false;
        }
        let access = [Protection::Read, Protection::Write, Protection::CopyOnWrite][usize::from(access) % 3];
        let (Some(memory), Some(faults)) = (&self.memory, &self.faults) else { return true };
        let Ok(range) = memory.map(0, VIEW_PAGES * PAGE_BYTES, access) else { return true };
        let (base, len, is_tracked) = (range.base(), range.len(), access != Protection::CopyOnWrite);
        // SAFETY: the range is new; it is touched by system calls alone, which end when the descriptor is closed.
        let known = unsafe { faults.register_shared(base, len, is_tracked) };
        if known.is_err() {
            return true;
        }
        let base = range.base() as u64;
        self.ranges.push(Arc::new(range));
        let how = match access {
            Protection::Read => 0,
            Protection::Write => 1,
            _ => 2,
        };
        self.attach_at(handle, base, VIEW_PAGES as u64, how)
    }

    /// A view of addresses that may be anything.
    fn attach(&mut self, handle: u8, address: u64, pages: u64, how: u64) -> bool {
        let base = self.ranges.last().map_or(0, |range| range.base() as u64);
        self.attach_at(self.handle(handle), base.wrapping_add(address), pages, how)
    }

    fn attach_at(&mut self, handle: u32, a: u64, b: u64, c: u64) -> bool {
        let packet = Request { a, b, c, ..Request::new(Operation::Attach, handle) }.encode();
        let faults = self.faults.clone().filter(|_| !std::mem::replace(&mut self.is_attached, true));
        // SAFETY: the descriptor is open while the packet is sent.
        let beside = faults.as_ref().map(|faults| unsafe { BorrowedFd::borrow_raw(faults.raw_fd()) });
        self.ask(&packet, beside.as_slice(), true)
    }

    /// Changes the memory that the server gave beside its views. Fails where a reader has it.
    fn disturb_memory(&mut self, how: u8, offset: u64) {
        let Some(memory) = &self.memory else { return };
        let offset = offset % (VIEW_PAGES * PAGE_BYTES) as u64;
        let _ = match how % 3 {
            0 => memory.write_at(offset, &[how; 5000]),
            1 => memory.punch(offset / PAGE_BYTES as u64 * PAGE_BYTES as u64, PAGE_BYTES as u64),
            _ => memory.write_at(1 << 30, &[how; 5000]),
        };
    }

    /// Loads from a view, or stores to it, in a thread: it waits until the server resolves the fault, or for the end of the userfaultfd. Mostly it is over when
    /// this returns.
    fn touch(&self, page: u8, is_store: bool) -> Option<JoinHandle<()>> {
        let range = Arc::clone(self.ranges.last()?);
        let own = SharedMemory::new(PAGE_BYTES as u64).expect("memory");
        let (says, hears) = channel();
        let thread = std::thread::spawn(move || {
            let at = usize::from(page) % VIEW_PAGES * PAGE_BYTES + 3;
            // SAFETY: inside of the range, which is mapped until this is over, and of which nobody has another reference.
            let bytes = unsafe { std::slice::from_raw_parts_mut(range.base().add(at), 9) };
            // A page that the server does not bring is an error.
            let _ = if is_store { own.read_at(0, bytes) } else { own.write_at(0, bytes) };
            // Nobody may wait any more.
            let _ = says.send(());
        });
        let _ = hears.recv_timeout(RESOLVED);
        Some(thread)
    }
}

//! The peers of the study.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aquifer_device::{Device, MemoryDevice};
use aquifer_remote::borrower::{Borrower, BorrowerOptions};
use aquifer_remote::far::{FarDevice, FarOptions, Home, PAGE_BYTES, Slabs};
use aquifer_remote::transport::{
    Completion, Direction, Endpoint, LinkOptions, Part, Place, PostError, Staging, Transfer, fabric,
};

use super::Waiting;
use super::served::{Kind, SLAB_BYTES, Served, TOKEN};
use super::{FILL_BYTES, PIECE_BYTES};
use crate::error::{Error, Result};

const LIMIT: Duration = Duration::from_secs(10);
/// Pieces that the bare client has under way at once.
const BARE_DEPTH: usize = 16;

/// What a page is filled with.
pub fn byte_at(offset: usize) -> u8 {
    (offset / PAGE_BYTES * 37) as u8
}

/// Somebody with memory at the child.
pub trait Peer {
    /// For the table.
    fn name(&self) -> &'static str;

    /// Which child serves it.
    fn kind(&self) -> Kind {
        Kind::Donor
    }

    /// Reads bytes.
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()>;

    /// Writes from the beginning on.
    fn fill(&self, from: &[u8]) -> Result<()>;
}

/// All of them.
pub struct Peers {
    bare_child: Served,
    donor_child: Served,
    bare: Bare,
    link: Linked,
    mirror: Mirrored,
}

impl Peers {
    /// Starts children and connects to them; their memory is filled then.
    ///
    /// # Errors
    /// No child, or no connection.
    pub fn connect(waiting: Waiting) -> Result<Peers> {
        let mut bare_child = Served::start(Kind::Bare, waiting)?;
        let donor_child = Served::start(Kind::Donor, waiting)?;
        let bare = Bare::connect(&mut bare_child, waiting)?;
        let link =
            LinkOptions { spins: waiting == Waiting::Spinning, deadline: LIMIT, ..LinkOptions::default() };
        let options =
            BorrowerOptions { donors: vec![donor_child.place.clone()], link, ..BorrowerOptions::default() };
        let borrower = Arc::new(Borrower::start(options).map_err(unavailable)?);
        let home = borrower.find(SLAB_BYTES, &[]).ok_or_else(|| unavailable("the donor lends nothing"))?;
        let link = Linked { home };
        let mirror = Mirrored::new(&borrower)?;
        let peers = Peers { bare_child, donor_child, bare, link, mirror };
        let mut bytes = aquifer_device::AlignedBuffer::new(FILL_BYTES);
        for (nth, page) in bytes.chunks_exact_mut(PAGE_BYTES).enumerate() {
            page.fill(byte_at(nth * PAGE_BYTES));
        }
        peers.all().into_iter().try_for_each(|peer| peer.fill(&bytes))?;
        peers.mirror.wait_for_donor()?;
        Ok(peers)
    }

    /// The peer of that name, once the child is stopped that is not for it.
    ///
    /// # Panics
    /// If no peer has that name.
    pub fn prepare(&self, name: &str) -> &dyn Peer {
        let peer = self.all().into_iter().find(|peer| peer.name() == name).expect("it is one of them");
        let (used, other) = match peer.kind() {
            Kind::Bare => (&self.bare_child, &self.donor_child),
            Kind::Donor => (&self.donor_child, &self.bare_child),
        };
        other.pause();
        used.resume();
        peer
    }

    fn all(&self) -> Vec<&dyn Peer> {
        vec![&self.bare, &self.link, &self.mirror]
    }
}

fn unavailable(what: impl std::fmt::Display) -> Error {
    Error::Unavailable(what.to_string())
}

/// libfabric and nothing else.
struct Bare {
    endpoint: Box<dyn Endpoint>,
    staging: Arc<Staging>,
    place: Place,
    limit: Duration,
    /// One thread at a time.
    lock: Mutex<()>,
}

impl Bare {
    fn connect(served: &mut Served, waiting: Waiting) -> Result<Bare> {
        let staging = Staging::new(BARE_DEPTH * PIECE_BYTES).map_err(unavailable)?;
        let port = served.place.parse().map_err(|_| unavailable("the child says no port"))?;
        let endpoint = fabric::connect(fabric::PROVIDER, "127.0.0.1", port, &TOKEN, LIMIT, &staging)
            .map_err(unavailable)?;
        let place = served.bare_place()?;
        let limit = if waiting == Waiting::Spinning { Duration::ZERO } else { LIMIT };
        Ok(Bare { endpoint, staging, place, limit, lock: Mutex::new(()) })
    }

    fn post(&self, direction: Direction, offset: usize, part: Part, tag: u32) -> Result<()> {
        let transfer = Transfer { direction, place: self.place.at(offset as u64), part, tag };
        loop {
            // SAFETY: the part is used again only when its transfer has ended.
            match unsafe { self.endpoint.post(&transfer) } {
                Ok(()) => return Ok(()),
                Err(PostError::Busy) => self.poll(&mut [Completion::default()]).map(drop)?,
                Err(PostError::Failed(error)) => return Err(unavailable(self.endpoint.explain(error))),
            }
        }
    }

    fn poll(&self, completions: &mut [Completion]) -> Result<usize> {
        self.endpoint.poll(completions, self.limit).map_err(|error| unavailable(self.endpoint.explain(error)))
    }
}

impl Peer for Bare {
    fn name(&self) -> &'static str {
        "libfabric"
    }

    fn kind(&self) -> Kind {
        Kind::Bare
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        let _alone = self.lock.lock();
        let part = Part { offset: 0, len: to.len() };
        self.post(Direction::Read, offset, part, 0)?;
        let mut completions = [Completion::default()];
        while self.poll(&mut completions)? == 0 {}
        // SAFETY: its transfer has ended.
        unsafe { self.staging.take(part, to) };
        if completions[0].error == 0 { Ok(()) } else { Err(unavailable("a bare read failed")) }
    }

    fn fill(&self, from: &[u8]) -> Result<()> {
        let _alone = self.lock.lock();
        let (mut free, mut under_way): (Vec<u32>, usize) = ((0..BARE_DEPTH as u32).collect(), 0);
        let mut pieces = from.chunks(PIECE_BYTES).enumerate();
        let mut completions = [Completion::default(); BARE_DEPTH];
        loop {
            while let Some(tag) = free.pop() {
                let Some((nth, piece)) = pieces.next() else { break };
                let part = Part { offset: tag as usize * PIECE_BYTES, len: piece.len() };
                // SAFETY: the tag is free, so no transfer uses the part.
                unsafe { self.staging.fill(part, piece) };
                self.post(Direction::Write, nth * PIECE_BYTES, part, tag)?;
                under_way += 1;
            }
            if under_way == 0 {
                return Ok(());
            }
            let ended = self.poll(&mut completions)?;
            under_way -= ended;
            for completion in &completions[..ended] {
                if completion.error != 0 {
                    return Err(unavailable("a bare write failed"));
                }
                free.push(completion.tag);
            }
        }
    }
}

/// A slab that was borrowed.
struct Linked {
    home: Arc<Home>,
}

impl Peer for Linked {
    fn name(&self) -> &'static str {
        "slab"
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.home.read(offset as u64, to).map_err(unavailable)
    }

    fn fill(&self, from: &[u8]) -> Result<()> {
        self.home.write(from, 0).map_err(unavailable)
    }
}

/// A device over slabs: every page has a checksum, and goes to what stands for flash behind.
struct Mirrored {
    mirror: FarDevice,
}

impl Mirrored {
    fn new(borrower: &Arc<Borrower>) -> Result<Mirrored> {
        let local = Arc::new(MemoryDevice::new(SLAB_BYTES, PAGE_BYTES));
        let options =
            FarOptions { slab_bytes: SLAB_BYTES, behind_bytes: 2 * FILL_BYTES, ..FarOptions::default() };
        let slabs = Arc::clone(borrower) as Arc<dyn Slabs>;
        let mirror =
            FarDevice::new(local, slabs, &options).map_err(Error::io("starting threads of", "the mirror"))?;
        Ok(Mirrored { mirror })
    }

    /// Until every page is read from the donor.
    fn wait_for_donor(&self) -> Result<()> {
        let mut page = aquifer_device::AlignedBuffer::new(PAGE_BYTES);
        for _ in 0..1000 {
            let before = self.mirror.counters();
            for offset in (0..FILL_BYTES).step_by(PAGE_BYTES) {
                self.read(offset, &mut page)?;
            }
            let after = self.mirror.counters();
            if after.remote_reads - before.remote_reads == (FILL_BYTES / PAGE_BYTES) as u64 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(unavailable("the mirror's pages never came to the donor"))
    }
}

impl Peer for Mirrored {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.mirror.read_at(offset as u64, to).map_err(unavailable)
    }

    fn fill(&self, from: &[u8]) -> Result<()> {
        self.mirror.write_at(0, from).map_err(unavailable)
    }
}

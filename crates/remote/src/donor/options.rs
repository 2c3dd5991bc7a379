//! How a donor lends.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::control::{DOMAIN_BYTES_MAX, Security};
use crate::transport::TransportError;
use crate::transport::fabric::PROVIDER;
use crate::transport::memory;

/// When a thread looks for transfers instead of sleeping until there are some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looks {
    /// Always: a processor for each borrower.
    Always,
    /// While there are many.
    Busy,
    /// Never: each transfer wakes it.
    Never,
}

/// How a donor lends.
#[derive(Clone, Debug)]
pub struct DonorOptions {
    /// Where borrowers find it; port 0 is any that is free.
    pub address: SocketAddr,
    /// Which borrowers are served.
    pub security: Security,
    /// Provider of transfers: one of libfabric, or [`memory::PROVIDER`], which lends to this machine alone.
    pub provider: String,
    /// How long each transfer takes at least, as over a network: for measurements, and of [`memory::PROVIDER`] alone.
    pub delay: Duration,
    /// Bytes of a slab; a multiple of the page.
    pub slab_bytes: u64,
    /// The most that is lent.
    pub lend_bytes: u64,
    /// What stays for programs of this machine.
    pub headroom_bytes: u64,
    /// The most that one borrower gets.
    pub quota_bytes: u64,
    /// Slabs taken back at once (E of the paper).
    pub evicted: usize,
    /// Further slabs whose activity is asked for (E' of the paper).
    pub asked_more: usize,
    /// How long a borrower has to move a slab.
    pub leave_within: Duration,
    /// Donors with the same name fail together; borrowers choose different ones.
    pub domain: String,
    /// Whether borrowers on this machine get anything.
    pub lends_to_own_machine: bool,
    /// When the thread of each borrower looks for its transfers instead of sleeping.
    pub looks: Looks,
}

impl Default for DonorOptions {
    fn default() -> Self {
        DonorOptions {
            address: SocketAddr::from(([127, 0, 0, 1], 7447)),
            security: Security::Loopback,
            provider: PROVIDER.to_string(),
            delay: Duration::ZERO,
            slab_bytes: 64 << 20,
            lend_bytes: u64::MAX,
            headroom_bytes: 1 << 30,
            quota_bytes: u64::MAX,
            evicted: 1,
            asked_more: 4,
            leave_within: Duration::from_secs(5),
            domain: String::new(),
            lends_to_own_machine: false,
            looks: Looks::Busy,
        }
    }
}

impl DonorOptions {
    pub(super) fn is_sealed(&self) -> bool {
        matches!(self.security, Security::Cluster(_))
    }

    pub(super) fn is_for_own_machine_alone(&self) -> bool {
        self.provider == memory::PROVIDER
    }

    pub(super) fn slabs_max(&self) -> u64 {
        self.lend_bytes / self.slab_bytes
    }

    pub(super) fn quota_slabs(&self) -> u64 {
        self.quota_bytes / self.slab_bytes
    }
}

/// Why a donor does not start.
#[derive(Debug, thiserror::Error)]
pub enum DonorError {
    /// Open to the network without certificates.
    #[error(
        "{0} can be reached from other machines: name this host's folder of a cluster, which `aquifer cluster join` makes, with --cluster; or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The name of the domain would not fit into what others are told.
    #[error("the name of the domain has {0} bytes: choose one of at most {DOMAIN_BYTES_MAX} for --domain")]
    Domain(usize),
    /// The address.
    #[error("cannot listen on {address}: {reason}; choose another with --listen")]
    Listen {
        /// As asked for.
        address: SocketAddr,
        /// The system's words.
        reason: io::Error,
    },
    /// The port of transfers.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// No thread.
    #[error("the system gives no thread: {0}")]
    Thread(io::Error),
    /// Something of the kernel is missing.
    #[error("{0}")]
    Kernel(io::Error),
}

impl DonorError {
    pub(super) fn listen(address: SocketAddr, reason: io::Error) -> DonorError {
        DonorError::Listen { address, reason }
    }
}

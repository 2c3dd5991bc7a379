//! What borrowers and donors say to each other beside the transfers: who they are, which slabs are lent, which must go back.
//!
//! A borrower opens two channels to a donor. On the first it asks and the donor answers ([`Call`], [`Answer`]); on the second the donor asks and the borrower
//! answers ([`Notice`], [`Reply`]). So nobody ever waits for a question in the middle of an answer.

mod channel;
pub mod identity;
mod member;
mod message;
mod stream;

pub use channel::{Channel, ChannelError, MESSAGE_BYTES_MAX, MESSAGE_LIMIT, Wire};
pub use identity::{HostRole, Identity, Peer};
pub use member::{DOMAIN_BYTES_MAX, MEMBERS_BYTES_MAX, MEMBERS_MAX, Member, Members, MembersError};
pub use message::{
    Answer, BORROWINGS_MAX, Borrowing, Call, Greeting, Notice, Offer, Refusal, Reply, Role, SlabId, VERSION,
    Welcome,
};
pub use stream::{Ender, Security, Stream};

/// Which machine this is: the same for all processes of one kernel since it began, whatever container they are in; empty if the kernel does not say.
#[must_use]
pub fn machine_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

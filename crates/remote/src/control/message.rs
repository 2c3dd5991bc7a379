//! The messages. `docs/howto/remote.md` has them in words.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::member::Members;

/// Of these messages. Both sides must have the same.
pub const VERSION: u32 = 3;

/// A slab of a donor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct SlabId(pub u64);

/// Which of its two channels a borrower opens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Role {
    /// None: somebody looks what there is to lend. It may ask [`Call::Ask`] and [`Call::Members`].
    Look,
    /// The first: the borrower asks.
    Calls,
    /// The second: the donor asks. It shows the token that it got on the first.
    Notices(String),
}

/// First message of a borrower.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Greeting {
    /// [`VERSION`] of the borrower.
    pub version: u32,
    /// Its machine, as the kernel knows it: a donor does not lend to its own, unless told.
    pub machine: String,
    /// For people: program and process.
    pub name: String,
    /// How slabs are divided among borrowers while there are too few: 1 to 1000.
    pub weight: u32,
    /// Which channel.
    pub role: Role,
}

/// First message of a donor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Bytes of each of its slabs.
    pub slab_bytes: u64,
    /// Provider of the transfers.
    pub provider: String,
    /// Port of the transfers, on the host of the channel.
    pub port: u16,
    /// Lets one connection for transfers in, and one for notices. In hexadecimal; empty for who only looks.
    pub token: String,
    /// Donors of one domain fail together.
    pub domain: String,
    /// Where it listens: the name that it has among [`Call::Members`].
    pub address: SocketAddr,
    /// A random number that it has had since it began, in hexadecimal: whatever names lead to it, it is one donor.
    pub instance: String,
}

/// How much a donor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Offer {
    /// Slabs that it could lend now.
    pub free_slabs: u64,
    /// Slabs in all.
    pub slabs: u64,
}

impl Offer {
    /// Whether it is better than another: by what is free. A donor with few slabs, all of them free, is full of its own programs.
    #[must_use]
    pub fn is_better_than(&self, other: &Offer) -> bool {
        self.free_slabs > other.free_slabs
    }
}

/// Most borrowers that a donor tells of.
pub const BORROWINGS_MAX: usize = 1000;

/// What a borrower has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Borrowing {
    /// Its host, as the certificate has it; empty without a cluster.
    pub host: String,
    /// What it calls itself.
    pub name: String,
    /// Slabs that it has.
    pub slabs: u64,
}

/// What a borrower asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Call {
    /// How much is there? Answer: [`Answer::Offer`].
    Ask,
    /// Asks for the other donors of the cluster. Answer: [`Answer::Members`].
    Members,
    /// What have borrowers? Answer: [`Answer::Borrowings`].
    Borrowings,
    /// Keep a slab for me, for a short time. Answer: [`Answer::Reserved`].
    Reserve,
    /// Lend me what you reserved. Answer: [`Answer::Lent`].
    Take(u64),
    /// I do not want what you reserved. Answer: [`Answer::Done`].
    Cancel(u64),
    /// Take a slab back. Answer: [`Answer::Done`].
    GiveBack(SlabId),
}

/// What a donor answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// How much there is.
    Offer(Offer),
    /// The donors of the cluster, this one among them.
    Members(Members),
    /// Borrowers, those with the most slabs first; [`BORROWINGS_MAX`] of them at the most.
    Borrowings(Vec<Borrowing>),
    /// A slab is kept for a short time.
    Reserved {
        /// To be shown when it is taken.
        reservation: u64,
        /// What the donor had before.
        offer: Offer,
    },
    /// A slab of zeros.
    Lent {
        /// Its name.
        slab: SlabId,
        /// Where transfers find it.
        address: u64,
        /// And with which key.
        key: u64,
    },
    /// It is done.
    Done,
    /// It is not.
    Refused(Refusal),
}

/// Why a donor does not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// Of another version.
    #[error(
        "the donor speaks version {donor} and this borrower {borrower}: install the same version on both"
    )]
    Version {
        /// Of the donor.
        donor: u32,
        /// Of the borrower.
        borrower: u32,
    },
    /// Lending to the own machine gains nothing, and swap there can stop for ever.
    #[error("the donor runs on this machine: name another, or start it with --lend-to-own-machine")]
    OwnMachine,
    /// It lends by memory that both have mapped.
    #[error("the donor lends to programs of its own machine alone: start it with --provider tcp or verbs")]
    OtherMachine,
    /// The cluster does not let it borrow.
    #[error(
        "this host's certificate does not make it a borrower: make its folder anew with `aquifer cluster join CLUSTER HOST --role borrower`"
    )]
    NoBorrower,
    /// All is lent.
    #[error("the donor has no free slab")]
    NothingFree,
    /// The borrower has as much as it may have.
    #[error(
        "the donor lends at most {0} slabs to one host of the cluster, or to one program of its own machine"
    )]
    Quota(u64),
    /// Others have less than is theirs by right, and wait.
    #[error("the donor lends this borrower no more than its share, {0} slabs, while others wait")]
    Share(u64),
    /// It was kept too long, or never.
    #[error("the donor does not know this reservation: it expired")]
    NoReservation,
    /// Not the borrower's.
    #[error("the donor did not lend this slab here")]
    NotLent,
    /// A token that is not known, or was used before.
    #[error("the donor does not know this token")]
    Token,
    /// The donor is ending.
    #[error("the donor is ending")]
    Ending,
    /// Its memory cannot be registered.
    #[error("the donor cannot register the slab: {0}")]
    Register(String),
}

/// What a donor asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Notice {
    /// How often are these slabs used? Answer: [`Reply::Uses`].
    Activity(Vec<SlabId>),
    /// Asks for the slab back: the borrower moves its content within `within_ms`. Answer, when it is done:
    /// [`Reply::Left`].
    Leave {
        /// Which.
        slab: SlabId,
        /// Then it is gone.
        within_ms: u64,
    },
}

/// What a borrower answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// In the order of the question; in 1,000 seconds.
    Uses(Vec<u64>),
    /// Done.
    Left,
}

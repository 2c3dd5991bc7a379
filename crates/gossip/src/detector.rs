//! The failure detector: when a donor is asked, suspected, and gone.
//!
//! It is SWIM (Das, Gupta, Motivala, DSN'02) with suspicion, as `foca` has it. Every `interval` a donor asks another one, in a random order in
//! which each has its turn, and after half of it asks five others to ask; a donor that does not answer is suspected, and gone if it does not object. News go out
//! with these messages and to four random donors every half of `interval`. All of it, by `interval` (1 second) and the number n of donors:
//!
//! | what | value | why |
//! |---|---|---|
//! | direct answer | `interval` / 2 | a hundred round trips of a local network, and time for a donor whose processors are busy |
//! | indirect asks | 5 | where a tenth of all datagrams is lost, one round in 1,100 ends in suspicion; with 3 asks it is one in 130 |
//! | objection | 4 `interval` · max(1, log10 n) | a suspicion reaches its donor, and its objection the others, in log n rounds of gossip |
//! | times that news are sent | 10 + log2 n | a donor is missed by all of n senders with a probability below e^-(9 + log2 n), at a loss of a tenth |
//! | asking for donors | every 2 `interval` | and at once, n / 6 of them, after an answer that had news |
//! | asking donors that are gone | two of them every 10 `interval` | halves of a cluster find each other without seeds |
//! | memory of donors that are gone | 1 hour, or `gone_for` | longer than a datagram is believed, so that none brings back a donor that is gone |
//! | own offer | every n / 10 `interval` at most, when it has changed | 10 offers go around in `interval`, which fill half of what news have room for |

use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use foca::{Config, PeriodicParams};

use crate::message::PACKET_BYTES_MAX;

/// Shortest time for which donors that are gone are remembered, though not listed.
const DOWN_FOR: Duration = Duration::from_secs(3600);

/// The failure detector's values for this many donors.
pub(crate) fn config(interval: Duration, gone_for: Duration, donors: usize) -> Config {
    let some = |count: usize| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
    let every = |frequency, count| Some(PeriodicParams { frequency, num_members: some(count) });
    Config {
        probe_period: interval,
        probe_rtt: interval / 2,
        num_indirect_probes: some(5),
        max_transmissions: NonZeroU8::MIN.saturating_add(9 + donors.ilog2() as u8),
        suspect_to_down_after: interval.mul_f64(4.0 * (donors as f64).log10().max(1.0)),
        remove_down_after: Some(DOWN_FOR.max(gone_for)),
        max_packet_size: some(PACKET_BYTES_MAX),
        notify_down_members: true,
        periodic_announce: every(2 * interval, 1),
        periodic_announce_to_down_members: every(10 * interval, 2),
        periodic_gossip: every(interval / 2, 4),
    }
}

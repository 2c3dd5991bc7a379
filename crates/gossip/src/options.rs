//! How a donor gossips.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Pause between two rounds unless one is given: a donor that is killed is gone for all after some seven of them, in a small cluster.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long one that is gone is listed unless it is said.
const GONE_FOR: Duration = Duration::from_secs(600);

/// How a donor gossips.
#[derive(Clone, Debug)]
pub struct GossipOptions {
    /// Where others reach it, by UDP.
    pub listen: SocketAddr,
    /// Host and port of some donors that gossip; its own address may be among them.
    pub seeds: Vec<String>,
    /// The cluster's, without which gossip stays on this machine.
    pub key: Option<[u8; 32]>,
    /// Where borrowers find the donor.
    pub address: SocketAddr,
    /// Donors with the same name fail together.
    pub domain: String,
    /// Pause between two rounds.
    pub interval: Duration,
    /// How long a donor that is gone is still listed.
    pub gone_for: Duration,
}

impl Default for GossipOptions {
    fn default() -> Self {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        GossipOptions {
            listen: nowhere,
            seeds: Vec::new(),
            key: None,
            address: nowhere,
            domain: String::new(),
            interval: INTERVAL,
            gone_for: GONE_FOR,
        }
    }
}

/// Why a donor does not gossip.
#[derive(Debug, thiserror::Error)]
pub enum GossipError {
    /// Open to the network without a key.
    #[error(
        "gossip at {0} could be heard and made by other machines: name the host's folder of a cluster with --cluster, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// Others could not find it.
    #[error(
        "others cannot reach {0}: a donor that gossips needs one address of this machine, name it with --listen ADDRESS:PORT"
    )]
    Unspecified(SocketAddr),
    /// A seed that is no address.
    #[error("{0} is no place to gossip with; write HOST:PORT of a donor that gossips")]
    Seed(String),
    /// A seed of another machine, without a key.
    #[error(
        "{0} is another machine, and gossip without --cluster stays on this one: name the host's folder of a cluster"
    )]
    FarSeed(String),
    /// The address.
    #[error("cannot gossip at {address}: {reason}; choose another port with --gossip-port")]
    Listen {
        /// As asked for.
        address: SocketAddr,
        /// The system's words.
        reason: io::Error,
    },
    /// The system gives no thread, or no random bytes for a key.
    #[error("gossip cannot begin: {0}")]
    System(io::Error),
}

impl GossipOptions {
    /// Whether it may begin like this.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self) -> Result<(), GossipError> {
        let nowhere = [self.listen, self.address].into_iter().find(|address| address.ip().is_unspecified());
        if let Some(nowhere) = nowhere {
            return Err(GossipError::Unspecified(nowhere));
        }
        let is_sealed = self.key.is_some();
        if !is_sealed && !self.listen.ip().is_loopback() {
            return Err(GossipError::Open(self.listen));
        }
        for seed in &self.seeds {
            let parts =
                seed.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
            let host = match parts {
                Some((host, port)) if !host.is_empty() && port > 0 => host.trim_matches(['[', ']']),
                _ => return Err(GossipError::Seed(seed.clone())),
            };
            let is_far = host.parse::<IpAddr>().is_ok_and(|ip| !ip.is_loopback());
            if !is_sealed && is_far {
                return Err(GossipError::FarSeed(seed.clone()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(listen: &str, seed: &str, key: Option<[u8; 32]>) -> Result<(), GossipError> {
        let address = listen.parse().expect("an address");
        let seeds = if seed.is_empty() { vec![] } else { vec![seed.to_string()] };
        GossipOptions { listen: address, address, seeds, key, ..GossipOptions::default() }.check()
    }

    #[test]
    fn without_a_key_it_stays_on_this_machine() {
        assert!(with("127.0.0.1:1", "127.0.0.1:2", None).is_ok());
        assert!(with("[::1]:1", "[::1]:2", None).is_ok());
        assert!(matches!(with("10.0.0.7:1", "", None), Err(GossipError::Open(_))));
        assert!(matches!(with("127.0.0.1:1", "10.0.0.7:2", None), Err(GossipError::FarSeed(_))));
        assert!(with("10.0.0.7:1", "10.0.0.8:2", Some([0; 32])).is_ok());
    }

    #[test]
    fn mistakes_are_told() {
        assert!(matches!(with("0.0.0.0:1", "", Some([0; 32])), Err(GossipError::Unspecified(_))));
        for seed in ["alpha", "alpha:", "alpha:0", ":7447", "alpha:99999", "alpha:x"] {
            let error = with("127.0.0.1:1", seed, None).expect_err(seed).to_string();
            assert!(error.contains("HOST:PORT"), "{error}");
        }
    }
}

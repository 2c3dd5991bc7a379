//! How `aquifer donate` knows of other donors.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use aquifer_gossip::{Gossip, GossipOptions};
use aquifer_remote::cluster::gossip_key;
use aquifer_remote::donor::Donor;
use clap::Args;

use crate::error::{Error, printable};

/// Arguments of gossip.
#[derive(Args, Debug)]
pub struct GossipArguments {
    /// Tells other donors of this one and learns of them, from these on; without any it waits for others to come
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', num_args = 0..)]
    pub gossip: Option<Vec<String>>,
    /// Port of gossip, by UDP [default: the port of --listen]
    #[arg(long, value_name = "PORT", requires = "gossip")]
    pub gossip_port: Option<u16>,
}

impl GossipArguments {
    /// Begins to gossip for a donor, if that is wanted.
    ///
    /// # Errors
    /// It cannot.
    pub fn start(
        &self,
        donor: &Donor,
        cluster: Option<&Path>,
        domain: &str,
    ) -> Result<Option<Gossip>, Error> {
        let Some(seeds) = &self.gossip else { return Ok(None) };
        let failed = |error: &dyn std::fmt::Display| Error::Remote(error.to_string());
        let address = donor.address();
        let port = self.gossip_port.unwrap_or(address.port());
        let options = GossipOptions {
            listen: SocketAddr::new(address.ip(), port),
            seeds: seeds.iter().filter(|seed| !seed.is_empty()).cloned().collect(),
            key: cluster.map(gossip_key).transpose().map_err(|error| failed(&error))?,
            address,
            domain: domain.to_string(),
            ..GossipOptions::default()
        };
        Gossip::start(options, donor.offering()).map(Some).map_err(|error| failed(&error))
    }
}

/// What was said of gossip.
#[derive(Default)]
pub struct GossipSaid {
    donors: Option<(usize, usize)>,
}

impl GossipSaid {
    /// Says what is new: how many donors there are, and why datagrams were dropped.
    ///
    /// # Errors
    /// The output went nowhere.
    pub fn tell(&mut self, out: &mut impl Write, gossip: &Gossip) -> io::Result<()> {
        for sentence in gossip.take_news() {
            writeln!(out, "{}", printable(&sentence))?;
        }
        let peers = gossip.peers();
        let alive = peers.iter().filter(|peer| peer.member.is_alive).count();
        let donors = (alive, peers.len() - alive);
        if self.donors.replace(donors) != Some(donors) {
            let dropped = match gossip.drops().dropped() {
                0 => String::new(),
                dropped => format!("; datagrams dropped so far: {dropped}"),
            };
            writeln!(out, "gossip: {} donors, {} gone{dropped}", donors.0, donors.1)?;
        }
        Ok(())
    }
}

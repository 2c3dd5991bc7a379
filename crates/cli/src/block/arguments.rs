//! What may stand after `aquifer block`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use aquifer_base::units::parse_size;
use aquifer_block::source::{Copies, Source};
use clap::{Args, ValueEnum};

use super::fault::Fault;
use crate::arguments::values::Listen;

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  aquifer block --flash /nvme/blocks --size 64G              at nbd://127.0.0.1:10809
  aquifer block --flash /nvme/blocks --size 64G --listen 10.0.0.5:10809 --tls --cluster /etc/aquifer
  aquifer block --flash /nvme/blocks --size 64G --listen /run/aquifer-block.sock
  aquifer block --flash /dev/nvme0n1p3 --ublk                as /dev/ublkb0, on this machine
  aquifer block --flash /var/tmp/swap --size 8G --fuse /mnt/swap
  aquifer block --flash /var/tmp/swap --size 8G --donors alpha:7447,beta:7447 --cluster /etc/aquifer
  aquifer block --flash /nvme/blocks --size 64G --fault errors=1%,delay=20ms   a device that fails and is slow

NBD needs nbdkit (apt-get install nbdkit), which this command starts; --ublk and --fuse do not.

On the machine that uses it, as root:
  nbd-client HOST PORT /dev/nbd0 && mkfs.ext4 /dev/nbd0      a file system
  nbd-client HOST PORT /dev/nbd0 -swap                       swap: the client is kept alive,
  mkswap /dev/nbd0 && swapon --priority 10 /dev/nbd0         and never waits for memory
  swapoff /dev/nbd0 && nbd-client -d /dev/nbd0               the end, in this order
  nbd-client -unix /run/aquifer-block.sock /dev/nbd0         by the socket, on this machine
  nbd-client HOST PORT /dev/nbd0 -tlshostname host.aquifer.internal \
    -cacertfile /etc/aquifer/cluster.pem -certfile /etc/aquifer/host.pem \
    -keyfile /etc/aquifer/host-key.pem -priority NORMAL      with --tls: its own folder

With --ublk (Linux 6.5 or later, modprobe ublk_drv), as root on the same machine:
  mkswap /dev/ublkb0 && swapon --priority 10 /dev/ublkb0     or mkfs, mount
  swapoff /dev/ublkb0, then SIGTERM                          the end, in this order

A kernel without the module nbd (modprobe nbd) takes the file that --fuse shows:
  losetup --find --show --direct-io=on /mnt/swap/device      prints /dev/loopN
  mkswap /dev/loopN && swapon --priority 10 /dev/loopN

It serves until SIGINT or SIGTERM: requests that have begun are answered, then all is made
durable. Who swaps to it must be told first (swapoff). Memory of a machine that is swapped to
a server of the same machine can hang it; the manual, docs/howto/block.md, says what is done about
that and what it needs (root). With --tls only hosts of the cluster are served (aquifer cluster
init, aquifer cluster join); addresses that others reach need it.

Exit status: 0 ended, 2 not served.";

/// The port that NBD has by convention.
const PORT: u16 = 10809;

/// Arguments of `aquifer block`.
#[derive(Args, Debug)]
pub struct BlockArguments {
    /// The file or block device with the bytes; a folder for a file without a name, which goes at the end
    #[arg(short, long, value_name = "PATH")]
    pub flash: PathBuf,
    /// Size of the device [default: all of a block device]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Machines that lend RAM, which is used before the flash
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    pub donors: Vec<String>,
    /// Keeps to those, and does not ask them who else lends
    #[arg(long, requires = "donors")]
    pub donors_only: bool,
    /// This host's folder of the cluster, of donors and of --tls
    #[arg(long, value_name = "FOLDER")]
    pub cluster: Option<PathBuf>,
    /// Where what lies on donors is as well: on this machine's flash; or with a second donor, and not on flash
    #[arg(long, value_enum, default_value = "flash", requires = "donors")]
    pub copies: BlockCopies,
    /// Encrypts what goes to donors, so that they can neither read it nor change it unnoticed
    #[arg(long, requires = "donors")]
    pub seal: bool,
    /// How donors divide what they have while it is too little for all who want some
    #[arg(long, value_name = "1-1000", default_value_t = 100, requires = "donors", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub weight: u32,
    /// Where clients of NBD find it: a port of this machine, an address that others reach, or a Unix socket for this user only [default: 127.0.0.1:10809]
    #[arg(long, value_name = "[ADDRESS:]PORT|PATH", group = "way")]
    pub listen: Option<Listen>,
    /// Serves hosts of the cluster only, over TLS 1.3
    #[arg(long, requires = "cluster", conflicts_with_all = ["fuse", "ublk"])]
    pub tls: bool,
    /// Listens without TLS also where others reach it: they can read and write everything
    #[arg(long, conflicts_with_all = ["tls", "fuse", "ublk"])]
    pub without_tls: bool,
    /// Shows the device as the file `device` in a folder, for losetup
    #[arg(long, value_name = "FOLDER", group = "way")]
    pub fuse: Option<PathBuf>,
    /// Shows the device as a block device of this machine, /dev/ublkbN, by the kernel's module ublk_drv
    #[arg(long, group = "way")]
    pub ublk: bool,
    /// The name by which clients of NBD may ask for it
    #[arg(long, value_name = "NAME", default_value = "aquifer", value_parser = name)]
    pub name: String,
    /// Requests that are done at once: of each connection, of the folder, or of the block device
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: u16,
    /// Clients of NBD at once
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub connections: u16,
    /// Makes the device slow or unreliable for clients of NBD: delay=20ms, read-delay=, write-delay=, errors=1%, read-errors=, write-errors=, while=FILE (errors
    /// only while it is there), rate=10M (a second); several, separated by commas
    #[arg(long, value_name = "FAULT,...", value_delimiter = ',', conflicts_with_all = ["fuse", "ublk"])]
    pub fault: Vec<Fault>,
}

/// Where what lies in the RAM of a donor is as well. Parity takes memory while it is made, which swap has none of.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockCopies {
    /// On the flash of this machine
    Flash,
    /// In the RAM of a second donor
    Donor,
}

impl From<BlockCopies> for Copies {
    fn from(copies: BlockCopies) -> Self {
        match copies {
            BlockCopies::Flash => Self::Flash,
            BlockCopies::Donor => Self::Donor,
        }
    }
}

/// How the device is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way<'a> {
    /// NBD over TCP.
    Address(SocketAddr),
    /// NBD over a Unix socket.
    Socket(&'a Path),
    /// FUSE.
    Folder(&'a Path),
    /// A block device of this kernel.
    Ublk,
}

impl BlockArguments {
    /// The one that was chosen.
    pub fn way(&self) -> Way<'_> {
        match (&self.fuse, &self.listen) {
            (Some(folder), _) => Way::Folder(folder),
            (None, _) if self.ublk => Way::Ublk,
            (None, Some(Listen::Unix(path))) => Way::Socket(path),
            (None, Some(Listen::Address(address))) => Way::Address(*address),
            (None, None) => Way::Address((Ipv4Addr::LOCALHOST, PORT).into()),
        }
    }

    /// What the device is made of.
    pub fn source(&self) -> Source {
        let borrows = !self.donors.is_empty();
        Source {
            flash: self.flash.clone(),
            // Of a block device that is all of it.
            size_bytes: self.size.unwrap_or(0),
            donors: self.donors.clone(),
            donors_only: self.donors_only,
            cluster: self.cluster.clone().filter(|_| borrows),
            copies: self.copies.into(),
            seals: self.seal,
            weight: self.weight,
        }
    }

    /// The address at which every client would be served: without TLS, and not only for this machine.
    pub fn address_for_everybody(&self) -> Option<SocketAddr> {
        match self.way() {
            Way::Address(address) if !self.tls && !address.ip().to_canonical().is_loopback() => Some(address),
            _ => None,
        }
    }
}

fn name(text: &str) -> Result<String, String> {
    let most = aquifer_block::nbdkit::NAME_BYTES_MAX;
    if text.len() <= most { Ok(text.into()) } else { Err(format!("a name has at most {most} bytes")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn parse(line: &str) -> Result<BlockArguments, clap::Error> {
        let line = format!("aquifer block --flash /f --size 1M {line}");
        match Arguments::try_parse_from(line.split_whitespace())?.command {
            Command::Block(arguments) => Ok(arguments),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn it_stays_at_home_unless_an_address_is_given() {
        let way = |line: &str| match parse(line).unwrap().way() {
            Way::Address(address) => address.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(way(""), "127.0.0.1:10809");
        assert_eq!(way("--listen 7"), "127.0.0.1:7");
        assert_eq!(way("--listen 10.0.0.5:7"), "10.0.0.5:7");
        assert_eq!(way("--listen [::1]:0"), "[::1]:0");
    }

    #[test]
    fn there_is_one_way_at_a_time() {
        assert!(parse("--fuse /f --listen /s").is_err());
        assert!(parse("--ublk --listen /s").is_err() && parse("--ublk --tls --cluster /c").is_err());
        assert!(parse("--copies 4+2 --donors a:1").is_err() && parse("--copies donor --donors a:1").is_ok());
        assert_eq!(parse("--ublk --threads 2").unwrap().way(), Way::Ublk);
        assert!(matches!(parse("--fuse /f").unwrap().way(), Way::Folder(path) if path == Path::new("/f")));
        assert!(matches!(parse("--listen /s").unwrap().way(), Way::Socket(path) if path == Path::new("/s")));
    }

    #[test]
    fn an_address_that_others_reach_needs_tls() {
        let open = |line: &str| parse(line).unwrap().address_for_everybody().is_some();
        for line in ["", "--listen 7", "--listen 127.0.0.2:7", "--listen [::1]:7", "--listen /s", "--fuse /f"]
        {
            assert!(!open(line), "{line}");
        }
        for address in ["10.0.0.5:7", "0.0.0.0:7", "[::]:7", "[::ffff:10.0.0.5]:7"] {
            assert!(open(&format!("--listen {address}")), "{address}");
            assert!(!open(&format!("--listen {address} --tls --cluster /c")), "{address}");
        }
        assert!(parse("--listen 10.0.0.5:7 --without-tls").unwrap().without_tls);
        for line in ["--without-tls --tls --cluster /c", "--fuse /f --tls --cluster /c", "--tls"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn odd_amounts_are_refused() {
        for line in
            ["--listen localhost:7", "--listen 70000", "--threads 0", "--threads 65", "--connections 0"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

//! `aquifer donate`: lends RAM of this machine.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use aquifer_base::units::parse_size;
use aquifer_remote::donor::{Donor, DonorNow, DonorOptions, Looks};
use aquifer_remote::transport::{TransportError, fabric, memory};
use aquifer_volume::Time;
use clap::Args;

use crate::arguments::values::{address, long_duration, short_duration};
use crate::error::{Error, printable};
use crate::export::listen;
use crate::http::Content;
use crate::prometheus::lending;
use crate::remote::gossip::{GossipArguments, GossipSaid};
use crate::remote::security;
use crate::server;
use crate::volume::show::moment;

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  aquifer donate --listen 10.0.0.7:7447 --cluster /etc/aquifer
  aquifer donate --listen 10.0.0.7:7447 --cluster /etc/aquifer --lend 32G --headroom 8G
  aquifer donate --listen 10.0.0.7:7447 --cluster /etc/aquifer --gossip 10.0.0.8:7447
  aquifer donate --lend 1G --lend-to-own-machine          to try it out on one machine
  aquifer donate --lend 1G --provider memory              to programs of this machine that are in another control group
  aquifer donate --lend 1G --provider memory --delay 3us  the same as if it were behind RDMA
  aquifer donate --lend 1G --verbose                      and what becomes of each slab
  aquifer donate --lend 1G --metrics 127.0.0.1:9465       and numbers for Prometheus

It lends what programs of this machine do not need: slabs are added while more than
--headroom is available, and asked back when less is. Borrowers have the time of --leave-within
to move what a slab holds; then it is gone.

With --gossip it knows the other donors, and tells borrowers of them. They need to name one
that they can reach.

Without --cluster it lends to this machine alone. SIGINT or SIGTERM ends it; borrowers go
on with what their own flash has.

Exit status: 0 ended, 2 not started.";

/// How often it says what has changed.
const INTERVAL: Duration = Duration::from_secs(1);

/// When a thread looks for transfers.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookArgument {
    /// All the time: a processor for each borrower
    Always,
    /// While there are many
    Busy,
    /// Never: each transfer wakes it
    Never,
}

/// Arguments of `aquifer donate`.
#[derive(Args, Debug)]
pub struct DonateArguments {
    /// Where borrowers find it
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "127.0.0.1:7447", value_parser = address)]
    pub listen: SocketAddr,
    /// This host's folder of the cluster: needed for every address but those of this machine
    #[arg(long, value_name = "FOLDER")]
    pub cluster: Option<PathBuf>,
    /// The most that is lent [default: all but the headroom]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub lend: Option<u64>,
    /// What stays available to programs of this machine
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub headroom: u64,
    /// Size of a slab: the same for all donors of a borrower
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_slab)]
    pub slab: u64,
    /// The most that one host of the cluster gets, or without --cluster one borrower [default: all]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub quota: Option<u64>,
    /// Donors with the same name fail together: a rack, a power supply
    #[arg(long, value_name = "NAME", default_value = "")]
    pub domain: String,
    /// Slabs asked back at once
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub evict: u16,
    /// Further slabs whose activity is compared, so that the least active ones go
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    pub compare: u16,
    /// Time in which a borrower must have left a slab that is asked back
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = long_duration)]
    pub leave_within: Duration,
    /// What carries the bytes: tcp, verbs where there is RDMA, another provider of libfabric, or memory that programs of this machine map
    #[arg(long, value_name = "NAME", default_value = fabric::PROVIDER)]
    pub provider: String,
    /// Time that each transfer takes at least, with --provider memory: to see what a network as fast would bring
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = short_duration)]
    pub delay: Duration,
    /// How it knows of others.
    #[command(flatten)]
    pub gossip: GossipArguments,
    /// When it looks for transfers instead of sleeping until there are some
    #[arg(long, value_enum, default_value = "busy")]
    pub look: LookArgument,
    /// A line for each slab that is lent, asked back or taken back, and for each borrower
    #[arg(short, long)]
    pub verbose: bool,
    /// Offers its numbers to Prometheus, at http://ADDRESS:PORT/metrics
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Also to programs of this machine, which gains nothing but a trial
    #[arg(long)]
    pub lend_to_own_machine: bool,
}

/// A size of whole pages.
fn parse_slab(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    if bytes >= 4096 && bytes.is_multiple_of(4096) {
        Ok(bytes)
    } else {
        Err(format!("{text} is no multiple of 4096 bytes"))
    }
}

/// Lends until a signal.
///
/// # Errors
/// It could not begin.
pub fn donate(arguments: &DonateArguments) -> Result<ExitCode, Error> {
    let failed = |error: String| Error::Remote(error);
    let carrier = carrier(&arguments.provider).map_err(|error| failed(error.to_string()))?;
    let (ending, ended) = channel();
    // Nobody listens when it has ended already.
    ctrlc::set_handler(move || ending.send(()).unwrap_or_default())
        .map_err(|error| Error::Signal(error.to_string()))?;
    let donor = Donor::start(options(arguments)?).map_err(|error| failed(error.to_string()))?;
    let gossip = arguments.gossip.start(&donor, arguments.cluster.as_deref(), &arguments.domain)?;
    if let Some(gossip) = &gossip {
        donor.set_membership(gossip.membership());
    }
    if let Some(address) = arguments.metrics {
        let (listener, showing, slab_bytes) = (listen(address)?, donor.showing(), arguments.slab);
        let serve = move || -> () {
            server::serve(&listener, |path| {
                let (now, borrowers) = showing();
                (path == "/metrics").then(|| Content::metrics(lending::text(&now, &borrowers, slab_bytes)))
            })
        };
        // It ends with the process.
        thread::Builder::new().name("aq-donor-metrics".into()).spawn(serve)?;
    }
    let mut out = io::stdout();
    writeln!(
        out,
        "lends at {} over {carrier}: slabs of {} MiB, {} MiB stay here",
        donor.address(),
        arguments.slab >> 20,
        arguments.headroom >> 20
    )?;
    if let Some(gossip) = &gossip {
        writeln!(out, "gossips at {} by UDP", gossip.address())?;
    }
    let mut gossip_said = GossipSaid::default();
    let mut said = DonorNow::default();
    let mut next = 0;
    while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if arguments.verbose {
            next = tell(&mut out, &donor, next)?;
        }
        if let Some(gossip) = &gossip {
            gossip_said.tell(&mut out, gossip)?;
        }
        let now = donor.now();
        if now != said {
            writeln!(out, "{}", sentence(&now))?;
            if now.is_unlocked && !said.is_unlocked {
                writeln!(
                    out,
                    "slabs may be swapped out: this user may not lock so much memory (ulimit -l, or LimitMEMLOCK= of systemd)"
                )?;
            }
            said = now;
        }
    }
    writeln!(out, "ends; borrowers go on with their own flash")?;
    drop(gossip);
    drop(donor);
    Ok(ExitCode::SUCCESS)
}

/// What carries the bytes, in words.
fn carrier(provider: &str) -> Result<String, TransportError> {
    if provider == memory::PROVIDER {
        return Ok("memory of this machine".into());
    }
    let (major, minor) = fabric::version()?;
    Ok(format!("libfabric {major}.{minor}, provider {}", printable(provider)))
}

/// Prints what the donor did from this number on; returns the number of what it does next.
fn tell(out: &mut impl Write, donor: &Donor, from: u64) -> io::Result<u64> {
    let deeds = donor.deeds().since(from);
    let missing = deeds.first().map_or(0, |first| first.number - from);
    if missing > 0 {
        writeln!(out, "{missing} lines are left out: more happened than is kept")?;
    }
    for entry in &deeds {
        let time = moment(Time(i64::try_from(entry.unix.as_nanos()).unwrap_or(i64::MAX)));
        writeln!(out, "{time}Z  {}", printable(&entry.event.to_string()))?;
    }
    Ok(deeds.last().map_or(from, |last| last.number + 1))
}

fn options(arguments: &DonateArguments) -> Result<DonorOptions, Error> {
    if arguments.delay > Duration::ZERO && arguments.provider != memory::PROVIDER {
        let what = "--delay is for --provider memory: transfers over a network take as long as they take";
        return Err(Error::Remote(what.into()));
    }
    Ok(DonorOptions {
        address: arguments.listen,
        delay: arguments.delay,
        security: security(arguments.cluster.as_deref())?,
        provider: arguments.provider.clone(),
        slab_bytes: arguments.slab,
        lend_bytes: arguments.lend.unwrap_or(u64::MAX),
        headroom_bytes: arguments.headroom,
        quota_bytes: arguments.quota.unwrap_or(u64::MAX),
        evicted: arguments.evict.into(),
        asked_more: arguments.compare.into(),
        leave_within: arguments.leave_within,
        domain: arguments.domain.clone(),
        lends_to_own_machine: arguments.lend_to_own_machine,
        looks: match arguments.look {
            LookArgument::Always => Looks::Always,
            LookArgument::Busy => Looks::Busy,
            LookArgument::Never => Looks::Never,
        },
    })
}

fn sentence(now: &DonorNow) -> String {
    let mut text = format!("{} slabs, {} lent to {} borrowers", now.slabs, now.lent, now.borrowers);
    if now.leaving > 0 {
        text += &format!(", {} asked back", now.leaving);
    }
    if now.evicted + now.forced > 0 {
        text += &format!("; taken back so far: {}, by force {}", now.evicted, now.forced);
    }
    text
}

//! `aquifer cluster`: which hosts lend to each other.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use aquifer_remote::cluster::{self, HostOptions};
use aquifer_remote::control::HostRole;
use clap::{Args, Subcommand, ValueEnum};

use crate::error::{Error, printable};

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  aquifer cluster init ~/cluster                 a new cluster, in a folder that you keep
  aquifer cluster join ~/cluster alpha           the folder of host alpha: ./alpha
  aquifer cluster join ~/cluster beta --role borrower --weight 300
                                                 beta may borrow and not lend, three times
                                                 as much as others while there is too little
  scp -r alpha root@alpha:/etc/aquifer           to be used there with --cluster /etc/aquifer

Hosts of a cluster believe each other by their certificates (TLS 1.3, both sides). Who has
a host's folder is that host; who has cluster-key.pem can make hosts. Both stay with you.
What donors tell each other (aquifer donate --gossip) is sealed with gossip.key, which all
hosts have.

Exit status: 0 made, 2 not made.";

const INIT_EXAMPLES: &str = "\
Examples:
  aquifer cluster init ~/cluster

Exit status: 0 made, 2 not made.";

const JOIN_EXAMPLES: &str = "\
Examples:
  aquifer cluster join ~/cluster alpha           the folder of host alpha: ./alpha
  aquifer cluster join ~/cluster beta --role borrower --weight 300
  scp -r alpha root@alpha:/etc/aquifer           to be used there with --cluster /etc/aquifer

Exit status: 0 made, 2 not made.";

/// Arguments of `aquifer cluster`.
#[derive(Args, Debug)]
pub struct ClusterArguments {
    /// What to make.
    #[command(subcommand)]
    pub action: ClusterAction,
}

/// What can be made.
#[derive(Subcommand, Debug)]
pub enum ClusterAction {
    /// Makes a new cluster
    #[command(before_help = "The folder holds the key that makes hosts: keep it, and copy it to no host.", after_help = INIT_EXAMPLES)]
    Init {
        /// The folder to make
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Makes the folder of a host
    #[command(before_help = "Its certificate says whether it may lend or borrow, and how much it weighs.", after_help = JOIN_EXAMPLES)]
    Join {
        /// The folder that `aquifer cluster init` made
        #[arg(value_name = "FOLDER")]
        cluster: PathBuf,
        /// The host's name, for people
        #[arg(value_name = "HOST")]
        host: String,
        /// The folder to make [default: the host's name]
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
        /// What the host may be to others, separated by commas
        #[arg(
            long,
            value_name = "ROLE",
            value_enum,
            value_delimiter = ',',
            default_value = "donor,borrower"
        )]
        role: Vec<RoleArgument>,
        /// How donors divide slabs among hosts while there are too few. What its programs say with their own --weight divides the host's share among them
        #[arg(long, value_name = "1-1000", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        weight: u32,
    },
}

/// What a host may be.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum RoleArgument {
    /// It may lend RAM
    Donor,
    /// It may borrow RAM
    Borrower,
}

impl From<RoleArgument> for HostRole {
    fn from(role: RoleArgument) -> HostRole {
        match role {
            RoleArgument::Donor => HostRole::Donor,
            RoleArgument::Borrower => HostRole::Borrower,
        }
    }
}

/// Makes certificates.
///
/// # Errors
/// They could not be made.
pub fn cluster(arguments: &ClusterArguments) -> Result<ExitCode, Error> {
    let failed = |error: cluster::ClusterError| Error::Remote(error.to_string());
    let made = match &arguments.action {
        ClusterAction::Init { folder } => {
            cluster::init(folder).map_err(failed)?;
            let shown = printable(&folder.display().to_string());
            format!("{shown} is a cluster; `aquifer cluster join {shown} HOST` makes the folder of a host")
        }
        ClusterAction::Join { cluster, host, into, role, weight } => {
            let folder = into.clone().unwrap_or_else(|| PathBuf::from(host));
            let roles = role.iter().copied().map(HostRole::from).collect();
            let options = HostOptions { roles, weight: *weight };
            cluster::join_as(cluster, host, &folder, &options).map_err(failed)?;
            let shown = printable(&folder.display().to_string());
            format!("{shown} is host {}; copy it there and name it with --cluster", printable(host))
        }
    };
    writeln!(io::stdout(), "{made}")?;
    Ok(ExitCode::SUCCESS)
}

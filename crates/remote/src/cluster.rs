//! Certificates of a cluster: one authority, one certificate and key for each host; and the key of what donors gossip, which all hosts have.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::ServerName;

use crate::control::HostRole;
use crate::control::identity::{
    AUTHORITY_FILE, CERTIFICATE_FILE, HOST_NAME, HOST_WEIGHT, KEY_FILE, RESERVED_SUFFIX, weight_name,
};
use crate::donor::shares::WEIGHT_MAX;
use crate::random;

/// The authority's key: who has it can make hosts of the cluster.
pub const AUTHORITY_KEY_FILE: &str = "cluster-key.pem";

/// The key of what donors gossip: 32 bytes in hexadecimal, the same for all hosts.
pub const GOSSIP_KEY_FILE: &str = "gossip.key";

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// What is there is not replaced: every host would lose the others.
    #[error("{} is there already; remove the folder to begin a new cluster, or name another", .0.display())]
    Exists(PathBuf),
    /// A name that says something else.
    #[error("{0} is no host's name: names that end in {RESERVED_SUFFIX} say what hosts may do")]
    Name(String),
    /// Joining needs the authority.
    #[error("{} cannot be read ({reason}); name the folder that `aquifer cluster init` made", path.display())]
    NoAuthority {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file could not be written.
    #[error("{}: {reason}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// The system's words.
        reason: io::Error,
    },
    /// A host has no key for gossip.
    #[error("{} cannot be read ({reason}): copy it from another host of the cluster or from the folder that `aquifer cluster init` made, or join this host anew", path.display())]
    NoGossipKey {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The kernel gives no random bytes.
    #[error("no key could be made: {0}")]
    Random(io::Error),
    /// The certificates could not be made.
    #[error("certificates could not be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// Makes a cluster in a folder that is not there yet.
///
/// # Errors
/// [`ClusterError`].
pub fn init(folder: &Path) -> Result<(), ClusterError> {
    let key = KeyPair::generate()?;
    let certificate = authority()?.self_signed(&key)?;
    make_folder(folder)?;
    write_new(&folder.join(AUTHORITY_KEY_FILE), &key.serialize_pem())?;
    write_new(&folder.join(AUTHORITY_FILE), &certificate.pem())?;
    make_gossip_key(folder)
}

/// What others learn of a host from its certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostOptions {
    /// What it may be to others.
    pub roles: Vec<HostRole>,
    /// How donors divide slabs among hosts while there are too few: 1 to [`WEIGHT_MAX`].
    pub weight: u32,
}

impl Default for HostOptions {
    fn default() -> Self {
        HostOptions { roles: HostRole::ALL.to_vec(), weight: HOST_WEIGHT }
    }
}

/// Makes the folder of a host that may be everything: to be copied to it, and to nobody else. A cluster that is older than gossip gets a key for it.
///
/// # Errors
/// [`ClusterError`].
pub fn join(cluster: &Path, host: &str, folder: &Path) -> Result<(), ClusterError> {
    join_as(cluster, host, folder, &HostOptions::default())
}

/// As [`join`], of a host whose certificate says these things.
///
/// # Errors
/// [`ClusterError`].
pub fn join_as(cluster: &Path, host: &str, folder: &Path, options: &HostOptions) -> Result<(), ClusterError> {
    if host.ends_with(RESERVED_SUFFIX) {
        return Err(ClusterError::Name(host.to_string()));
    }
    let authority = read(&cluster.join(AUTHORITY_FILE))?;
    let authority_key = cluster.join(AUTHORITY_KEY_FILE);
    let no_authority = |error: rcgen::Error| ClusterError::NoAuthority {
        path: authority_key.clone(),
        reason: error.to_string(),
    };
    let issuer_key = KeyPair::from_pem(&read(&authority_key)?).map_err(no_authority)?;
    let issuer = Issuer::new(self::authority()?, issuer_key);
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names(host, options))?;
    params.distinguished_name.push(DnType::CommonName, host);
    let certificate = params.signed_by(&key, &issuer)?;
    if !cluster.join(GOSSIP_KEY_FILE).exists() {
        make_gossip_key(cluster)?;
    }
    let gossip_key = gossip_key(cluster)?;
    make_folder(folder)?;
    write_new(&folder.join(KEY_FILE), &key.serialize_pem())?;
    write_new(&folder.join(CERTIFICATE_FILE), &certificate.pem())?;
    write_new(&folder.join(AUTHORITY_FILE), &authority)?;
    write_gossip_key(folder, &gossip_key)
}

/// The key of what donors gossip, from a folder of the cluster or of a host.
///
/// # Errors
/// [`ClusterError::NoGossipKey`].
pub fn gossip_key(folder: &Path) -> Result<[u8; 32], ClusterError> {
    let path = folder.join(GOSSIP_KEY_FILE);
    let missing = |reason: String| ClusterError::NoGossipKey { path: path.clone(), reason };
    let text = fs::read_to_string(&path).map_err(|error| missing(error.to_string()))?;
    random::from_hex(text.trim_end()).ok_or_else(|| missing("it is not 64 hexadecimal digits".into()))
}

fn make_gossip_key(folder: &Path) -> Result<(), ClusterError> {
    write_gossip_key(folder, &random::bytes().map_err(ClusterError::Random)?)
}

fn write_gossip_key(folder: &Path, key: &[u8; 32]) -> Result<(), ClusterError> {
    write_new(&folder.join(GOSSIP_KEY_FILE), &format!("{}\n", random::to_hex(key)))
}

/// By which others know a host: hosts of the cluster by the one that all have, other programs, such as clients of NBD, by its own.
fn names(host: &str, options: &HostOptions) -> Vec<String> {
    let own = ServerName::try_from(host).ok().map(|_| host.to_string());
    let roles = options.roles.iter().map(|role| role.name().to_string());
    let weight = weight_name(options.weight.clamp(1, WEIGHT_MAX));
    [HOST_NAME.to_string()].into_iter().chain(own).chain(roles).chain([weight]).collect()
}

/// What every cluster's own certificate says, but for its key.
fn authority() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "Aquifer cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn read(path: &Path) -> Result<String, ClusterError> {
    fs::read_to_string(path)
        .map_err(|error| ClusterError::NoAuthority { path: path.to_path_buf(), reason: error.to_string() })
}

fn make_folder(folder: &Path) -> Result<(), ClusterError> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(ClusterError::Exists(folder.to_path_buf()))
        }
        made => made.map_err(|reason| ClusterError::Write { path: folder.to_path_buf(), reason }),
    }
}

fn write_new(path: &Path, text: &str) -> Result<(), ClusterError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|reason| ClusterError::Write { path: path.to_path_buf(), reason })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn all_hosts_have_one_key_for_gossip_and_nobody_else_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        init(&at("ours")).expect("init");
        init(&at("theirs")).expect("init");
        join(&at("ours"), "alpha", &at("alpha")).expect("join");
        let key = |name: &str| gossip_key(&at(name)).expect("a key");
        assert_eq!(key("ours"), key("alpha"));
        assert_ne!(key("ours"), key("theirs"));
        let mode = fs::metadata(at("alpha").join(GOSSIP_KEY_FILE)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_cluster_that_is_older_than_gossip_gets_a_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        init(&at("old")).expect("init");
        fs::remove_file(at("old").join(GOSSIP_KEY_FILE)).expect("it was there");
        let error = gossip_key(&at("old")).expect_err("no key").to_string();
        assert!(error.contains("aquifer cluster init"), "{error}");
        for host in ["alpha", "beta"] {
            join(&at("old"), host, &at(host)).expect("join");
        }
        assert_eq!(gossip_key(&at("alpha")).expect("a key"), gossip_key(&at("beta")).expect("a key"));
        fs::write(at("alpha").join(GOSSIP_KEY_FILE), "00ff").expect("write");
        assert!(matches!(gossip_key(&at("alpha")), Err(ClusterError::NoGossipKey { .. })));
    }
}

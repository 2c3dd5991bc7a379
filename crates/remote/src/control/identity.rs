//! What a host of a cluster shows, and whom it believes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use webpki::EndEntityCert;

/// Every host's certificate has this name: it is of the cluster.
pub const HOST_NAME: &str = "host.aquifer.internal";
/// How names begin and end that say something of a host, and are not its own.
pub const RESERVED_SUFFIX: &str = ".aquifer.internal";
const WEIGHT_PREFIX: &str = "weight-";
/// Weight of a host whose certificate says nothing of it.
pub const HOST_WEIGHT: u32 = 100;
/// The cluster's own certificate, which every host has.
pub const AUTHORITY_FILE: &str = "cluster.pem";
/// The host's certificate.
pub const CERTIFICATE_FILE: &str = "host.pem";
/// The host's key, which no other host has.
pub const KEY_FILE: &str = "host-key.pem";

/// What a host of a cluster may be to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostRole {
    /// It lends RAM.
    Donor,
    /// It borrows RAM.
    Borrower,
}

impl HostRole {
    /// All of them.
    pub const ALL: [HostRole; 2] = [HostRole::Donor, HostRole::Borrower];

    /// The name by which a certificate gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HostRole::Donor => "donor.aquifer.internal",
            HostRole::Borrower => "borrower.aquifer.internal",
        }
    }
}

/// The name by which a certificate gives a weight.
#[must_use]
pub fn weight_name(weight: u32) -> String {
    format!("{WEIGHT_PREFIX}{weight}{RESERVED_SUFFIX}")
}

/// A host of the cluster, as its certificate has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its own name; where the certificate has none, the certificate's checksum.
    pub host: String,
    /// How slabs are divided among hosts while there are too few.
    pub weight: u32,
    /// None: it may be everything.
    roles: Vec<HostRole>,
}

impl Peer {
    /// What a certificate says, whose signature was looked at before; of one that cannot be read, that it may be nothing.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Peer> {
        let parsed = EndEntityCert::try_from(certificate).ok()?;
        let names: Vec<_> = parsed.valid_dns_names().collect();
        let own = names.iter().find(|name| !name.ends_with(RESERVED_SUFFIX));
        let digest = || ring::digest::digest(&ring::digest::SHA256, certificate);
        let host = own.map_or_else(|| crate::random::to_hex(digest().as_ref()), |name| (*name).to_string());
        let weight =
            |name: &&str| name.strip_prefix(WEIGHT_PREFIX)?.strip_suffix(RESERVED_SUFFIX)?.parse().ok();
        let roles = HostRole::ALL.into_iter().filter(|role| names.contains(&role.name())).collect();
        Some(Peer { host, weight: names.iter().find_map(weight).unwrap_or(HOST_WEIGHT), roles })
    }

    /// Whether the cluster lets it be that.
    #[must_use]
    pub fn may_be(&self, role: HostRole) -> bool {
        self.roles.is_empty() || self.roles.contains(&role)
    }
}

/// Why a host has no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file is missing.
    #[error("{} cannot be read ({reason}); `aquifer cluster init CLUSTER` makes a cluster, `aquifer cluster join CLUSTER HOST` a host's folder", path.display())]
    Missing {
        /// Which.
        path: PathBuf,
        /// The system's words.
        reason: io::Error,
    },
    /// A file is not what its name says.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// A host's certificate and key, and the cluster's certificate.
pub struct Identity {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Identity {
    /// Reads a host's folder.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn load(folder: &Path) -> Result<Identity, IdentityError> {
        let authority = certificate(&folder.join(AUTHORITY_FILE))?;
        let own = certificate(&folder.join(CERTIFICATE_FILE))?;
        let key_path = folder.join(KEY_FILE);
        let key =
            PrivateKeyDer::from_pem_slice(&read(&key_path)?).map_err(|error| damaged(&key_path, &error))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(|error| damaged(&folder.join(AUTHORITY_FILE), &error))?;
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let of_key = |error: rustls::Error| damaged(&key_path, &error);
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(of_key)?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(vec![own.clone()], key.clone_key())
            .map_err(of_key)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| damaged(&folder.join(AUTHORITY_FILE), &error))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(of_key)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![own], key)
            .map_err(of_key)?;
        Ok(Identity { client: Arc::new(client), server: Arc::new(server) })
    }

    /// For the side that connects: it believes hosts of the cluster, by [their name](HOST_NAME).
    #[must_use]
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.client)
    }

    /// For the side that is connected to: it believes hosts of the cluster, and nobody else.
    #[must_use]
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    /// By which hosts know each other.
    #[must_use]
    pub fn server_name() -> ServerName<'static> {
        ServerName::try_from(HOST_NAME).expect("a name")
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity")
    }
}

fn read(path: &Path) -> Result<Vec<u8>, IdentityError> {
    fs::read(path).map_err(|reason| IdentityError::Missing { path: path.to_path_buf(), reason })
}

fn certificate(path: &Path) -> Result<CertificateDer<'static>, IdentityError> {
    CertificateDer::from_pem_slice(&read(path)?).map_err(|error| damaged(path, &error))
}

fn damaged(path: &Path, reason: &dyn std::fmt::Display) -> IdentityError {
    IdentityError::Damaged { path: path.to_path_buf(), reason: reason.to_string() }
}

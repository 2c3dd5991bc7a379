//! What a host of a cluster shows, and whom it believes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Every host's certificate has this name: any host of the cluster may lend.
pub const HOST_NAME: &str = "host.aquifer.internal";
/// The cluster's own certificate, which every host has.
pub const AUTHORITY_FILE: &str = "cluster.pem";
/// The host's certificate.
pub const CERTIFICATE_FILE: &str = "host.pem";
/// The host's key, which no other host has.
pub const KEY_FILE: &str = "host-key.pem";

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

//! RAM of other machines: lending it, looking for it, and who may.

pub mod cluster;
pub mod donate;
pub mod donors;
pub mod gossip;

use std::path::Path;
use std::sync::Arc;

use aquifer_remote::control::{Identity, Security};

use crate::error::Error;

/// Hosts of a cluster, or this machine alone.
///
/// # Errors
/// The folder has no identity.
pub(crate) fn security(cluster: Option<&Path>) -> Result<Security, Error> {
    let Some(folder) = cluster else { return Ok(Security::Loopback) };
    let identity = Identity::load(folder).map_err(|error| Error::Remote(error.to_string()))?;
    Ok(Security::Cluster(Arc::new(identity)))
}

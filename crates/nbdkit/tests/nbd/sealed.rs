//! TLS: which clients are served, and that nothing can be inserted before the handshake.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aquifer_block::nbdkit::{PRIORITIES, Tls};
use aquifer_remote::cluster;
use aquifer_remote::control::Identity;
use aquifer_remote::control::identity::{AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE};
use proptest::prelude::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

use crate::client::{Client, FLUSH, STARTTLS};
use crate::served::{DEVICE_BYTES, Served, Wishes};

const POLICY: u32 = (1 << 31) + 2;
const INVALID: u32 = (1 << 31) + 3;
const TLS_REQUIRED: u32 = (1 << 31) + 5;

/// Two clusters that know nothing of each other.
struct Clusters(TempDir);

impl Clusters {
    fn new() -> Self {
        let clusters = Clusters(tempfile::tempdir().unwrap());
        for cluster in ["ours", "theirs"] {
            cluster::init(&clusters.0.path().join(cluster)).unwrap();
            for host in ["alpha", "beta"] {
                let folder = clusters.host(cluster, host);
                cluster::join(&clusters.0.path().join(cluster), host, &folder).unwrap();
            }
        }
        clusters
    }

    /// A host's folder.
    fn host(&self, cluster: &str, host: &str) -> PathBuf {
        self.0.path().join(format!("{cluster}-{host}"))
    }

    /// A device that alpha of our cluster serves; `None` without nbdkit.
    fn served(&self) -> Option<Served> {
        self.served_with(Wishes::default())
    }

    fn served_with(&self, wishes: Wishes) -> Option<Served> {
        let host = self.host("ours", "alpha");
        let certificates = host.join("nbdkit");
        if !certificates.exists() {
            fs::create_dir(&certificates).unwrap();
            for (file, name) in [
                (AUTHORITY_FILE, "ca-cert.pem"),
                (CERTIFICATE_FILE, "server-cert.pem"),
                (KEY_FILE, "server-key.pem"),
            ] {
                symlink(host.join(file), certificates.join(name)).unwrap();
            }
            fs::write(certificates.join("priorities"), PRIORITIES).unwrap();
        }
        let priorities = certificates.join("priorities");
        Served::with(Wishes { tls: Some(Tls { certificates, priorities }), ..wishes })
    }

    /// What beta of our cluster shows and believes.
    fn friend(&self) -> Arc<ClientConfig> {
        Identity::load(&self.host("ours", "beta")).unwrap().client()
    }

    /// Somebody who believes our cluster, and shows a certificate of another folder, or none.
    fn stranger(&self, shown: Option<&Path>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let authority = self.host("ours", "beta").join(AUTHORITY_FILE);
        roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let config = match shown {
            None => Ok(config.with_no_client_auth()),
            Some(folder) => config.with_client_auth_cert(
                vec![CertificateDer::from_pem_file(folder.join(CERTIFICATE_FILE)).unwrap()],
                PrivateKeyDer::from_pem_file(folder.join(KEY_FILE)).unwrap(),
            ),
        };
        Arc::new(config.unwrap())
    }
}

/// A client whose `STARTTLS` was acknowledged.
fn asked(served: &Served) -> Client {
    let mut client = Client::greeted(served.address);
    client.option(STARTTLS, b"");
    assert_eq!(client.option_reply(STARTTLS), (1, vec![]));
    client
}

#[test]
fn friends_are_served() {
    let clusters = Clusters::new();
    let Some(served) = clusters.served() else { return };
    let mut client = Client::sealed(served.address, clusters.friend());
    assert_eq!(client.size_bytes, DEVICE_BYTES);
    for (seed, len) in [4096, 8192, 1 << 20, (5 << 20) + 4096].into_iter().enumerate() {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 31 + at / 4096 + seed) as u8).collect();
        assert_eq!(client.write(0, 4096, &bytes), 0);
        assert!(client.read(4096, len as u32).unwrap() == bytes, "{len} bytes");
    }
    for cookie in 0..64 {
        client.request(FLUSH, 0, cookie, 0, 0);
    }
    let mut cookies: Vec<u64> = (0..64).map(|_| client.reply().1).collect();
    cookies.sort_unstable();
    assert!(cookies.into_iter().eq(0..64));
    client.leave();
    served.end().unwrap();
}

#[test]
fn several_sealed_connections_see_one_device() {
    let clusters = Clusters::new();
    let Some(served) = clusters.served() else { return };
    let mut clients = [0, 1, 2].map(|_| Client::sealed(served.address, clusters.friend()));
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.write(0, at as u64 * 4096, &[at as u8; 4096]), 0);
    }
    for client in &mut clients {
        assert_eq!(client.read(0, 8192), Ok([[0; 4096], [1; 4096]].concat()));
    }
}

#[test]
fn strangers_are_refused() {
    let clusters = Clusters::new();
    let Some(served) = clusters.served() else { return };
    let theirs = clusters.host("theirs", "beta");
    for config in [clusters.stranger(Some(&theirs)), clusters.stranger(None)] {
        let mut client = asked(&served);
        // In TLS 1.3 a client knows that it is refused when it reads.
        let _ = client.seal(config);
        assert!(client.is_cut_off());
    }
    // And who is of another cluster altogether believes the server as little.
    let mut client = asked(&served);
    assert!(client.seal(Identity::load(&theirs).unwrap().client()).is_err());
    Client::sealed(served.address, clusters.friend()).leave();
}

#[test]
fn without_tls_nothing_is_told() {
    let clusters = Clusters::new();
    let Some(served) = clusters.served() else { return };
    let mut client = Client::greeted(served.address);
    for (option, data) in [(3, &b""[..]), (6, &[0; 6]), (7, &[0; 6]), (8, b""), (10, b"")] {
        client.option(option, data);
        assert_eq!(client.option_reply(option).0, TLS_REQUIRED);
    }
    client.option(STARTTLS, b"?");
    assert_eq!(client.option_reply(STARTTLS).0, INVALID);
    client.option(2, b"");
    assert_eq!(client.option_reply(2), (1, vec![]));
    assert!(client.is_left());
    // By name there is no way to say no.
    let mut client = Client::greeted(served.address);
    client.option(1, b"aquifer");
    assert!(client.is_left());
}

#[test]
fn a_server_without_tls_says_so() {
    let Some(served) = Served::new() else { return };
    let mut client = Client::greeted(served.address);
    client.option(STARTTLS, b"");
    assert_eq!(client.option_reply(STARTTLS).0, POLICY);
    client.option(3, b"");
    assert_eq!(client.option_reply(3).0, 2);
}

#[test]
fn options_are_negotiated_anew_and_tls_begins_once() {
    let clusters = Clusters::new();
    let Some(served) = clusters.served() else { return };
    let mut client = asked(&served);
    client.seal(clusters.friend()).unwrap();
    client.option(STARTTLS, b"");
    assert_eq!(client.option_reply(STARTTLS).0, INVALID);
    client.option(3, b"");
    assert_eq!(client.option_reply(3), (2, b"\0\0\0\x07aquifer".to_vec()));
    assert_eq!(client.option_reply(3).0, 1);
    client.option(1, b"aquifer");
    assert_eq!(client.take(10)[..8], DEVICE_BYTES.to_be_bytes());
    client.leave();
}

/// What somebody between the two sends in plain after STARTTLS, so that the server would take it for the friend's.
#[test]
fn what_is_slipped_in_before_tls_is_refused() {
    let clusters = Clusters::new();
    let Some(served) = clusters.served() else { return };
    let option = |option: u32| [&b"IHAVEOPT"[..], &option.to_be_bytes(), &[0; 4]].concat();
    for slipped_in in [option(3), option(2), option(1), option(STARTTLS)] {
        let mut client = Client::greeted(served.address);
        client.send(&[option(STARTTLS), slipped_in].concat());
        assert_eq!(client.option_reply(STARTTLS), (1, vec![]));
        assert!(client.seal(clusters.friend()).is_err());
    }
    Client::sealed(served.address, clusters.friend()).leave();
}

#[test]
fn sealed_bytes_that_were_changed_end_the_connection() {
    let clusters = Clusters::new();
    let Some(served) = clusters.served() else { return };
    let mut bystander = Client::sealed(served.address, clusters.friend());
    assert_eq!(bystander.write(0, 0, &[7; 4096]), 0);
    let mut client = Client::sealed(served.address, clusters.friend());
    // A record of application data that no key of theirs has sealed.
    let record = [&[23, 3, 3, 0, 64][..], &[9; 64]].concat();
    client.stream.write_all(&record).unwrap();
    assert!(client.is_cut_off());
    // Requests that make no sense are no better for being sealed.
    let mut client = Client::sealed(served.address, clusters.friend());
    client.send(&[0x55; 28]);
    // nbdkit waits for the client's last word.
    client.fall_silent();
    assert!(client.is_cut_off());
    assert_eq!(bystander.read(0, 4096), Ok(vec![7; 4096]));
    bystander.leave();
}

/// Peers that never show a certificate take no places of those that do.
#[test]
fn silent_sockets_lock_no_friend_out() {
    let clusters = Clusters::new();
    let two = Wishes { connections: Some(2), ..Wishes::default() };
    let Some(served) = clusters.served_with(two) else { return };
    let silent: Vec<TcpStream> = (0..32).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    let half: Vec<Client> = (0..16).map(|_| asked(&served)).collect();
    let mut friends = [0, 1].map(|_| Client::sealed(served.address, clusters.friend()));
    for friend in &mut friends {
        assert_eq!(friend.write(0, 0, &[1; 4096]), 0);
    }
    drop((silent, half));
}

#[test]
fn the_end_of_the_server_reaches_sealed_clients() {
    let clusters = Clusters::new();
    let Some(served) = clusters.served() else { return };
    let mut client = Client::sealed(served.address, clusters.friend());
    assert_eq!(client.write(0, 0, &[1; 4096]), 0);
    served.end().unwrap();
    assert!(client.is_cut_off());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever comes in place of TLS, that connection ends and the next client is served.
    #[test]
    fn garbage(
        looks_like_a_record in any::<bool>(),
        kind in 20u8..25,
        bytes in prop::collection::vec(any::<u8>(), 1..600),
    ) {
        let clusters = CLUSTERS.get_or_init(Clusters::new);
        let Some(served) = clusters.served() else { return Ok(()) };
        let mut client = asked(&served);
        let len = (bytes.len() as u16).to_be_bytes();
        let head = if looks_like_a_record { vec![kind, 3, 3, len[0], len[1]] } else { vec![] };
        // The server may have had enough before the last byte.
        let _ = client.stream.write_all(&[head, bytes].concat());
        client.fall_silent();
        prop_assert!(client.is_cut_off());
        Client::sealed(served.address, clusters.friend()).leave();
    }
}

static CLUSTERS: std::sync::OnceLock<Clusters> = std::sync::OnceLock::new();

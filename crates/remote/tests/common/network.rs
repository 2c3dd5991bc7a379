//! What carries the transfers of these tests: `tcp` on loopback, unless the environment names another provider and one of this machine's addresses.

/// A provider of libfabric.
pub fn provider() -> String {
    std::env::var("AQUIFER_TEST_PROVIDER").unwrap_or_else(|_| "tcp".into())
}

/// As which machine a stranger greets a donor: as none.
#[allow(dead_code)]
pub fn machine() -> String {
    String::new()
}

/// Where donors listen.
pub fn host() -> String {
    std::env::var("AQUIFER_TEST_HOST").unwrap_or_else(|_| "127.0.0.1".into())
}

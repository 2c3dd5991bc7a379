//! What carries the transfers of these tests.

/// Memory that both have mapped.
pub fn provider() -> String {
    "memory".into()
}

/// As which machine a stranger greets a donor: as this one, for others get nothing.
pub fn machine() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the kernel's name");
    id.trim().to_string()
}

/// Where donors listen.
pub fn host() -> String {
    "127.0.0.1".into()
}

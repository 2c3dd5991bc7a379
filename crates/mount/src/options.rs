//! How a volume is mounted.

use std::time::Duration;

/// How a volume is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the table of mounts names as the source, such as the volume's path.
    pub source: String,
    /// Whether nothing may be changed.
    pub is_read_only: bool,
    /// Whether other users may use the folder, as far as modes and owners let them. Without this only the user who mounts may, not even root.
    pub is_for_all_users: bool,
    /// Whether the folder may hold files, which nobody sees while the volume is mounted there.
    pub may_hide_files: bool,
    /// Whether the kernel may keep what programs write until they sync or close, or for half a minute.
    pub writes_back: bool,
    /// Whether files have extended attributes. Without them the kernel needs fewer requests; those that files have stay, and are not seen.
    pub has_xattrs: bool,
    /// How long a change may wait for flash when nobody calls `fsync`; `None` for as long as it takes.
    pub sync_interval: Option<Duration>,
    /// Requests that are served at a time: threads that wait for slow requests, such as `fsync`, are not free
    /// for others.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            source: "aquifer".into(),
            is_read_only: false,
            is_for_all_users: false,
            may_hide_files: false,
            writes_back: false,
            has_xattrs: true,
            sync_interval: Some(Duration::from_secs(5)),
            threads: 16,
        }
    }
}

//! How much a test does: less than it could, unless `AQUIFER_LONG` is in the environment.

/// `long` in the full run, else `short`.
pub fn long_or(long: usize, short: usize) -> usize {
    if std::env::var_os("AQUIFER_LONG").is_some() { long } else { short }
}

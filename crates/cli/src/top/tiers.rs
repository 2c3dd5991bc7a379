//! How full RAM and flash are.

use crate::amounts::{percent, size};
use crate::reply::Numbers;

/// Which memory a level is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// RAM.
    Ram,
    /// Flash.
    Flash,
}

/// Bytes against their limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Level {
    /// Its name.
    pub label: &'static str,
    /// Which memory.
    pub medium: Medium,
    used_bytes: Option<u64>,
    limit_bytes: Option<u64>,
}

impl Level {
    /// How much of the limit is used: from 0 to 1, and 0 if that is not known.
    pub fn share(&self) -> f64 {
        self.ratio().unwrap_or(0.0).min(1.0)
    }

    /// What is used, of what, and the share in percent.
    pub fn figures(&self) -> [String; 3] {
        let bytes = |bytes: Option<u64>| bytes.map_or("-".into(), |bytes| size(bytes as f64));
        [bytes(self.used_bytes), bytes(self.limit_bytes), self.ratio().map_or("-".into(), percent)]
    }

    fn ratio(&self) -> Option<f64> {
        let (used, limit) = (self.used_bytes? as f64, self.limit_bytes? as f64);
        (limit > 0.0).then_some(used / limit)
    }
}

/// Name, numbers and limit of each level, the important ones first. Of several numbers the largest counts.
const LEVELS: [(&str, Medium, &[&str], &str); 6] = [
    ("RAM used", Medium::Ram, &["ram_used_bytes"], "ram_budget_bytes"),
    ("mapped pages", Medium::Ram, &["page_buffer_bytes"], "ram_budget_bytes"),
    ("object cache", Medium::Ram, &["cache_bytes"], "ram_budget_bytes"),
    ("metadata", Medium::Ram, &["metadata_bytes"], "ram_budget_bytes"),
    ("flash live", Medium::Flash, &["flash_live_bytes"], "flash_bytes"),
    ("flash used", Medium::Flash, &["flash_live_bytes", "object_bytes"], "flash_bytes"),
];

/// All levels of a heap. Flash is live when records on it are needed, and used when it is promised to
/// objects, whether they have been written or not. A program under `aquifer run` has pages without promises.
pub fn levels(numbers: &Numbers) -> [Level; 6] {
    let get = |name: &str| numbers.get(name).copied();
    LEVELS.map(|(label, medium, used, limit)| Level {
        label,
        medium,
        used_bytes: used.iter().filter_map(|name| get(name)).max(),
        limit_bytes: get(limit),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_limit() {
        let numbers = [("ram_budget_bytes", 8 << 20), ("ram_used_bytes", 2 << 20), ("cache_bytes", u64::MAX)];
        let numbers: Numbers = numbers.map(|(name, number)| (name.to_owned(), number)).into();
        let [ram, pages, cache, ..] = levels(&numbers);
        assert_eq!((ram.share(), ram.figures()), (0.25, ["2.00 MiB", "8.00 MiB", "25.0 %"].map(Into::into)));
        assert_eq!((pages.share(), pages.figures()), (0.0, ["-", "8.00 MiB", "-"].map(Into::into)));
        assert_eq!(cache.share(), 1.0, "more than the limit fills the bar");
    }

    #[test]
    fn flash_with_records_is_used() {
        let used = |promised| {
            let numbers = [("flash_bytes", 100), ("flash_live_bytes", 40), ("object_bytes", promised)];
            levels(&numbers.map(|(name, number)| (name.to_owned(), number)).into())[5].share()
        };
        assert_eq!((used(0), used(70)), (0.4, 0.7));
    }
}

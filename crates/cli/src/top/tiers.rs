//! How full RAM and flash are.

use aquifer_status::Subject;

use crate::amounts::{percent, size};
use crate::reply::Sample;

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

/// Name, numbers and limit of a level. Of several numbers the largest counts.
type Row = (&'static str, Medium, &'static [&'static str], &'static str);

/// The important ones first. Flash is live when records on it are needed, and used when it is promised to objects, whether they have been written
/// or not. A program under `aquifer run` has pages without promises.
const OF_HEAPS: &[Row] = &[
    ("RAM used", Medium::Ram, &["ram_used_bytes"], "ram_budget_bytes"),
    ("mapped pages", Medium::Ram, &["page_buffer_bytes"], "ram_budget_bytes"),
    ("object cache", Medium::Ram, &["cache_bytes"], "ram_budget_bytes"),
    ("metadata", Medium::Ram, &["metadata_bytes"], "ram_budget_bytes"),
    ("flash live", Medium::Flash, &["flash_live_bytes"], "flash_bytes"),
    ("flash used", Medium::Flash, &["flash_live_bytes", "object_bytes"], "flash_bytes"),
];
const OF_VOLUMES: &[Row] = &[
    ("RAM used", Medium::Ram, &["ram_used_bytes"], "ram_budget_bytes"),
    ("file pages", Medium::Ram, &["file_page_bytes"], "ram_budget_bytes"),
    ("table nodes", Medium::Ram, &["table_node_bytes"], "ram_budget_bytes"),
    ("to be written", Medium::Ram, &["dirty_page_bytes"], "ram_budget_bytes"),
    ("flash used", Medium::Flash, &["used_bytes"], "capacity_bytes"),
];
const OF_DURABLE: &[Row] = &[
    ("address map", Medium::Ram, &["map_bytes"], ""),
    ("objects", Medium::Flash, &["live_bytes"], "capacity_bytes"),
    ("file", Medium::Flash, &["file_bytes"], "capacity_bytes"),
    ("free in it", Medium::Flash, &["reserve_bytes"], "file_bytes"),
];

/// All levels of what `sample` is of.
pub fn levels(sample: &Sample) -> Vec<Level> {
    let get = |name: &str| sample.stats.get(name).copied();
    let rows = match sample.subject {
        Subject::Heap => OF_HEAPS,
        Subject::Volume => OF_VOLUMES,
        Subject::Durable => OF_DURABLE,
    };
    let level = |&(label, medium, used, limit): &Row| Level {
        label,
        medium,
        used_bytes: used.iter().filter_map(|name| get(name)).max(),
        limit_bytes: get(limit),
    };
    rows.iter().map(level).collect()
}

/// How much there is of each medium.
pub fn title(sample: &Sample) -> String {
    let levels = levels(sample);
    let of = |medium: Medium, word: &str| {
        let limit = levels.iter().find(|level| level.medium == medium)?.limit_bytes?;
        Some(format!("{} of {word}", size(limit as f64)))
    };
    let known: Vec<String> =
        [of(Medium::Ram, "RAM"), of(Medium::Flash, "flash")].into_iter().flatten().collect();
    if known.is_empty() { "Tiers".into() } else { format!("Tiers: {}", known.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(subject: Subject, numbers: &[(&str, u64)]) -> Sample {
        let stats = numbers.iter().map(|&(name, number)| (name.to_owned(), number)).collect();
        Sample { pid: 1, version: "1".into(), subject, stats, remote: None }
    }

    #[test]
    fn shares_are_of_the_limit() {
        let numbers = [("ram_budget_bytes", 8 << 20), ("ram_used_bytes", 2 << 20), ("cache_bytes", u64::MAX)];
        let levels = levels(&sample(Subject::Heap, &numbers));
        let (ram, pages, cache) = (levels[0], levels[1], levels[2]);
        assert_eq!((ram.share(), ram.figures()), (0.25, ["2.00 MiB", "8.00 MiB", "25.0 %"].map(Into::into)));
        assert_eq!((pages.share(), pages.figures()), (0.0, ["-", "8.00 MiB", "-"].map(Into::into)));
        assert_eq!(cache.share(), 1.0, "more than the limit fills the bar");
    }

    #[test]
    fn flash_with_records_is_used() {
        let used = |promised| {
            let numbers = [("flash_bytes", 100), ("flash_live_bytes", 40), ("object_bytes", promised)];
            levels(&sample(Subject::Heap, &numbers))[5].share()
        };
        assert_eq!((used(0), used(70)), (0.4, 0.7));
    }

    #[test]
    fn each_subject_has_levels_of_its_own() {
        let numbers = [("capacity_bytes", 1 << 30), ("used_bytes", 1 << 29), ("ram_budget_bytes", 1 << 20)];
        let volume = sample(Subject::Volume, &numbers);
        assert_eq!(levels(&volume)[4].share(), 0.5);
        assert_eq!(title(&volume), "Tiers: 1.00 MiB of RAM, 1.00 GiB of flash");
        let durable = sample(Subject::Durable, &numbers);
        assert_eq!((title(&durable).as_str(), levels(&durable).len()), ("Tiers: 1.00 GiB of flash", 4));
    }
}

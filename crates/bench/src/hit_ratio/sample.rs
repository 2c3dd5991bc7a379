//! What was measured, and the table made of it.

use std::fmt::Write;

use serde::Serialize;

/// One policy on one trace.
#[derive(Clone, Serialize)]
pub struct Sample {
    pub bench: &'static str,
    pub workload: &'static str,
    pub policy: String,
    pub comparison: Comparison,
    /// Slots of the equal-slots comparison, in percent of the keys.
    pub cache_percent: f64,
    pub slots: usize,
    pub ram_bytes_per_object: f64,
    pub keys: usize,
    pub accesses: usize,
    /// Accesses before counting began, part of `accesses`.
    pub warm_up_accesses: usize,
    pub seed: u64,
    pub hits: usize,
    /// Slots that an eviction looked at: mean and maximum over the whole trace.
    pub looks_per_eviction: f64,
    pub looks_max: u64,
    pub hit_ratio: f64,
}

/// What two policies have in common in one row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparison {
    EqualSlots,
    EqualRam,
}

/// A markdown table: a row per workload and cache size, a column per policy, medians over the seeds in
/// percent, the best of a row in bold; then the means.
pub fn table(samples: &[Sample], comparison: Comparison) -> String {
    let samples: Vec<&Sample> = samples.iter().filter(|sample| sample.comparison == comparison).collect();
    let policies = distinct(samples.iter().map(|sample| sample.policy.as_str()));
    let rows = distinct(samples.iter().map(|sample| (sample.workload, sample.cache_percent)));
    let median_of = |(workload, percent), policy: &str| {
        let here = |s: &&&Sample| (s.workload, s.cache_percent, &*s.policy) == (workload, percent, policy);
        median(samples.iter().filter(here).map(|sample| sample.hit_ratio * 100.0).collect())
    };
    let ratios_of = |row| policies.iter().map(|policy| median_of(row, policy)).collect();
    let ratios: Vec<(&str, Vec<f64>)> = rows.iter().map(|&row| (row.0, ratios_of(row))).collect();

    let mut text = format!("| workload | cache | {} |\n|---|---:|", policies.join(" | "));
    text.push_str(&"---:|".repeat(policies.len()));
    text.push('\n');
    for ((workload, percent), (_, ratios)) in rows.iter().zip(&ratios) {
        let _ = writeln!(text, "| {workload} | {percent} % |{}", cells(ratios, f64::max));
    }
    let all: Vec<&[f64]> = ratios.iter().map(|(_, row)| row.as_slice()).collect();
    let others = ratios.iter().filter(|(workload, _)| !workload.starts_with("loop"));
    let without_loops: Vec<&[f64]> = others.map(|(_, row)| row.as_slice()).collect();
    for (rows, name) in [(all, "all"), (without_loops, "without loops")] {
        let _ = writeln!(text, "| mean, {name} | |{}", cells(&means(&rows), f64::max));
        let _ = writeln!(text, "| misses, {name} | |{}", cells(&relative_misses(&rows), f64::min));
    }
    text
}

/// Mean of each column.
fn means(rows: &[&[f64]]) -> Vec<f64> {
    let columns = rows.first().map_or(0, |row| row.len());
    (0..columns).map(|column| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64).collect()
}

/// Misses of each column as a part of those of the first one, geometric mean over the rows.
fn relative_misses(rows: &[&[f64]]) -> Vec<f64> {
    let logs: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| row.iter().map(|ratio| ((100.0 - ratio) / (100.0 - row[0])).ln()).collect())
        .collect();
    let logs: Vec<&[f64]> = logs.iter().map(Vec::as_slice).collect();
    means(&logs).into_iter().map(f64::exp).collect()
}

/// A markdown table of what evictions take: the mean of the samples, and the worst eviction of all.
pub fn effort_table(samples: &[Sample]) -> String {
    let samples = || samples.iter().filter(|sample| sample.comparison == Comparison::EqualSlots);
    let mut text = String::from("| policy | mean | worst | worst / slots |\n|---|---:|---:|---:|\n");
    for policy in distinct(samples().map(|sample| sample.policy.as_str())) {
        let own = || samples().filter(|sample| sample.policy == policy);
        let mean = own().map(|sample| sample.looks_per_eviction).sum::<f64>() / own().count() as f64;
        let worst = own().map(|sample| sample.looks_max).max().unwrap_or(0);
        let share = own().map(|sample| sample.looks_max as f64 / sample.slots as f64).fold(0.0, f64::max);
        let _ = writeln!(text, "| {policy} | {mean:.2} | {worst} | {share:.2} |");
    }
    text
}

/// The largest difference between the seeds of one cell, in percentage points.
pub fn spread_max(samples: &[Sample]) -> f64 {
    let key = |s: &Sample| (s.workload, s.cache_percent, s.policy.clone(), s.comparison);
    let cells = distinct(samples.iter().map(key));
    let spread = |cell| {
        let ratios = samples.iter().filter(|sample| key(sample) == cell).map(|sample| sample.hit_ratio);
        let (low, high) = ratios.fold((1.0_f64, 0.0_f64), |(low, high), r| (low.min(r), high.max(r)));
        (high - low) * 100.0
    };
    cells.into_iter().map(spread).fold(0.0, f64::max)
}

/// Cells with two digits; those that show the same as the best are bold.
fn cells(values: &[f64], better: fn(f64, f64) -> f64) -> String {
    let shown: Vec<String> = values.iter().map(|value| format!("{value:.2}")).collect();
    let best = values.iter().copied().reduce(better).map(|best| format!("{best:.2}"));
    let cell = |text: &String| match Some(text) == best.as_ref() && text != "0.00" {
        true => format!(" **{text}** |"),
        false => format!(" {text} |"),
    };
    shown.iter().map(cell).collect()
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::{cells, median, relative_misses};

    #[test]
    fn the_best_as_shown_is_bold() {
        assert_eq!(cells(&[1.001, 0.5, 1.004], f64::max), " **1.00** | 0.50 | **1.00** |");
        assert_eq!(cells(&[0.9, 1.0], f64::min), " **0.90** | 1.00 |");
        assert_eq!(cells(&[0.0, 0.0], f64::max), " 0.00 | 0.00 |");
    }

    #[test]
    fn misses_are_compared_with_the_first_column() {
        let misses = relative_misses(&[&[60.0, 80.0], &[0.0, 50.0]]);
        assert!((misses[0] - 1.0).abs() < 1e-9 && (misses[1] - 0.5).abs() < 1e-9, "{misses:?}");
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}

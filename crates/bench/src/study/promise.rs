//! What the project promises of a study, beside what its records show; and what got worse since earlier records.

use std::cmp::Ordering;

use super::record::Record;
use super::row::Row;
use super::table::{Table, markdown};

/// A bound on the median of a figure.
pub struct Promise {
    /// What is bounded.
    pub what: &'static str,
    /// Fields of the points that it is for, as they are shown.
    pub at: &'static [(&'static str, &'static str)],
    /// For whom.
    pub peer: &'static str,
    /// The figure.
    pub figure: &'static str,
    /// Over the best of these peers at the same point; alone without any.
    pub over: &'static [&'static str],
    /// The bound.
    pub bound: Bound,
}

/// Least or most.
#[derive(Clone, Copy)]
pub enum Bound {
    /// It is that or more.
    AtLeast(f64),
    /// It is that or less.
    AtMost(f64),
}

/// A promise beside a figure.
pub struct Verdict {
    what: String,
    measured: f64,
    bound: Bound,
}

impl Promise {
    /// Verdicts on all points of the records that the promise is for.
    pub fn judge(&self, records: &[Record]) -> Vec<Verdict> {
        let rows = Row::all(records);
        let is_meant = |row: &&Row<'_>| {
            row.peer() == self.peer && self.at.iter().all(|(field, value)| row.key(field) == *value)
        };
        let better = match self.bound {
            Bound::AtLeast(_) => Ordering::Greater,
            Bound::AtMost(_) => Ordering::Less,
        };
        let measured = |row: &Row<'_>| match self.over {
            [] => row.median(self.figure),
            peers => row.over(peers, &rows, self.figure, Some(better)),
        };
        let verdict = |row: &Row<'_>| {
            let at = self.at.iter().map(|(field, value)| format!(", {field} {value}")).collect::<String>();
            Some(Verdict { what: format!("{}{at}", self.what), measured: measured(row)?, bound: self.bound })
        };
        rows.iter().filter(is_meant).filter_map(verdict).collect()
    }
}

impl Verdict {
    /// Whether the promise is kept.
    pub fn is_kept(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.measured >= least,
            Bound::AtMost(most) => self.measured <= most,
        }
    }

    fn cells(&self) -> Vec<String> {
        let bound = match self.bound {
            Bound::AtLeast(least) => format!("at least {least}"),
            Bound::AtMost(most) => format!("at most {most}"),
        };
        let kept = if self.is_kept() { "yes" } else { "NO" };
        vec![self.what.clone(), format!("{:.2}", self.measured), bound, kept.to_owned()]
    }
}

/// Promises beside figures; empty without any.
pub fn render(verdicts: &[Verdict]) -> String {
    let lines: Vec<_> = verdicts.iter().map(Verdict::cells).collect();
    markdown("Promises", &["what", "measured", "promised", "kept"], &lines)
}

/// Medians may differ by one part in [`SPREAD_PART`] by chance, whatever the runs say.
const SPREAD_PART: f64 = 20.0;

/// Figures of a table that got worse than in earlier records of the same point by more than their runs differ: a sentence for each.
pub fn worse(table: &Table, records: &[Record], earlier: &[Record]) -> Vec<String> {
    let (now, before) = (Row::all(records), Row::all(earlier));
    let mut sentences = Vec::new();
    for row in &now {
        let Some(old) = before.iter().find(|old| old.is_of(row)) else { continue };
        for (figure, better, heading) in table.columns.iter().filter_map(|column| column.judged()) {
            let (Some(new), Some(was)) = (row.median(figure), old.median(figure)) else { continue };
            let spread = [row, old]
                .into_iter()
                .filter_map(|row| row.extremes(figure))
                .map(|(least, most)| most - least);
            let spread = spread.fold(was.abs() / SPREAD_PART, f64::max);
            let lost = if better == Ordering::Greater { was - new } else { new - was };
            if lost > spread {
                let (name, [new, was]) = (row.name(), [new, was].map(short));
                sentences.push(format!("{name}: {heading} {new}, {was} before"));
            }
        }
    }
    sentences
}

/// A figure with as many decimals as it takes to tell it from its neighbours.
fn short(value: f64) -> String {
    let digits = (3 - value.abs().max(1e-9).log10().floor() as i64).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Fields;
    use super::super::table::median;
    use super::*;
    use crate::machine::Context;

    fn records(peer: &str, speeds: &[f64]) -> Vec<Record> {
        let record = |(n, speed): (usize, &f64)| Record {
            study: "reads".to_owned(),
            peer: peer.to_owned(),
            run: n as u32 + 1,
            point: Fields::default().with("threads", 8),
            figures: Fields::default().with("ops_per_s", speed),
            left_out: None,
            context: Context::default(),
        };
        speeds.iter().enumerate().map(record).collect()
    }

    #[test]
    fn promises_are_judged() {
        let promise = Promise {
            what: "over swap",
            at: &[("threads", "8")],
            peer: "aquifer",
            figure: "ops_per_s",
            over: &["swap"],
            bound: Bound::AtLeast(4.0),
        };
        let text =
            |ours| render(&promise.judge(&[records("swap", &[10.0]), records("aquifer", &[ours])].concat()));
        assert!(text(39.0).contains("| over swap, threads 8 | 3.90 | at least 4 | NO |"), "{}", text(39.0));
        assert!(text(40.0).contains("| 4.00 | at least 4 | yes |"));
        assert_eq!(render(&promise.judge(&records("aquifer", &[40.0]))), "");
    }

    #[test]
    fn worse_is_what_the_runs_do_not_explain() {
        const TABLE: Table = Table {
            title: "",
            keys: &[],
            peers: &[],
            columns: &[median("ops/s", "ops_per_s").more()],
            note: "",
        };
        let before = records("aquifer", &[100.0, 104.0, 108.0]);
        let sentences = |speeds| worse(&TABLE, &records("aquifer", speeds), &before);
        assert_eq!(sentences(&[90.0, 91.0, 92.0]), ["reads, aquifer, threads 8: ops/s 91, 104 before"]);
        // A wide spread, a small loss, a gain.
        assert_eq!(sentences(&[80.0, 91.0, 120.0]), Vec::<String>::new());
        assert_eq!(sentences(&[97.0, 98.0, 99.0]), Vec::<String>::new());
        assert_eq!(sentences(&[200.0]), Vec::<String>::new());
        assert_eq!(worse(&TABLE, &records("swap", &[1.0]), &before), Vec::<String>::new());
    }
}

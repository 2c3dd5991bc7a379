//! Markdown tables of records: medians of the runs, and ratios of them.

use std::cmp::Ordering;

use aquifer_base::units::format_size;

use super::record::Record;

/// A table of a study: one for all records with the same values of the fields that its title names.
pub struct Table {
    /// With fields of the point in braces: `{threads} threads`, and `{ram_bytes:size}` for sizes.
    pub title: &'static str,
    /// What identifies a row, beside the peer.
    pub keys: &'static [Key],
    /// Peers in their order; others stand behind them.
    pub peers: &'static [&'static str],
    /// What is shown of the runs of a row. Records without the first of them are not of this table.
    pub columns: &'static [Column],
    /// Stands below.
    pub note: &'static str,
}

/// A field of the point that has a column.
pub struct Key {
    heading: &'static str,
    field: &'static str,
    is_size: bool,
}

/// A field of the point under a heading.
pub const fn key(heading: &'static str, field: &'static str) -> Key {
    Key { heading, field, is_size: false }
}

impl Key {
    /// Shown as a size.
    pub const fn size(mut self) -> Self {
        self.is_size = true;
        self
    }

    pub(super) fn heading(&self) -> &'static str {
        self.heading
    }

    pub(super) fn shown(&self, row: &Row<'_>) -> String {
        match self.is_size {
            true => size(row.runs[0].point.number(self.field)),
            false => row.key(self.field),
        }
    }
}

/// A figure under a heading.
pub struct Column {
    heading: &'static str,
    figure: &'static str,
    divisor: f64,
    digits: usize,
    shown: Shown,
    /// Which is better, more or less of it.
    better: Option<Ordering>,
}

enum Shown {
    Median,
    /// Over the best median of these peers at the same point.
    Ratio(&'static [&'static str]),
    Range,
    Text,
}

const fn of(heading: &'static str, figure: &'static str, shown: Shown) -> Column {
    Column { heading, figure, divisor: 1.0, digits: 2, shown, better: None }
}

/// The median of a figure.
pub const fn median(heading: &'static str, figure: &'static str) -> Column {
    of(heading, figure, Shown::Median)
}

/// That over the best of some peers at the same point.
pub const fn ratio(heading: &'static str, figure: &'static str, peers: &'static [&'static str]) -> Column {
    of(heading, figure, Shown::Ratio(peers))
}

/// The least and the most.
pub const fn range(heading: &'static str, figure: &'static str) -> Column {
    of(heading, figure, Shown::Range)
}

/// A text, of the last run.
pub const fn text(heading: &'static str, figure: &'static str) -> Column {
    of(heading, figure, Shown::Text)
}

impl Column {
    /// Shown with `digits` decimals; two without this.
    pub const fn digits(mut self, digits: usize) -> Self {
        self.digits = digits;
        self
    }

    /// Shown in this unit.
    pub const fn per(mut self, divisor: f64) -> Self {
        self.divisor = divisor;
        self
    }

    /// Shown in MiB, without decimals.
    pub const fn mib(self) -> Self {
        self.per(1048576.0).digits(0)
    }

    /// More of it is better.
    pub const fn more(mut self) -> Self {
        self.better = Some(Ordering::Greater);
        self
    }

    /// Less of it is better.
    pub const fn less(mut self) -> Self {
        self.better = Some(Ordering::Less);
        self
    }

    /// What figures are divided by to be shown.
    pub(super) fn divisor(&self) -> f64 {
        self.divisor
    }

    /// The figure, its direction and its heading, if it is one by itself and has a direction.
    pub(super) fn judged(&self) -> Option<(&'static str, Ordering, &'static str)> {
        let is_alone = matches!(self.shown, Shown::Median);
        self.better.filter(|_| is_alone).map(|better| (self.figure, better, self.heading))
    }

    fn number(&self, value: Option<f64>) -> String {
        let divisor = if matches!(self.shown, Shown::Ratio(_)) { 1.0 } else { self.divisor };
        value.map_or("-".to_owned(), |value| format!("{:.*}", self.digits, value / divisor))
    }

    fn cell(&self, row: &Row<'_>, rows: &[Row<'_>]) -> String {
        match self.shown {
            Shown::Median => self.number(row.median(self.figure)),
            Shown::Text => row.runs.last().map(|run| run.figures.text(self.figure)).unwrap_or_default(),
            Shown::Range => match row.extremes(self.figure) {
                Some((least, most)) => format!("{}, {}", self.number(Some(least)), self.number(Some(most))),
                None => "-".to_owned(),
            },
            Shown::Ratio(peers) => self.number(row.over(peers, rows, self.figure, self.better)),
        }
    }
}

/// All runs of a peer at a point.
pub(super) struct Row<'a> {
    pub(super) runs: Vec<&'a Record>,
}

impl<'a> Row<'a> {
    /// Rows of records, in the order of their first runs.
    pub(super) fn all(records: impl IntoIterator<Item = &'a Record>) -> Vec<Row<'a>> {
        let mut rows: Vec<Row<'a>> = Vec::new();
        for record in records.into_iter().filter(|record| record.left_out.is_none()) {
            let one = Row { runs: vec![record] };
            match rows.iter_mut().find(|row| row.is_of(&one)) {
                Some(row) => row.runs.push(record),
                None => rows.push(one),
            }
        }
        rows
    }

    pub(super) fn peer(&self) -> &'a str {
        &self.runs[0].peer
    }

    /// Study, peer and point.
    pub(super) fn name(&self) -> String {
        let first = self.runs[0];
        let point = first.point.iter().map(|(name, _)| format!(", {name} {}", first.point.text(name)));
        format!("{}, {}{}", first.study, first.peer, point.collect::<String>())
    }

    /// Whether both are of the same peer at the same point.
    pub(super) fn is_of(&self, other: &Row<'_>) -> bool {
        let [own, others] =
            [self, other].map(|row| (&row.runs[0].study, &row.runs[0].peer, &row.runs[0].point));
        own == others
    }

    pub(super) fn key(&self, field: &str) -> String {
        self.runs[0].point.text(field)
    }

    fn figures(&self, figure: &str) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.figures.number(figure)).collect()
    }

    /// The median of a figure; none if no run has it.
    pub(super) fn median(&self, figure: &str) -> Option<f64> {
        median_of(self.figures(figure))
    }

    /// Least and most of a figure.
    pub(super) fn extremes(&self, figure: &str) -> Option<(f64, f64)> {
        let figures = self.figures(figure).into_iter();
        figures.map(|figure| (figure, figure)).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }

    /// Whether it is of the same point as another: a peer to which some of the fields mean nothing has none of these.
    fn meets(&self, other: &Row<'_>) -> bool {
        let of_other = &other.runs[0].point;
        self.runs[0].point.iter().all(|(name, value)| of_other.get(name) == Some(value))
    }

    /// A figure over that of the best of some peers at the same point: the median of the runs' ratios, or the ratio of the medians if they have no run
    /// in common.
    pub(super) fn over(
        &self,
        peers: &[&str],
        rows: &[Row<'_>],
        figure: &str,
        better: Option<Ordering>,
    ) -> Option<f64> {
        let others = rows.iter().filter(|other| peers.contains(&other.peer()) && other.meets(self));
        let medians = others.filter_map(|other| Some((other, other.median(figure)?)));
        let (best, median) = medians.reduce(|one, other| {
            let is_better = if better == Some(Ordering::Less) { other.1 < one.1 } else { other.1 > one.1 };
            if is_better { other } else { one }
        })?;
        let of_run = |run: &&Record| {
            let other = best.runs.iter().find(|other| other.run == run.run)?;
            Some(run.figures.number(figure)? / other.figures.number(figure)?)
        };
        let ratios = self.runs.iter().filter_map(of_run).collect();
        Some(median_of(ratios).unwrap_or(self.median(figure)? / median))
    }

    fn compare(&self, other: &Self, table: &Table) -> Ordering {
        let by_keys = table.keys.iter().map(|key| {
            let [one, two] =
                [self, other].map(|row| (row.runs[0].point.number(key.field), row.key(key.field)));
            match (one.0, two.0) {
                (Some(one), Some(two)) => one.total_cmp(&two),
                _ => one.1.cmp(&two.1),
            }
        });
        let rank =
            |row: &Self| table.peers.iter().position(|peer| *peer == row.peer()).unwrap_or(table.peers.len());
        by_keys.fold(Ordering::Equal, Ordering::then).then_with(|| rank(self).cmp(&rank(other)))
    }
}

/// The median; none of nothing.
pub fn median_of(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length.is_multiple_of(2) => Some(0.5 * (values[middle - 1] + values[middle])),
        _ => Some(values[middle]),
    }
}

impl Table {
    /// The tables of this kind that records make; empty without any.
    pub fn render(&self, records: &[Record]) -> String {
        let tables = self.titled_rows(records).into_iter().map(|(title, rows)| self.one(&title, &rows));
        tables.collect::<Vec<_>>().join("\n")
    }

    /// The rows of each of these tables, in their order.
    pub(super) fn titled_rows<'a>(&self, records: &'a [Record]) -> Vec<(String, Vec<Row<'a>>)> {
        let mut titles: Vec<(String, Vec<&Record>)> = Vec::new();
        for record in records.iter().filter(|record| self.shows(record)) {
            let title = self.title_of(record);
            match titles.iter_mut().find(|(other, _)| *other == title) {
                Some((_, of_title)) => of_title.push(record),
                None => titles.push((title, vec![record])),
            }
        }
        let sorted = |records| {
            let mut rows = Row::all(records);
            rows.sort_by(|one, other| one.compare(other, self));
            rows
        };
        titles.into_iter().map(|(title, records)| (title, sorted(records))).collect()
    }

    fn shows(&self, record: &Record) -> bool {
        let main = self.columns.first().expect("a table has a column");
        record.left_out.is_none() && record.figures.get(main.figure).is_some()
    }

    /// The keys and the first figures of a record, if it is of this table.
    pub(super) fn sentence(&self, record: &Record) -> Option<String> {
        let row = Row { runs: vec![record] };
        let keys = self.keys.iter().map(|key| format!("{} {}", key.heading, key.shown(&row)));
        let is_figure = |column: &&Column| matches!(column.shown, Shown::Median | Shown::Text);
        let figures = self.columns.iter().filter(is_figure).take(4);
        let figures = figures.map(|column| format!("{} {}", column.cell(&row, &[]), column.heading));
        self.shows(record).then(|| keys.chain(figures).collect::<Vec<_>>().join(", "))
    }

    fn title_of(&self, record: &Record) -> String {
        let mut parts = self.title.split('{');
        let mut title = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (field, rest) = part.split_once('}').expect("braces come in pairs");
            title += &match field.strip_suffix(":size") {
                Some(field) => size(record.point.number(field)),
                None => record.point.text(field),
            };
            title += rest;
        }
        let payload = record.point.text("payload");
        if !payload.is_empty() && payload != "random" {
            title += &format!(", {payload} payload (lz4 {})", record.point.text("lz4"));
        }
        title
    }

    fn one(&self, title: &str, rows: &[Row<'_>]) -> String {
        let runs = rows.iter().map(|row| row.runs.len()).max().unwrap_or(0);
        let keys = self.keys.iter().map(|key| key.heading).chain(["peer"]);
        let headings: Vec<_> = keys.chain(self.columns.iter().map(|column| column.heading)).collect();
        let line = |row: &Row<'_>| {
            let keys = self.keys.iter().map(|key| key.shown(row));
            let cells = self.columns.iter().map(|column| column.cell(row, rows));
            keys.chain([row.peer().to_owned()]).chain(cells).collect()
        };
        let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
        let title = if runs > 1 { format!("{title}: medians of {runs}") } else { title.to_owned() };
        let table = markdown(&title, &headings, &lines);
        if self.note.is_empty() { table } else { format!("{table}\n{}\n", self.note) }
    }
}

fn size(bytes: Option<f64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| format_size(bytes as u64))
}

/// A markdown table; empty without rows.
pub fn markdown(title: &str, headings: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let rule = vec!["---"; headings.len()];
    let rows = rows.iter().map(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    format!("### {title}\n\n{}{}{}", line(headings), line(&rule), rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::super::fields::Fields;
    use super::*;
    use crate::machine::Context;

    const TABLE: Table = Table {
        title: "Reads in {ram_bytes:size}",
        keys: &[key("threads", "threads")],
        peers: &["swap", "aquifer"],
        columns: &[
            median("ops/s", "ops_per_s").digits(0).more(),
            ratio("x swap", "ops_per_s", &["swap"]),
            ratio("x fio", "ops_per_s", &["fio"]),
            range("least, most us", "ns").per(1e3).digits(1),
        ],
        note: "How.",
    };

    fn record(peer: &str, threads: Option<u32>, run: u32, ops_per_s: f64) -> Record {
        let point = Fields::default().with("ram_bytes", 64 << 20).with("threads", threads);
        let figures = Fields::default().with("ops_per_s", ops_per_s).with("ns", 1000 * run);
        let (study, peer, context) = ("reads".to_owned(), peer.to_owned(), Context::default());
        Record { study, peer, run, point, figures, left_out: None, context }
    }

    #[test]
    fn medians_and_ratios() {
        let records = [
            record("aquifer", Some(8), 2, 80.0),
            record("swap", Some(8), 1, 10.0),
            record("swap", Some(8), 2, 20.0),
            record("swap", Some(8), 3, 60.0),
            record("swap", Some(16), 1, 5.0),
            record("fio", None, 1, 160.0),
        ];
        let text = TABLE.render(&records);
        for line in [
            "### Reads in 64 MiB: medians of 3\n\n| threads | peer | ops/s | x swap | x fio | least, most us |",
            "|  | fio | 160 | - | 1.00 | 1.0, 1.0 |\n| 8 | swap | 20 | 1.00 | 0.06 | 1.0, 3.0 |\n| 8 | aquifer | 80 | 4.00 | 0.50 |",
            "| 16 | swap | 5 | 1.00 |",
            "\nHow.\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert_eq!(TABLE.render(&[]), "");
    }

    #[test]
    fn what_is_in_the_title_has_a_table_of_its_own() {
        let mut other = record("swap", Some(8), 1, 1.0);
        other.point = other.point.with("ram_bytes", 32 << 20);
        let text = TABLE.render(&[record("swap", Some(8), 1, 3.0), other]);
        assert!(text.contains("in 64 MiB\n") && text.contains("in 32 MiB\n"), "{text}");
    }

    #[test]
    fn medians() {
        assert_eq!(median_of(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median_of(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median_of(vec![]), None);
    }
}

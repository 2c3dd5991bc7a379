//! Markdown tables of records: medians of the runs, and ratios of them.

use std::cmp::Ordering;

use aquifer_base::units::format_size;

use super::record::Record;
use super::row::Row;

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
    has_means: bool,
}

/// A field of the point under a heading.
pub const fn key(heading: &'static str, field: &'static str) -> Key {
    Key { heading, field, is_size: false, has_means: false }
}

impl Key {
    /// Shown as a size.
    pub const fn size(mut self) -> Self {
        self.is_size = true;
        self
    }

    /// With means of the ratios over its values, in a row of their own.
    pub const fn means(mut self) -> Self {
        self.has_means = true;
        self
    }

    pub(super) fn heading(&self) -> &'static str {
        self.heading
    }

    pub(super) fn field(&self) -> &'static str {
        self.field
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
    /// Over the median of the same peer where this field of the point has this value.
    Scaling(&'static str, &'static str),
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

/// That over the same peer's where a field of the point has this value.
pub const fn scaling(
    heading: &'static str,
    figure: &'static str,
    field: &'static str,
    value: &'static str,
) -> Column {
    of(heading, figure, Shown::Scaling(field, value))
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
        let is_ratio = matches!(self.shown, Shown::Ratio(_) | Shown::Scaling(..));
        let divisor = if is_ratio { 1.0 } else { self.divisor };
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
            Shown::Ratio(_) | Shown::Scaling(..) => self.number(self.ratio(row, rows)),
        }
    }

    /// What a column of ratios shows; none of other columns.
    fn ratio(&self, row: &Row<'_>, rows: &[Row<'_>]) -> Option<f64> {
        match self.shown {
            Shown::Ratio(peers) => row.over(peers, rows, self.figure, self.better),
            Shown::Scaling(field, value) => row.scaling(field, value, rows, self.figure),
            Shown::Median | Shown::Range | Shown::Text => None,
        }
    }

    /// The mean of the ratios of rows.
    fn mean(&self, of: &[&Row<'_>], rows: &[Row<'_>]) -> Option<f64> {
        let ratios: Vec<f64> = of.iter().filter_map(|row| self.ratio(row, rows)).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
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
        let [payload, lz4] = ["payload", "lz4"].map(|field| record.point.text(field));
        if !payload.is_empty() && payload != "random" {
            title += &format!(", {payload} payload");
            title += &if lz4.is_empty() { lz4 } else { format!(" (lz4 {lz4})") };
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
        let lines: Vec<Vec<String>> = rows.iter().map(line).chain(self.means(rows)).collect();
        let title = if runs > 1 { format!("{title}: medians of {runs}") } else { title.to_owned() };
        let table = markdown(&title, &headings, &lines);
        if self.note.is_empty() { table } else { format!("{table}\n{}\n", self.note) }
    }
}

impl Table {
    /// A row for each peer and each choice of the other keys, of means over the key that has some.
    fn means(&self, rows: &[Row<'_>]) -> Vec<Vec<String>> {
        let Some(over) = self.keys.iter().position(|key| key.has_means) else { return Vec::new() };
        let mut groups: Vec<(Vec<String>, Vec<&Row<'_>>)> = Vec::new();
        for row in rows {
            let keys = self.keys.iter().map(|key| key.shown(row));
            let mut head: Vec<_> = keys.chain([row.peer().to_owned()]).collect();
            head[over] = "mean".to_owned();
            match groups.iter_mut().find(|group| group.0 == head) {
                Some(group) => group.1.push(row),
                None => groups.push((head, vec![row])),
            }
        }
        groups.retain(|(_, of)| of.len() > 1);
        let line = |(head, of): (Vec<String>, Vec<&Row<'_>>)| {
            let cells = self.columns.iter().map(|column| column.number(column.mean(&of, rows)));
            head.into_iter().chain(cells).collect()
        };
        groups.into_iter().map(line).collect()
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
    fn variants_scale_and_have_means() {
        const TABLE: Table = Table {
            title: "Title",
            keys: &[key("load", "load").means(), key("threads", "threads")],
            peers: &["aquifer", "redo"],
            columns: &[
                median("ops/s", "ops_per_s").digits(0).more(),
                ratio("x redo", "ops_per_s", &["redo"]),
                scaling("x 1 thread", "ops_per_s", "threads", "1"),
            ],
            note: "",
        };
        let of = |peer, load, threads, ops_per_s| {
            let mut record = record(peer, Some(threads), 1, ops_per_s);
            record.point = record.point.with("load", load);
            record
        };
        let text = TABLE.render(&[
            of("redo", "a", 1, 10.0),
            of("aquifer, 85 %", "a", 1, 20.0),
            of("aquifer, 85 %", "a", 2, 30.0),
            of("aquifer, 85 %", "b", 1, 40.0),
            of("redo", "b", 1, 10.0),
        ]);
        for line in [
            "| a | 1 | aquifer, 85 % | 20 | 2.00 | 1.00 |\n| a | 1 | redo | 10 | 1.00 | 1.00 |\n",
            "| a | 2 | aquifer, 85 % | 30 | - | 1.50 |",
            "| mean | 1 | aquifer, 85 % | - | 3.00 | 1.00 |",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("| mean | 2 |"), "{text}");
    }
}

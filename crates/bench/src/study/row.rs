//! What the runs of a peer at a point come to, alone and beside other peers.

use std::cmp::Ordering;

use super::record::Record;
use super::table::Table;

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
        let (best, _) = medians.reduce(|one, other| {
            let is_better = if better == Some(Ordering::Less) { other.1 < one.1 } else { other.1 > one.1 };
            if is_better { other } else { one }
        })?;
        self.over_one(best, figure)
    }

    /// A figure over that of the same peer where `field` has `value` and the rest of the point is the same.
    pub(super) fn scaling(&self, field: &str, value: &str, rows: &[Row<'_>], figure: &str) -> Option<f64> {
        let is_same = |other: &&Row<'_>| {
            let of_other = &other.runs[0].point;
            let mut rest = self.runs[0].point.iter().filter(|(name, _)| *name != field);
            other.peer() == self.peer() && rest.all(|(name, own)| of_other.get(name) == Some(own))
        };
        let other = rows.iter().filter(is_same).find(|other| other.key(field) == value)?;
        self.over_one(other, figure)
    }

    fn over_one(&self, other: &Row<'_>, figure: &str) -> Option<f64> {
        let of_run = |run: &&Record| {
            let other = other.runs.iter().find(|other| other.run == run.run)?;
            Some(run.figures.number(figure)? / other.figures.number(figure)?)
        };
        let ratios = self.runs.iter().filter_map(of_run).collect();
        Some(median_of(ratios).unwrap_or(self.median(figure)? / other.median(figure)?))
    }

    pub(super) fn compare(&self, other: &Self, table: &Table) -> Ordering {
        let by_keys = table.keys.iter().map(|key| {
            let [one, two] =
                [self, other].map(|row| (row.runs[0].point.number(key.field()), row.key(key.field())));
            match (one.0, two.0) {
                (Some(one), Some(two)) => one.total_cmp(&two),
                _ => one.1.cmp(&two.1),
            }
        });
        // A variant, as in `aquifer, 85 %`, stands where its peer does.
        let is_of =
            |name: &str, peer: &str| name.strip_prefix(peer).is_some_and(|rest| rest.starts_with(", "));
        let rank = |row: &Self| {
            let name = row.peer();
            let rank = table.peers.iter().position(|peer| *peer == name || is_of(name, peer));
            (rank.unwrap_or(table.peers.len()), rank.and(Some(name)))
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median_of(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median_of(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median_of(vec![]), None);
    }
}

//! Donors as rows of text.

use crate::amounts::{count, grouped, size, time};
use crate::error::printable;
use crate::latency::Latency;

use super::{Borrowed, Donor};

/// Said in place of a number that is not known.
const UNKNOWN: &str = "-";
/// Columns of a donor's address, if that is not shorter.
const ADDRESS_COLUMNS_MAX: usize = 32;
/// Columns of each further word of a donor.
const WORD_COLUMNS_MAX: usize = 16;

/// A row.
pub struct Row {
    /// What it says, without control characters.
    pub text: String,
    /// Whether it should worry somebody.
    pub is_alarm: bool,
}

/// An earlier state, and the seconds since.
pub type Earlier<'a> = Option<(&'a Borrowed, f64)>;

/// A number of a donor.
struct Column {
    title: &'static str,
    columns: usize,
    text: fn(&Lately<'_>) -> String,
}

/// The numbers, the important ones first.
const COLUMNS: [Column; 7] = [
    Column { title: "slabs", columns: 7, text: |donor| grouped(donor.now.slabs) },
    Column { title: "reads/s", columns: 10, text: |donor| donor.rate(|donor| donor.reads, count) },
    Column { title: "writes/s", columns: 10, text: |donor| donor.rate(|donor| donor.writes, count) },
    Column { title: "both", columns: 12, text: |donor| donor.bytes() },
    Column { title: "read p50", columns: 10, text: |donor| donor.read_quantile(0.5) },
    Column { title: "p99", columns: 9, text: |donor| donor.read_quantile(0.99) },
    Column { title: "write p99", columns: 11, text: |donor| donor.write_quantile(0.99) },
];

/// A donor now, and before.
struct Lately<'a> {
    now: &'a Donor,
    before: Option<(&'a Donor, f64)>,
}

impl Lately<'_> {
    fn rate(&self, of: fn(&Donor) -> u64, text: fn(f64) -> String) -> String {
        let rate = self.before.and_then(|(before, seconds)| {
            let increase = of(self.now).checked_sub(of(before))?;
            Some(increase as f64 / seconds)
        });
        rate.map_or(UNKNOWN.into(), text)
    }

    fn bytes(&self) -> String {
        let of = |donor: &Donor| donor.read_bytes.saturating_add(donor.written_bytes);
        self.rate(of, |rate| size(rate.round()) + "/s")
    }

    fn read_quantile(&self, share: f64) -> String {
        self.quantile(share, |donor| donor.read_latency.as_ref())
    }

    fn write_quantile(&self, share: f64) -> String {
        self.quantile(share, |donor| donor.write_latency.as_ref())
    }

    /// Of the interval if there were transfers in it, or else of all.
    fn quantile(&self, share: f64, of: fn(&Donor) -> Option<&Latency>) -> String {
        let all = of(self.now);
        let lately = self.before.and_then(|(before, _)| all?.since(of(before)?));
        let lately = lately.and_then(|lately| lately.quantile_ns(share));
        lately.or_else(|| all?.quantile_ns(share)).map_or(UNKNOWN.into(), time)
    }
}

/// Formats a row of titles and one for each donor, at most `columns` characters wide. Columns without room
/// are left out.
pub fn donors(now: &Borrowed, earlier: Earlier<'_>, columns: usize) -> Vec<Row> {
    let addresses: Vec<String> =
        now.donors.iter().map(|donor| cut(&donor.address, ADDRESS_COLUMNS_MAX)).collect();
    let address_columns = addresses.iter().map(|address| address.chars().count()).max().unwrap_or(0).max(5);
    let mut left = columns.saturating_sub(address_columns);
    let shown: Vec<&Column> = COLUMNS
        .iter()
        .take_while(|column| {
            let has_room = left >= column.columns;
            left = left.saturating_sub(column.columns);
            has_room
        })
        .collect();
    let has_words = shown.len() == COLUMNS.len() && left >= 2 * (WORD_COLUMNS_MAX + 2);
    let mut head = format!("{:<address_columns$}", "donor");
    shown.iter().for_each(|column| head += &format!("{:>1$}", column.title, column.columns));
    if has_words {
        head += "  provider, domain";
    }
    let head = Row { text: head, is_alarm: false };
    let rows = now.donors.iter().zip(addresses).map(|(donor, address)| {
        let before = earlier.and_then(|(before, seconds)| Some((before.donor(&donor.address)?, seconds)));
        let mut text = format!("{address:<address_columns$}");
        if let Some(complaint) = donor.complaint() {
            text += &format!("  {}", printable(complaint));
            return Row { text, is_alarm: true };
        }
        let lately = Lately { now: donor, before };
        shown.iter().for_each(|column| text += &format!("{:>1$}", (column.text)(&lately), column.columns));
        if has_words {
            let provider = cut(donor.provider.as_deref().unwrap_or_default(), WORD_COLUMNS_MAX);
            text += &format!("  {provider}");
            if !donor.domain.is_empty() {
                text += &format!(", {}", cut(&donor.domain, WORD_COLUMNS_MAX));
            }
        }
        Row { text, is_alarm: false }
    });
    std::iter::once(head).chain(rows).collect()
}

/// Where parts of the device and their pages are, in two lines.
pub fn totals(now: &Borrowed, earlier: Earlier<'_>) -> [Row; 2] {
    let number = |name: &str| now.pages.get(name).copied();
    let all = |name| number(name).map_or(UNKNOWN.into(), |number| count(number as f64));
    let placed = format!(
        "{} of {} parts placed   wrong pages {}   lost slabs {}   lost pages {}",
        grouped(now.placed),
        grouped(now.parts),
        all("wrong_pages"),
        all("lost_slabs"),
        all("lost_pages")
    );
    let rate = |name: &str| {
        let rate = earlier.and_then(|(before, seconds)| {
            Some(number(name)?.checked_sub(*before.pages.get(name)?)? as f64 / seconds)
        });
        rate.map_or(UNKNOWN.into(), count)
    };
    let pages = format!(
        "pages/s from donors {}, buffer {}, flash {}; to donors {}",
        rate("remote_reads"),
        rate("buffer_reads"),
        rate("flash_reads"),
        rate("remote_writes")
    );
    let is_alarm =
        ["wrong_pages", "lost_pages"].iter().any(|name| number(name).is_some_and(|pages| pages > 0));
    [Row { text: placed, is_alarm }, Row { text: pages, is_alarm: false }]
}

/// Cuts a peer's text to `columns` printable characters.
fn cut(text: &str, columns: usize) -> String {
    printable(text).chars().take(columns).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::borrowed;
    use super::*;

    #[test]
    fn rates_are_of_the_interval() {
        let (before, after) = (borrowed(1), borrowed(3));
        let rows = donors(&after, Some((&before, 2.0)), 200);
        let words: Vec<&str> = rows[1].text.split_whitespace().collect();
        assert_eq!(words[..6], ["alpha:7447", "4", "100", "40", "5.39", "MiB/s"]);
        assert!(
            rows[1].text.contains("32.8 µs") && rows[1].text.ends_with("  tcp, rack 1"),
            "{}",
            rows[1].text
        );
        assert!(rows[2].text.contains("did not answer within 1000 ms") && rows[2].is_alarm);
        let [placed, pages] = totals(&after, Some((&before, 2.0)));
        assert!(placed.text.starts_with("4 of 5 parts placed") && !placed.is_alarm);
        assert_eq!(pages.text, "pages/s from donors 200, buffer 10, flash 30; to donors 50");
    }

    #[test]
    fn without_an_earlier_state_there_are_no_rates() {
        let rows = donors(&borrowed(3), None, 80);
        let words: Vec<&str> = rows[1].text.split_whitespace().collect();
        assert_eq!(words[..5], ["alpha:7447", "4", "-", "-", "-"]);
        assert!(totals(&borrowed(3), None)[1].text.contains("donors -, "));
    }

    #[test]
    fn narrow_screens_show_the_first_columns() {
        for columns in [0, 5, 20, 40, 60, 80, 100, 150] {
            let rows = donors(&borrowed(1), None, columns);
            let wide = rows[1].text.chars().count();
            assert!(wide <= columns.max("alpha:7447".len()), "{columns}: {}", rows[1].text);
            let has_words = columns == 150;
            assert!(has_words || rows[0].text.chars().count() == wide);
        }
    }

    #[test]
    fn a_peer_cannot_command_the_terminal() {
        let mut hostile = borrowed(1);
        hostile.donors.iter_mut().for_each(|donor| {
            donor.address = "\x1b[2J\n".repeat(100);
            donor.domain = "\x07".into();
            donor.trouble = Some("\x1b]0;owned".into());
            (donor.reads, donor.read_bytes, donor.written_bytes) = (u64::MAX, u64::MAX, u64::MAX);
        });
        hostile.pages.values_mut().for_each(|pages| *pages = u64::MAX);
        let earlier = borrowed(0);
        for row in donors(&hostile, Some((&hostile, 0.001)), 300)
            .iter()
            .chain(&totals(&hostile, Some((&earlier, 0.001))))
        {
            assert!(!row.text.contains(char::is_control), "{:?}", row.text);
        }
    }
}

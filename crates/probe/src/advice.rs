//! What a report means for a machine and for the heap: settings, each with its rule and the figures behind it, and prices.
//!
//! | file | noun |
//! |---|---|
//! | `borrowing` | whether memory of other machines pays beside swap on the device |
//! | `cells` | the report's measurements, looked up |
//! | `settings` | settings for the heap, and the rules that they follow |
//! | `economy` | what the device is worth, and what machine to build |
//! | `trust` | why the figures might not hold |
//!
//! What was not measured is said to be so. No figure stands in for another.

mod borrowing;
mod cells;
mod economy;
#[cfg(test)]
mod example;
mod settings;
mod trust;

use aquifer_base::profile::{Profile, Setting};
use aquifer_base::units::format_size;
use serde_json::json;

pub use borrowing::{Lender, borrowing_text};

use crate::economics::Processor;
use crate::report::Report;
use borrowing::borrowing_json;
use settings::{Advised, Settings};

/// In front of the reason of a value.
const REASON: &str = "      ";
/// In place of a value.
const NOT_MEASURED: &str = "not measured";
/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 200;

/// What a report means.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    title: String,
    warnings: Vec<String>,
    settings: Settings,
    economy: String,
}

impl Advice {
    /// The advice that follows from a report and what the user adds to it.
    #[must_use]
    pub fn of(report: &Report, assumptions: &Assumptions) -> Self {
        Self {
            title: title(report),
            warnings: trust::warnings(report),
            settings: Settings::of(report),
            economy: economy::text(report, assumptions),
        }
    }

    /// The settings that follow; those that cannot be derived are missing.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.settings.profile()
    }

    /// All of it, as people read it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("Advice for {}\n", self.title);
        for warning in &self.warnings {
            text.push_str(&wrapped(&format!("WARNING: {warning}"), ""));
        }
        text.push_str("\nSettings for the heap (--write-profile FILE writes them)\n");
        for setting in Setting::ALL {
            let advised = self.settings.of_setting(setting);
            let value = advised.value.map_or(NOT_MEASURED.into(), |value| shown(setting, value));
            text.push_str(&format!("  {}: {value}\n{}", setting.key(), wrapped(&advised.reason, REASON)));
        }
        text.push_str("\nFor programs that do their own I/O (no setting of the heap)\n");
        let own = [
            ("read size", self.settings.read_size.value.map(format_size), &self.settings.read_size.reason),
            (
                "writers",
                self.settings.writers.value.map(|depth| depth.to_string()),
                &self.settings.writers.reason,
            ),
        ];
        for (name, value, reason) in own {
            let value = value.unwrap_or(NOT_MEASURED.into());
            text.push_str(&format!("  {name}: {value}\n{}", wrapped(reason, REASON)));
        }
        text.push_str(&self.economy);
        text
    }

    /// What programs read: settings by their names in a profile, with `value` (`null` if it was not measured) and `reason`; `lenders` with what each
    /// would gain. Prices and machines are for people, in [`Advice::text`].
    #[must_use]
    pub fn json(&self, report: &Report, lenders: &[Lender]) -> serde_json::Value {
        let advised = |advised: &Advised| json!({ "value": advised.value, "reason": advised.reason });
        let settings =
            Setting::ALL.map(|setting| (setting.key().into(), advised(self.settings.of_setting(setting))));
        json!({
            "target": self.title,
            "warnings": self.warnings,
            "settings": settings.into_iter().collect::<serde_json::Map<_, _>>(),
            "own_io": { "read_bytes": advised(&self.settings.read_size), "writers": advised(&self.settings.writers) },
            "lenders": borrowing_json(report, lenders),
        })
    }

    /// The settings as a file that the heap loads, with the reason of each.
    #[must_use]
    pub fn profile_text(&self) -> String {
        let mut comment = format!("Settings for {}, made by aquifer advise.\n", self.title);
        for warning in &self.warnings {
            comment.push_str(&wrapped(&format!("WARNING: {warning}"), ""));
        }
        comment.push_str("A setting that is missing is what it is without a profile.");
        self.profile().format(&comment, |setting| {
            let advised = self.settings.of_setting(setting);
            let lead = if advised.value.is_some() { String::new() } else { format!("{}: ", setting.key()) };
            wrapped(&(lead + &advised.reason), "")
        })
    }
}

fn shown(setting: Setting, value: u64) -> String {
    match setting {
        Setting::WriteBytes | Setting::SegmentBytes => format_size(value),
        Setting::Depth | Setting::ReadAheadPages | Setting::WriteDepth => value.to_string(),
    }
}

/// The target by its names, of which none can reach beyond its line.
fn title(report: &Report) -> String {
    let target = &report.target;
    let model = target.model.as_ref().map(|model| format!(" ({model})")).unwrap_or_default();
    let name = format!("{}{model}", target.name);
    let printable = name.chars().map(|char| if char.is_control() { ' ' } else { char });
    let name: String = printable.take(NAME_CHARS_MAX).collect();
    format!(
        "{name}, of which {} were measured for {:.0} s",
        format_size(target.tested_bytes),
        report.duration_s
    )
}

/// What no report can tell, and the user adds: prices, the processor, the load. The defaults are those of the study's balanced system (Petrov et al., 2010); there are none for prices.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Assumptions {
    /// Price of the device in euro.
    pub price_eur: Option<f64>,
    /// Its size in bytes, where it is not what was measured.
    pub capacity_bytes: Option<u64>,
    /// Price of 10^9 bytes of RAM in euro.
    pub ram_eur_per_gb: Option<f64>,
    /// One core.
    pub processor: Processor,
    /// Cores of the machine; those of the report if absent.
    pub cores: Option<u32>,
    /// Share of reads among transfers, 0 to 1.
    pub read_share: f64,
    /// Bytes of a transfer.
    pub page_bytes: u64,
    /// Share of the time that is spent in I/O on the study's disk, 0 to 1.
    pub io_share: f64,
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            price_eur: None,
            capacity_bytes: None,
            ram_eur_per_gb: None,
            processor: Processor { ghz: 3.2, cycles_per_instruction: 2.1 },
            cores: None,
            read_share: 0.25,
            page_bytes: 8192,
            io_share: 0.6,
        }
    }
}

/// Columns of a line.
const COLUMNS: usize = 100;

/// `text` in lines of at most 100 columns, as far as its words allow, each behind `indent` and with a newline at its end.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        if line.len() > indent.len() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push_str(&line);
            lines.push('\n');
            line = indent.to_owned();
        }
        if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::example::report;

    #[test]
    fn the_profile_is_what_the_text_says() {
        let advice = Advice::of(&report(), &Assumptions::default());
        let file = advice.profile_text();
        let profile = Profile::parse(file.as_bytes()).expect("a profile");
        assert_eq!(profile, advice.profile());
        assert_eq!(profile.get(Setting::Depth), Some(32));
        assert!(advice.text().contains("  depth: 32\n"), "{}", advice.text());
        assert!(
            file.contains("4 KiB: 96000/s at depth")
                && file.contains(
                    "
depth = 32
"
                ),
            "{file}"
        );
    }

    #[test]
    fn a_name_cannot_make_settings_or_lines() {
        let mut report = report();
        report.target.name = "disk\ndepth = 1\n".into();
        report.target.model = Some("\u{1b}[2J".repeat(1000));
        let advice = Advice::of(&report, &Assumptions::default());
        let profile = Profile::parse(advice.profile_text().as_bytes()).expect("a profile");
        assert_eq!(profile.get(Setting::Depth), Some(32));
        assert!(advice.text().chars().all(|char| char == '\n' || !char.is_control()));
    }

    #[test]
    fn nothing_is_advised_from_nothing() {
        let mut report = report();
        report.matrix.clear();
        let advice = Advice::of(&report, &Assumptions::default());
        assert_eq!(advice.profile(), Profile::default());
        assert_eq!(
            advice.text().matches(": not measured\n").count(),
            Setting::ALL.len() + 2,
            "{}",
            advice.text()
        );
    }

    #[test]
    fn words_stay_whole_and_lines_short() {
        assert_eq!(wrapped("a bc", "  "), "  a bc\n");
        let text = "word ".repeat(50) + &"x".repeat(200) + " end";
        let lines = wrapped(&text, "    ");
        let all: Vec<&str> = lines.split_whitespace().collect();
        assert_eq!(all.join(" "), text);
        assert!(lines.lines().all(|line| line.len() <= 100 || line.trim().len() == 200), "{lines}");
        assert_eq!(lines.lines().count(), 5, "{lines}");
    }
}

//! Spellings of the version before this one: they work, with a hint, until the next one.

use std::ffi::OsString;

use clap::CommandFactory;

use super::Arguments;

/// An option that had another name or another form.
struct Old {
    /// Subcommands in front of it.
    command: &'static [&'static str],
    option: &'static str,
    /// What its value becomes; `None` if the value is not one of the old form. An empty text is an option without a value.
    anew: fn(&str) -> Option<Vec<String>>,
    /// An option of now beside which `option` is one of now, too.
    unless: Option<&'static str>,
}

impl Old {
    const fn new(
        command: &'static [&'static str],
        option: &'static str,
        anew: fn(&str) -> Option<Vec<String>>,
    ) -> Self {
        Self { command, option, anew, unless: None }
    }
}

fn named(option: &str, value: &str) -> Option<Vec<String>> {
    Some(vec![format!("{option}={value}")])
}

/// The path of a socket is known by its slash.
fn socket(value: &str) -> Option<Vec<String>> {
    let folder = if value.contains('/') { "" } else { "./" };
    named("--listen", &format!("{folder}{value}"))
}

/// A number without a unit.
fn microseconds(option: &str, value: &str) -> Option<Vec<String>> {
    value.parse::<f64>().ok()?;
    named(option, &format!("{value}us"))
}

const OLD: &[Old] = &[
    Old::new(&["stats"], "--watch", |value| named("--interval", value)),
    Old::new(&["probe"], "--size", |value| named("--span", value)),
    Old::new(&["probe"], "--json", |value| {
        value.ends_with(".json").then(|| named("--report-json", value)).flatten()
    }),
    Old::new(&["advise"], "--remote", |value| named("--donors", value)),
    Old::new(&["advise"], "--remote-us", |value| microseconds("--latency", value)),
    Old::new(&["donate"], "--delay", |value| microseconds("--delay", value)),
    Old::new(&["block"], "--socket", socket),
    Old::new(&["block"], "--size", |value| (value == "0").then(Vec::new)),
    Old::new(&["block"], "--tls", |value| {
        (!value.is_empty()).then(|| vec!["--tls".into(), format!("--cluster={value}")])
    }),
    Old { unless: Some("--listen"), ..Old::new(&["volume", "serve"], "--socket", socket) },
    Old::new(&["volume", "mount"], "--sync", |value| {
        (value == "0").then(|| named("--sync", "never")).flatten()
    }),
];

/// `arguments`, the command first, as this version spells them, and a hint for each that was spelled otherwise.
pub fn renewed(arguments: Vec<OsString>) -> (Vec<OsString>, Vec<String>) {
    let path = subcommands(&arguments);
    let is_given = |option: &str| {
        let before_files = arguments.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
        before_files.into_iter().any(|word| word.split('=').next() == Some(option))
    };
    let is_old = |old: &&Old| path == old.command && !old.unless.is_some_and(is_given);
    let of_this: Vec<&Old> = OLD.iter().filter(is_old).collect();
    let (mut renewed, mut hints) = (Vec::with_capacity(arguments.len()), Vec::new());
    let mut rest = arguments.into_iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            renewed.push(word);
            renewed.extend(rest);
            break;
        }
        let Some((old, inline)) = word.to_str().and_then(|text| found(&of_this, text)) else {
            renewed.push(word);
            continue;
        };
        let next = rest.peek().and_then(|next| next.to_str()).filter(|next| !next.starts_with('-'));
        match (old.anew)(inline.or(next).unwrap_or("")) {
            Some(anew) => {
                let shown = if anew.is_empty() { "left out".into() } else { anew.join(" ") };
                hints.push(format!(
                    "{} is now {shown}; the next version refuses the old spelling",
                    old.option
                ));
                if inline.is_none() {
                    rest.next();
                }
                renewed.extend(anew.into_iter().map(OsString::from));
            }
            None => renewed.push(word),
        }
    }
    (renewed, hints)
}

/// The subcommands that `arguments` begin with: those of one have options of their own.
fn subcommands(arguments: &[OsString]) -> Vec<String> {
    let (mut command, mut path) = (Arguments::command(), Vec::new());
    for word in arguments.iter().skip(1).map_while(|word| word.to_str()) {
        let Some(below) = command.find_subcommand(word).cloned() else { break };
        path.push(word.to_owned());
        command = below;
    }
    path
}

/// The old option that `word` is, and its value if that is behind an equals sign.
fn found<'a, 'b>(of_this: &[&'a Old], word: &'b str) -> Option<(&'a Old, Option<&'b str>)> {
    let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
    of_this.iter().find(|old| old.option == option).map(|old| (*old, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renew(line: &str) -> String {
        let (arguments, hints) = renewed(line.split(' ').map(OsString::from).collect());
        let line = arguments.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ");
        format!("{line} ({})", hints.len())
    }

    #[test]
    fn old_spellings_are_renewed_with_a_hint() {
        for (old, new) in [
            ("aquifer stats --watch 2 --json", "aquifer stats --interval=2 --json (1)"),
            (
                "aquifer probe nand: --size=1M --json a.json",
                "aquifer probe nand: --span=1M --report-json=a.json (2)",
            ),
            (
                "aquifer advise r --remote a:1 --remote-us 4",
                "aquifer advise r --donors=a:1 --latency=4us (2)",
            ),
            ("aquifer donate --delay 3", "aquifer donate --delay=3us (1)"),
            (
                "aquifer block --size 0 --tls /c --socket s",
                "aquifer block --tls --cluster=/c --listen=./s (3)",
            ),
            ("aquifer volume serve a --socket /s", "aquifer volume serve a --listen=/s (1)"),
            ("aquifer volume mount a b --sync 0", "aquifer volume mount a b --sync=never (1)"),
        ] {
            assert_eq!(renew(old), new);
        }
    }

    #[test]
    fn what_is_spelled_as_now_is_left_alone() {
        for line in [
            "aquifer",
            "aquifer run --watch 2 -- stats --watch 2",
            "aquifer stats -- --watch 2",
            "aquifer stats --socket /s",
            "aquifer probe --json nand:",
            "aquifer probe compare --json a.json b.json",
            "aquifer donate --delay 3us",
            "aquifer block --size 1M --tls --cluster /c",
            "aquifer volume mount a b --sync 5",
            "aquifer volume serve a --socket /s --listen /l",
            "aquifer volume serve a --listen=/l --socket=/s",
        ] {
            assert_eq!(renew(line), format!("{line} (0)"));
        }
    }
}

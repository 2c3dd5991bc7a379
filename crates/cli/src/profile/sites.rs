//! The table of places that fault most.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use aquifer_base::Found;

use crate::profile::stacks::{Stack, Stacks};
use crate::profile::symbols::Frame;

/// Places that are shown.
const SHOWN: usize = 15;
/// Characters of a name above which it is shortened.
const NAME_CHARS: usize = 60;
/// Files of the C library and of ours: of faults there, the program's function that called is named.
const INSIDERS: [&str; 5] = ["libc.so", "libc-", "ld-linux", "libpthread", "libaquifer_preload"];

/// Faults of one place.
#[derive(Default)]
struct Site {
    samples: u64,
    duration: Duration,
    found: [u64; Found::ALL.len()],
}

impl Site {
    fn add(&mut self, stack: &Stack) {
        self.samples += 1;
        self.duration += stack.duration;
        self.found[stack.found.code() as usize] += 1;
    }

    fn join(&mut self, other: &Self) {
        self.samples += other.samples;
        self.duration += other.duration;
        self.found.iter_mut().zip(other.found).for_each(|(sum, count)| *sum += count);
    }

    fn found(&self, which: &[Found]) -> u64 {
        which.iter().map(|found| self.found[found.code() as usize]).sum()
    }
}

/// Where faults come from, most first.
pub fn table(stacks: &Stacks) -> String {
    let mut sites = HashMap::<String, Site>::new();
    let mut all = Site::default();
    for stack in &stacks.stacks {
        all.add(stack);
        sites.entry(place(&stack.frames)).or_default().add(stack);
    }
    let mut sites: Vec<_> = sites.into_iter().collect();
    sites.sort_by(|(a, one), (b, other)| other.samples.cmp(&one.samples).then_with(|| a.cmp(b)));
    if sites.len() > SHOWN {
        let mut others = Site::default();
        let hidden = sites.split_off(SHOWN - 1);
        hidden.iter().for_each(|(_, site)| others.join(site));
        sites.push((format!("{} other places", hidden.len()), others));
    }

    let seconds = all.duration.as_secs_f64() / (all.samples.max(1) as f64) * stacks.faults as f64;
    let mut table = format!(
        "aquifer: where {} faults come from, which took {seconds:.1} s ({} samples)\n",
        stacks.faults, all.samples
    );
    table += "  faults    time    flash     RAM   zeros  writes  place\n";
    for (place, site) in &sites {
        let of = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
        let time = site.duration.as_secs_f64() * 100.0 / all.duration.as_secs_f64().max(1e-9);
        let found = |which: &[Found]| of(site.found(which), site.samples);
        let _ = writeln!(
            table,
            " {:5.1} % {time:5.1} %   {:4.0} %  {:4.0} %  {:4.0} %  {:4.0} %  {place}",
            of(site.samples, all.samples),
            found(&[Found::Flash]),
            found(&[Found::Ram, Found::Mapped]),
            found(&[Found::Zeros]),
            found(&[Found::FirstWrite]),
        );
    }
    table
}

/// The program's function that faulted, or that called the C library's that did.
fn place(frames: &[Frame]) -> String {
    let is_insider = |frame: &Frame| INSIDERS.iter().any(|name| frame.module.starts_with(name));
    let Some(leaf) = frames.first() else { return "a place that is not known".into() };
    let (at, frame) = frames.iter().enumerate().find(|(_, frame)| !is_insider(frame)).unwrap_or((0, leaf));
    let mut place = shortened(&frame.function);
    if let Some(line) = &frame.line {
        place += &format!(" at {line}");
    }
    if let Some(outer) = frames[at..].iter().find(|outer| !outer.is_inlined).filter(|_| frame.is_inlined) {
        place += &format!(" in {}", shortened(&outer.function));
    }
    if at > 0 {
        place += &format!(" by {}", shortened(&leaf.function));
    }
    if !frame.module.is_empty() {
        place += &format!(" ({})", frame.module);
    }
    place
}

/// A long name without what its brackets enclose, cut if it is still long.
fn shortened(name: &str) -> String {
    if name.len() <= NAME_CHARS {
        return name.into();
    }
    let (mut short, mut depth) = (String::new(), 0usize);
    for c in name.chars() {
        let is_operator = short.ends_with("operator");
        match c {
            '<' | '(' if !is_operator => {
                depth += 1;
                if depth == 1 {
                    short.push(c);
                }
            }
            '>' | ')' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    short.push(c);
                }
            }
            _ if depth == 0 => short.push(c),
            _ => {}
        }
    }
    match short.char_indices().nth(NAME_CHARS) {
        Some((end, _)) => format!("{}...", &short[..end]),
        None => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: &str) -> Frame {
        Frame {
            function: function.into(),
            line: Some("a.c:7".into()),
            is_inlined: false,
            module: module.into(),
        }
    }

    fn stack(found: Found, frames: Vec<Frame>) -> Stack {
        Stack { found, duration: Duration::from_micros(50), frames }
    }

    #[test]
    fn the_most_frequent_place_comes_first() {
        let hot = || stack(Found::Flash, vec![frame("hot", "x"), frame("main", "x")]);
        let copy = stack(Found::Ram, vec![frame("memmove", "libc.so.6"), frame("rare", "x")]);
        let stacks = Stacks { faults: 3000, stacks: vec![copy, hot(), hot()] };
        let text = table(&stacks);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("3000 faults") && lines[0].contains("0.1 s (3 samples)"), "{text}");
        assert!(lines[2].contains("66.7 %") && lines[2].ends_with("hot at a.c:7 (x)"), "{text}");
        assert!(lines[2].contains("100 %     0 %"), "{text}");
        assert!(lines[3].ends_with("rare at a.c:7 by memmove (x)"), "{text}");
    }

    #[test]
    fn small_functions_are_told_apart_by_what_they_are_part_of() {
        let small = Frame { is_inlined: true, ..frame("small", "x") };
        assert_eq!(place(&[small.clone(), small, frame("large", "x")]), "small at a.c:7 in large (x)");
    }

    #[test]
    fn names_of_templates_become_short() {
        let row = "std::vector<shop::Row, std::allocator<shop::Row> >";
        let long = format!("void sort<{row} >({row}*, std::function<void (int)> const&) const");
        assert_eq!(shortened(&long), "void sort<>() const");
        assert_eq!(shortened(&format!("bool operator<<{row} >({row})")), "bool operator<<>()");
        assert_eq!(shortened("a<b>(c)"), "a<b>(c)");
        assert_eq!(shortened(&"\u{e9}".repeat(99)).chars().count(), NAME_CHARS + 3);
    }

    #[test]
    fn the_rest_is_one_line() {
        let stacks = (0..40).map(|n| stack(Found::Zeros, vec![frame(&format!("f{n}"), "x")])).collect();
        let text = table(&Stacks { faults: 40, stacks });
        assert_eq!(text.lines().count(), 2 + SHOWN);
        assert!(text.lines().last().unwrap().ends_with("26 other places"), "{text}");
        assert!(place(&[]).contains("not known"));
    }
}

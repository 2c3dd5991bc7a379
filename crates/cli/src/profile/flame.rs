//! The flame graph: callers below, what they call above, and on top what the faults have found.

use std::collections::BTreeMap;
use std::io;

use aquifer_base::Found;
use inferno::flamegraph::{self, Options};

use crate::profile::stacks::{Stack, Stacks};

/// Draws the picture.
///
/// # Errors
/// Of `out`.
pub fn draw(stacks: &Stacks, out: &mut dyn io::Write) -> io::Result<()> {
    let mut counts = BTreeMap::<String, u64>::new();
    for stack in &stacks.stacks {
        *counts.entry(folded(stack)).or_default() += 1;
    }
    let lines: Vec<String> = counts.into_iter().map(|(stack, count)| format!("{stack} {count}")).collect();
    let mut options = Options::default();
    options.title = "Where faults come from".into();
    options.subtitle = Some(format!("{} samples of {} faults", stacks.stacks.len(), stacks.faults));
    options.count_name = "faults".into();
    options.factor = stacks.faults as f64 / stacks.stacks.len().max(1) as f64;
    options.deterministic = true;
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
}

/// Names from the outermost on, with what separates them replaced.
fn folded(stack: &Stack) -> String {
    let found = match stack.found {
        Found::Flash => "[read from flash]",
        Found::Ram | Found::Mapped => "[found in RAM]",
        Found::Zeros => "[never written before]",
        Found::FirstWrite => "[first write]",
    };
    let names = stack.frames.iter().rev().map(|frame| frame.function.replace(';', ":"));
    names.chain([found.to_owned()]).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::symbols::Frame;
    use std::time::Duration;

    #[test]
    fn names_are_in_the_picture_and_cannot_leave_it() {
        let frame = |function: &str| Frame {
            function: function.into(),
            line: None,
            is_inlined: false,
            module: "x".into(),
        };
        let frames = vec![frame("inner<a;b>"), frame("</text><script>"), frame("")];
        let stack = Stack { found: Found::Flash, duration: Duration::ZERO, frames };
        let mut svg = Vec::new();
        draw(&Stacks { faults: 10, stacks: vec![stack] }, &mut svg).expect("memory has room");
        let svg = String::from_utf8(svg).expect("it is text");
        assert!(svg.contains("inner&lt;a:b&gt;") && svg.contains("[read from flash]"), "{svg}");
        assert!(!svg.contains("</text><script>"), "{svg}");
    }
}

//! How the command line is shown: helps that begin with what a subcommand is for and how it is called, and completions for shells.
//!
//! The definition is in `arguments` and in each subcommand's own file: `about` is the first line of its purpose, `before_help` the second,
//! `after_help` has its examples and behind a blank line what else is to say. Manual pages are made of the same, by the tests
//! (`tests/command/pages.rs`), which also hold those in `man/` against it.

use std::io;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::error::Error;

/// What the help shows at its beginning.
pub const EXAMPLES: &str = "\
Examples:
  aquifer completions bash > ~/.local/share/bash-completion/completions/aquifer
  aquifer completions zsh > ~/.zfunc/_aquifer              with fpath=(~/.zfunc $fpath) in ~/.zshrc
  aquifer completions fish > ~/.config/fish/completions/aquifer.fish";

/// In the order in which people need it: what it is for, how it is called, with what.
const TEMPLATE: &str = "{about}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}\n";

/// Arguments of `aquifer completions`.
#[derive(Args, Debug)]
pub struct CompletionsArguments {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// Prints completions for a shell.
///
/// # Errors
/// The output's.
pub fn completions(arguments: &CompletionsArguments) -> Result<ExitCode, Error> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "aquifer", &mut text);
    io::Write::write_all(&mut io::stdout(), &text)?;
    Ok(ExitCode::SUCCESS)
}

/// The whole command line with helps as they are shown.
pub fn command() -> clap::Command {
    shown(Arguments::command())
}

fn shown(command: clap::Command) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = names.iter().fold(command, |command, name| command.mut_subcommand(name, shown));
    let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
    let (purpose, behind) = (text(command.get_before_help()), text(command.get_after_help()));
    let (examples, rest) = divided(&behind);
    let front: Vec<&str> = [purpose.as_str(), examples].into_iter().filter(|part| !part.is_empty()).collect();
    let (front, rest) = (front.join("\n\n"), rest.to_owned());
    let command = command.help_template(TEMPLATE).before_help(front);
    if rest.is_empty() { command.after_help(None::<&str>) } else { command.after_help(rest) }
}

/// The examples, and what else is said behind the options.
pub fn divided(behind: &str) -> (&str, &str) {
    if !behind.starts_with("Examples:\n") {
        return ("", behind);
    }
    let (examples, rest) = behind.split_once("\n\n").unwrap_or((behind, ""));
    (examples, rest.trim_start_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_end_at_a_blank_line() {
        assert_eq!(
            divided("Examples:\n  a\n  b\n\nMore.\n\nStill."),
            ("Examples:\n  a\n  b", "More.\n\nStill.")
        );
        assert_eq!(divided("Examples:\n  a"), ("Examples:\n  a", ""));
        assert_eq!(divided("More."), ("", "More."));
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}

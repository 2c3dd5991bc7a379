//! Commands in documents: each is one that there is, spelled as this version spells it.

mod lines;

use aquifer_cli::arguments::old::renewed;
use aquifer_cli::manual;
use clap::error::ErrorKind;

#[test]
fn commands_in_documents_are_those_that_there_are() {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for (place, words) in lines::commands_of("aquifer") {
        let shown = words.join(" ");
        tried += 1;
        let (words, hints) = renewed(words.into_iter().map(Into::into).collect());
        wrong.extend(hints.into_iter().map(|hint| format!("{place}: {shown}: {hint}")));
        match manual::command().try_get_matches_from(words) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::DisplayVersion | ErrorKind::DisplayHelp) => {}
            Err(error) => {
                wrong.push(format!(
                    "{place}: {shown}: {}",
                    error.to_string().lines().next().unwrap_or_default()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 80, "{tried}");
}

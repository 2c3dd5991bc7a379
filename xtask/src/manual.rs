//! The manual page of the library lists every function of the header, in its order and with its types.

use crate::Finding;
use std::path::Path;

const HEADER: &str = "include/aquifer.h";
const PAGE: &str = "man/aquifer.3";
/// Lines of the page around the list.
const BEGIN: &str = ".\\\" All functions: made of include/aquifer.h by make man.\n";
const END: &str = ".\\\" End of all functions.\n";

/// Compares the list with the header.
///
/// # Errors
/// One of the two files cannot be read, or the page has no place for the list.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let (header, page) = (read(root, HEADER)?, read(root, PAGE)?);
    let is_fresh = with_list(&page, &header)? == page;
    let stale =
        || Finding::Broken(format!("{PAGE}: the list of functions is not that of {HEADER}: make man"));
    Ok(if is_fresh { Vec::new() } else { vec![stale()] })
}

/// Writes the list anew.
///
/// # Errors
/// As [`check`]; the page cannot be written.
pub fn write(root: &Path) -> Result<(), String> {
    let page = with_list(&read(root, PAGE)?, &read(root, HEADER)?)?;
    std::fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))
}

/// The page with the list of the header in its place.
fn with_list(page: &str, header: &str) -> Result<String, String> {
    let missing = || format!("{PAGE} has no lines {BEGIN}{END}");
    let (front, rest) = page.split_once(BEGIN).ok_or_else(missing)?;
    let (_, behind) = rest.split_once(END).ok_or_else(missing)?;
    let list: String = functions(header).iter().map(|function| escaped(function) + "\n").collect();
    Ok(format!("{front}{BEGIN}.nf\n{list}.fi\n{END}{behind}"))
}

/// Declarations of functions, each in one line.
fn functions(header: &str) -> Vec<String> {
    let code = without_comments(header);
    // Directives and structures hold semicolons, too; a declaration of ours has a name with our prefix before its parenthesis.
    let lines =
        code.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let declarations =
        lines.split(['{', '}', ';']).map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let is_function = |text: &String| {
        text.split_once('(').is_some_and(|(front, _)| {
            let name = front.rsplit([' ', '*']).next().unwrap_or_default();
            name.starts_with("aq_") && !text.starts_with("typedef") && !text.starts_with("static")
        })
    };
    declarations.filter(is_function).map(|text| text + ";").collect()
}

fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        code += before;
        rest = after.split_once("*/").map_or("", |(_, behind)| behind);
    }
    code + rest
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "#define AQ_A(x) ((x);\n/* aq_not(this); */\ntypedef struct { int a; } aq_b;\nint\n  aq_c(aq_b *b,\n       int n);\nvoid *aq_d(void);\ntypedef int (*aq_e)(int);\n";

    #[test]
    fn declarations_are_found_in_their_order() {
        assert_eq!(functions(TEXT), ["int aq_c(aq_b *b, int n);", "void *aq_d(void);"]);
    }

    #[test]
    fn a_page_without_a_function_is_stale() {
        let page = format!("a\n{BEGIN}.nf\nvoid *aq_d(void);\n.fi\n{END}b\n");
        let fresh = with_list(&page, TEXT).unwrap();
        assert!(
            fresh != page
                && fresh.contains("int aq_c(aq_b *b, int n);\nvoid *aq_d(void);\n")
                && fresh.ends_with("b\n")
        );
        assert_eq!(with_list(&fresh, TEXT).unwrap(), fresh);
        assert!(with_list("no place\n", TEXT).is_err());
    }
}

//! A document as one HTML page. The page is well-formed XML too, which makes it easy to check.

use super::document::{Document, Part, Section, Table};
use super::escape::markup;
use super::svg::Plot;

const STYLE: &str = include_str!("page/style.css");

pub(crate) fn html(document: &Document) -> String {
    let title = markup(&document.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <link rel=\"icon\" href=\"data:,\"/>\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for warning in &document.warnings {
        text.push_str(&format!("<p class=\"verdict bad\">{}</p>\n", markup(warning)));
    }
    write_summary(&mut text, document);
    for section in &document.sections {
        write_section(&mut text, section);
    }
    text.push_str("</body>\n</html>\n");
    text
}

/// What was found, and where to read on.
fn write_summary(text: &mut String, document: &Document) {
    if !document.summary.is_empty() {
        text.push_str("<ul class=\"summary\">\n");
        for finding in &document.summary {
            text.push_str(&format!("<li>{}</li>\n", markup(finding)));
        }
        text.push_str("</ul>\n");
    }
    if document.sections.len() > 1 {
        text.push_str("<nav>\n");
        for section in &document.sections {
            text.push_str(&format!("<a href=\"#{}\">{}</a>\n", section.id, markup(section.title)));
        }
        text.push_str("</nav>\n");
    }
}

fn write_section(text: &mut String, section: &Section) {
    text.push_str(&format!("<section id=\"{}\">\n<h2>{}</h2>\n", section.id, markup(section.title)));
    if !section.text.is_empty() {
        text.push_str(&format!("<p>{}</p>\n", markup(&section.text)));
    }
    // A single plot and the tables after it stand side by side where there is room.
    let mut is_flowing = false;
    for part in &section.parts {
        let drawn = drawn(part);
        let flows = matches!(part, Part::Table(_)) || drawn.len() == 1;
        if is_flowing != flows {
            text.push_str(if flows { "<div class=\"flow\">\n" } else { "</div>\n" });
            is_flowing = flows;
        }
        write_part(text, part, &drawn);
    }
    text.push_str(if is_flowing { "</div>\n</section>\n" } else { "</section>\n" });
}

/// The pictures of a part.
fn drawn(part: &Part) -> Vec<String> {
    let plots = if let Part::Plots(plots) = part { &plots[..] } else { &[] };
    plots.iter().map(Plot::draw).filter(|plot| !plot.is_empty()).collect()
}

fn write_part(text: &mut String, part: &Part, drawn: &[String]) {
    match part {
        Part::Verdict(is_good, verdict) => {
            let class = if *is_good { "good" } else { "bad" };
            text.push_str(&format!("<p class=\"verdict {class}\">{}</p>\n", markup(verdict)));
        }
        Part::Plots(_) if drawn.len() > 1 => {
            let figures: String = drawn.iter().map(|plot| format!("<figure>{plot}</figure>\n")).collect();
            text.push_str(&format!("<div class=\"plots\">\n{figures}</div>\n"));
        }
        Part::Plots(_) => drawn.iter().for_each(|plot| text.push_str(&format!("<figure>{plot}</figure>\n"))),
        Part::Table(table) => write_table(text, table),
    }
}

fn write_table(text: &mut String, table: &Table) {
    text.push_str("<div class=\"wide\"><table>\n");
    if !table.caption.is_empty() {
        text.push_str(&format!("<caption>{}</caption>\n", markup(&table.caption)));
    }
    text.push_str("<thead><tr>");
    for column in &table.columns {
        text.push_str(&format!("<th scope=\"col\">{}</th>", markup(column)));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        text.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let (open, close) = if at == 0 { ("<th scope=\"row\">", "</th>") } else { ("<td>", "</td>") };
            text.push_str(&format!("{open}{}{close}", markup(cell)));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table></div>\n");
}

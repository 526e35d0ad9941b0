//! The manual's table of failures, generated from the catalogue.
//! Reads and writes no file; a test compares it with what is committed.

use std::fmt::Write;

use super::{FailureCode, Scope};

/// The line before the generated section.
pub const BEGIN: &str = "<!-- failures: generated from the catalogue, do not edit -->";
/// The line behind it.
pub const END: &str = "<!-- failures: end -->";

/// The section, in Markdown, without its markers.
#[must_use]
pub fn failures_section() -> String {
    let mut out = String::new();
    let parts = [
        (Scope::Job, "Of a whole job or command:"),
        (
            Scope::Entry,
            "Of one entry, with the `side` that is at fault where the table says `named_side`:",
        ),
    ];
    for (scope, title) in parts {
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "\n{title}\n\n| code | exit | fault | retry | meaning | what to do |\n| --- | --- | --- | --- | --- | --- |\n"
        );
        for code in FailureCode::ALL.iter().filter(|code| code.scope() == scope) {
            let _ = writeln!(
                out,
                "| `{code}` | {} | {} | {} | {} | {} |",
                code.exit() as u8,
                code.culprit().as_str(),
                code.retry().as_str(),
                code.meaning(),
                code.advice(),
            );
        }
    }
    out.push('\n');
    out
}

/// The section put between its markers in a document; None where a marker is missing.
#[must_use]
pub fn replace_section(document: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{BEGIN}\n{}{END}{after}",
        failures_section()
    ))
}

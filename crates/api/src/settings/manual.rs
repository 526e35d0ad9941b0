//! The manual's section on settings, generated from the table.
//! Reads and writes no file; a test compares it with what is committed.

use crate::job::JobKind;
use crate::settings::table::{GivenIn, Kind, Scope, Setting};
use crate::settings::value::range_text;
use std::fmt::Write;

/// The line before the generated section.
pub const BEGIN: &str = "<!-- settings: generated from the table, do not edit -->";
/// The line behind it.
pub const END: &str = "<!-- settings: end -->";

/// The section, in Markdown, without its markers.
#[must_use]
pub fn settings_section() -> String {
    let mut out = String::new();
    for scope in Scope::ALL {
        // Writing to a String cannot fail.
        let _ = write!(out, "\n### `godwit {}`\n\n", scope.name());
        out.push_str("| setting | values | default | variable | meaning |\n| --- | --- | --- | --- | --- |\n");
        for setting in Setting::all_of(scope) {
            let _ = writeln!(out, "{}", row(setting));
        }
        let _ = write!(out, "{}", not_in_jobs(scope));
        for setting in Setting::all_of(scope).filter(|setting| !setting.detail.is_empty()) {
            let _ = write!(out, "\n`--{}`: {}\n", setting.name, setting.detail);
        }
    }
    out.push('\n');
    out
}

/// Which settings of a command a job of a node cannot have; empty for a command that no job is like.
fn not_in_jobs(scope: Scope) -> String {
    let kinds = [JobKind::Copy, JobKind::Sync, JobKind::Verify];
    if !kinds.iter().any(|kind| kind.scope() == scope) {
        return String::new();
    }
    let names: Vec<String> = Setting::all_of(scope)
        .filter(|setting| setting.given_in != GivenIn::Jobs)
        .map(|setting| format!("`--{}`", setting.name))
        .collect();
    format!(
        "\nA job of a node is refused with any of these settings: {}.\n",
        names.join(", ")
    )
}

/// The section put between its markers in a document; None where a marker is missing.
#[must_use]
pub fn replace_section(document: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{BEGIN}\n{}{END}{after}",
        settings_section()
    ))
}

/// What stands behind the flag in usage lines; None for a plain flag.
#[must_use]
pub fn placeholder(kind: &Kind) -> Option<String> {
    match kind {
        Kind::Size { .. } => Some("SIZE".to_owned()),
        Kind::Rate => Some("RATE".to_owned()),
        Kind::Duration { .. } => Some("DURATION".to_owned()),
        Kind::Count { .. } | Kind::Bounds { .. } | Kind::CountOrNone => Some("N".to_owned()),
        Kind::Flag => None,
        Kind::Choice(choices) => Some(choices.join("|")),
        Kind::Ports => Some("PORTS".to_owned()),
        Kind::Text { form } | Kind::List { form } => Some((*form).to_owned()),
        Kind::File => Some("FILE".to_owned()),
    }
}

fn row(setting: &Setting) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let default = match setting.default {
        "" => "none".to_owned(),
        text => format!("`{text}`"),
    };
    format!(
        "| `--{}` | {} | {default} | `{}` | {} |",
        setting.name,
        cell(&range_text(&setting.kind)),
        setting.variable,
        cell(setting.help),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_in_the_section() {
        let section = settings_section();
        for setting in crate::settings::SETTINGS {
            assert!(section.contains(&format!("| `--{}` |", setting.name)));
            assert!(section.contains(setting.variable));
        }
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let document = format!("above\n{BEGIN}\nstale\n{END}\nbelow\n");
        let new = replace_section(&document).expect("has markers");
        assert!(new.starts_with("above\n") && new.ends_with("\nbelow\n") && !new.contains("stale"));
        assert_eq!(
            replace_section(&new),
            Some(new.clone()),
            "a second time changes nothing"
        );
        assert_eq!(replace_section("no markers"), None);
    }
}

//! Owns `docs/settings.md`, which is generated from the table of settings.
//! Reads and writes no file; a test compares the page with the committed one.

use std::fmt::Write;

use crate::job::JobKind;
use crate::settings::table::{AppliesTo, Heading, Kind, SETTINGS, Setting};
use crate::settings::value::range_text;

const HEAD: &str = "\
# Settings

<!-- Generated from the table of settings: GODWIT_BLESS=1 cargo test --workspace --locked --test pages -->

A setting comes from the first of: flag, environment variable, `config.toml` in `GODWIT_HOME`, default. [The guide](guide.md#settings-and-files) shows the file.

- **name** is the key in the file. A key at the top applies to every command with this setting; a key in a section such as `[cp]` applies to that command and takes precedence.
- **variable**: several values are separated by `;`.
- **range**: both ends are allowed values. Sizes and rates take SI or IEC prefixes (`300MB`, `64GiB`, `2.5Gbit/s`), durations add up (`1h30m`).
- **type** `switch`: the flag alone means `true`; `--verify=false` switches off. **list**: the flag may be repeated.
- **jobs**: `setting` is given by `godwit job submit --setting NAME=VALUE`, `flag` by the same flag of `godwit job submit`. Jobs of a node refuse all other settings.

| name | flag | variable | type | range | default | meaning | commands | jobs |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

/// The page, in Markdown.
#[must_use]
pub fn page() -> String {
    let mut settings: Vec<&Setting> = SETTINGS.iter().collect();
    settings.sort_by_key(|setting| setting.name);
    let mut out = HEAD.to_owned();
    for setting in &settings {
        out.push_str(&row(setting));
    }
    out.push_str("\n## Details\n\n");
    for setting in settings {
        if !setting.detail.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "- **{}** ({}): {}",
                setting.name,
                commands(setting),
                setting.detail
            );
        }
    }
    out
}

fn row(setting: &Setting) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let letter = setting.letter().map(|letter| format!("`-{letter}`, "));
    let default = match setting.default {
        "" => "none".to_owned(),
        text => format!("`{text}`"),
    };
    format!(
        "| {name} | {letter}`--{name}` | `{variable}` | {kind} | {range} | {default} | {help} | {commands} | {jobs} |\n",
        name = setting.name,
        letter = letter.unwrap_or_default(),
        variable = setting.variable,
        kind = kind(&setting.kind),
        range = cell(&range_text(&setting.kind)),
        help = cell(setting.help),
        commands = commands(setting),
        jobs = jobs(setting),
    )
}

fn commands(setting: &Setting) -> String {
    let names: Vec<&str> = setting.scopes.iter().map(|scope| scope.name()).collect();
    names.join(", ")
}

/// How a job gets the setting, if it can.
fn jobs(setting: &Setting) -> &'static str {
    let kinds = [JobKind::Copy, JobKind::Sync, JobKind::Verify];
    let is_of_jobs = kinds
        .iter()
        .any(|kind| setting.scopes.contains(&kind.scope()));
    match setting.applies_to {
        _ if setting.heading == Heading::Choosing => "flag",
        AppliesTo::Jobs if is_of_jobs => "setting",
        _ => "–",
    }
}

fn kind(kind: &Kind) -> &'static str {
    match kind {
        Kind::Size { .. } => "size",
        Kind::Rate => "rate",
        Kind::Duration { .. } => "duration",
        Kind::Count { .. } | Kind::CountOrNone => "number",
        Kind::Bounds { .. } => "number or range",
        Kind::Flag => "switch",
        Kind::Choice(_) => "word",
        Kind::Text { .. } => "text",
        Kind::File => "file",
        Kind::Ports => "ports",
        Kind::List { .. } => "list",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_row_of_nine_cells() {
        let page = page();
        for setting in SETTINGS {
            let row = row(setting);
            assert_eq!(row.replace("\\|", "").matches('|').count(), 10, "{row}");
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_setting_of_jobs_says_how_a_job_gets_it() {
        let of = |name: &str| {
            SETTINGS
                .iter()
                .find(|setting| setting.name == name)
                .map(jobs)
        };
        assert_eq!(of("streams"), Some("setting"));
        assert_eq!(of("exclude"), Some("flag"));
        assert_eq!(of("rsh"), Some("–"));
        assert_eq!(of("listen"), Some("–"));
    }
}

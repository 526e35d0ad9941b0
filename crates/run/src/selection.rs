//! Reads the selection of entries from a command's settings: files of rules, ages, times of files.
//! Does not open lists of names or examine sources.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use godwit_api::Moment;
use godwit_api::failure::Failure;
use godwit_api::job::{self, ListForm, Text};
use godwit_api::settings::{RuleSource, RuleText, SelectionSettings, When};
use godwit_proto::limits::RULES_MAX;
use godwit_tree::select::{parse_rule, parse_rules};

/// Longest accepted file of rules: longer than all rules together may be.
const RULE_FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads the files that the settings name. `None` means all entries.
///
/// # Errors
/// Contains the file or rule at fault.
pub fn read_selection(settings: &SelectionSettings) -> Result<Option<job::Selection>, Failure> {
    let selection = job::Selection {
        rules: rules(&settings.rules, settings.from0)?,
        bytes_min: settings.min_size.filter(|bytes| *bytes > 0),
        bytes_max: settings.max_size,
        newer: settings.newer.as_ref().map(moment).transpose()?,
        older: settings.older.as_ref().map(moment).transpose()?,
        list: settings.files_from.as_ref().map(|_| match settings.from0 {
            true => ListForm::Zeros,
            false => ListForm::Lines,
        }),
        // Without a list, -r is the default, and users give it out of habit.
        recursive: settings.recursive && settings.files_from.is_some(),
        one_file_system: settings.one_file_system,
    };
    Ok((selection != job::Selection::default()).then_some(selection))
}

fn rules(sources: &[RuleSource], from0: bool) -> Result<Vec<job::Rule>, Failure> {
    let mut rules = Vec::new();
    for source in sources {
        let flag = if source.include { "include" } else { "exclude" };
        match &source.from {
            RuleText::Inline(text) => {
                let rule = parse_rule(text.as_encoded_bytes(), source.include)
                    .map_err(|error| Failure::usage(format!("--{flag}: {error}")))?;
                rules.push(rule);
            }
            RuleText::File(path) => {
                let content = read_rules(path).map_err(|error| {
                    Failure::usage(format!("--{flag}-from {}: {error}", path.display()))
                })?;
                let read =
                    parse_rules(&content, source.include, from0).map_err(|(line, error)| {
                        Failure::usage(format!("{}: line {line}: {error}", path.display()))
                    })?;
                rules.extend(read);
            }
        }
        if rules.len() > RULES_MAX {
            return Err(Failure::usage(format!(
                "more than {RULES_MAX} patterns to include and exclude; to name many entries use --files-from"
            )));
        }
    }
    Ok(rules
        .into_iter()
        .map(|rule| job::Rule {
            include: rule.include,
            pattern: Text(rule.pattern),
        })
        .collect())
}

fn read_rules(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut content = Vec::new();
    let read = std::fs::File::open(path)?
        .take(RULE_FILE_BYTES_MAX + 1)
        .read_to_end(&mut content)?;
    if read as u64 > RULE_FILE_BYTES_MAX {
        return Err(std::io::Error::other(
            "this is too large for a file of patterns",
        ));
    }
    Ok(content)
}

fn moment(when: &When) -> Result<job::When, Failure> {
    Ok(match when {
        When::At(moment) => *moment,
        When::Ago(duration) => SystemTime::now().checked_sub(*duration).map_or(
            Moment {
                seconds: 0,
                nanoseconds: 0,
            },
            since_1970,
        ),
        When::File(path) => {
            let modified = std::fs::metadata(path).and_then(|meta| meta.modified());
            let modified = modified.map_err(|error| {
                Failure::usage(format!(
                    "{}: {error}; --newer and --older take a time such as 2026-01-31 or 2d, or an existing file",
                    path.display()
                ))
            })?;
            since_1970(modified)
        }
    }
    .into())
}

fn since_1970(time: SystemTime) -> Moment {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Moment {
            seconds: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: after.subsec_nanos(),
        },
        Err(error) => {
            let before = error.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match before.subsec_nanos() {
                0 => Moment {
                    seconds: -seconds,
                    nanoseconds: 0,
                },
                nanoseconds => Moment {
                    seconds: -seconds - 1,
                    nanoseconds: 1_000_000_000 - nanoseconds,
                },
            }
        }
    }
}

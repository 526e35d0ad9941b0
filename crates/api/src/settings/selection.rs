//! Settings that select entries below the sources.
//! Reads no file and no pattern.

use crate::duration::parse_duration;
use crate::settings::resolve::{Origin, SettingError, SettingProblem, Values};
use crate::settings::value::{Value, ValueError};
use crate::units::parse_size;
use godwit_model::{Moment, parse_moment};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Selection of entries.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SelectionSettings {
    /// Rules in order: the first rule that matches an entry decides.
    pub rules: Vec<RuleSource>,
    /// Smaller files are left out.
    pub min_size: Option<u64>,
    /// Larger files are left out.
    pub max_size: Option<u64>,
    /// Only entries that were modified after this time.
    pub newer: Option<When>,
    /// Only entries that were modified before this time.
    pub older: Option<When>,
    /// Only entries that this list names.
    pub files_from: Option<ListPlace>,
    /// Rules and names in files end in zero bytes.
    pub from0: bool,
    /// Directories in a list include all their contents.
    pub recursive: bool,
    /// The scan of a tree stops at mount points of other file systems.
    pub one_file_system: bool,
}

/// A rule, or a file of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleSource {
    /// Matching entries are included, unless the rule says otherwise.
    pub include: bool,
    /// The rules.
    pub from: RuleText,
}

/// Location of the text of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RuleText {
    /// In the setting itself.
    Inline(OsString),
    /// In a file, one rule per line.
    File(PathBuf),
}

/// A time, or the source of one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum When {
    /// A fixed time.
    At(Moment),
    /// A time before now.
    Ago(Duration),
    /// The modification time of this file.
    File(PathBuf),
}

/// Location of a list of names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ListPlace {
    /// Standard input.
    Input,
    /// A file.
    File(PathBuf),
}

/// The settings that are rules, with their effect on a match. Rules from elsewhere than the command line come in this order.
const RULE_SETTINGS: [(&str, bool, bool); 4] = [
    ("include", true, false),
    ("include-from", true, true),
    ("exclude", false, false),
    ("exclude-from", false, true),
];

impl SelectionSettings {
    /// Takes the values of a command that has these settings.
    ///
    /// # Errors
    /// Names the size at fault.
    ///
    /// # Panics
    /// If the command has no such settings.
    pub fn from_values(values: &Values) -> Result<Self, SettingError> {
        Ok(Self {
            rules: rules(values),
            min_size: size(values, "min-size")?,
            max_size: size(values, "max-size")?,
            newer: some_text(values, "newer").map(|text| When::parse(&text)),
            older: some_text(values, "older").map(|text| When::parse(&text)),
            files_from: some_text(values, "files-from").map(|text| {
                if text == "-" {
                    ListPlace::Input
                } else {
                    ListPlace::File(text.into())
                }
            }),
            from0: values.flag("from0"),
            recursive: values.flag("recursive"),
            one_file_system: values.flag("one-file-system"),
        })
    }
}

impl When {
    /// Parses a time, a duration before now, or else the name of a file.
    #[must_use]
    pub fn parse(text: &OsString) -> Self {
        let readable = text.to_str();
        if let Some(moment) = readable.and_then(parse_moment) {
            return Self::At(moment);
        }
        match readable.map(parse_duration) {
            Some(Ok(duration)) => Self::Ago(duration),
            _ => Self::File(text.into()),
        }
    }
}

/// The rules of the command line come first, in their order.
fn rules(values: &Values) -> Vec<RuleSource> {
    let mut typed: Vec<(&str, VecDeque<RuleSource>)> = Vec::new();
    let mut others = Vec::new();
    for (name, include, is_file) in RULE_SETTINGS {
        let (Value::List(texts), origin) = values.get(name) else {
            continue;
        };
        let given = texts.iter().map(|text| RuleSource {
            include,
            from: if is_file {
                RuleText::File(text.into())
            } else {
                RuleText::Inline(text.clone())
            },
        });
        if matches!(origin, Origin::Flag(_)) {
            typed.push((name, given.collect()));
        } else {
            others.extend(given);
        }
    }
    let mut rules = Vec::new();
    for name in values.order() {
        let queue = typed.iter_mut().find(|(typed, _)| typed == name);
        rules.extend(queue.and_then(|(_, queue)| queue.pop_front()));
    }
    rules.extend(typed.into_iter().flat_map(|(_, queue)| queue));
    rules.extend(others);
    rules
}

fn some_text(values: &Values, name: &str) -> Option<OsString> {
    Some(values.text(name)).filter(|text| !text.is_empty())
}

fn size(values: &Values, name: &str) -> Result<Option<u64>, SettingError> {
    let Some(text) = some_text(values, name) else {
        return Ok(None);
    };
    let problem = match text.to_str().map(|text| (text, parse_size(text))) {
        Some((_, Ok(bytes))) => return Ok(Some(bytes)),
        Some((text, Err(error))) => ValueError::Unit {
            text: text.to_owned(),
            error,
        },
        None => ValueError::NotText,
    };
    Err(SettingError {
        origin: values.get(name).1.clone(),
        problem: SettingProblem::Value(problem),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ConfigFile, Scope, Typed, resolve};
    use std::path::Path;

    fn settings(
        typed: &[(&'static str, &str)],
        file: &str,
    ) -> Result<SelectionSettings, SettingError> {
        let mut flags = Typed::new();
        for (name, text) in typed {
            flags.entry(name).or_default().push(text.into());
        }
        let order = typed.iter().map(|(name, _)| *name).collect();
        let file = ConfigFile::parse(Path::new("/h/config.toml"), file).expect("valid TOML");
        let values = resolve(Scope::Cp, &flags, &|_| None, &file)?.with_order(order);
        SelectionSettings::from_values(&values)
    }

    #[test]
    fn rules_keep_the_order_of_the_command_line() {
        let typed = [
            ("exclude", "a"),
            ("include-from", "b"),
            ("exclude", "c"),
            ("include", "d"),
        ];
        let file = "exclude-from = 'f'\n";
        let rule = |include, from| RuleSource { include, from };
        let expected = [
            rule(false, RuleText::Inline("a".into())),
            rule(true, RuleText::File("b".into())),
            rule(false, RuleText::Inline("c".into())),
            rule(true, RuleText::Inline("d".into())),
            rule(false, RuleText::File("f".into())),
        ];
        assert_eq!(settings(&typed, file).expect("valid").rules, expected);
        assert_eq!(
            settings(&[], "").expect("valid"),
            SelectionSettings::default()
        );
    }

    #[test]
    fn limits_are_read() {
        let typed = [
            ("min-size", "1KiB"),
            ("newer", "2026-01-31"),
            ("older", "2d"),
            ("files-from", "-"),
        ];
        let read = settings(&typed, "max-size = '2MB'").expect("valid");
        assert_eq!(
            (read.min_size, read.max_size),
            (Some(1024), Some(2_000_000))
        );
        assert!(matches!(read.newer, Some(When::At(_))));
        assert_eq!(read.older, Some(When::Ago(Duration::from_secs(172_800))));
        assert_eq!(read.files_from, Some(ListPlace::Input));
        assert_eq!(When::parse(&"./2d".into()), When::File("./2d".into()));
        let message = settings(&[("min-size", "big")], "").expect_err("wrong");
        assert_eq!(
            message.to_string(),
            "--min-size: `big`: the value must begin with a number, as in 64GiB"
        );
    }
}

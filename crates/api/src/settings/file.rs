//! The settings file, `config.toml` in `GODWIT_HOME`.
//! Writes nothing and knows no precedence.
//!
//! A key at the top holds for every command that has a setting of this name; a key in a section `[cp]`, `[serve]`
//! or `[gen]` holds for that command and comes first. A key that no command knows, or a value out of range, is an
//! error whatever command runs, so that a slip is found at once.

use crate::settings::resolve::{Origin, SettingError, SettingProblem};
use crate::settings::table::{SETTINGS, Scope, Setting};
use crate::settings::value::{Value, parse_value};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::{Table, Value as Toml};

/// What the file says, every value parsed.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile {
    path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// None at the top of the file.
    section: Option<Scope>,
    name: &'static str,
    value: Value,
}

impl ConfigFile {
    /// Reads the file; one that does not exist says nothing.
    ///
    /// # Errors
    /// Names the file, and the key where one is at fault.
    pub fn load(path: &Path) -> Result<Self, SettingError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(whole_file(
                path,
                format!(
                    "it cannot be read: {error}; GODWIT_HOME says which directory it is looked for in"
                ),
            )),
        }
    }

    /// Reads a file's text; the path is for messages.
    ///
    /// # Errors
    /// As [`ConfigFile::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, SettingError> {
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| whole_file(path, syntax_message(text, &error)))?;
        let mut file = Self {
            path: path.to_owned(),
            entries: Vec::new(),
        };
        for (key, value) in table {
            let section = Scope::ALL.into_iter().find(|scope| scope.name() == key);
            match (section, value) {
                (Some(scope), Toml::Table(table)) => {
                    for (key, value) in table {
                        file.add(Some(scope), &key, value)?;
                    }
                }
                (_, value) => file.add(None, &key, value)?,
            }
        }
        Ok(file)
    }

    /// What it says about a setting of a command, and where.
    #[must_use]
    pub fn get(&self, scope: Scope, setting: &Setting) -> Option<(Value, Origin)> {
        let in_section = |section| {
            self.entries
                .iter()
                .find(|entry| entry.name == setting.name && entry.section == section)
        };
        let entry = in_section(Some(scope)).or_else(|| in_section(None))?;
        Some((entry.value.clone(), self.origin(entry.section, entry.name)))
    }

    fn add(&mut self, section: Option<Scope>, key: &str, value: Toml) -> Result<(), SettingError> {
        let origin = self.origin(section, key);
        let fail = |problem| SettingError {
            origin: origin.clone(),
            problem,
        };
        let mut known = SETTINGS.iter().filter(|setting| {
            setting.name == key && section.is_none_or(|scope| setting.scopes.contains(&scope))
        });
        let setting = known.next().ok_or_else(|| fail(SettingProblem::Unknown))?;
        if known.next().is_some() {
            return Err(fail(SettingProblem::NeedsSection));
        }
        let given = texts(value).ok_or_else(|| fail(SettingProblem::Type))?;
        let value = parse_value(setting, &given).map_err(|error| fail(error.into()))?;
        self.entries.push(Entry {
            section,
            name: setting.name,
            value,
        });
        Ok(())
    }

    fn origin(&self, section: Option<Scope>, key: &str) -> Origin {
        Origin::File {
            path: self.path.clone(),
            key: match section {
                Some(scope) => format!("{}.{key}", scope.name()),
                None => key.to_owned(),
            },
        }
    }
}

/// In one line: the library's own message draws a picture of several.
fn syntax_message(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!(
            "line {}: {}",
            before.matches('\n').count() + 1,
            error.message()
        ),
        None => error.message().to_owned(),
    }
}

fn whole_file(path: &Path, message: String) -> SettingError {
    SettingError {
        origin: Origin::File {
            path: path.to_owned(),
            key: String::new(),
        },
        problem: SettingProblem::File(message),
    }
}

/// A TOML value as a user would have written it behind a flag.
fn texts(value: Toml) -> Option<Vec<OsString>> {
    let scalar = |value: Toml| match value {
        Toml::String(text) => Some(OsString::from(text)),
        Toml::Integer(number) => Some(number.to_string().into()),
        Toml::Float(number) => Some(number.to_string().into()),
        Toml::Boolean(flag) => Some(flag.to_string().into()),
        _ => None,
    };
    match value {
        Toml::Array(elements) => elements.into_iter().map(scalar).collect(),
        other => scalar(other).map(|text| vec![text]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(Path::new("/h/config.toml"), text).map_err(|error| error.to_string())
    }

    fn get(file: &ConfigFile, scope: Scope, name: &str) -> Option<Value> {
        let setting = Setting::find(scope, name).expect("in the table");
        file.get(scope, setting).map(|(value, _)| value)
    }

    #[test]
    fn a_section_comes_before_the_top() {
        let file = parse("threads = 3\nlimit = '8Mbit'\n[serve]\nthreads = 5\nlisten = ['::1:1', 'b']\nencryption = 'any'\n[cp]\nverify = true\n")
            .expect("valid");
        assert_eq!(get(&file, Scope::Cp, "threads"), Some(Value::Count(3)));
        assert_eq!(get(&file, Scope::Serve, "threads"), Some(Value::Count(5)));
        assert_eq!(get(&file, Scope::Cp, "limit"), Some(Value::Rate(1_000_000)));
        assert_eq!(get(&file, Scope::Cp, "verify"), Some(Value::Flag(true)));
        assert_eq!(get(&file, Scope::Cp, "encryption"), None);
        assert_eq!(
            get(&file, Scope::Serve, "encryption"),
            Some(Value::Choice("any"))
        );
        assert_eq!(
            get(&file, Scope::Serve, "listen"),
            Some(Value::List(vec!["::1:1".into(), "b".into()]))
        );
    }

    #[test]
    fn mistakes_name_the_file_and_the_key() {
        let cases = [
            (
                "stream = 2",
                "/h/config.toml: stream: no setting has this name",
            ),
            (
                "[cp]\nlisten = 'x'",
                "/h/config.toml: cp.listen: no setting has this name",
            ),
            (
                "[web]\nport = 1",
                "/h/config.toml: web: no setting has this name",
            ),
            ("cp = 1", "/h/config.toml: cp: no setting has this name"),
            (
                "streams = 129",
                "/h/config.toml: streams: `129` is out of range: N or N..N from 1 to 128, `auto`",
            ),
            (
                "streams = [1, 2]",
                "/h/config.toml: streams: it takes one value, not several",
            ),
            (
                "streams = { a = 1 }",
                "/h/config.toml: streams: a table or a date is no value here",
            ),
            (
                "encryption = 'tls'",
                "/h/config.toml: encryption: it differs between commands: write it in [cp] or [serve]",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text).expect_err("wrong"), message);
        }
        let message = parse("streams = 1\nthreads = ").expect_err("wrong");
        assert!(message.starts_with("/h/config.toml: line 2: "), "{message}");
    }

    #[test]
    fn a_missing_file_says_nothing() {
        let file = ConfigFile::load(Path::new("/nowhere/at/all/config.toml")).expect("fine");
        assert_eq!(get(&file, Scope::Cp, "streams"), None);
    }
}

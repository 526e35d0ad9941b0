//! The settings file, `config.toml` in `GODWIT_HOME`.
//! Writes nothing and knows no precedence.
//!
//! A key at the top holds for every command that has a setting of this name. A key in a section `[cp]`, `[serve]` or `[gen]` holds for that
//! command and takes precedence. A key that no command knows, or a value out of range, is an error in every command, so that a mistake is
//! found at once.

use crate::settings::resolve::{Origin, SettingError, SettingErrors, SettingProblem};
use crate::settings::table::{SETTINGS, Scope, Setting};
use crate::settings::value::{Value, parse_value};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use toml::{Table, Value as Toml};

/// The contents of the file, with every value parsed.
#[derive(Clone, Debug, Default)]
pub struct ConfigFile {
    path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// None for a key at the top of the file.
    section: Option<Scope>,
    name: &'static str,
    value: Value,
    line: Option<usize>,
}

/// The setting that names the file itself. The file cannot contain it.
const CONFIG: &str = "config";
/// The section of the node's settings `buffer-…`, whose keys lack that beginning.
const BUFFER: &str = "buffer";

impl ConfigFile {
    /// Reads the file. A missing file has no settings.
    ///
    /// # Errors
    /// Names the file, and each line and key at fault.
    pub fn load(path: &Path) -> Result<Self, SettingErrors> {
        match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            read => Self::of(path, read),
        }
    }

    /// Reads a file that the user named, so it must exist.
    ///
    /// # Errors
    /// As [`ConfigFile::load`].
    pub fn load_named(path: &Path) -> Result<Self, SettingErrors> {
        Self::of(path, std::fs::read_to_string(path))
    }

    fn of(path: &Path, read: std::io::Result<String>) -> Result<Self, SettingErrors> {
        match read {
            Ok(text) => Self::parse(path, &text),
            Err(error) => {
                let what = format!(
                    "it cannot be read: {error}; GODWIT_HOME and --config say which file is read"
                );
                Err(whole_file(path, None, what).into())
            }
        }
    }

    /// Reads a file's text; the path is for messages.
    ///
    /// # Errors
    /// As [`ConfigFile::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, SettingErrors> {
        let mut faults = Vec::new();
        let (lines, wrong) = DeTable::parse_recoverable(text);
        for error in &wrong {
            let line = error.span().map(|span| line_of(text, span.start));
            faults.push(whole_file(path, line, error.message().to_owned()));
        }
        by_line(&mut faults);
        // Beside a syntax error, other findings may be wrong.
        if let Some(faults) = SettingErrors::of(faults) {
            return Err(faults);
        }
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| whole_file(path, None, error.message().to_owned()))?;
        let lines = Lines {
            text,
            table: lines.get_ref(),
        };
        let mut file = Self {
            path: path.to_owned(),
            entries: Vec::new(),
        };
        let mut faults = Vec::new();
        for (key, value) in table {
            let section = Scope::ALL.into_iter().find(|scope| scope.name() == key);
            let line = lines.of(None, &key);
            match (section, value) {
                (Some(scope), Toml::Table(table)) => {
                    for (name, value) in table {
                        let line = lines.of(Some(&key), &name);
                        faults.extend(file.add(Some(scope), &name, line, value).err());
                    }
                }
                (None, Toml::Table(table)) if key == BUFFER => {
                    for (name, value) in table {
                        let line = lines.of(Some(&key), &name);
                        let name = format!("{BUFFER}-{name}");
                        faults.extend(file.add(Some(Scope::Serve), &name, line, value).err());
                    }
                }
                (None, Toml::Table(_)) => faults.push(SettingError {
                    origin: file.origin(None, &key, line),
                    problem: SettingProblem::UnknownSection(sections()),
                }),
                (_, value) => faults.extend(file.add(None, &key, line, value).err()),
            }
        }
        by_line(&mut faults);
        SettingErrors::of(faults).map_or(Ok(file), Err)
    }

    /// The value of a setting of a command in this file, and its position.
    #[must_use]
    pub fn get(&self, scope: Scope, setting: &Setting) -> Option<(Value, Origin)> {
        let in_section = |section| {
            self.entries
                .iter()
                .find(|entry| entry.name == setting.name && entry.section == section)
        };
        let entry = in_section(Some(scope)).or_else(|| in_section(None))?;
        let origin = self.origin(entry.section, entry.name, entry.line);
        Some((entry.value.clone(), origin))
    }

    fn add(
        &mut self,
        section: Option<Scope>,
        key: &str,
        line: Option<usize>,
        value: Toml,
    ) -> Result<(), SettingError> {
        let origin = self.origin(section, key, line);
        let fail = |problem| SettingError {
            origin: origin.clone(),
            problem,
        };
        let mut known = SETTINGS.iter().filter(|setting| {
            setting.name == key
                && key != CONFIG
                && section.is_none_or(|scope| setting.scopes.contains(&scope))
        });
        let setting = known
            .next()
            .ok_or_else(|| fail(SettingProblem::Unknown(instead_of(section, key))))?;
        if known.next().is_some() {
            return Err(fail(SettingProblem::NeedsSection));
        }
        let given = texts(value).ok_or_else(|| fail(SettingProblem::Type))?;
        let value = parse_value(setting, &given).map_err(|error| fail(error.into()))?;
        self.entries.push(Entry {
            section,
            name: setting.name,
            value,
            line,
        });
        Ok(())
    }

    fn origin(&self, section: Option<Scope>, key: &str, line: Option<usize>) -> Origin {
        Origin::File {
            path: self.path.clone(),
            key: match section {
                Some(scope) => format!("{}.{key}", scope.name()),
                None => key.to_owned(),
            },
            line,
        }
    }
}

/// Line numbers of the keys of a text.
struct Lines<'a> {
    text: &'a str,
    table: &'a DeTable<'a>,
}

impl Lines<'_> {
    /// The line of a key, of a section or at the top.
    fn of(&self, section: Option<&str>, key: &str) -> Option<usize> {
        let find = |table: &DeTable<'_>, key: &str| {
            let found = table
                .iter()
                .find(|(name, _)| name.get_ref().as_ref() == key);
            found.map(|(name, _)| line_of(self.text, name.span().start))
        };
        let Some(section) = section else {
            return find(self.table, key);
        };
        let mut sections = self.table.iter();
        let (_, inner) = sections.find(|(name, _)| name.get_ref().as_ref() == section)?;
        match inner.get_ref() {
            DeValue::Table(table) => find(table, key),
            _ => None,
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or(text);
    before.matches('\n').count() + 1
}

fn by_line(faults: &mut [SettingError]) {
    faults.sort_by_key(|fault| match &fault.origin {
        Origin::File { line, .. } => *line,
        _ => None,
    });
}

/// Advice on what to write instead of an unknown key.
fn instead_of(section: Option<Scope>, key: &str) -> String {
    let known = SETTINGS.iter().filter(|setting| {
        setting.name != CONFIG && section.is_none_or(|scope| setting.scopes.contains(&scope))
    });
    let names: Vec<&str> = known.map(|setting| setting.name).collect();
    // A mistyped hyphen, two swapped letters, or one wrong letter in three.
    let far = |name: &str| distance(key, name);
    let near = names.iter().min_by_key(|name| far(name));
    match near {
        Some(name) if far(name) <= 1 + key.len() / 4 => format!("did you mean {name}?"),
        _ => match section {
            Some(scope) => format!("[{}] has: {}", scope.name(), names.join(", ")),
            None => format!(
                "sections are {}, and a key before the first one is a setting of several commands",
                sections()
            ),
        },
    }
}

fn sections() -> String {
    let names = Scope::ALL.map(|scope| format!("[{}]", scope.name()));
    format!("{}, [{BUFFER}]", names.join(", "))
}

/// Number of characters to insert, remove or replace between two names.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, sign) in one.bytes().enumerate() {
        let mut before = row[0];
        row[0] = index + 1;
        for (place, other) in other.bytes().enumerate() {
            let replaced = before + usize::from(sign != other);
            before = row[place + 1];
            row[place + 1] = replaced.min(before + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

fn whole_file(path: &Path, line: Option<usize>, message: String) -> SettingError {
    SettingError {
        origin: Origin::File {
            path: path.to_owned(),
            key: String::new(),
            line,
        },
        problem: SettingProblem::Other(message),
    }
}

/// A TOML value as a user would write it after a flag.
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
    fn the_section_of_the_buffer_is_for_the_node() {
        let file = parse("[buffer]\npath = ['/a', '/b']\nbytes = '2 TB'\n").expect("valid");
        let paths = Value::List(vec!["/a".into(), "/b".into()]);
        assert_eq!(get(&file, Scope::Serve, "buffer-path"), Some(paths));
        let bytes = Value::Size(2_000_000_000_000);
        assert_eq!(get(&file, Scope::Serve, "buffer-bytes"), Some(bytes));
        let wrong = parse("[buffer]\nsize = 1\n").expect_err("unknown");
        let expected = "/h/config.toml:2: serve.buffer-size: no setting has this name";
        assert!(wrong.starts_with(expected), "{wrong}");
    }

    #[test]
    fn mistakes_name_the_file_the_line_and_the_key() {
        let cases = [
            (
                "stream = 2",
                "/h/config.toml:1: stream: no setting has this name; did you mean streams?",
            ),
            (
                "\n[serve]\nkeep_for = '1h'",
                "/h/config.toml:3: serve.keep_for: no setting has this name; did you mean keep-for?",
            ),
            (
                "[gen]\nlisten = 'x'",
                "/h/config.toml:2: gen.listen: no setting has this name; [gen] has: seed",
            ),
            (
                "[serve]\nconfig = 'x'\n",
                "/h/config.toml:2: serve.config: no setting has this name; [serve] has: ",
            ),
            (
                "[web]\nport = 1",
                "/h/config.toml:1: web: no section has this name; the sections are [cp], [sync], [serve], ",
            ),
            (
                "cp = 1",
                "/h/config.toml:1: cp: no setting has this name; sections are [cp], ",
            ),
            (
                "# more\nstreams = 129",
                "/h/config.toml:2: streams: `129` is out of range: N or N..N from 1 to 128, `auto`",
            ),
            (
                "streams = [1, 2]",
                "/h/config.toml:1: streams: it takes one value, not several",
            ),
            (
                "streams = { a = 1 }",
                "/h/config.toml:1: streams: no section has this name; the sections are ",
            ),
            (
                "[cp]\nstreams = { a = 1 }",
                "/h/config.toml:2: cp.streams: a table or a date is not allowed as a value",
            ),
            (
                "encryption = 'tls'",
                "/h/config.toml:1: encryption: this setting differs between commands: write it in [cp] or [serve]",
            ),
        ];
        for (text, message) in cases {
            let found = parse(text).expect_err("wrong");
            assert!(found.starts_with(message), "{found}");
        }
        let message = parse("streams = 1\nthreads = ").expect_err("wrong");
        assert!(message.starts_with("/h/config.toml:2: "), "{message}");
    }

    #[test]
    fn all_mistakes_are_reported_at_once_in_their_order() {
        let text = "threads = 9999\n[serve]\nexport = 'a=/b'\njobs = 0\nkeep-history = 'soon'\n[cp]\nstreams = 'x'\n";
        let found = parse(text).expect_err("wrong");
        let places: Vec<&str> = found
            .lines()
            .filter_map(|line| line.split(": ").nth(1))
            .collect();
        assert_eq!(
            places,
            ["threads", "serve.jobs", "serve.keep-history", "cp.streams"],
            "{found}"
        );
        let found = parse("a = \nb = 1\nc = = 2\n").expect_err("wrong");
        assert!(
            found.contains("config.toml:1: ") && found.contains("config.toml:3: "),
            "{found}"
        );
    }

    #[test]
    fn a_missing_file_says_nothing() {
        let file = ConfigFile::load(Path::new("/nowhere/at/all/config.toml")).expect("fine");
        assert_eq!(get(&file, Scope::Cp, "streams"), None);
    }
}

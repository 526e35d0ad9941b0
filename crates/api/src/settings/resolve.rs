//! Finds each setting's value: flag before environment before file before default.
//! Reads no file and no environment: the caller passes both.

use crate::settings::file::ConfigFile;
use crate::settings::table::{Scope, Setting};
use crate::settings::value::{Bounds, Value, ValueError, parse_value, split_variable};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Origin of a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// `--NAME`
    Flag(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// The file. The key is empty if the fault concerns the whole file.
    File {
        /// Its path.
        path: PathBuf,
        /// `key` or `section.key`.
        key: String,
        /// The line of the key, from 1.
        line: Option<usize>,
    },
    /// The table.
    Default(&'static str),
}

/// An invalid setting, with the origin of the value.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{origin}: {problem}")]
pub struct SettingError {
    /// Where the value was given.
    pub origin: Origin,
    /// The problem.
    pub problem: SettingProblem,
}

/// A problem of a setting.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum SettingProblem {
    /// The value is invalid.
    #[error("{0}")]
    Value(#[from] ValueError),
    /// The name is unknown. The text is advice.
    #[error("no setting has this name; {0}")]
    Unknown(String),
    /// The section is unknown. The text lists the sections.
    #[error("no section has this name; the sections are {0}")]
    UnknownSection(String),
    /// The name alone is ambiguous: a section is needed.
    #[error("this setting differs between commands: write it in [cp] or [serve]")]
    NeedsSection,
    /// The TOML type is wrong.
    #[error("a table or a date is not allowed as a value")]
    Type,
    /// A problem of the whole file, or a consequence of a value.
    #[error("{0}")]
    Other(String),
}

/// All problems of some settings; at least one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingErrors(Vec<SettingError>);

impl SettingErrors {
    /// These errors, or None if there are none.
    #[must_use]
    pub fn of(errors: Vec<SettingError>) -> Option<Self> {
        (!errors.is_empty()).then_some(Self(errors))
    }

    /// All errors, in the order of their discovery.
    #[must_use]
    pub fn into_vec(self) -> Vec<SettingError> {
        self.0
    }
}

impl From<SettingError> for SettingErrors {
    fn from(error: SettingError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for SettingErrors {
    /// One line per error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let break_ = if index > 0 { "\n" } else { "" };
            write!(f, "{break_}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingErrors {}

/// Values typed after flags: the setting's name, and its texts in order.
pub type Typed = BTreeMap<&'static str, Vec<OsString>>;

/// A setting with its value and origin, for people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingWithOrigin {
    /// The name of the setting.
    pub name: &'static str,
    /// The value, as it would be typed.
    pub value: String,
    /// Origin of the value.
    pub origin: String,
}

/// The value of every setting of one command.
#[derive(Clone, Debug)]
pub struct Values {
    scope: Scope,
    values: BTreeMap<&'static str, (Value, Origin)>,
    order: Vec<&'static str>,
}

/// Finds the value of every setting of a command.
///
/// An environment variable that is set but empty counts as not set.
///
/// # Errors
/// Names the flag, variable or key at fault.
pub fn resolve(
    scope: Scope,
    typed: &Typed,
    environment: &dyn Fn(&str) -> Option<OsString>,
    file: &ConfigFile,
) -> Result<Values, SettingError> {
    let mut values = BTreeMap::new();
    for setting in Setting::all_of(scope) {
        let variable = environment(setting.variable).filter(|text| !text.is_empty());
        let found = if let Some(given) = typed.get(setting.name) {
            parse(setting, given, Origin::Flag(setting.name))?
        } else if let Some(text) = variable {
            let given = split_variable(setting, &text);
            parse(setting, &given, Origin::Environment(setting.variable))?
        } else if let Some(found) = file.get(scope, setting) {
            found
        } else {
            let given: Vec<OsString> = match setting.default {
                "" => Vec::new(),
                text => split_variable(setting, OsStr::new(text)),
            };
            parse(setting, &given, Origin::Default(setting.name))?
        };
        values.insert(setting.name, found);
    }
    Ok(Values {
        scope,
        values,
        order: Vec::new(),
    })
}

fn parse(
    setting: &Setting,
    given: &[OsString],
    origin: Origin,
) -> Result<(Value, Origin), SettingError> {
    match parse_value(setting, given) {
        Ok(value) => Ok((value, origin)),
        Err(error) => Err(SettingError {
            origin,
            problem: error.into(),
        }),
    }
}

impl Values {
    /// Stores the order in which the values of lists were typed, as the names of their settings.
    #[must_use]
    pub fn with_order(mut self, order: Vec<&'static str>) -> Self {
        self.order = order;
        self
    }

    pub(crate) fn order(&self) -> &[&'static str] {
        &self.order
    }

    /// The value of a setting and where it came from.
    ///
    /// # Panics
    /// If the command has no such setting: a name is written in the code, never taken from outside.
    #[must_use]
    pub fn get(&self, name: &str) -> &(Value, Origin) {
        self.values.get(name).unwrap_or_else(|| {
            panic!(
                "internal error: the settings table gives {} a setting {name}",
                self.scope.name()
            )
        })
    }

    /// Every setting with a given value, even if that equals the default, as typed. Lists are split into elements.
    #[must_use]
    pub fn chosen(&self) -> Vec<(&'static str, OsString)> {
        let chosen = self
            .values
            .iter()
            .filter(|(_, (_, origin))| !matches!(origin, Origin::Default(_)));
        chosen
            .flat_map(|(name, (value, _))| value.texts().into_iter().map(|text| (*name, text)))
            .collect()
    }

    /// Every setting with its value as typed, and the origin of the value.
    #[must_use]
    pub fn with_origins(&self) -> Vec<SettingWithOrigin> {
        let setting = |(name, (value, origin)): (&&'static str, &(Value, Origin))| {
            let texts = value.texts();
            let texts: Vec<_> = texts.iter().map(|text| text.to_string_lossy()).collect();
            SettingWithOrigin {
                name,
                value: texts.join(", "),
                origin: origin.to_string(),
            }
        };
        self.values.iter().map(setting).collect()
    }

    pub(crate) fn bytes(&self, name: &str) -> u64 {
        match self.get(name).0 {
            Value::Size(bytes) | Value::Rate(bytes) => bytes,
            ref other => panic!("{name} is a size or rate, not {other:?}"),
        }
    }

    pub(crate) fn duration(&self, name: &str) -> Duration {
        match self.get(name).0 {
            Value::Duration(duration) => duration,
            ref other => panic!("{name} is a duration, not {other:?}"),
        }
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        match self.get(name).0 {
            Value::Count(count) => count,
            ref other => panic!("{name} is a count, not {other:?}"),
        }
    }

    /// A count whose range in the table ends below 2³².
    pub(crate) fn count_u32(&self, name: &str) -> u32 {
        u32::try_from(self.count(name)).expect("the table's range fits 32 bits")
    }

    pub(crate) fn bounds(&self, name: &str) -> Bounds {
        match self.get(name).0 {
            Value::Bounds(bounds) => bounds,
            ref other => panic!("{name} has no bounds: {other:?}"),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        match self.get(name).0 {
            Value::Flag(flag) => flag,
            ref other => panic!("{name} is a flag, not {other:?}"),
        }
    }

    pub(crate) fn choice(&self, name: &str) -> &'static str {
        match self.get(name).0 {
            Value::Choice(choice) => choice,
            ref other => panic!("{name} is a choice, not {other:?}"),
        }
    }

    pub(crate) fn text(&self, name: &str) -> OsString {
        match &self.get(name).0 {
            Value::Text(text) => text.clone(),
            other => panic!("{name} is no text: {other:?}"),
        }
    }

    pub(crate) fn ports(&self, name: &str) -> Option<(u16, u16)> {
        match self.get(name).0 {
            Value::Ports(ports) => ports,
            ref other => panic!("{name} is no port: {other:?}"),
        }
    }

    /// The parsed elements of a list.
    pub(crate) fn list<T>(
        &self,
        name: &str,
        parse: impl Fn(&OsString) -> Result<T, String>,
    ) -> Result<Vec<T>, SettingError> {
        let (Value::List(elements), origin) = self.get(name) else {
            panic!("{name} is a list");
        };
        elements
            .iter()
            .map(|element| {
                parse(element).map_err(|reason| SettingError {
                    origin: origin.clone(),
                    problem: SettingProblem::Value(ValueError::Element {
                        text: element.to_string_lossy().into_owned(),
                        reason,
                    }),
                })
            })
            .collect()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "--{name}"),
            Self::Environment(variable) => write!(f, "{variable}"),
            Self::File { path, key, line } => {
                write!(f, "{}", path.display())?;
                if let Some(line) = line {
                    write!(f, ":{line}")?;
                }
                if key.is_empty() {
                    return Ok(());
                }
                write!(f, ": {key}")
            }
            Self::Default(name) => write!(f, "{name}, by default"),
        }
    }
}

//! Values of settings: from text to a typed value in the setting's range.
//! Does not know the origin of a text.

use crate::duration::{DurationError, exact_duration, parse_duration};
use crate::settings::table::{Kind, Setting};
use crate::units::{UnitError, exact_size, parse_rate, parse_size};
use std::ffi::{OsStr, OsString};
use std::time::Duration;
use thiserror::Error;

/// A value in the range of its setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Value {
    /// Bytes.
    Size(u64),
    /// Bytes a second; 0 is no limit.
    Rate(u64),
    /// A time span.
    Duration(Duration),
    /// A plain number. The largest one means `none` where that is allowed.
    Count(u64),
    /// Minimum and maximum of a count.
    Bounds(Bounds),
    /// On or off.
    Flag(bool),
    /// The word chosen.
    Choice(&'static str),
    /// The text given.
    Text(OsString),
    /// First and last port; `None` is any.
    Ports(Option<(u16, u16)>),
    /// The texts given.
    List(Vec<OsString>),
}

/// Minimum and maximum of a count that is chosen between them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// Minimum.
    pub least: u32,
    /// Maximum; equal to the minimum if the count is fixed.
    pub most: u32,
}

impl Bounds {
    /// The number within the bounds that is nearest to `count`.
    #[must_use]
    pub fn hold(self, count: u32) -> u32 {
        count.min(self.most).max(self.least)
    }
}

impl Value {
    /// The value as it would be typed, element by element.
    pub(crate) fn texts(&self) -> Vec<OsString> {
        let text = match self {
            Self::Size(bytes) => exact_size(*bytes),
            Self::Rate(0) => "none".to_owned(),
            Self::Rate(bytes) => format!("{}/s", exact_size(*bytes)),
            Self::Duration(duration) => exact_duration(*duration),
            Self::Count(count) => count.to_string(),
            Self::Bounds(Bounds { least, most }) if least == most => least.to_string(),
            Self::Bounds(Bounds { least, most }) => format!("{least}..{most}"),
            Self::Flag(flag) => flag.to_string(),
            Self::Choice(word) => (*word).to_owned(),
            Self::Ports(None) => "any".to_owned(),
            Self::Ports(Some((first, last))) => format!("{first}-{last}"),
            Self::Text(text) => return vec![text.clone()],
            Self::List(texts) => return texts.clone(),
        };
        vec![text.into()]
    }
}

/// Why a text is not a value of a setting.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum ValueError {
    /// The text is not UTF-8, but must be a word or a number.
    #[error("it is not UTF-8")]
    NotText,
    /// The setting was given more than once.
    #[error("it takes one value, not several")]
    Several,
    /// The text is no number.
    #[error("`{0}` is not a whole number")]
    Number(String),
    /// The text is no size or rate.
    #[error("`{text}`: {error}")]
    Unit {
        /// The text.
        text: String,
        /// Fault of the text.
        error: UnitError,
    },
    /// The text is no duration.
    #[error("`{text}`: {error}")]
    Duration {
        /// The text.
        text: String,
        /// Fault of the text.
        error: DurationError,
    },
    /// The value is outside the range.
    #[error("`{text}` is out of range: {range}")]
    Range {
        /// The text.
        text: String,
        /// The range in words.
        range: String,
    },
    /// The text is none of the allowed words.
    #[error("`{text}` is not one of {choices}")]
    Choice {
        /// The text.
        text: String,
        /// The allowed words.
        choices: String,
    },
    /// An element of a list is invalid.
    #[error("`{text}`: {reason}")]
    Element {
        /// The element.
        text: String,
        /// Fault of the element.
        reason: String,
    },
}

/// Parses the texts given for a setting.
///
/// # Errors
/// Describes the fault, without naming the setting.
pub fn parse_value(setting: &Setting, given: &[OsString]) -> Result<Value, ValueError> {
    if setting.is_list() {
        return Ok(Value::List(given.to_vec()));
    }
    let is_text = matches!(setting.kind, Kind::Text { .. } | Kind::File);
    let [only] = given else {
        // No default is the empty text.
        return match given {
            [] if is_text => Ok(Value::Text(OsString::new())),
            _ => Err(ValueError::Several),
        };
    };
    if is_text {
        return Ok(Value::Text(only.clone()));
    }
    let text = only.to_str().ok_or(ValueError::NotText)?.trim();
    let range_error = || ValueError::Range {
        text: text.to_owned(),
        range: range_text(&setting.kind),
    };
    let unit_error = |error| ValueError::Unit {
        text: text.to_owned(),
        error,
    };
    match setting.kind {
        Kind::Size {
            min,
            max,
            power_of_two,
        } => {
            let bytes = parse_size(text).map_err(unit_error)?;
            if (min..=max).contains(&bytes) && (!power_of_two || bytes.is_power_of_two()) {
                Ok(Value::Size(bytes))
            } else {
                Err(range_error())
            }
        }
        Kind::Rate => parse_rate(text).map(Value::Rate).map_err(unit_error),
        Kind::Duration { min, max } => {
            let duration = parse_duration(text).map_err(|error| ValueError::Duration {
                text: text.to_owned(),
                error,
            })?;
            if (min..=max).contains(&duration) {
                Ok(Value::Duration(duration))
            } else {
                Err(range_error())
            }
        }
        Kind::Count { min, max } => {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if !digits {
                return Err(ValueError::Number(text.to_owned()));
            }
            let count = text.parse().map_err(|_error| range_error())?;
            if (min..=max).contains(&count) {
                Ok(Value::Count(count))
            } else {
                Err(range_error())
            }
        }
        Kind::Bounds { min, max, auto } => parse_bounds(text, min, max, auto)
            .map(Value::Bounds)
            .ok_or_else(range_error),
        Kind::CountOrNone if text.eq_ignore_ascii_case("none") => Ok(Value::Count(u64::MAX)),
        Kind::CountOrNone => text
            .parse()
            .map(Value::Count)
            .map_err(|_error| ValueError::Number(text.to_owned())),
        Kind::Flag => match text {
            "true" | "yes" | "on" | "1" => Ok(Value::Flag(true)),
            "false" | "no" | "off" | "0" => Ok(Value::Flag(false)),
            _ => Err(choice_error(text, &["true", "false"])),
        },
        Kind::Choice(choices) => choices
            .iter()
            .find(|choice| choice.eq_ignore_ascii_case(text))
            .map(|choice| Value::Choice(choice))
            .ok_or_else(|| choice_error(text, choices)),
        Kind::Ports => parse_ports(text).map(Value::Ports).ok_or_else(range_error),
        Kind::Text { .. } | Kind::File | Kind::List { .. } => Ok(Value::List(given.to_vec())),
    }
}

/// `None` unless the text is a number, two ordered numbers, or `auto`, within the range.
fn parse_bounds(text: &str, min: u32, max: u32, auto: u32) -> Option<Bounds> {
    if text == "auto" {
        return Some(Bounds {
            least: min,
            most: auto,
        });
    }
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let number = |digits: &str| {
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| all_digits);
        number.filter(|number| (min..=max).contains(number))
    };
    let (least, most) = (number(least)?, number(most)?);
    (least <= most).then_some(Bounds { least, most })
}

/// `None` unless the text is a port, a range, or `any`.
fn parse_ports(text: &str) -> Option<Option<(u16, u16)>> {
    if text == "any" {
        return Some(None);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |digits: &str| {
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|port| all_digits && *port > 0)
    };
    let (first, last): (u16, u16) = (port(first)?, port(last)?);
    (first <= last).then_some(Some((first, last)))
}

/// The values of a kind, in words.
#[must_use]
pub fn range_text(kind: &Kind) -> String {
    match kind {
        Kind::Size {
            min,
            max,
            power_of_two,
        } => format!(
            "{}{} to {}",
            if *power_of_two {
                "a power of two from "
            } else {
                ""
            },
            exact_size(*min),
            exact_size(*max)
        ),
        Kind::Rate => "any rate, `none`".to_owned(),
        Kind::Duration { min, max } => {
            format!("{} to {}", exact_duration(*min), exact_duration(*max))
        }
        Kind::Count { min, max: u64::MAX } => format!("{min} or more"),
        Kind::Count { min, max } => format!("{min} to {max}"),
        Kind::Bounds { min, max, .. } => format!("N or N..N from {min} to {max}, `auto`"),
        Kind::CountOrNone => "0 or more, `none`".to_owned(),
        Kind::Flag => "true, false".to_owned(),
        Kind::Choice(choices) => choices.join(", "),
        Kind::Ports => "PORT, FIRST-LAST, `any`".to_owned(),
        Kind::Text { form } | Kind::List { form } => (*form).to_owned(),
        Kind::File => "FILE".to_owned(),
    }
}

/// Placeholder after the flag in usage lines; None for a plain flag.
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

/// Splits the text of an environment variable: a list's elements are separated by `;`.
#[must_use]
pub fn split_variable(setting: &Setting, text: &OsStr) -> Vec<OsString> {
    use std::os::unix::ffi::OsStrExt;
    if !setting.is_list() {
        return vec![text.to_owned()];
    }
    text.as_bytes()
        .split(|byte| *byte == b';')
        .filter(|element| !element.is_empty())
        .map(|element| OsStr::from_bytes(element).to_owned())
        .collect()
}

fn choice_error(text: &str, choices: &[&str]) -> ValueError {
    ValueError::Choice {
        text: text.to_owned(),
        choices: choices.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::table::Scope;

    fn parse(scope: Scope, name: &str, text: &str) -> Result<Value, String> {
        let setting = Setting::find(scope, name).expect("in the table");
        parse_value(setting, &[OsString::from(text)]).map_err(|error| error.to_string())
    }

    fn bounds(least: u32, most: u32) -> Value {
        Value::Bounds(Bounds { least, most })
    }

    #[test]
    fn values_in_range() {
        let cases = [
            ("limit", "8Mbit/s", Value::Rate(1_000_000)),
            ("streams", "64", bounds(64, 64)),
            ("streams", "auto", bounds(1, 128)),
            ("streams", "4..16", bounds(4, 16)),
            ("readers", "64", bounds(64, 64)),
            ("readers", "0", bounds(0, 0)),
            ("readers", "auto", bounds(0, 16)),
            ("writers", "2..64", bounds(2, 64)),
            ("encryption", "TLS", Value::Choice("tls")),
            ("verify", "true", Value::Flag(true)),
            ("retry-for", "0", Value::Duration(Duration::ZERO)),
            ("block-size", "4MiB", Value::Size(4 << 20)),
            ("data-ports", "any", Value::Ports(None)),
            ("data-ports", "50000", Value::Ports(Some((50_000, 50_000)))),
            ("data-ports", "1-65535", Value::Ports(Some((1, 65_535)))),
            ("rsh", "ssh -p 1", Value::Text("ssh -p 1".into())),
        ];
        for (name, text, value) in cases {
            assert_eq!(parse(Scope::Cp, name, text), Ok(value), "{name}");
        }
    }

    #[test]
    fn a_value_reads_back_from_its_text() {
        for setting in crate::settings::SETTINGS {
            if setting.is_list() || setting.default.is_empty() {
                continue;
            }
            let value = parse_value(setting, &[setting.default.into()]).expect("a default");
            let again = parse_value(setting, &value.texts());
            assert_eq!(again, Ok(value), "{}", setting.name);
        }
        let limit = Setting::find(Scope::Cp, "limit").expect("in the table");
        let value = Value::Rate(12_345_678);
        assert_eq!(parse_value(limit, &value.texts()), Ok(value));
    }

    #[test]
    fn values_out_of_range_say_what_the_range_is() {
        let cases = [
            (
                "streams",
                "0",
                "`0` is out of range: N or N..N from 1 to 128, `auto`",
            ),
            (
                "streams",
                "8..2",
                "`8..2` is out of range: N or N..N from 1 to 128, `auto`",
            ),
            (
                "streams",
                "129",
                "`129` is out of range: N or N..N from 1 to 128, `auto`",
            ),
            (
                "streams",
                "99999999999999999999",
                "`99999999999999999999` is out of range: N or N..N from 1 to 128, `auto`",
            ),
            (
                "streams",
                "two",
                "`two` is out of range: N or N..N from 1 to 128, `auto`",
            ),
            (
                "readers",
                "65",
                "`65` is out of range: N or N..N from 0 to 64, `auto`",
            ),
            (
                "writers",
                "8..2",
                "`8..2` is out of range: N or N..N from 0 to 64, `auto`",
            ),
            ("threads", "two", "`two` is not a whole number"),
            (
                "block-size",
                "65537",
                "`65537` is out of range: a power of two from 64KiB to 4MiB",
            ),
            (
                "block-size",
                "32KiB",
                "`32KiB` is out of range: a power of two from 64KiB to 4MiB",
            ),
            (
                "cipher",
                "rc4",
                "`rc4` is not one of auto, aes-256-gcm, aes-128-gcm, chacha20-poly1305",
            ),
            ("encryption", "any", "`any` is not one of tls, none"),
            ("retry-for", "31d", "`31d` is out of range: 0s to 30d"),
            (
                "limit",
                "fast",
                "`fast`: the value must begin with a number, as in 64GiB",
            ),
            ("force", "maybe", "`maybe` is not one of true, false"),
            (
                "data-ports",
                "7-6",
                "`7-6` is out of range: PORT, FIRST-LAST, `any`",
            ),
            (
                "data-ports",
                "0",
                "`0` is out of range: PORT, FIRST-LAST, `any`",
            ),
        ];
        for (name, text, message) in cases {
            assert_eq!(parse(Scope::Cp, name, text), Err(message.to_owned()));
        }
    }
}

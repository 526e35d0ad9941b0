//! Owns the area of a grant: all exports, or an export and a path below it; and which paths that covers.
//! Touches no file: the storage checks where a path really leads.

use std::fmt;
use std::str::FromStr;

use super::GrantError;
use crate::endpoint::{check_export_name, is_memory};

/// The longest path of a grant: the limit of Linux.
pub const PATH_BYTES_MAX: usize = 4_096;

/// The area of a grant.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Area {
    /// All exports, also future ones.
    All,
    /// One export.
    Export {
        /// Name of the export.
        name: String,
        /// Path below it, without a slash at either end; empty is the whole export.
        path: String,
    },
}

impl Area {
    /// An export and a path below it; slashes around and between the components do not matter.
    ///
    /// # Errors
    /// The name is no export's, or the path has `..`, control characters or too many bytes.
    pub fn below(name: &str, path: &str) -> Result<Self, GrantError> {
        let name =
            check_export_name(name.as_bytes()).map_err(|error| GrantError(error.to_string()))?;
        let no = |what: &str| Err(GrantError(format!("{path:?} {what}")));
        if path.len() > PATH_BYTES_MAX {
            return no("is too long for a path");
        }
        if path.chars().any(char::is_control) {
            return no("has a control character, which no grant can hold");
        }
        let Some(path) = components(path.as_bytes()) else {
            return no("contains ..; write the path without it");
        };
        // Parts of a text between slashes are valid texts.
        let path = String::from_utf8_lossy(&path.join(&b'/')).into_owned();
        Ok(Self::Export { name, path })
    }

    /// The narrowest area that contains the requested path. A part of the path that no grant can express widens the area.
    #[must_use]
    pub fn asked(export: &str, path: &[u8]) -> Self {
        let mut path = components(path).unwrap_or_default();
        loop {
            let joined = path.join(&b'/');
            let area = String::from_utf8(joined)
                .map_err(|_error| ())
                .and_then(|path| Self::below(export, &path).map_err(|_error| ()));
            match area {
                Ok(area) => return area,
                Err(()) if path.pop().is_some() => {}
                Err(()) => {
                    return Self::Export {
                        name: export.to_owned(),
                        path: String::new(),
                    };
                }
            }
        }
    }

    /// The memory of a node, which has no paths; None for any other name.
    #[must_use]
    pub fn memory(name: &str) -> Option<Self> {
        is_memory(name).then(|| Self::Export {
            name: name.to_owned(),
            path: String::new(),
        })
    }

    /// Whether the area is the memory of a node.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Export { name, .. } if is_memory(name))
    }

    /// Whether a path of an export lies in the area. Paths are compared component by component; a path with `..` lies in none.
    #[must_use]
    pub fn covers(&self, export: &str, path: &[u8]) -> bool {
        let Some(asked) = components(path) else {
            return false;
        };
        match self {
            Self::All => true,
            Self::Export { name, path } => {
                name == export
                    && components(path.as_bytes()).is_some_and(|own| asked.starts_with(&own))
            }
        }
    }

    /// Whether the area contains all of the other area.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Export { .. }, Self::All) => false,
            (own, Self::Export { name, path }) => own.covers(name, path.as_bytes()),
        }
    }
}

/// The components of a path without empty ones and `.`; None for a path with `..`.
fn components(path: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => return None,
            other => found.push(other),
        }
    }
    Some(found)
}

impl fmt::Display for Area {
    /// `*`, `NAME` or `NAME:/PATH`, in which `%XX` stands for a byte that a line of the file cannot hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, path) = match self {
            Self::All => return f.write_str(ALL),
            Self::Export { name, path } => (name, path),
        };
        f.write_str(name)?;
        if path.is_empty() {
            return Ok(());
        }
        f.write_str(":/")?;
        for sign in path.chars() {
            if sign.is_whitespace() || sign == '#' || sign == '%' {
                let mut bytes = [0; 4];
                for byte in sign.encode_utf8(&mut bytes).bytes() {
                    write!(f, "%{byte:02X}")?;
                }
            } else {
                write!(f, "{sign}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Area {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        if text == ALL {
            return Ok(Self::All);
        }
        match text.split_once(':') {
            None => Self::below(text, ""),
            Some((name, path)) if path.starts_with('/') => Self::below(name, &unescaped(path)?),
            Some((name, path)) => Err(GrantError(format!(
                "{text:?}: a path below the export begins with a slash, as in {name}:/{path}"
            ))),
        }
    }
}

/// The text with each `%XX` replaced by its byte.
pub(super) fn unescaped(text: &str) -> Result<String, GrantError> {
    let wrong = || {
        GrantError(format!(
            "{text:?}: a percent sign begins a byte code %XX with two hexadecimal digits; write %25 for the sign itself"
        ))
    };
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let value = digit().and_then(|high| Some(high << 4 | digit()?));
        let value = value.and_then(|value| u8::try_from(value).ok());
        out.push(value.ok_or_else(wrong)?);
    }
    String::from_utf8(out).map_err(|_error| wrong())
}

/// Text that stands for all exports.
const ALL: &str = "*";

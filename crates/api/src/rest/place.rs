//! Places as users name them to a node: `SITE:/EXPORT/path`.
//! Does not know which sites or exports there are.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::endpoint::{ExportNameError, Place as Named, check_export_name};

/// The site of the node that is asked.
pub const HERE: &str = "here";

/// The longest name of a site, in bytes.
const SITE_BYTES_MAX: usize = 64;

/// A path below an export of a site.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// Name of the site, or [`HERE`].
    pub site: String,
    /// Name of the export.
    pub export: String,
    /// Below the export, without a slash at either end; empty is the export itself.
    pub path: Vec<u8>,
    /// A slash stood behind the path: as a destination it means "into this directory".
    pub directory: bool,
    /// `/.` stood behind the path: as a source it means "what is in it".
    pub contents: bool,
}

/// Why a text names no place.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum PlaceError {
    /// No site before the path.
    #[error(
        "{0:?} names no place: write SITE:/EXPORT/PATH, as in siteB:/archive/run42; here: is the node that is asked"
    )]
    Form(String),
    /// The name of the site.
    #[error(
        "{0:?} cannot name a site: letters, digits, `.`, `_` and `-`, at most {SITE_BYTES_MAX}, beginning with a letter or digit"
    )]
    Site(String),
    /// The name of the export.
    #[error(transparent)]
    Export(#[from] ExportNameError),
    /// The path below it.
    #[error("{text:?}: {reason}")]
    Path {
        /// The whole text.
        text: String,
        /// What is wrong.
        reason: String,
    },
}

/// Checks the name of a site.
///
/// # Errors
/// Says what names look like.
pub fn check_site_name(name: &str) -> Result<(), PlaceError> {
    check_export_name(name.as_bytes())
        .map(|_| ())
        .map_err(|_error| PlaceError::Site(name.to_owned()))
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let form = || PlaceError::Form(text.to_owned());
        let (site, rest) = text.split_once(":/").ok_or_else(form)?;
        check_site_name(site)?;
        if rest.is_empty() {
            return Err(form());
        }
        let named = Named::from_wire(rest.as_bytes()).map_err(|reason| PlaceError::Path {
            text: text.to_owned(),
            reason: reason.to_string(),
        })?;
        match named {
            Named::Export {
                name,
                path,
                directory,
                contents,
            } => Ok(Self {
                site: site.to_owned(),
                export: name,
                path,
                directory,
                contents,
            }),
            Named::Memory { .. } | Named::Null => Err(form()),
        }
    }
}

impl Place {
    /// The path below the site, export first, as it was typed.
    #[must_use]
    pub fn below_site(&self) -> String {
        let mut text = format!("/{}", self.export);
        if !self.path.is_empty() {
            text.push('/');
            text.push_str(&String::from_utf8_lossy(&self.path));
        }
        if self.contents {
            text.push_str("/.");
        } else if self.directory {
            text.push('/');
        }
        text
    }

    /// Whether the site is the node that is asked.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.site == HERE
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.site, self.below_site())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_shown() {
        for text in ["siteB:/archive/run42", "here:/data", "a:/b/c/d/", "a:/b/."] {
            let place: Place = text.parse().expect("a place");
            assert_eq!(place.to_string(), text);
        }
        for text in [
            "/data",
            "a:b",
            "a:/",
            "a:/b/../c",
            "a b:/c",
            ":/c",
            "a:/mem:3",
            "",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}

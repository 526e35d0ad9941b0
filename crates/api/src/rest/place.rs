//! Places as users name them to a node: `SITE:/EXPORT/path`, and `SITE:mem:SIZE` and `SITE:null:` for measuring.
//! Does not know the existing sites and exports.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::endpoint::{ExportNameError, NodePlace, check_export_name, is_memory};

/// Name that stands for the site of the queried node.
pub const HERE: &str = "here";

/// The longest name of a site, in bytes.
const SITE_BYTES_MAX: usize = 64;

/// A path below an export of a site, or memory there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// Name of the site, or [`HERE`].
    pub site: String,
    /// Name of the export; `mem:SIZE` or `null:` for memory.
    pub export: String,
    /// Below the export, without a slash at either end; empty is the export itself.
    pub path: Vec<u8>,
    /// A slash followed the path. As a destination, it means "into this directory".
    pub directory: bool,
    /// `/.` followed the path. As a source, it means "the contents of this directory".
    pub contents: bool,
}

/// Why a text names no place.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum PlaceError {
    /// No site before the path.
    #[error(
        "{0:?} is not a place: write SITE:/EXPORT/PATH, as in siteB:/archive/run42; `here:` is the node that receives the request; to measure, SITE:mem:SIZE provides bytes and SITE:null: discards them"
    )]
    Form(String),
    /// The name of the site.
    #[error(
        "{0:?} cannot name a site: letters, digits, `.`, `_` and `-`, at most {SITE_BYTES_MAX}, beginning with a letter or digit"
    )]
    Site(String),
    /// An address in place of the name of a site.
    #[error(
        "{0} is an address, not a site: give it a name, as in `godwit site add siteB [{0}]`, and write siteB:/EXPORT/PATH"
    )]
    Address(std::net::Ipv6Addr),
    /// The name of the export.
    #[error(transparent)]
    Export(#[from] ExportNameError),
    /// The path below it.
    #[error("{text:?}: {reason}")]
    Path {
        /// The whole text.
        text: String,
        /// The fault of the path.
        reason: String,
    },
}

/// Checks the name of a site.
///
/// # Errors
/// Says what names look like.
pub fn check_site_name(name: &str) -> Result<(), PlaceError> {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    check_export_name(name.as_bytes())
        .map(|_| ())
        .map_err(|_error| match bare.parse() {
            Ok(address) => PlaceError::Address(address),
            Err(_) => PlaceError::Site(name.to_owned()),
        })
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_bytes(text.as_bytes())
    }
}

/// The site of a text such as `SITE:/`, which names a whole site.
#[must_use]
pub fn whole_site(text: &[u8]) -> Option<&str> {
    let site = std::str::from_utf8(text.strip_suffix(b":/")?).ok()?;
    check_site_name(site).is_ok().then_some(site)
}

impl Place {
    /// Reads a place whose path may hold any bytes.
    ///
    /// # Errors
    /// Says which part names nothing.
    pub fn from_bytes(text: &[u8]) -> Result<Self, PlaceError> {
        let form = || PlaceError::Form(String::from_utf8_lossy(text).into_owned());
        let first = text.iter().position(|byte| *byte == b':');
        let memory = first.filter(|at| is_memory_text(&text[at + 1..]));
        let slash = || text.windows(2).position(|pair| pair == b":/");
        let at = memory.or_else(slash).ok_or_else(form)?;
        Self::at(&String::from_utf8_lossy(&text[..at]), &text[at + 1..])
    }

    /// The place at a site with this [path below it](Self::below_site).
    ///
    /// # Errors
    /// Says which part names nothing.
    pub fn at(site: &str, below: &[u8]) -> Result<Self, PlaceError> {
        let shown = || format!("{site}:{}", String::from_utf8_lossy(below));
        check_site_name(site)?;
        let is_memory = is_memory_text(below);
        let wire = match below {
            _ if is_memory => below,
            [b'/', wire @ ..] if !wire.is_empty() => wire,
            _ => return Err(PlaceError::Form(shown())),
        };
        let named = NodePlace::from_wire(wire).map_err(|reason| PlaceError::Path {
            text: shown(),
            reason: reason.to_string(),
        })?;
        let site = site.to_owned();
        match named {
            NodePlace::Export {
                name,
                path,
                directory,
                contents,
            } => Ok(Self {
                site,
                export: name,
                path,
                directory,
                contents,
            }),
            memory if is_memory => Ok(Self {
                site,
                export: String::from_utf8_lossy(&memory.to_wire()).into_owned(),
                path: Vec::new(),
                directory: false,
                contents: false,
            }),
            NodePlace::Memory { .. } | NodePlace::Null => Err(PlaceError::Form(shown())),
        }
    }

    /// Whether the place is memory: `mem:SIZE` or `null:`.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        is_memory(&self.export)
    }

    /// Bytes of a `mem:SIZE`.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        match NodePlace::from_wire(self.export.as_bytes()) {
            Ok(NodePlace::Memory { bytes }) if self.is_memory() => Some(bytes),
            _ => None,
        }
    }

    /// The path from the export on, in the form of questions between nodes.
    #[must_use]
    pub fn below_exports(&self) -> Vec<u8> {
        let mut path = self.export.clone().into_bytes();
        if !self.path.is_empty() {
            path.push(b'/');
            path.extend_from_slice(&self.path);
        }
        path
    }

    /// The path below the site, export first, as typed.
    #[must_use]
    pub fn below_site(&self) -> String {
        if self.is_memory() {
            return self.export.clone();
        }
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

    /// Whether the site is the queried node.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.site == HERE
    }
}

/// Whether a path below a site means memory.
fn is_memory_text(below: &[u8]) -> bool {
    below.starts_with(b"mem:") || below.starts_with(b"null:")
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
    fn a_place_may_hold_any_bytes_and_a_site_may_be_named_as_a_whole() {
        let place = Place::from_bytes(b"siteB:/data/\xff/a").expect("a place");
        assert_eq!(place.below_exports(), b"data/\xff/a");
        assert_eq!(whole_site(b"siteB:/"), Some("siteB"));
        for other in [&b"siteB:/data"[..], b":/", b"a b:/", b"\xff:/", b"siteB:"] {
            assert_eq!(whole_site(other), None);
        }
    }

    #[test]
    fn places_are_read_as_they_are_shown() {
        for text in [
            "siteB:/archive/run42",
            "here:/data",
            "a:/b/c/d/",
            "a:/b/.",
            "here:mem:64GiB",
            "siteB:null:",
        ] {
            let place: Place = text.parse().expect("a place");
            assert_eq!(place.to_string(), text);
            assert_eq!(place.is_memory(), !text.contains('/'));
        }
        let place: Place = "here:mem:2GiB".parse().expect("a place");
        assert_eq!(place.memory_bytes(), Some(2 << 30));
        assert_eq!(place.below_exports(), b"mem:2GiB");
        for text in [
            "/data",
            "a:b",
            "a:/",
            "a:/b/../c",
            "a b:/c",
            ":/c",
            "a:/mem:3",
            "a:mem:",
            "a:mem:x",
            "a:null:x",
            ":null:",
            "",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}

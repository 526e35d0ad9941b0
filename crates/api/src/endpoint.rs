//! Endpoints as users name them: a local path, `[user@]host:path`, `godwit://host[:port]/export/path`, `mem:SIZE`, `null:`.
//! Touches no file and no network; other code checks whether an endpoint exists.

use crate::PORT_DEFAULT;
use crate::host::{HostError, HostPort};
use crate::job::Text;
use crate::login::{Login, LoginError};
use crate::units::{UnitError, exact_size, parse_size};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// One side of a transfer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Endpoint {
    /// A path of this machine, byte for byte as it was typed: a trailing slash is kept.
    Local(PathBuf),
    /// That many bytes from memory: a source without storage.
    Memory {
        /// How many bytes it yields.
        bytes: u64,
    },
    /// Accepts all data and keeps none: a destination without storage.
    Null,
    /// `-`: standard input as a source, standard output as a destination.
    Stdio,
    /// A place on a node.
    Remote(Remote),
    /// A path of another machine, by ssh.
    Ssh(SshPlace),
}

/// A path of another machine that is reached by ssh.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SshPlace {
    /// Machine, and user there.
    pub login: Login,
    /// Path, byte for byte as typed, relative to the home there; empty is the home.
    pub path: Vec<u8>,
}

/// A place on a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Remote {
    /// Where the node listens.
    pub node: HostPort,
    /// The place on that node.
    pub place: NodePlace,
}

/// A place that a remote endpoint names on its node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NodePlace {
    /// A path below an export.
    Export {
        /// The export's name, as in `serve --export NAME=PATH`.
        name: String,
        /// Relative to the export, without a slash at either end; empty is the export itself.
        path: Vec<u8>,
        /// A trailing slash or `/.` was given: as a destination it means "into this directory".
        directory: bool,
        /// `/.` was given: as a source it means "what is in it", without its name.
        contents: bool,
    },
    /// That many bytes from the node's memory.
    Memory {
        /// How many bytes it yields.
        bytes: u64,
    },
    /// The node accepts all data and keeps none.
    Null,
}

/// Why a text does not name an endpoint.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{text}: {reason}")]
pub struct EndpointError {
    /// The text, with invalid UTF-8 replaced.
    pub text: String,
    /// The fault of the text.
    pub reason: EndpointReason,
}

/// A fault of an endpoint.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum EndpointReason {
    /// Nothing was given.
    #[error("an empty path names nothing")]
    Empty,
    /// The machine in `[user@]host:path`.
    #[error("{0}")]
    Login(#[from] LoginError),
    /// Another scheme than `godwit://`.
    #[error("the scheme {0}:// is not known; a node is named as godwit://HOST/EXPORT/PATH")]
    Scheme(String),
    /// The host or the port.
    #[error("{0}")]
    Host(#[from] HostError),
    /// Port 0 cannot be dialled.
    #[error("port 0 cannot be dialled")]
    PortZero,
    /// Nothing behind the host.
    #[error("name an export behind the host, as in godwit://HOST/EXPORT/PATH")]
    NoExport,
    /// The export's name has a byte that no export has.
    #[error("{0}")]
    ExportName(#[from] ExportNameError),
    /// A `..` in the path.
    #[error("`..` would lead out of the export")]
    Parent,
    /// A percent sign that is no `%XX`.
    #[error(
        "a percent sign begins a byte code %XX with two hexadecimal digits; write %25 for the sign itself"
    )]
    Percent,
    /// A byte that no name can hold.
    #[error("a name cannot hold %00 or %2F")]
    Byte,
    /// A NUL in a local path.
    #[error("a path cannot hold a NUL byte")]
    Nul,
    /// The size behind `mem:`.
    #[error("mem: needs a size, as in mem:64GiB: {0}")]
    Memory(UnitError),
    /// Something behind `null:`.
    #[error("no text may follow null:; for a local file with a colon write ./{0}")]
    Null(String),
}

/// Why a name cannot be an export's.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error(
    "`{0}` cannot name an export: letters, digits, `.`, `_` and `-`, at most {EXPORT_NAME_BYTES_MAX}, beginning with a letter or digit"
)]
pub struct ExportNameError(pub String);

/// The longest name of an export, in bytes.
pub const EXPORT_NAME_BYTES_MAX: usize = 64;

/// Checks the name of an export.
///
/// # Errors
/// The error has the given name, and the form of a valid name.
pub fn check_export_name(name: &[u8]) -> Result<String, ExportNameError> {
    let fits = name.len() <= EXPORT_NAME_BYTES_MAX
        && name.first().is_some_and(u8::is_ascii_alphanumeric)
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
    let text = String::from_utf8_lossy(name).into_owned();
    if fits {
        Ok(text)
    } else {
        Err(ExportNameError(text))
    }
}

/// Whether a name in the position of an export means memory: `null:` or `mem:SIZE`. No export has such a name.
#[must_use]
pub fn is_memory(name: &str) -> bool {
    name == "null:" || name.starts_with("mem:")
}

impl Endpoint {
    /// Reads what a user typed.
    ///
    /// # Errors
    /// Names the text, what is wrong with it and how to write it instead.
    pub fn parse(text: &OsStr) -> Result<Self, EndpointError> {
        parse_bytes(text.as_bytes()).map_err(|reason| EndpointError {
            text: text.to_string_lossy().into_owned(),
            reason,
        })
    }

    /// The text that [`Endpoint::parse`] reads back, byte for byte. A local path that would read as another kind of endpoint gets the prefix
    /// `./`.
    #[must_use]
    pub fn to_text(&self) -> Vec<u8> {
        match self {
            Self::Local(path) => {
                let text = path.as_os_str();
                let is_plain = Self::parse(text).as_ref() == Ok(self);
                let prefix: &[u8] = if is_plain { b"" } else { b"./" };
                [prefix, text.as_bytes()].concat()
            }
            Self::Ssh(place) => [place.login.to_string().as_bytes(), b":", &place.path].concat(),
            Self::Memory { .. } | Self::Null | Self::Stdio | Self::Remote(_) => {
                self.to_string().into_bytes()
            }
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        Self::parse(text.as_ref())
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Text(self.to_text()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        Self::parse(&text.to_os()).map_err(D::Error::custom)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Memory { bytes } => write!(f, "mem:{}", exact_size(*bytes)),
            Self::Null => write!(f, "null:"),
            Self::Stdio => write!(f, "-"),
            Self::Remote(remote) => write!(f, "{remote}"),
            Self::Ssh(place) => write!(f, "{place}"),
        }
    }
}

impl fmt::Display for SshPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.login, String::from_utf8_lossy(&self.path))
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "godwit://{}/", self.node)?;
        for byte in self.place.to_wire() {
            // Bytes that could not be read back, or would spoil a terminal, are escaped.
            if byte.is_ascii_graphic() && byte != b'%' {
                write!(f, "{}", char::from(byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        match &self.place {
            NodePlace::Export { contents: true, .. } => write!(f, "/."),
            NodePlace::Export {
                directory: true, ..
            } => write!(f, "/"),
            _ => Ok(()),
        }
    }
}

impl NodePlace {
    /// The place in the form that nodes exchange: `export/path`, `null:` or `mem:BYTES`, unescaped, without a trailing slash.
    #[must_use]
    pub fn to_wire(&self) -> Vec<u8> {
        match self {
            Self::Export { name, path, .. } if path.is_empty() => name.clone().into_bytes(),
            Self::Export { name, path, .. } => [name.as_bytes(), b"/", path].concat(),
            Self::Memory { bytes } => format!("mem:{}", exact_size(*bytes)).into_bytes(),
            Self::Null => b"null:".to_vec(),
        }
    }

    /// Reads the output of a peer's [`NodePlace::to_wire`]. Unescapes nothing.
    ///
    /// # Errors
    /// Says what is wrong; a path that could leave its export is an error.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, EndpointReason> {
        if let Some(special) = parse_special(bytes)? {
            return Ok(special);
        }
        let mut components = bytes.split(|byte| *byte == b'/');
        let name = components.next().unwrap_or_default();
        if name.is_empty() {
            return Err(EndpointReason::NoExport);
        }
        let name = check_export_name(name)?;
        let mut path = Vec::with_capacity(bytes.len());
        for component in components {
            push_component(&mut path, component)?;
        }
        let last = bytes
            .rsplit(|byte| *byte == b'/')
            .find(|part| !part.is_empty());
        let contents = last == Some(b".");
        Ok(Self::Export {
            name,
            path,
            directory: contents || bytes.ends_with(b"/"),
            contents,
        })
    }
}

fn parse_bytes(text: &[u8]) -> Result<Endpoint, EndpointReason> {
    if text.is_empty() {
        return Err(EndpointReason::Empty);
    }
    if text.contains(&0) {
        return Err(EndpointReason::Nul);
    }
    if text == b"-" {
        return Ok(Endpoint::Stdio);
    }
    if let Some(rest) = text.strip_prefix(b"godwit://") {
        return parse_remote(rest).map(Endpoint::Remote);
    }
    match parse_special(text)? {
        Some(NodePlace::Memory { bytes }) => return Ok(Endpoint::Memory { bytes }),
        Some(_) => return Ok(Endpoint::Null),
        None => {}
    }
    // As with scp: a colon before the first slash separates a host from a path.
    let head = text.split(|byte| *byte == b'/').next().unwrap_or_default();
    if let Some(scheme) = head.strip_suffix(b":")
        && text[head.len()..].starts_with(b"//")
    {
        let scheme = String::from_utf8_lossy(scheme).into_owned();
        return Err(EndpointReason::Scheme(scheme));
    }
    if let Some((login, path)) = Login::split(text)? {
        let path = path.to_vec();
        return Ok(Endpoint::Ssh(SshPlace { login, path }));
    }
    Ok(Endpoint::Local(PathBuf::from(OsString::from_vec(
        text.to_vec(),
    ))))
}

fn parse_special(text: &[u8]) -> Result<Option<NodePlace>, EndpointReason> {
    if let Some(size) = text.strip_prefix(b"mem:") {
        return match parse_size(&String::from_utf8_lossy(size)) {
            Ok(bytes) => Ok(Some(NodePlace::Memory { bytes })),
            Err(error) => Err(EndpointReason::Memory(error)),
        };
    }
    match text.strip_prefix(b"null:") {
        Some(b"") => Ok(Some(NodePlace::Null)),
        Some(_) => Err(EndpointReason::Null(
            String::from_utf8_lossy(text).into_owned(),
        )),
        None => Ok(None),
    }
}

fn parse_remote(rest: &[u8]) -> Result<Remote, EndpointReason> {
    let slash = rest.iter().position(|byte| *byte == b'/');
    let (host, path) = match slash {
        Some(slash) => (&rest[..slash], &rest[slash + 1..]),
        None => (rest, &b""[..]),
    };
    let node = HostPort::parse(&String::from_utf8_lossy(host), PORT_DEFAULT)?;
    if node.port == 0 {
        return Err(EndpointReason::PortZero);
    }
    if path.is_empty() {
        return Err(EndpointReason::NoExport);
    }
    // Slashes are split before unescaping, so that %2F cannot become a slash.
    let mut wire = Vec::with_capacity(path.len());
    for (index, component) in path.split(|byte| *byte == b'/').enumerate() {
        if index > 0 {
            wire.push(b'/');
        }
        percent_decode(component, &mut wire)?;
    }
    let place = NodePlace::from_wire(&wire)?;
    Ok(Remote { node, place })
}

fn percent_decode(component: &[u8], out: &mut Vec<u8>) -> Result<(), EndpointReason> {
    let mut bytes = component.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let decoded = match (bytes.next().and_then(hex), bytes.next().and_then(hex)) {
            (Some(high), Some(low)) => high << 4 | low,
            _ => return Err(EndpointReason::Percent),
        };
        if decoded == 0 || decoded == b'/' {
            return Err(EndpointReason::Byte);
        }
        out.push(decoded);
    }
    Ok(())
}

fn hex(byte: &u8) -> Option<u8> {
    char::from(*byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// Appends one component, dropping empty ones and `.`.
fn push_component(path: &mut Vec<u8>, component: &[u8]) -> Result<(), EndpointReason> {
    match component {
        b"" | b"." => return Ok(()),
        b".." => return Err(EndpointReason::Parent),
        _ if component.contains(&0) => return Err(EndpointReason::Nul),
        _ => {}
    }
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(component);
    Ok(())
}

#[cfg(test)]
mod tests;

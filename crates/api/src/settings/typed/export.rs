//! Owns the exports of a node and their text form: a directory, its name, and the metadata to apply there.
//! Looks at no file system.

use crate::endpoint::check_export_name;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// A directory that a node exports.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Export {
    /// Name for clients.
    pub name: String,
    /// Path of the directory.
    pub path: PathBuf,
    /// Applies set-user-id and set-group-id bits.
    pub set_id: bool,
    /// Applies owner and group.
    pub owner: bool,
    /// Reads and applies `security.*` and `trusted.*` attributes.
    pub security_xattrs: bool,
    /// Makes device nodes.
    pub devices: bool,
    /// Refuses all access to the directory unless a file system is mounted at it.
    pub require_mount: bool,
}

impl Export {
    /// Reads `NAME=PATH[,set-id][,owner][,security-xattrs][,devices][,require-mount]`.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the text.
    pub fn parse(text: &OsStr) -> Result<Self, String> {
        let bytes = text.as_bytes();
        let equals = bytes
            .iter()
            .position(|byte| *byte == b'=')
            .ok_or("write NAME=PATH")?;
        let name = check_export_name(&bytes[..equals]).map_err(|error| error.to_string())?;
        let mut path = &bytes[equals + 1..];
        let (mut set_id, mut owner, mut security_xattrs, mut devices) =
            (false, false, false, false);
        let mut require_mount = false;
        // Only known words are cut off: a path may contain commas.
        loop {
            if let Some(rest) = path.strip_suffix(b",set-id") {
                (path, set_id) = (rest, true);
            } else if let Some(rest) = path.strip_suffix(b",owner") {
                (path, owner) = (rest, true);
            } else if let Some(rest) = path.strip_suffix(b",security-xattrs") {
                (path, security_xattrs) = (rest, true);
            } else if let Some(rest) = path.strip_suffix(b",devices") {
                (path, devices) = (rest, true);
            } else if let Some(rest) = path.strip_suffix(b",require-mount") {
                (path, require_mount) = (rest, true);
            } else {
                break;
            }
        }
        if path.is_empty() {
            return Err("the path is missing".to_owned());
        }
        if path.contains(&0) {
            return Err("a path cannot hold a NUL byte".to_owned());
        }
        Ok(Self {
            name,
            path: PathBuf::from(OsStr::from_bytes(path)),
            set_id,
            owner,
            security_xattrs,
            devices,
            require_mount,
        })
    }
}

//! Reads the extended attributes and access lists of an entry: one call for the list, and one for each attribute. Applies no attribute
//! (`apply` does).

use super::acl;
use crate::extended::{
    Acls, EXTENDED_BYTES_MAX, Extended, Lost, XATTR_VALUE_BYTES_MAX, Xattr, XattrClass,
};
use crate::meta::Kind;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;

/// Longest list of names, as in Linux.
pub(super) const LIST_BYTES_MAX: usize = 64 << 10;

/// The attributes to read of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) xattrs: bool,
    pub(super) acls: bool,
    /// Also read `security.*` and `trusted.*` attributes.
    pub(super) privileged: bool,
}

impl Wanted {
    pub(super) fn is_nothing(self) -> bool {
        !self.xattrs && !self.acls
    }
}

/// Reads attributes of entries, and reuses its buffers.
#[derive(Debug)]
pub(super) struct Reader {
    wanted: Wanted,
    list: Vec<u8>,
    value: Vec<u8>,
}

impl Reader {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            list: vec![0; LIST_BYTES_MAX],
            value: vec![0; XATTR_VALUE_BYTES_MAX],
        }
    }

    /// Reads the attributes of `name` in `directory`; a link is not followed.
    pub(super) fn read(
        &mut self,
        directory: impl AsFd,
        name: &[u8],
        kind: Kind,
    ) -> Result<(Extended, Lost), Errno> {
        let mut extended = Extended {
            xattrs: self.wanted.xattrs.then(Vec::new),
            acls: self.wanted.acls.then(Acls::default),
        };
        let mut lost = Lost::NOTHING;
        // In the kernel, links have no user attributes and no access lists.
        if self.wanted.is_nothing() || kind == Kind::Symlink && !self.wanted.privileged {
            return Ok((extended, lost));
        }
        let path = entry_path(directory, name);
        let bytes = match rustix::fs::llistxattr(path.as_slice(), &mut self.list[..]) {
            Ok(bytes) => bytes,
            // The file system has no attributes.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok((extended, lost)),
            Err(Errno::TOOBIG | Errno::RANGE) => return Ok((extended, Lost::XATTRS)),
            Err(error) => return Err(error),
        };
        let list = std::mem::take(&mut self.list);
        let mut weight = 0;
        let result = names(&list[..bytes]).try_for_each(|name| {
            lost |= self.read_one(&path, name, &mut extended, &mut weight)?;
            Ok(())
        });
        self.list = list;
        result.map(|()| (extended, lost))
    }

    fn read_one(
        &mut self,
        path: &[u8],
        name: &[u8],
        extended: &mut Extended,
        weight: &mut usize,
    ) -> Result<Lost, Errno> {
        if let Some(acls) = &mut extended.acls
            && let Some(list) = [
                (acl::ACCESS, &mut acls.access),
                (acl::DEFAULT, &mut acls.default),
            ]
            .into_iter()
            .find_map(|(known, list)| (known.as_bytes() == name).then_some(list))
        {
            return Ok(match self.value_of(path, name)? {
                Value::Is(bytes) => match acl::decode(&self.value[..bytes]) {
                    Some(entries) => {
                        *list = entries;
                        Lost::NOTHING
                    }
                    None => Lost::ACLS,
                },
                Value::Gone => Lost::NOTHING,
                Value::Closed | Value::Denied => Lost::ACLS,
            });
        }
        let Some(xattrs) = &mut extended.xattrs else {
            return Ok(Lost::NOTHING);
        };
        let kind = match XattrClass::of(name) {
            XattrClass::User => Lost::XATTRS,
            XattrClass::Privileged if self.wanted.privileged => Lost::PRIVILEGED_XATTRS,
            _ => return Ok(Lost::NOTHING),
        };
        Ok(match self.value_of(path, name)? {
            // A user without read permission for the attributes cannot read the contents either; the file system enforces it.
            Value::Denied if kind == Lost::XATTRS => return Err(Errno::ACCESS),
            Value::Is(bytes) => {
                *weight += name.len() + bytes;
                if *weight > EXTENDED_BYTES_MAX {
                    return Ok(kind);
                }
                xattrs.push(Xattr {
                    name: name.to_vec(),
                    value: self.value[..bytes].to_vec(),
                });
                Lost::NOTHING
            }
            Value::Gone => Lost::NOTHING,
            Value::Closed | Value::Denied => kind,
        })
    }

    fn value_of(&mut self, path: &[u8], name: &[u8]) -> Result<Value, Errno> {
        match rustix::fs::lgetxattr(path, name, &mut self.value[..]) {
            Ok(bytes) => Ok(Value::Is(bytes)),
            Err(Errno::NODATA) => Ok(Value::Gone),
            Err(Errno::ACCESS) => Ok(Value::Denied),
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::RANGE | Errno::TOOBIG) => Ok(Value::Closed),
            Err(error) => Err(error),
        }
    }
}

/// Result of reading a listed attribute.
enum Value {
    /// Length of the value in the buffer.
    Is(usize),
    /// The attribute was removed meanwhile.
    Gone,
    /// We may not read the attribute, and perhaps no user may.
    Closed,
    /// The mode of the entry denies us reading.
    Denied,
}

/// The names in a list from the kernel, each of which ends with a zero.
pub(super) fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
}

/// A path to a name in an open directory, for calls that take no handles. The kernel resolves only the name itself, and the callers do
/// not follow it.
pub(super) fn entry_path(directory: impl AsFd, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", directory.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}

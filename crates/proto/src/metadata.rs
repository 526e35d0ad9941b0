//! Owns the record extensions that carry metadata: owner and group by name, extended attributes, access lists, devices.
//! Does not apply metadata or map names. `docs/wire.md`, "Metadata".

use crate::bytes::take_slice;
use crate::error::WireError;
use crate::extension;
use crate::limits::{
    ACCOUNT_NAME_BYTES_MAX, ACL_ENTRIES_MAX, XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX,
};

/// An extended attribute: length of its name, name, value; a long value continues in further extensions.
pub const XATTR: u16 = 2;
/// A continuation of the attribute value in the previous extension.
pub const XATTR_MORE: u16 = 3;
/// The access list.
pub const ACL_ACCESS: u16 = 4;
/// The default access list, which new entries of a directory inherit.
pub const ACL_DEFAULT: u16 = 5;
/// Name of the user with the id `uid` at the source.
pub const OWNER_NAME: u16 = 6;
/// Name of the group with the id `gid` at the source.
pub const GROUP_NAME: u16 = 7;
/// Of a device node: major and minor number, 4 bytes each.
pub const DEVICE: u16 = 8;

/// Longest value of one extension.
const VALUE_BYTES_MAX: usize = u16::MAX as usize;

/// The metadata in a record's extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Extended attributes except access lists, as name and value; a correct sender's names are distinct.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The access list; empty for none.
    pub access: Vec<AclEntry>,
    /// The default access list; empty for none.
    pub default: Vec<AclEntry>,
    /// Name of the owner.
    pub owner: Option<Vec<u8>>,
    /// Name of the group.
    pub group: Option<Vec<u8>>,
    /// Major and minor number of a device node.
    pub device: Option<(u32, u32)>,
}

/// An entry of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// The accounts that the entry concerns.
    pub tag: AclTag,
    /// 4 read, 2 write, 1 execute.
    pub permissions: u8,
    /// Id of the user or group at the source; 0 if the tag names neither.
    pub id: u32,
    /// Name of that user or group at the source; empty if there is none, or if only numbers are used.
    pub name: Vec<u8>,
}

/// The accounts that an entry of an access list concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AclTag(pub u8);

impl AclTag {
    /// The owner.
    pub const OWNER: Self = Self(1);
    /// A user.
    pub const USER: Self = Self(2);
    /// The owning group.
    pub const OWNING_GROUP: Self = Self(3);
    /// A group.
    pub const GROUP: Self = Self(4);
    /// The upper bound on the permissions of users and groups.
    pub const MASK: Self = Self(5);
    /// All other users.
    pub const OTHERS: Self = Self(6);
}

impl Metadata {
    /// Appends the metadata as extensions.
    ///
    /// # Errors
    /// A name, value or list is longer than the protocol allows.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        for (kind, name) in [(OWNER_NAME, &self.owner), (GROUP_NAME, &self.group)] {
            if let Some(name) = name {
                check_account(name)?;
                extension::push(out, kind, name)?;
            }
        }
        if let Some((major, minor)) = self.device {
            let value = [major.to_le_bytes(), minor.to_le_bytes()].concat();
            extension::push(out, DEVICE, &value)?;
        }
        for (kind, entries) in [(ACL_ACCESS, &self.access), (ACL_DEFAULT, &self.default)] {
            if !entries.is_empty() {
                extension::push(out, kind, &encode_acl(entries)?)?;
            }
        }
        for (name, value) in &self.xattrs {
            push_xattr(name, value, out)?;
        }
        Ok(())
    }

    /// Reads the metadata in `extensions`; other types are ignored.
    ///
    /// # Errors
    /// An extension without the form of its type.
    pub fn decode(extensions: &[u8]) -> Result<Self, WireError> {
        let mut found = Self::default();
        let mut before = None;
        for each in extension::iter(extensions) {
            let (kind, value) = each?;
            match kind {
                XATTR => found.xattrs.push(take_xattr(value)?),
                XATTR_MORE => {
                    let open = matches!(before, Some(XATTR | XATTR_MORE));
                    let Some((_, start)) = found.xattrs.last_mut().filter(|_| open) else {
                        return Err(invalid("continues an attribute that was not begun"));
                    };
                    if start.len() + value.len() > XATTR_VALUE_BYTES_MAX {
                        return Err(WireError::too_long(
                            "value of an attribute",
                            XATTR_VALUE_BYTES_MAX as u64,
                        ));
                    }
                    start.extend_from_slice(value);
                }
                ACL_ACCESS => found.access = decode_acl(value)?,
                ACL_DEFAULT => found.default = decode_acl(value)?,
                OWNER_NAME => found.owner = Some(take_account(value)?),
                GROUP_NAME => found.group = Some(take_account(value)?),
                DEVICE => {
                    let ([major, minor], []) = value.as_chunks::<4>() else {
                        return Err(invalid("is no pair of device numbers"));
                    };
                    found.device = Some((u32::from_le_bytes(*major), u32::from_le_bytes(*minor)));
                }
                _ => {}
            }
            before = Some(kind);
        }
        Ok(found)
    }
}

/// Appends an attribute. A value is split if name and value do not fit into one extension.
fn push_xattr(name: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    let Some(name_bytes) = u8::try_from(name.len()).ok().filter(|bytes| *bytes > 0) else {
        return Err(WireError::too_long(
            "name of an attribute",
            XATTR_NAME_BYTES_MAX as u64,
        ));
    };
    if name.contains(&0) {
        return Err(invalid("has a zero byte in a name"));
    }
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(WireError::too_long(
            "value of an attribute",
            XATTR_VALUE_BYTES_MAX as u64,
        ));
    }
    let (first, more) = value.split_at(value.len().min(VALUE_BYTES_MAX - 1 - name.len()));
    let mut bytes = Vec::with_capacity(1 + name.len() + first.len());
    bytes.push(name_bytes);
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(first);
    extension::push(out, XATTR, &bytes)?;
    if more.is_empty() {
        Ok(())
    } else {
        extension::push(out, XATTR_MORE, more)
    }
}

fn take_xattr(mut value: &[u8]) -> Result<(Vec<u8>, Vec<u8>), WireError> {
    let what = "an attribute";
    let [name_bytes] = *take_slice(&mut value, 1, what)? else {
        return Err(WireError::Short { what });
    };
    let name = take_slice(&mut value, name_bytes.into(), what)?;
    if name.is_empty() || name.contains(&0) {
        return Err(invalid("has an empty name, or a zero byte in it"));
    }
    Ok((name.to_vec(), value.to_vec()))
}

fn encode_acl(entries: &[AclEntry]) -> Result<Vec<u8>, WireError> {
    if entries.len() > ACL_ENTRIES_MAX {
        return Err(WireError::too_long("access list", ACL_ENTRIES_MAX as u64));
    }
    // Names are optional: if a list is too long with them, only its numbers are sent.
    let names: usize = entries.iter().map(|entry| entry.name.len()).sum();
    let named = names + entries.len() * ACL_ENTRY_BYTES <= VALUE_BYTES_MAX;
    let mut bytes = Vec::with_capacity(entries.len() * ACL_ENTRY_BYTES + names);
    for entry in entries {
        let name = if named { entry.name.as_slice() } else { &[] };
        check_entry(entry)?;
        let name_bytes = u8::try_from(name.len()).unwrap_or(0);
        bytes.extend([entry.tag.0, entry.permissions]);
        bytes.extend(entry.id.to_le_bytes());
        bytes.push(name_bytes);
        bytes.extend_from_slice(name);
    }
    Ok(bytes)
}

fn decode_acl(mut value: &[u8]) -> Result<Vec<AclEntry>, WireError> {
    let what = "an access list";
    let mut entries = Vec::new();
    while !value.is_empty() {
        let [tag, permissions, id @ .., name_bytes] =
            take_slice(&mut value, ACL_ENTRY_BYTES, what)?
        else {
            return Err(WireError::Short { what });
        };
        let Ok(id) = <[u8; 4]>::try_from(id) else {
            return Err(WireError::Short { what });
        };
        let entry = AclEntry {
            tag: AclTag(*tag),
            permissions: *permissions,
            id: u32::from_le_bytes(id),
            name: take_slice(&mut value, (*name_bytes).into(), what)?.to_vec(),
        };
        check_entry(&entry)?;
        entries.push(entry);
        if entries.len() > ACL_ENTRIES_MAX {
            return Err(WireError::too_long("access list", ACL_ENTRIES_MAX as u64));
        }
    }
    Ok(entries)
}

fn check_entry(entry: &AclEntry) -> Result<(), WireError> {
    let named = matches!(entry.tag, AclTag::USER | AclTag::GROUP);
    if !(AclTag::OWNER.0..=AclTag::OTHERS.0).contains(&entry.tag.0) || entry.permissions > 7 {
        return Err(invalid(
            "has an access list entry without a subject, or with unknown permissions",
        ));
    }
    if !named && (entry.id != 0 || !entry.name.is_empty()) {
        return Err(invalid(
            "names a subject in an access list entry that must have none",
        ));
    }
    if entry.name.is_empty() {
        Ok(())
    } else {
        check_account(&entry.name)
    }
}

fn take_account(value: &[u8]) -> Result<Vec<u8>, WireError> {
    check_account(value)?;
    Ok(value.to_vec())
}

fn check_account(name: &[u8]) -> Result<(), WireError> {
    if name.len() > ACCOUNT_NAME_BYTES_MAX {
        return Err(WireError::too_long(
            "name of a user or group",
            ACCOUNT_NAME_BYTES_MAX as u64,
        ));
    }
    if name.is_empty() || name.contains(&0) {
        return Err(invalid(
            "has a user or group with an empty name, or a zero byte in it",
        ));
    }
    Ok(())
}

fn invalid(rule: &'static str) -> WireError {
    WireError::invalid("metadata", rule)
}

/// Tag, permissions, id, and length of the name.
const ACL_ENTRY_BYTES: usize = 7;

const _: () = assert!(ACL_ENTRIES_MAX * ACL_ENTRY_BYTES <= VALUE_BYTES_MAX);
const _: () = assert!(XATTR_NAME_BYTES_MAX == u8::MAX as usize);
const _: () = assert!(XATTR_VALUE_BYTES_MAX + XATTR_NAME_BYTES_MAX < 2 * VALUE_BYTES_MAX);
const _: () = assert!(ACCOUNT_NAME_BYTES_MAX <= u8::MAX as usize);

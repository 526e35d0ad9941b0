//! Owns the metadata of an entry beyond mode, times and owner: extended attributes, access lists, and the kinds of metadata that could not
//! be kept. Reads and applies no metadata.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Longest name of an extended attribute in bytes, as in Linux.
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// Longest value of an extended attribute in bytes, as in Linux.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;
/// Most bytes read for one entry's attributes, names and values together: the room in a message beside access lists. Most file systems
/// hold less.
pub const EXTENDED_BYTES_MAX: usize = 192 << 10;
/// Most entries of one access list: an attribute value in the kernel's form holds no more.
pub const ACL_ENTRIES_MAX: usize = (XATTR_VALUE_BYTES_MAX - 4) / 8;

/// The attributes of an entry besides its bytes, mode, times and owner. `None` means that the attributes were not requested, and that
/// existing attributes stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extended {
    /// All extended attributes except access lists, by name.
    pub xattrs: Option<Vec<Xattr>>,
    /// Both access lists.
    pub acls: Option<Acls>,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Xattr {
    /// The name with its namespace: `user.comment`.
    pub name: Vec<u8>,
    /// Any bytes.
    pub value: Vec<u8>,
}

/// POSIX access lists. An empty list grants no more than the mode does, as if the entry had no list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acls {
    /// Permissions of the entry itself.
    pub access: Vec<AclEntry>,
    /// Permissions that new entries in the directory inherit.
    pub default: Vec<AclEntry>,
}

/// An entry of an access list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AclEntry {
    /// The user or group that the entry concerns.
    pub who: AclWho,
    /// 4 read, 2 write, 1 execute.
    pub permissions: u8,
}

/// The user or group that an entry of an access list concerns; in the order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclWho {
    /// The owner.
    Owner,
    /// A user by number.
    User(u32),
    /// The owning group.
    OwningGroup,
    /// A group by number.
    Group(u32),
    /// The upper bound on the permissions of named users and all groups.
    Mask,
    /// All other users.
    Others,
}

/// Class of an extended attribute: the users that may read or set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum XattrClass {
    /// `user.*`: all users that may read or write the entry.
    User,
    /// `security.*` and `trusted.*`: the superuser, with consequences for the whole machine.
    Privileged,
    /// Access lists, and attributes that belong to one file system; not copied as attributes.
    System,
}

impl XattrClass {
    /// The class of an attribute.
    pub fn of(name: &[u8]) -> Self {
        if name.starts_with(b"user.") {
            Self::User
        } else if name.starts_with(b"security.") || name.starts_with(b"trusted.") {
            Self::Privileged
        } else {
            Self::System
        }
    }
}

impl Extended {
    /// Whether no attributes were requested.
    pub fn is_unasked(&self) -> bool {
        self.xattrs.is_none() && self.acls.is_none()
    }

    /// About how much memory the attributes occupy, in bytes.
    pub fn weight(&self) -> usize {
        let xattrs = self.xattrs.iter().flatten();
        let xattrs: usize = xattrs
            .map(|xattr| xattr.name.len() + xattr.value.len() + size_of::<Xattr>())
            .sum();
        let entries = self
            .acls
            .as_ref()
            .map_or(0, |acls| acls.access.len() + acls.default.len());
        xattrs + entries * size_of::<AclEntry>()
    }
}

/// The kinds of attributes that a destination could not keep, or a source could not read, of an otherwise complete entry.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Lost(u8);

/// Whether a security module of this machine sets the attribute. Such an attribute is not removed.
pub(crate) fn is_label(name: &[u8]) -> bool {
    const LABELS: [&[u8]; 4] = [
        b"security.apparmor",
        b"security.evm",
        b"security.ima",
        b"security.selinux",
    ];
    LABELS.contains(&name) || name.starts_with(b"security.SMACK64")
}

impl Extended {
    /// Whether `there` has the same attributes, except for labels that only `there` has.
    pub(crate) fn is_like(&self, there: &Self) -> bool {
        let wanted = self.xattrs.as_deref();
        let is_kept = |xattr: &&Xattr| {
            !is_label(&xattr.name)
                || wanted.is_some_and(|wanted| wanted.iter().any(|one| one.name == xattr.name))
        };
        let left = there
            .xattrs
            .as_ref()
            .map(|found| found.iter().filter(is_kept));
        let same = match (left, wanted) {
            (Some(left), Some(wanted)) => left.eq(wanted),
            (left, wanted) => left.is_none() && wanted.is_none(),
        };
        same && self.acls == there.acls
    }
}

impl Lost {
    /// Nothing.
    pub const NOTHING: Self = Self(0);
    /// The owner.
    pub const OWNER: Self = Self(1);
    /// The owning group.
    pub const GROUP: Self = Self(2);
    /// The set-user-id or set-group-id bit.
    pub const SET_ID: Self = Self(4);
    /// One or more `user.*` attributes.
    pub const XATTRS: Self = Self(8);
    /// One or more `security.*` or `trusted.*` attributes.
    pub const PRIVILEGED_XATTRS: Self = Self(16);
    /// An access list.
    pub const ACLS: Self = Self(32);
    /// The modification time, which the file system does not keep.
    pub const TIMES: Self = Self(64);
    /// The mode, which the file system accepts and does not keep.
    pub const MODE: Self = Self(128);
    /// One set for each kind.
    pub const KINDS: [Self; 8] = [
        Self::OWNER,
        Self::GROUP,
        Self::SET_ID,
        Self::XATTRS,
        Self::PRIVILEGED_XATTRS,
        Self::ACLS,
        Self::TIMES,
        Self::MODE,
    ];

    /// The set without `kinds`.
    #[must_use]
    pub const fn without(self, kinds: Self) -> Self {
        Self(self.0 & !kinds.0)
    }

    /// Whether the set is empty.
    pub fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }

    /// Whether the set contains one of `kinds`.
    pub fn has(self, kinds: Self) -> bool {
        self.0 & kinds.0 != 0
    }

    /// The operation that an error message names when the first kind of this set is lost.
    pub fn operation(self) -> &'static str {
        let first = Self::KINDS.into_iter().find(|kind| self.has(*kind));
        match first {
            Some(Self::OWNER) => "keep the owner of",
            Some(Self::GROUP) => "keep the group of",
            Some(Self::SET_ID) => "keep the set-id bits of",
            Some(Self::XATTRS) => "keep the extended attributes of",
            Some(Self::PRIVILEGED_XATTRS) => "keep the security and trusted attributes of",
            Some(Self::ACLS) => "keep the access list of",
            Some(Self::TIMES) => "keep the time of",
            Some(Self::MODE) => "keep the mode of",
            _ => "keep",
        }
    }
}

impl BitOr for Lost {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Lost {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = Self::KINDS.into_iter().filter(|kind| self.has(*kind));
        f.debug_set().entries(kinds.map(Self::operation)).finish()
    }
}

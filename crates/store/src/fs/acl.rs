//! Owns the kernel's form of access lists: `system.posix_acl_*`, version 2. Does not map ids and
//! applies nothing.

use crate::extended::{ACL_ENTRIES_MAX, AclEntry, AclWho};

/// Attribute that holds the access list of an entry.
pub(super) const ACCESS: &str = "system.posix_acl_access";
/// Attribute that holds the access list that new entries in a directory inherit.
pub(super) const DEFAULT: &str = "system.posix_acl_default";

const VERSION: u32 = 2;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
/// The id field of an entry that has no id.
const NO_ID: u32 = u32::MAX;

/// The value of the attribute. Entries are written in the order that the kernel requires.
pub(super) fn encode(entries: &[AclEntry]) -> Vec<u8> {
    let mut entries = entries.to_vec();
    entries.sort_unstable();
    let mut value = Vec::with_capacity(4 + 8 * entries.len());
    value.extend(VERSION.to_le_bytes());
    for entry in entries {
        let (tag, id) = match entry.who {
            AclWho::Owner => (OWNER, NO_ID),
            AclWho::User(id) => (USER, id),
            AclWho::OwningGroup => (OWNING_GROUP, NO_ID),
            AclWho::Group(id) => (GROUP, id),
            AclWho::Mask => (MASK, NO_ID),
            AclWho::Others => (OTHERS, NO_ID),
        };
        value.extend(tag.to_le_bytes());
        value.extend(u16::from(entry.permissions & 7).to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// The entries of a value; `None` if the form is unknown.
pub(super) fn decode(value: &[u8]) -> Option<Vec<AclEntry>> {
    let (version, rest) = value.split_first_chunk()?;
    let (entries, []) = rest.as_chunks::<8>() else {
        return None;
    };
    if u32::from_le_bytes(*version) != VERSION || entries.len() > ACL_ENTRIES_MAX {
        return None;
    }
    entries
        .iter()
        .map(|[a, b, c, d, id @ ..]| {
            let id = u32::from_le_bytes(*id);
            let who = match u16::from_le_bytes([*a, *b]) {
                OWNER => AclWho::Owner,
                USER => AclWho::User(id),
                OWNING_GROUP => AclWho::OwningGroup,
                GROUP => AclWho::Group(id),
                MASK => AclWho::Mask,
                OTHERS => AclWho::Others,
                _ => return None,
            };
            let permissions = u8::try_from(u16::from_le_bytes([*c, *d])).ok()?;
            (permissions <= 7).then_some(AclEntry { who, permissions })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_in_the_kernels_order() {
        let entry = |who, permissions| AclEntry { who, permissions };
        let sorted = [
            entry(AclWho::Owner, 7),
            entry(AclWho::User(4), 6),
            entry(AclWho::User(1000), 0),
            entry(AclWho::OwningGroup, 5),
            entry(AclWho::Group(7), 4),
            entry(AclWho::Mask, 7),
            entry(AclWho::Others, 0),
        ];
        let mut mixed = sorted;
        mixed.reverse();
        let value = encode(&mixed);
        assert_eq!(&value[..12], b"\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff");
        assert_eq!(decode(&value).as_deref(), Some(&sorted[..]));
        assert_eq!(decode(&encode(&[])), Some(Vec::new()));
    }

    #[test]
    fn other_forms_are_not_guessed_at() {
        let good = encode(&[AclEntry {
            who: AclWho::Owner,
            permissions: 7,
        }]);
        let changed = |at: usize, byte: u8| {
            let mut value = good.clone();
            value[at] = byte;
            decode(&value)
        };
        assert_eq!(changed(0, 3), None, "another version");
        assert_eq!(changed(4, 0x40), None, "another tag");
        assert_eq!(changed(6, 8), None, "more permissions than there are");
        for length in 0..good.len() {
            assert!(length == 4 || decode(&good[..length]).is_none(), "{length}");
        }
    }
}

//! Owns the words that say where an arriving file goes: its metadata, what it may replace, who sent it. The words are durable with the file.
//! Places no file.
//!
//! ```text
//! version:1 flags:1 mode:4 seconds:8 nanoseconds:4 uid:4 gid:4 there:8 export:text sender:text
//! xattrs:2 {name:text value:text}   if flag 8
//! access:2 default:2 {who:1 id:4 permissions:1}   if flag 16
//! text      bytes:2 text
//! flags     1 uid, 2 gid, 4 there, 8 xattrs, 16 access lists, 32 may replace
//! ```

use godwit_store::{AclEntry, AclWho, Acls, Extended, FinalMeta, Replace, Timestamp, Xattr};

const VERSION: u8 = 1;
const UID: u8 = 1;
const GID: u8 = 2;
const THERE: u8 = 4;
const XATTRS: u8 = 8;
const ACLS: u8 = 16;
const REPLACES: u8 = 32;

/// Where an arriving file goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct What {
    pub(super) meta: FinalMeta,
    /// The generation of the entry that the file replaces.
    pub(super) there: Option<u64>,
    pub(super) replace: Replace,
    pub(super) export: Vec<u8>,
    pub(super) sender: Vec<u8>,
}

impl What {
    pub(super) fn encode(&self) -> Vec<u8> {
        let meta = &self.meta;
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(meta.uid.is_some(), UID)
            | flag(meta.gid.is_some(), GID)
            | flag(self.there.is_some(), THERE)
            | flag(meta.extended.xattrs.is_some(), XATTRS)
            | flag(meta.extended.acls.is_some(), ACLS)
            | flag(self.replace == Replace::Atomically, REPLACES);
        let mut out = vec![VERSION, flags];
        out.extend_from_slice(&meta.mode.to_le_bytes());
        out.extend_from_slice(&meta.mtime.seconds.to_le_bytes());
        out.extend_from_slice(&meta.mtime.nanoseconds.to_le_bytes());
        out.extend_from_slice(&meta.uid.unwrap_or_default().to_le_bytes());
        out.extend_from_slice(&meta.gid.unwrap_or_default().to_le_bytes());
        out.extend_from_slice(&self.there.unwrap_or_default().to_le_bytes());
        push_text(&mut out, &self.export);
        push_text(&mut out, &self.sender);
        if let Some(xattrs) = &meta.extended.xattrs {
            out.extend_from_slice(&count(xattrs.len()).to_le_bytes());
            for xattr in xattrs {
                push_text(&mut out, &xattr.name);
                push_text(&mut out, &xattr.value);
            }
        }
        if let Some(acls) = &meta.extended.acls {
            out.extend_from_slice(&count(acls.access.len()).to_le_bytes());
            out.extend_from_slice(&count(acls.default.len()).to_le_bytes());
            for entry in acls.access.iter().chain(&acls.default) {
                let (who, id) = number_of(entry.who);
                out.push(who);
                out.extend_from_slice(&id.to_le_bytes());
                out.push(entry.permissions);
            }
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let [version, flags] = fields.take()?;
        if version != VERSION {
            return None;
        }
        let mode = u32::from_le_bytes(fields.take()?);
        let mtime = Timestamp {
            seconds: i64::from_le_bytes(fields.take()?),
            nanoseconds: u32::from_le_bytes(fields.take()?),
        };
        let uid = u32::from_le_bytes(fields.take()?);
        let gid = u32::from_le_bytes(fields.take()?);
        let there = u64::from_le_bytes(fields.take()?);
        let (export, sender) = (fields.text()?, fields.text()?);
        let mut extended = Extended::default();
        if flags & XATTRS != 0 {
            let number = u16::from_le_bytes(fields.take()?);
            let mut xattrs = Vec::new();
            for _ in 0..number {
                let (name, value) = (fields.text()?, fields.text()?);
                xattrs.push(Xattr { name, value });
            }
            extended.xattrs = Some(xattrs);
        }
        if flags & ACLS != 0 {
            let access = u16::from_le_bytes(fields.take()?);
            let default = u16::from_le_bytes(fields.take()?);
            extended.acls = Some(Acls {
                access: fields.entries(access)?,
                default: fields.entries(default)?,
            });
        }
        fields.0.is_empty().then_some(Self {
            meta: FinalMeta {
                mode,
                mtime,
                uid: (flags & UID != 0).then_some(uid),
                gid: (flags & GID != 0).then_some(gid),
                extended,
                strict: false,
            },
            there: (flags & THERE != 0).then_some(there),
            replace: match flags & REPLACES != 0 {
                true => Replace::Atomically,
                false => Replace::Never,
            },
            export,
            sender,
        })
    }
}

/// A number that fits; words with more are too long for a record anyway.
fn count(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&count(text.len()).to_le_bytes());
    out.extend_from_slice(text);
}

fn number_of(who: AclWho) -> (u8, u32) {
    match who {
        AclWho::Owner => (0, 0),
        AclWho::User(id) => (1, id),
        AclWho::OwningGroup => (2, 0),
        AclWho::Group(id) => (3, id),
        AclWho::Mask => (4, 0),
        AclWho::Others => (5, 0),
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text.to_vec())
    }

    fn entries(&mut self, number: u16) -> Option<Vec<AclEntry>> {
        let mut entries = Vec::new();
        for _ in 0..number {
            let [who] = self.take()?;
            let id = u32::from_le_bytes(self.take()?);
            let [permissions] = self.take()?;
            let who = match who {
                0 => AclWho::Owner,
                1 => AclWho::User(id),
                2 => AclWho::OwningGroup,
                3 => AclWho::Group(id),
                4 => AclWho::Mask,
                5 => AclWho::Others,
                _ => return None,
            };
            entries.push(AclEntry { who, permissions });
        }
        Some(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> What {
        let entry = |who| AclEntry {
            who,
            permissions: 5,
        };
        What {
            meta: FinalMeta {
                mode: 0o2640,
                mtime: Timestamp {
                    seconds: -5,
                    nanoseconds: 999_999_999,
                },
                uid: Some(7),
                gid: None,
                extended: Extended {
                    xattrs: Some(vec![Xattr {
                        name: b"user.a".to_vec(),
                        value: vec![0, 255],
                    }]),
                    acls: Some(Acls {
                        access: vec![entry(AclWho::Owner), entry(AclWho::Group(9))],
                        default: vec![entry(AclWho::Mask)],
                    }),
                },
                strict: false,
            },
            there: Some(u64::MAX),
            replace: Replace::Atomically,
            export: b"data".to_vec(),
            sender: b"gw1-x".to_vec(),
        }
    }

    #[test]
    fn encoded_words_decode_and_shorter_ones_do_not() {
        let plain = What {
            meta: FinalMeta::default(),
            there: None,
            replace: Replace::Never,
            export: Vec::new(),
            sender: Vec::new(),
        };
        for what in [full(), plain] {
            let bytes = what.encode();
            assert_eq!(What::decode(&bytes), Some(what));
            for length in 0..bytes.len() {
                assert_eq!(What::decode(&bytes[..length]), None, "{length}");
            }
            assert_eq!(What::decode(&[&*bytes, &[0]].concat()), None);
        }
    }
}

//! Converts the metadata of an entry: from storage into a record's extensions, and from a record into the form that storage
//! applies. Does not read or apply metadata; storage does. Knows the users and groups of this machine, and which metadata the
//! transfer keeps.
//!
//! Extensions of files are sent only in manifests and last records. Their bytes count in the sender's windows.

use godwit_proto::limits::EXTENSIONS_BYTES_MAX;
use godwit_proto::{
    AclEntry as WireEntry, AclTag, Fault, FaultCode, Metadata, Preserve, Record, Side,
};
use godwit_store::accounts::{AccountKind, Accounts};
use godwit_store::{
    AclEntry, AclWho, Acls, Extended, FinalMeta, Kind, Lost, Meta, Timestamp, Xattr,
};

/// The metadata that a transfer keeps, and the names of this machine's users and groups.
#[derive(Debug, Default)]
pub struct Keeper {
    preserve: Preserve,
    accounts: Accounts,
}

impl Keeper {
    /// Keeps the metadata that the user asked for.
    pub fn new(preserve: Preserve) -> Self {
        Self {
            preserve,
            accounts: Accounts::default(),
        }
    }

    /// The metadata that the user asked to keep.
    pub fn preserve(&self) -> &Preserve {
        &self.preserve
    }

    /// Whether scans must report more than the basic metadata of entries.
    pub fn reads_extended(&self) -> bool {
        self.preserve.xattrs || self.preserve.acls
    }

    /// The reason not to send an entry whose attributes could not all be read, if that is a reason.
    pub(crate) fn lost_at_source(&self, lost: Lost) -> Option<String> {
        (self.preserve.strict && !lost.is_nothing()).then(|| {
            format!(
                "cannot {} it: not all of this metadata could be read (--strict)",
                lost.operation()
            )
        })
    }

    /// The extensions of an entry's record, and the kinds of attributes that do not fit there.
    pub(crate) fn extensions(&self, meta: &Meta, extended: &Extended) -> (Vec<u8>, Lost) {
        let device = matches!(meta.kind, Kind::CharDevice | Kind::BlockDevice);
        let named = (self.preserve.owner || self.preserve.group) && !self.preserve.numeric_ids;
        if !device && !named && *extended == Extended::default() {
            return (Vec::new(), Lost::NOTHING);
        }
        let name = |asked: bool, kind, id| {
            (asked && !self.preserve.numeric_ids)
                .then(|| self.accounts.name(kind, id))
                .flatten()
        };
        let acls = extended.acls.as_ref();
        let list = |entries: Option<&Vec<AclEntry>>| {
            let entries = entries.into_iter().flatten();
            entries.map(|entry| self.entry_to_wire(entry)).collect()
        };
        let mut metadata = Metadata {
            xattrs: Vec::new(),
            access: list(acls.map(|acls| &acls.access)),
            default: list(acls.map(|acls| &acls.default)),
            owner: name(self.preserve.owner, AccountKind::User, meta.uid),
            group: name(self.preserve.group, AccountKind::Group, meta.gid),
            device: device.then(|| (rustix::fs::major(meta.rdev), rustix::fs::minor(meta.rdev))),
        };
        let xattrs = extended.xattrs.iter().flatten();
        metadata
            .xattrs
            .extend(xattrs.map(|xattr| (xattr.name.clone(), xattr.value.clone())));
        if metadata == Metadata::default() {
            return (Vec::new(), Lost::NOTHING);
        }
        let fits = |metadata: &Metadata| {
            let mut extensions = Vec::new();
            let encoded = metadata.encode(&mut extensions).is_ok();
            (encoded && extensions.len() <= EXTENSIONS_BYTES_MAX).then_some(extensions)
        };
        if let Some(extensions) = fits(&metadata) {
            return (extensions, Lost::NOTHING);
        }
        // Storage reads no more than fits, so the cause is a name or value that cannot be encoded.
        metadata.xattrs.clear();
        if let Some(extensions) = fits(&metadata) {
            return (extensions, Lost::XATTRS);
        }
        metadata.access.clear();
        metadata.default.clear();
        let lost = Lost::XATTRS | Lost::ACLS;
        (fits(&metadata).unwrap_or_default(), lost)
    }

    /// The metadata of a record, in the form that storage applies.
    pub(crate) fn final_meta(&self, record: &Record) -> Result<FinalMeta, Fault> {
        let asked = &self.preserve;
        let mut meta = FinalMeta {
            mode: record.mode & 0o7777,
            mtime: Timestamp {
                seconds: record.mtime_seconds,
                nanoseconds: record.mtime_nanoseconds,
            },
            uid: asked.owner.then_some(record.uid),
            gid: asked.group.then_some(record.gid),
            extended: Extended {
                xattrs: asked.xattrs.then(Vec::new),
                acls: asked.acls.then(Acls::default),
            },
            strict: asked.strict,
        };
        if record.extensions.is_empty() || *asked == Preserve::default() {
            return Ok(meta);
        }
        let metadata = self.metadata(record)?;
        if let Some(name) = metadata.owner.filter(|_| asked.owner) {
            meta.uid = Some(self.id_of(AccountKind::User, &name, record.uid));
        }
        if let Some(name) = metadata.group.filter(|_| asked.group) {
            meta.gid = Some(self.id_of(AccountKind::Group, &name, record.gid));
        }
        if asked.xattrs {
            let xattrs = metadata.xattrs.into_iter();
            meta.extended.xattrs =
                Some(xattrs.map(|(name, value)| Xattr { name, value }).collect());
        }
        if asked.acls {
            let list = |entries: Vec<WireEntry>| {
                let entries = entries.iter();
                entries
                    .filter_map(|entry| self.entry_from_wire(entry))
                    .collect()
            };
            meta.extended.acls = Some(Acls {
                access: list(metadata.access),
                default: list(metadata.default),
            });
        }
        Ok(meta)
    }

    /// The device number of a device node's record, in this kernel's packed form.
    pub(crate) fn device(&self, record: &Record) -> Result<u64, Fault> {
        let (major, minor) = self.metadata(record)?.device.unwrap_or_default();
        Ok(rustix::fs::makedev(major, minor))
    }

    fn metadata(&self, record: &Record) -> Result<Metadata, Fault> {
        Metadata::decode(&record.extensions).map_err(|error| Fault {
            entry: record.id,
            side: Side::DESTINATION,
            code: FaultCode::IO,
            errno: None,
            message: format!("the sender describes its metadata wrongly: {error}"),
        })
    }

    /// The id of the name, if the name is known here; otherwise `id`.
    fn id_of(&self, kind: AccountKind, name: &[u8], id: u32) -> u32 {
        if self.preserve.numeric_ids || name.is_empty() {
            return id;
        }
        self.accounts.id(kind, name).unwrap_or(id)
    }

    fn entry_to_wire(&self, entry: &AclEntry) -> WireEntry {
        let (tag, named) = match entry.who {
            AclWho::Owner => (AclTag::OWNER, None),
            AclWho::User(id) => (AclTag::USER, Some((AccountKind::User, id))),
            AclWho::OwningGroup => (AclTag::OWNING_GROUP, None),
            AclWho::Group(id) => (AclTag::GROUP, Some((AccountKind::Group, id))),
            AclWho::Mask => (AclTag::MASK, None),
            AclWho::Others => (AclTag::OTHERS, None),
        };
        let name = named
            .filter(|_| !self.preserve.numeric_ids)
            .and_then(|(kind, id)| self.accounts.name(kind, id));
        WireEntry {
            tag,
            permissions: entry.permissions,
            id: named.map_or(0, |(_, id)| id),
            name: name.unwrap_or_default(),
        }
    }

    fn entry_from_wire(&self, entry: &WireEntry) -> Option<AclEntry> {
        let id = |kind| self.id_of(kind, &entry.name, entry.id);
        let who = match entry.tag {
            AclTag::OWNER => AclWho::Owner,
            AclTag::USER => AclWho::User(id(AccountKind::User)),
            AclTag::OWNING_GROUP => AclWho::OwningGroup,
            AclTag::GROUP => AclWho::Group(id(AccountKind::Group)),
            AclTag::MASK => AclWho::Mask,
            AclTag::OTHERS => AclWho::Others,
            _ => return None,
        };
        Some(AclEntry {
            who,
            permissions: entry.permissions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use godwit_proto::EntryKind;

    fn keeper(numeric_ids: bool) -> Keeper {
        Keeper::new(Preserve {
            owner: true,
            group: true,
            xattrs: true,
            acls: true,
            specials: true,
            numeric_ids,
            strict: false,
        })
    }

    fn record(metadata: &Metadata) -> Record {
        let mut extensions = Vec::new();
        metadata.encode(&mut extensions).unwrap();
        Record {
            kind: EntryKind::FILE,
            uid: 4_000_000_001,
            gid: 4_000_000_002,
            extensions,
            ..Record::default()
        }
    }

    #[test]
    fn names_that_are_known_here_count_more_than_numbers() {
        let user = |name: &[u8]| WireEntry {
            tag: AclTag::USER,
            permissions: 6,
            id: 4_000_000_003,
            name: name.to_vec(),
        };
        let record = record(&Metadata {
            owner: Some(b"root".to_vec()),
            group: Some(b"no such group".to_vec()),
            access: vec![user(b"root"), user(b"no such user"), user(b"")],
            ..Metadata::default()
        });
        let who = |meta: &FinalMeta| {
            let acls = meta.extended.acls.as_ref().unwrap();
            acls.access
                .iter()
                .map(|entry| entry.who)
                .collect::<Vec<_>>()
        };
        let by_name = keeper(false).final_meta(&record).unwrap();
        assert_eq!((by_name.uid, by_name.gid), (Some(0), Some(4_000_000_002)));
        let stranger = AclWho::User(4_000_000_003);
        assert_eq!(who(&by_name), [AclWho::User(0), stranger, stranger]);
        let by_number = keeper(true).final_meta(&record).unwrap();
        assert_eq!(
            (by_number.uid, by_number.gid),
            (Some(4_000_000_001), Some(4_000_000_002))
        );
        assert_eq!(who(&by_number), [stranger; 3]);
    }

    #[test]
    fn unrequested_metadata_is_not_applied() {
        let record = record(&Metadata {
            owner: Some(b"root".to_vec()),
            xattrs: vec![(b"user.a".to_vec(), Vec::new())],
            ..Metadata::default()
        });
        let meta = Keeper::default().final_meta(&record).unwrap();
        assert_eq!((meta.uid, meta.gid), (None, None));
        assert!(meta.extended.is_unasked());
    }

    #[test]
    fn malformed_metadata_fails_its_entry() {
        let mut broken = record(&Metadata::default());
        broken.extensions = b"\x02\0\x01\0\x05".to_vec();
        let fault = keeper(false).final_meta(&broken).unwrap_err();
        assert_eq!(fault.code, FaultCode::IO);
    }
}

//! Translates between entries on the wire and entries in storage, and between counters and their report.
//! Holds no state.

use godwit_proto::{
    Digest, EntryId, EntryKind, Fault, FaultCode, Generation, Record, RecordFlags, Side, Status,
    UNKNOWN_BYTES,
};
use godwit_store::{Kind, Meta, StoreError, StoreErrorKind, digest};

use crate::counters::Snapshot;
use crate::item::{Action, Item};

/// Type of the record extension that carries the fault of an entry that failed at the source.
const EXTENSION_FAULT: u16 = 1;

pub(crate) fn digest_to_wire(digest: &digest::Digest) -> Digest {
    Digest(digest.0)
}

pub(crate) fn digest_to_store(digest: &Digest) -> digest::Digest {
    digest::Digest(digest.0)
}

/// The record of an entry found below root `root`, without its path and what goes with it.
pub(crate) fn record(root: u16, meta: &Meta, target: Vec<u8>) -> Record {
    let kind = match meta.kind {
        Kind::File => EntryKind::FILE,
        Kind::Directory => EntryKind::DIRECTORY,
        Kind::Symlink => EntryKind::SYMLINK,
        Kind::Fifo => EntryKind::FIFO,
        Kind::Socket => EntryKind::SOCKET,
        Kind::CharDevice => EntryKind::CHAR_DEVICE,
        Kind::BlockDevice => EntryKind::BLOCK_DEVICE,
    };
    Record {
        root,
        kind,
        generation: Generation(meta.generation()),
        flags: if kind == EntryKind::FILE && meta.sparse {
            RecordFlags::SPARSE
        } else {
            0
        },
        bytes: if kind == EntryKind::FILE {
            meta.bytes
        } else {
            0
        },
        mtime_seconds: meta.mtime.seconds,
        mtime_nanoseconds: meta.mtime.nanoseconds,
        mode: meta.mode,
        uid: meta.uid,
        gid: meta.gid,
        target,
        ..Record::default()
    }
}

/// A record that stands for an entry of which only the name is known.
pub(crate) fn unknown_record(id: EntryId, root: u16, path: Vec<u8>) -> Record {
    Record {
        id,
        root,
        kind: EntryKind::FILE,
        path,
        ..Record::default()
    }
}

/// Tells the receiver that an entry failed at the source.
pub(crate) fn failed_record(record: &Record, fault: &Fault) -> Record {
    let mut failed = record.clone();
    failed.flags = RecordFlags::SOURCE_FAILED;
    failed.digest = None;
    failed.bytes = 0;
    failed.extensions = Vec::with_capacity(fault.message.len() + 8);
    let mut message = fault.message.clone();
    while message.len() > 1000 {
        message.pop();
    }
    let length = u16::try_from(message.len() + 2).unwrap_or(u16::MAX);
    failed.extensions.extend(EXTENSION_FAULT.to_le_bytes());
    failed.extensions.extend(length.to_le_bytes());
    failed.extensions.extend(fault.code.0.to_le_bytes());
    failed.extensions.extend(message.as_bytes());
    failed
}

/// The fault in a record that `failed_record` made.
pub(crate) fn fault_of(record: &Record) -> Fault {
    let mut fault = Fault {
        entry: record.id,
        side: Side::SOURCE,
        code: FaultCode::IO,
        errno: None,
        message: "failed at the source".to_owned(),
    };
    let mut rest = record.extensions.as_slice();
    while let Some((kind, tail)) = rest.split_first_chunk::<2>() {
        let Some((length, tail)) = tail.split_first_chunk::<2>() else {
            break;
        };
        let Some((value, tail)) = tail.split_at_checked(usize::from(u16::from_le_bytes(*length)))
        else {
            break;
        };
        if u16::from_le_bytes(*kind) == EXTENSION_FAULT
            && let Some((code, message)) = value.split_first_chunk::<2>()
        {
            fault.code = FaultCode(u16::from_le_bytes(*code));
            fault.message = String::from_utf8_lossy(message).into_owned();
        }
        rest = tail;
    }
    fault
}

/// Size of the file, as far as it is known.
pub(crate) fn known_bytes(record: &Record) -> u64 {
    if record.bytes == UNKNOWN_BYTES {
        0
    } else {
        record.bytes
    }
}

/// What becomes of the entry of a record.
pub(crate) fn item(record: &Record, action: Action) -> Item<'_> {
    Item {
        action,
        kind: record.kind,
        root: record.root,
        path: &record.path,
        bytes: record.bytes,
    }
}

/// Whether the record stands for a file whose contents are all in the same bundle.
pub(crate) fn is_whole_file(record: &Record) -> bool {
    record.kind == EntryKind::FILE
        && record.flags & (RecordFlags::END | RecordFlags::SOURCE_FAILED) == 0
}

/// A storage error as the wire and the user see it.
pub(crate) fn fault(entry: EntryId, side: Side, error: &StoreError) -> Fault {
    let code = match error.kind {
        StoreErrorKind::NoSpace => FaultCode::NO_SPACE,
        StoreErrorKind::Permission => FaultCode::PERMISSION,
        StoreErrorKind::ReadOnly => FaultCode::READ_ONLY,
        StoreErrorKind::NotFound => FaultCode::NOT_FOUND,
        StoreErrorKind::NotRegular => FaultCode::NOT_REGULAR,
        StoreErrorKind::Exists => FaultCode::COLLISION,
        StoreErrorKind::TypeConflict => FaultCode::TYPE_CONFLICT,
        StoreErrorKind::Escape => FaultCode::ESCAPE,
        StoreErrorKind::NameTooLong => FaultCode::NAME,
        StoreErrorKind::Changed => FaultCode::CHANGED,
        StoreErrorKind::Unsupported => FaultCode::UNSUPPORTED,
        StoreErrorKind::Io => FaultCode::IO,
    };
    Fault {
        entry,
        side,
        code,
        errno: error.errno.and_then(|errno| u16::try_from(errno).ok()),
        message: error.to_string(),
    }
}

pub(crate) fn status_from_snapshot(own: &Snapshot) -> Status {
    Status {
        entries_excluded: own.entries_excluded,
        bytes_read: own.bytes_read,
        bytes_received: own.bytes_received,
        bytes_written: own.bytes_written,
        bytes_durable: own.bytes_durable,
        files_done: own.files_done,
        files_skipped: own.files_skipped,
        bytes_skipped: own.bytes_skipped,
        bytes_resent: own.bytes_resent,
        reading_ns: own.reading_ns,
        sending_ns: own.sending_ns,
        starved_ns: own.starved_ns,
        unacknowledged_ns: own.unacknowledged_ns,
        limited_ns: own.limited_ns,
        waiting_ns: own.waiting_ns,
        receiving_ns: own.receiving_ns,
        writing_ns: own.writing_ns,
        undurable_ns: own.undurable_ns,
        syncing_ns: own.syncing_ns,
        cpu_ns: own.cpu_ns,
        owners_lost: own.owners_lost,
        groups_lost: own.groups_lost,
        set_ids_lost: own.set_ids_lost,
        xattrs_lost: own.xattrs_lost,
        privileged_xattrs_lost: own.privileged_xattrs_lost,
        acls_lost: own.acls_lost,
        ..Status::default()
    }
}

pub(crate) fn snapshot_from_status(status: &Status) -> Snapshot {
    Snapshot {
        entries_excluded: status.entries_excluded,
        bytes_read: status.bytes_read,
        bytes_received: status.bytes_received,
        bytes_written: status.bytes_written,
        bytes_durable: status.bytes_durable,
        files_done: status.files_done,
        files_skipped: status.files_skipped,
        bytes_skipped: status.bytes_skipped,
        bytes_resent: status.bytes_resent,
        reading_ns: status.reading_ns,
        sending_ns: status.sending_ns,
        starved_ns: status.starved_ns,
        unacknowledged_ns: status.unacknowledged_ns,
        limited_ns: status.limited_ns,
        waiting_ns: status.waiting_ns,
        receiving_ns: status.receiving_ns,
        writing_ns: status.writing_ns,
        undurable_ns: status.undurable_ns,
        syncing_ns: status.syncing_ns,
        cpu_ns: status.cpu_ns,
        owners_lost: status.owners_lost,
        groups_lost: status.groups_lost,
        set_ids_lost: status.set_ids_lost,
        xattrs_lost: status.xattrs_lost,
        privileged_xattrs_lost: status.privileged_xattrs_lost,
        acls_lost: status.acls_lost,
        ..Snapshot::default()
    }
}

//! Translates between entries on the wire and entries in storage, and between counters and their report.
//! Holds no state.

use godwit_proto::{
    Digest, EntryId, EntryKind, Fault, FaultCode, Generation, Part, Portion, Record, RecordFlags,
    Side, Status, UNKNOWN_BYTES,
};
use godwit_store::{Kind, Meta, StoreError, StoreErrorKind, digest};

use crate::counters::Snapshot;
use crate::item::{Action, Item};

/// Type of the record extension that carries the fault of an entry that failed at the source.
const EXTENSION_FAULT: u16 = 1;
const EXTENSION_NAME: u16 = 9;

/// Longest reported name of an item that has no valid path.
pub(crate) const ODD_NAME_BYTES_MAX: usize = 512;

/// Bytes of a record's path and target that the limits of records take into account.
const TEXT_BYTES_USUAL: usize = 256;

/// Bytes of a record that the limits of records do not take into account: its extensions, and a long path or target.
pub(crate) fn extra_bytes(record: &Record) -> usize {
    let texts = record.path.len() + record.target.len();
    record.extensions.len() + texts.saturating_sub(TEXT_BYTES_USUAL)
}

/// Most bytes that the record takes in a bundle or a manifest.
pub(crate) fn encoded_bytes(record: &Record) -> usize {
    128 + record.path.len() + record.target.len() + record.extensions.len()
}

/// Converts a digest to its wire form.
pub fn digest_to_wire(digest: &digest::Digest) -> Digest {
    Digest(digest.0)
}

/// Converts a digest to its storage form.
pub fn digest_to_store(digest: &Digest) -> digest::Digest {
    digest::Digest(digest.0)
}

/// The flag of a file with holes.
pub fn sparse_flag(meta: &Meta) -> u8 {
    match meta.kind == Kind::File && meta.sparse {
        true => RecordFlags::SPARSE,
        false => 0,
    }
}

/// The record of an entry found below root `root`, without its path and extensions.
pub fn record(root: u16, meta: &Meta, target: Vec<u8>) -> Record {
    let kind = match meta.kind {
        Kind::File => EntryKind::FILE,
        Kind::Directory => EntryKind::DIRECTORY,
        Kind::Symlink => EntryKind::SYMLINK,
        Kind::Fifo => EntryKind::FIFO,
        Kind::Socket => EntryKind::SOCKET,
        Kind::CharDevice => EntryKind::CHAR_DEVICE,
        Kind::BlockDevice => EntryKind::BLOCK_DEVICE,
    };
    let names_flag = match kind == EntryKind::FILE && meta.links > 1 {
        true => RecordFlags::HAS_NAMES,
        false => 0,
    };
    Record {
        root,
        kind,
        generation: Generation(meta.generation()),
        flags: sparse_flag(meta) | names_flag,
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

/// A record for an entry of which only the name is known.
pub(crate) fn unknown_record(id: EntryId, root: u16, path: Vec<u8>) -> Record {
    Record {
        id,
        root,
        kind: EntryKind::FILE,
        path,
        ..Record::default()
    }
}

/// The record that reports to the receiver that an entry failed at the source.
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
    if let Some(part) = part(record) {
        // The receiver must not treat the part as the whole file. An announced part can always be encoded.
        let _ = part.push(&mut failed.extensions);
    }
    failed
}

/// Adds the user's spelling of a name that is no valid path.
pub(crate) fn add_odd_name(failed: &mut Record, name: &[u8]) {
    // The name is bounded, so it fits.
    let _ = godwit_proto::extension::push(&mut failed.extensions, EXTENSION_NAME, name);
}

/// The name that `add_odd_name` added.
pub(crate) fn invalid_name(record: &Record) -> Option<&[u8]> {
    godwit_proto::extension::iter(&record.extensions)
        .map_while(Result::ok)
        .find(|(kind, name)| *kind == EXTENSION_NAME && name.len() <= ODD_NAME_BYTES_MAX)
        .map(|(_, name)| name)
        .filter(|_| record.path.is_empty())
}

/// The fault in a record that `failed_record` made.
pub fn fault_of(record: &Record) -> Fault {
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

/// The range of its file that the entry covers, if the entry is only a part.
pub fn part(record: &Record) -> Option<Part> {
    match record.extensions.is_empty() {
        true => None,
        false => Part::find(&record.extensions).ok().flatten(),
    }
}

/// Whether the entry is a part of a file, or is assembled from parts. The ends agreed on the generation of
/// such an entry.
pub(crate) fn is_portion(record: &Record) -> bool {
    !matches!(record.portion(), Ok(Portion::Whole))
}

/// Known size of the file, or of its part.
pub(crate) fn known_bytes(record: &Record) -> u64 {
    if let Some(part) = part(record) {
        part.bytes
    } else if record.bytes == UNKNOWN_BYTES {
        0
    } else {
        record.bytes
    }
}

/// Describes the entry of a record, with the action that the transfer takes.
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
pub fn is_whole_file(record: &Record) -> bool {
    record.kind == EntryKind::FILE
        && record.flags & (RecordFlags::END | RecordFlags::SOURCE_FAILED) == 0
}

/// Converts a storage error for the wire and the user.
pub fn fault(entry: EntryId, side: Side, error: &StoreError) -> Fault {
    let code = match error.kind {
        StoreErrorKind::NoSpace => FaultCode::NO_SPACE,
        StoreErrorKind::Permission | StoreErrorKind::Lasting => FaultCode::PERMISSION,
        StoreErrorKind::ReadOnly => FaultCode::READ_ONLY,
        StoreErrorKind::NotFound => FaultCode::NOT_FOUND,
        StoreErrorKind::NotRegular => FaultCode::NOT_REGULAR,
        StoreErrorKind::Exists => FaultCode::COLLISION,
        StoreErrorKind::TypeConflict => FaultCode::TYPE_CONFLICT,
        StoreErrorKind::Escape => FaultCode::ESCAPE,
        StoreErrorKind::NameTooLong | StoreErrorKind::Reserved => FaultCode::NAME,
        StoreErrorKind::Changed => FaultCode::CHANGED,
        StoreErrorKind::Unsupported => FaultCode::UNSUPPORTED,
        StoreErrorKind::Io | StoreErrorKind::Fenced => FaultCode::IO,
    };
    Fault {
        entry,
        side,
        code,
        errno: error.errno.and_then(|errno| u16::try_from(errno).ok()),
        message: error.to_string(),
    }
}

macro_rules! counters_on_the_wire {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn status_from_snapshot(own: &Snapshot) -> Status {
            Status { $($name: own.$name,)* ..Status::default() }
        }

        pub(crate) fn snapshot_from_status(status: &Status) -> Snapshot {
            Snapshot { $($name: status.$name,)* ..Snapshot::default() }
        }
    };
}

counters_on_the_wire! {
    entries_excluded,
    bytes_read,
    bytes_received,
    bytes_written,
    bytes_durable,
    files_done,
    files_skipped,
    bytes_skipped,
    bytes_unmoved,
    bytes_resent,
    reading_ns,
    sending_ns,
    starved_ns,
    unacknowledged_ns,
    limited_ns,
    waiting_ns,
    receiving_ns,
    writing_ns,
    undurable_ns,
    syncing_ns,
    cpu_ns,
    owners_lost,
    groups_lost,
    set_ids_lost,
    xattrs_lost,
    privileged_xattrs_lost,
    acls_lost,
    times_lost,
    modes_lost,
    links_split,
    storage_reading_ns,
    storage_writing_ns,
    digesting_ns,
    cpu_waiting_ns,
    streams_ns,
    blocked_sending_ns,
    blocked_receiving_ns,
    helping_ns,
    tcp_busy_ns,
    tcp_window_limited_ns,
    tcp_buffer_limited_ns,
    tcp_segments_sent,
    tcp_segments_resent,
    tcp_bytes_sent,
    tcp_bytes_resent,
    tcp_bytes_acknowledged,
    streams,
    round_trip_ns,
    round_trip_min_ns,
    delivery_bytes_per_second,
    streams_app_limited,
    tcp_window_bytes,
    tcp_unacknowledged_bytes,
    tcp_unsent_bytes,
    cores,
    limit_bytes_per_second,
    elapsed_ns,
    paced_bytes,
}

#[cfg(test)]
mod tests {
    use godwit_proto::{Frame, Prelude, decode};

    use super::*;
    use crate::{Bottleneck, EndCounters};

    const SECOND: u64 = 1_000_000_000;

    /// The judgement of a receiving client, which knows the sender only from a STATUS; `change` modifies that
    /// STATUS.
    fn reported(change: fn(&mut Status)) -> crate::Finding {
        let side = Snapshot {
            streams: 2,
            streams_ns: 20 * SECOND,
            elapsed_ns: 10 * SECOND,
            cores: 4,
            bytes_read: 1_000_000_000,
            bytes_received: 1_000_000_000,
            ..Snapshot::default()
        };
        let mut status = status_from_snapshot(&Snapshot {
            blocked_sending_ns: 18 * SECOND,
            paced_bytes: 1_000_000_000,
            tcp_bytes_sent: 950_000_000,
            ..side
        });
        change(&mut status);
        let mut image = Vec::new();
        Frame::Status(status).encode(&mut image).unwrap();
        let (prelude, head) = image.split_first_chunk().unwrap();
        let frame = decode(&Prelude::decode(prelude).unwrap(), head).unwrap();
        let Frame::Status(status) = frame else {
            panic!("it was a STATUS");
        };
        let end_counters = EndCounters {
            source: Some(snapshot_from_status(&status)),
            destination: Some(Snapshot {
                waiting_ns: 18 * SECOND,
                ..side
            }),
        };
        end_counters
            .finding(&[], &crate::Chosen::default())
            .unwrap()
    }

    #[test]
    fn a_client_that_receives_learns_that_the_other_end_yields() {
        let held = reported(|_| ());
        let pace = "the pace of background transfers is 100 MB/s";
        assert!(held.figure.ends_with(pace), "{}", held.figure);
        // An older sender does not report its pace.
        let old = reported(|status| status.paced_bytes = 0);
        assert_eq!(old.stage, Bottleneck::Network);
        assert!(!old.figure.contains("pace"), "{}", old.figure);
    }
}

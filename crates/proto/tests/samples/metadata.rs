//! Samples of frames about metadata. Checks nothing.

use godwit_proto::*;

use super::{file, transfer};

pub(super) fn all() -> Vec<(&'static str, Frame)> {
    let open = Open {
        direction: Direction::PUSH.0,
        sources: vec![b"/run42".to_vec()],
        destination: b"data/".to_vec(),
        preserve: Some(Preserve {
            owner: true,
            group: true,
            xattrs: true,
            acls: true,
            specials: true,
            numeric_ids: false,
            strict: true,
        }),
        ..Open::default()
    };
    let status = Status {
        owners_lost: 1,
        groups_lost: 2,
        set_ids_lost: 3,
        xattrs_lost: 4,
        privileged_xattrs_lost: 5,
        acls_lost: 300,
        links_split: 7,
        bytes_unmoved: 8,
        times_lost: 9,
        modes_lost: 10,
        ..Status::default()
    };
    vec![
        ("open_archive", Frame::Open(open)),
        ("manifest_metadata", Frame::Manifest(manifest())),
        ("status_lost", Frame::Status(status)),
    ]
}

fn manifest() -> Manifest {
    let entry = |tag, permissions, id, name: &[u8]| AclEntry {
        tag,
        permissions,
        id,
        name: name.to_vec(),
    };
    let access = vec![
        entry(AclTag::OWNER, 6, 0, b""),
        entry(AclTag::USER, 4, 1001, b"bob"),
        entry(AclTag::OWNING_GROUP, 0, 0, b""),
        entry(AclTag::GROUP, 6, 77, b""),
        entry(AclTag::MASK, 6, 0, b""),
        entry(AclTag::OTHERS, 0, 0, b""),
    ];
    let with = |metadata: &Metadata| {
        let mut extensions = Vec::new();
        let encoded = metadata.encode(&mut extensions);
        encoded.expect("a sample is within all limits");
        extensions
    };
    let labelled = Record {
        extensions: with(&Metadata {
            xattrs: vec![(b"user.a".to_vec(), b"1".to_vec())],
            access,
            owner: Some(b"ada".to_vec()),
            group: Some(b"users".to_vec()),
            ..Metadata::default()
        }),
        ..file(1, b"f", 5)
    };
    let device = Record {
        kind: EntryKind::CHAR_DEVICE,
        extensions: with(&Metadata {
            device: Some((1, 3)),
            ..Metadata::default()
        }),
        ..file(2, b"null", 0)
    };
    let fifo = Record {
        kind: EntryKind::FIFO,
        ..file(3, b"pipe", 0)
    };
    Manifest {
        transfer: transfer(),
        seq: Seq(7),
        records: vec![labelled, device, fifo],
    }
}

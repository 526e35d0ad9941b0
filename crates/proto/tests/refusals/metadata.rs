//! Tests refusals of metadata in the extensions of records. `items` tests the other fields of
//! records.

use godwit_proto::limits::{ACL_ENTRIES_MAX, EXTENSIONS_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use godwit_proto::metadata::{
    ACL_ACCESS, ACL_DEFAULT, DEVICE, GROUP_NAME, OWNER_NAME, XATTR, XATTR_MORE,
};
use godwit_proto::*;

use super::{encode, file, manifest};

fn read(extensions: &[(u16, &[u8])]) -> Result<Metadata, WireError> {
    let mut bytes = Vec::new();
    for (kind, value) in extensions {
        extension::push(&mut bytes, *kind, value).unwrap();
    }
    Metadata::decode(&bytes)
}

#[test]
fn every_rule_of_an_extension_holds() {
    assert!(read(&[(XATTR, b"\x01a"), (OWNER_NAME, b"ada"), (999, b"new")]).is_ok());
    for broken in [
        &[(XATTR, &b""[..])][..],
        &[(XATTR, b"\0value")],
        &[(XATTR, b"\x03ab")],
        &[(XATTR, b"\x02a\0value")],
        &[(XATTR_MORE, b"more")],
        &[
            (XATTR, b"\x01a"),
            (OWNER_NAME, b"ada"),
            (XATTR_MORE, b"more"),
        ],
        &[(OWNER_NAME, b"")],
        &[(GROUP_NAME, b"us\0ers")],
        &[(DEVICE, b"1234567")],
        &[(DEVICE, b"123456789")],
        &[(ACL_ACCESS, b"\x01\x07\0\0\0\0")],
        &[(ACL_ACCESS, b"\x07\x07\0\0\0\0\0")],
        &[(ACL_ACCESS, b"\0\x07\0\0\0\0\0")],
        &[(ACL_DEFAULT, b"\x01\x08\0\0\0\0\0")],
        &[(ACL_DEFAULT, b"\x01\x07\x01\0\0\0\0")],
        &[(ACL_DEFAULT, b"\x01\x07\0\0\0\0\x01a")],
        &[(ACL_DEFAULT, b"\x02\x07\0\0\0\0\x02a")],
        &[(ACL_DEFAULT, b"\x02\x07\0\0\0\0\x01\0")],
    ] {
        assert!(read(broken).is_err(), "{broken:?}");
    }
    let first = [&b"\x01a"[..], &[0; 65_533]].concat();
    let whole = read(&[(XATTR, &first), (XATTR_MORE, b"123")]).unwrap();
    assert_eq!(whole.xattrs[0].1.len(), XATTR_VALUE_BYTES_MAX);
    let beyond = read(&[(XATTR, &first), (XATTR_MORE, b"123"), (XATTR_MORE, b"4")]);
    assert_eq!(
        beyond,
        Err(WireError::TooLong {
            field: "value of an attribute",
            limit: 65_536
        })
    );
}

#[test]
fn metadata_beyond_its_bounds_is_not_encoded() {
    let push = |metadata: &Metadata| metadata.encode(&mut Vec::new());
    let xattr = |name: usize, value: usize| Metadata {
        xattrs: vec![(vec![b'a'; name], vec![0; value])],
        ..Metadata::default()
    };
    assert!(push(&xattr(255, XATTR_VALUE_BYTES_MAX)).is_ok());
    assert!(push(&xattr(256, 0)).is_err());
    assert!(push(&xattr(0, 0)).is_err());
    assert!(push(&xattr(1, XATTR_VALUE_BYTES_MAX + 1)).is_err());
    let user = AclEntry {
        tag: AclTag::USER,
        permissions: 4,
        id: 5,
        name: b"a name of some length".to_vec(),
    };
    let list = |entries: usize| Metadata {
        access: vec![user.clone(); entries],
        ..Metadata::default()
    };
    assert!(push(&list(ACL_ENTRIES_MAX + 1)).is_err());
    // If a list is too long with names, only its numbers are sent.
    let mut bytes = Vec::new();
    list(ACL_ENTRIES_MAX).encode(&mut bytes).unwrap();
    let read = Metadata::decode(&bytes).unwrap();
    assert_eq!(read.access.len(), ACL_ENTRIES_MAX);
    assert!(
        read.access
            .iter()
            .all(|entry| entry.id == 5 && entry.name.is_empty())
    );
}

#[test]
fn a_record_has_room_for_the_largest_metadata_and_no_more() {
    let mut extensions = Vec::new();
    for _ in 0..5 {
        extension::push(&mut extensions, 999, &[0; 65_535]).unwrap();
    }
    let left = EXTENSIONS_BYTES_MAX - extensions.len() - 4;
    extension::push(&mut extensions, 999, &vec![0; left]).unwrap();
    let with = |extensions: &[u8]| {
        let record = Record {
            extensions: extensions.to_vec(),
            ..file(&vec![b'x'; 255], 1)
        };
        encode(&manifest(vec![record]))
    };
    assert!(with(&extensions).is_ok());
    extension::push(&mut extensions, 999, b"").unwrap();
    let beyond = with(&extensions).unwrap_err();
    assert!(matches!(
        beyond,
        WireError::TooLong {
            field: "extensions",
            ..
        }
    ));
}

#[test]
fn a_special_file_holds_nothing() {
    for kind in [
        EntryKind::FIFO,
        EntryKind::SOCKET,
        EntryKind::CHAR_DEVICE,
        EntryKind::BLOCK_DEVICE,
    ] {
        let record = Record {
            kind,
            target: b"x".to_vec(),
            ..file(b"a", 0)
        };
        assert!(encode(&manifest(vec![record])).is_err());
    }
}

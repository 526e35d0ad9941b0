//! Tests requests before any write: names, keys, and traces of a refusal. Tests neither the wire nor the disk.

use std::path::Path;

use godwit_testkit::MemoryStorage;

use super::*;
use crate::files::region::Region;

fn place_in(storage: Arc<dyn Storage>, base: RelPath, is_directory: bool) -> DestinationPlace {
    DestinationPlace {
        storage,
        storage_path: b"/target".to_vec(),
        base,
        is_directory,
        display: Vec::new(),
    }
}

/// A request whose names equal its sources.
fn request(journals: &Path, sources: Vec<Vec<u8>>) -> DestinationRequest {
    DestinationRequest::new(
        place_in(Arc::new(MemoryStorage::new()), RelPath::default(), true),
        b"me".to_vec(),
        sources.clone(),
        sources,
        journals.to_owned(),
    )
}

#[test]
fn as_many_sources_as_a_transfer_can_have_are_mapped_each_to_a_name_of_its_own() {
    let journals = tempfile::tempdir().unwrap();
    let sources = godwit_proto::limits::SOURCES_MAX;
    let mut names: Vec<Vec<u8>> = (0..sources)
        .map(|index| format!("name-{index}").into_bytes())
        .collect();
    let mapping = request(journals.path(), names.clone()).map_names().unwrap();
    assert_eq!(mapping.len(), sources);
    assert_eq!(mapping[sources - 1].as_bytes(), names[sources - 1]);
    names[sources - 1] = b"name-0".to_vec();
    let refused = request(journals.path(), names)
        .map_names()
        .unwrap_err()
        .to_string();
    assert!(refused.contains("name-0"), "{refused}");
}

#[test]
fn transfers_that_go_elsewhere_have_other_keys() {
    let key = |sources: &[&[u8]], names: &[&[u8]], counterpart: bool| {
        let bytes = |list: &[&[u8]]| list.iter().map(|bytes| bytes.to_vec()).collect();
        let comparison = counterpart.then(|| Comparison {
            counterpart,
            ..Comparison::default()
        });
        DestinationRequest {
            comparison,
            names: bytes(names),
            ..request(Path::new("unused"), bytes(sources))
        }
        .key()
    };
    let usual = key(&[b"/d/run"], &[b"run"], false);
    assert_eq!(usual, key(&[b"/d/run"], &[b"run"], false));
    assert_ne!(usual, key(&[b"/d/run"], &[b""], false));
    assert_ne!(usual, key(&[b"/d/run"], &[b"alias"], false));
    // A counterpart has one place, for any name of the source.
    let counterpart = key(&[b"/d/run"], &[b"run"], true);
    assert_ne!(usual, counterpart);
    assert_eq!(counterpart, key(&[b"/d/run"], &[b""], true));
    // Relative sources of a pull can have any name.
    let several = key(&[b"counterpart", b"b"], &[b"counterpart", b"b"], false);
    assert_ne!(several, key(&[b"b"], &[b"b"], true));
}

#[test]
fn a_request_that_fits_no_journal_leaves_none() {
    let journals = tempfile::tempdir().unwrap();
    let refused = DestinationRequest {
        names: Vec::new(),
        ..request(journals.path(), vec![b"/d/run".to_vec()])
    };
    let why = refused.prepare().err().unwrap().to_string();
    assert!(why.contains("0 names for 1 source"), "{why}");
    assert_eq!(std::fs::read_dir(journals.path()).unwrap().count(), 0);
}

struct Open;

impl Fence for Open {
    fn holds(&self) -> bool {
        true
    }
}

#[test]
fn a_member_of_an_earlier_epoch_does_not_resume_what_a_later_one_left() {
    let journals = tempfile::tempdir().unwrap();
    let begin_at = |node: &[u8], epoch, lane| {
        let member = Membership {
            node: node.to_vec(),
            claim: [1; 16],
            epoch,
            closer: false,
            lane,
            fence: Arc::new(Open),
            since: None,
            part_bytes_min: 4096,
            region: Region::default(),
        };
        let request = DestinationRequest {
            names: vec![Vec::new()],
            member: Some(member),
            ..request(journals.path(), vec![b"/src".to_vec()])
        };
        request.prepare()
    };
    let begin = |epoch, lane| begin_at(b"node", epoch, lane);
    let first = begin(5, 0).unwrap();
    // Each lane has a journal, so both may write below the destination.
    let beside = begin(5, 1).unwrap();
    assert_eq!(first.config.tag, beside.config.tag);
    assert_ne!(first.config.key, beside.config.key);
    // A second node that mounts the storage at the same path also has a journal.
    let elsewhere = begin_at(b"other", 5, 0).unwrap();
    assert_eq!(first.config.tag, elsewhere.config.tag);
    assert_ne!(first.config.key, elsewhere.config.key);
    assert!(matches!(
        begin(5, 0),
        Err(DestinationError::Busy { same: true, .. })
    ));
    drop(first);
    assert!(matches!(begin(4, 0), Err(DestinationError::Stale(5))));
    let later = begin(6, 0).unwrap();
    assert!(later.recovered.resumed);
    drop(later);
    assert!(matches!(begin(5, 0), Err(DestinationError::Stale(6))));
    // The valid request finds its journal unchanged.
    assert!(begin(6, 0).is_ok());
}

/// Each sender has its own share of journal space, so each journal names its sender.
#[test]
fn a_journal_names_its_sender() {
    let journals = tempfile::tempdir().unwrap();
    let named = |sender: &[u8]| {
        let request = DestinationRequest {
            sender: sender.to_vec(),
            names: vec![Vec::new()],
            ..request(journals.path(), vec![b"/src".to_vec()])
        };
        let key = request.key();
        let prepared = request.prepare().unwrap();
        let header = JournalDirectory::header_of(journals.path(), key).unwrap();
        prepared.put_away().unwrap();
        header.sender
    };
    for sender in [b"one", b"two"] {
        assert_eq!(named(sender), Some(sender_tag(sender)));
    }
}

#[test]
fn an_attempt_of_another_sender_maps_names_as_the_first_one_did() {
    let journals = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let attempt = |sender: &[u8], into, tags: &[u64]| {
        DestinationRequest {
            place: place_in(Arc::clone(&storage), RelPath::parse(b"dst").unwrap(), false),
            sender: sender.to_vec(),
            earlier: Earlier {
                into,
                tags: tags.to_vec(),
                ..Earlier::default()
            },
            ..request(journals.path(), vec![b"src".to_vec()])
        }
        .prepare()
        .unwrap()
    };
    let first = attempt(b"one", None, &[]);
    assert!(!first.into);
    storage
        .make_directory(&RelPath::parse(b"dst").unwrap(), 0o755)
        .unwrap();
    let tag = first.config.tag;
    drop(first);
    let unaware = attempt(b"two", None, &[]);
    assert!(unaware.into, "nobody has told it");
    unaware.put_away().unwrap();
    let second = attempt(b"two", Some(false), &[tag]);
    assert_eq!(second.config.mapping, [RelPath::parse(b"dst").unwrap()]);
    assert_eq!(second.config.earlier_tags, [tag]);
    assert_ne!(second.config.tag, tag);
    second.put_away().unwrap();
    let into = attempt(b"three", Some(true), &[]);
    assert_eq!(into.config.mapping, [RelPath::parse(b"dst/src").unwrap()]);
}

/// A call that hangs at the first node takes effect late, and must not change the temporary files of the second
/// node.
#[test]
fn a_later_attempt_at_another_node_has_different_temporary_names() {
    let homes = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let attempt = |node: usize, into| {
        DestinationRequest {
            place: place_in(Arc::clone(&storage), RelPath::default(), true),
            earlier: Earlier {
                into,
                tags: Vec::new(),
                ..Earlier::default()
            },
            node: vec![b'1' + u8::try_from(node).unwrap()],
            ..request(homes[node].path(), vec![b"src".to_vec()])
        }
        .prepare()
        .unwrap()
    };
    let first = attempt(0, None);
    let tag = first.config.tag;
    drop(first);
    let elsewhere = attempt(1, Some(true));
    assert_ne!(elsewhere.config.tag, tag);
    let tag_there = elsewhere.config.tag;
    drop(elsewhere);
    // Each node continues its own journal.
    for (node, tag) in [(0, tag), (1, tag_there)] {
        let again = attempt(node, Some(true));
        assert_eq!(again.config.tag, tag);
        assert!(again.recovered.resumed);
    }
}

//! How many sources a destination maps.
//! Does not test what is done with them.

use godwit_testkit::MemoryStorage;

use super::*;

#[test]
fn as_many_sources_as_a_transfer_can_have_are_mapped_each_to_a_name_of_its_own() {
    let journals = tempfile::tempdir().unwrap();
    let sources = godwit_proto::limits::SOURCES_MAX;
    let mut names: Vec<Vec<u8>> = (0..sources)
        .map(|index| format!("name-{index}").into_bytes())
        .collect();
    let request = |names: &[Vec<u8>]| DestinationRequest {
        storage: Arc::new(MemoryStorage::new()),
        storage_path: b"/target".to_vec(),
        base: RelPath::default(),
        is_directory: true,
        sender: b"me".to_vec(),
        sources: names.to_vec(),
        names: names.to_vec(),
        digest: digest::DigestKind::Crc64Nvme,
        force: false,
        verify: false,
        no_sync: false,
        journals: journals.path().to_owned(),
        display: Vec::new(),
        comparison: None,
        select: Arc::default(),
    };
    let mapping = request(&names).map_names().unwrap();
    assert_eq!(mapping.len(), sources);
    assert_eq!(mapping[sources - 1].as_bytes(), names[sources - 1]);
    names[sources - 1] = b"name-0".to_vec();
    let refused = request(&names).map_names().unwrap_err().to_string();
    assert!(refused.contains("name-0"), "{refused}");
}

//! Tests the numbers of directories, and which of them meet.
//! Whether a transfer is refused is tested above.

use super::*;

#[test]
fn a_line_of_the_table_of_mounts_is_read() {
    let line =
        br"36 35 98:0 /sub\040dir /mnt/a\134b rw,noatime shared:1 master:2 - ext4 /dev/root rw";
    let mount = Mount::parse(line).expect("a line");
    assert_eq!(mount.device, b"98:0");
    assert_eq!(mount.root, b"/sub dir");
    assert_eq!(mount.point, br"/mnt/a\b");
    assert!(!mount.is_pseudo);
    assert_eq!(place_in(&mount, br"/mnt/a\b/x"), b"/sub dir/x");
    assert!(Mount::parse(b"36 35 98:0").is_none());
}

#[test]
fn ends_meet_where_one_has_what_is_around_the_other() {
    let ground = |tops: &[u64], around: &[u64], mounts: &[u64]| Ground {
        tops: tops.to_vec(),
        around: around.to_vec(),
        mounts: mounts.to_vec(),
        mounts_around: Vec::new(),
        own: true,
        ..Ground::default()
    };
    let outer = ground(&[1], &[9], &[]);
    let inner = ground(&[2], &[1, 9], &[]);
    let beside = ground(&[3], &[9], &[]);
    let over = ground(&[4], &[9], &[2]);
    let inside = Some(Meeting::DestinationInside);
    assert_eq!(meeting(&outer, &outer, false), inside);
    assert_eq!(meeting(&outer, &inner, false), inside);
    assert_eq!(meeting(&over, &inner, false), inside);
    assert_eq!(meeting(&inner, &beside, true), None);
    for (source, destination) in [(&inner, &outer), (&inner, &over)] {
        assert_eq!(meeting(source, destination, false), None);
        let found = meeting(source, destination, true);
        assert_eq!(found, Some(Meeting::SourceInside));
    }
}

#[test]
fn a_directory_has_its_numbers_by_any_name() {
    let directory = tempfile::tempdir().expect("made");
    let real = directory.path().canonicalize().expect("there");
    let path = |name: &str| real.join(name).into_os_string().into_encoded_bytes();
    std::fs::create_dir(real.join("a")).expect("made");
    let (inner, outer) = (
        ground(&[path("a")]),
        ground(&[path("")[..path("").len() - 1].to_vec()]),
    );
    assert!(!inner.tops.is_empty(), "{inner:?}");
    assert_eq!(
        meeting(&outer, &inner, false),
        Some(Meeting::DestinationInside)
    );
    assert_eq!(meeting(&inner, &outer, true), Some(Meeting::SourceInside));
    assert_eq!(meeting(&inner, &ground(&[path("new")]), true), None);
    let below = ground(&[path("a/new/deep")]);
    assert_eq!(
        meeting(&inner, &below, false),
        Some(Meeting::DestinationInside)
    );
}

#[test]
fn the_walk_ends_where_no_more_numbers_are_kept() {
    let deep = |levels: usize| b"/d".repeat(levels);
    let finder = Finder {
        hasher: blake3::Hasher::new(),
        mounts: vec![Mount {
            id: b"1".to_vec(),
            device: b"8:1".to_vec(),
            root: deep(4 * GROUND_IDS_MAX),
            point: b"/nowhere/mounted".to_vec(),
            is_own: true,
            is_pseudo: false,
        }],
    };
    let mut found = Found::default();
    finder.mounts_below(b"/nowhere", &mut found);
    assert_eq!(found.mounts_around.list.len(), GROUND_IDS_MAX);
    // A walk must not compute numbers that would not be stored.
    let mut asked = 0;
    let mut ids = Ids::default();
    finder.around(&finder.mounts[0], &mut |id| {
        asked += 1;
        ids.add(id)
    });
    assert_eq!(asked, GROUND_IDS_MAX);
    let mut asked = 0;
    finder.chain(b"/", &mut |_, _| {
        asked += 1;
        false
    });
    assert_eq!(asked, 1);
    // The nearest directories must be stored.
    let nearest = finder.id(b"path", &[b"8:1", &deep(4 * GROUND_IDS_MAX - 1)]);
    assert_eq!(ids.list[0], nearest);
}

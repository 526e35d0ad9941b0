//! Tests of the format: torn ends, damage in the middle, checkpoints, superblocks, real files and directories.
//! Power cuts at any moment have their own tests.

#[path = "power/disk.rs"]
#[allow(dead_code, reason = "these tests need no power cuts")]
mod disk;

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::{Disk, Power};
use godwit_buffer::backing::Backing;
use godwit_buffer::device::{Access, Device};
use godwit_buffer::directory::Directory;
use godwit_buffer::extent::{
    Content, FileKey, Generation, Keep, Record, SlotIndex, SourceId, VolumeIndex,
};
use godwit_buffer::frame::{Entry, FrameWriter};
use godwit_buffer::inspect::{check, survey};
use godwit_buffer::ledger::Commit;
use godwit_buffer::replay::Damage;
use godwit_buffer::superblock::Superblock;
use godwit_buffer::volume::{Format, GetError, OpenError, PutError, Volume, format};
use godwit_seeded::Seeded;
use godwit_store::digest::DigestKind;
use godwit_sys::page_buffer::PageBuffer;

const EXTENT: u32 = 64 << 10;
const BYTES: u64 = 4 << 20;
const NODE: &str = "gw1-node";

fn wanted(extent_bytes: u32, bytes: u64) -> Format {
    Format {
        id: [9; 16],
        salt: 77,
        node: NODE.to_owned(),
        serial: "serial".to_owned(),
        bytes,
        extent_bytes,
        made: Duration::from_secs(1_700_000_000),
    }
}

fn content(path: &str, offset: u64, byte: u8, bytes: usize) -> (Content, PageBuffer) {
    let file = Arc::new(FileKey {
        source: SourceId([2; 16]),
        path: path.into(),
        generation: Generation {
            bytes: 1 << 30,
            stamp: 3,
        },
    });
    let mut buffer = PageBuffer::new(EXTENT as usize).expect("memory");
    buffer[..bytes].fill(byte);
    let content = Content::of(&file, offset, &buffer[..bytes], DigestKind::Blake3);
    (content, buffer)
}

fn commit(slots: &[u32], records: Vec<Record>) -> Commit {
    let freed = records.iter().filter_map(|record| match record {
        Record::Free(slot) => Some(*slot),
        _ => None,
    });
    Commit {
        volume: VolumeIndex(0),
        number: 1,
        slots: slots.iter().copied().map(SlotIndex).collect(),
        freed: freed.collect(),
        records,
    }
}

/// Writes an extent and commits it.
fn put<B: Backing>(volume: &Volume<B>, slot: u32, path: &str, byte: u8) -> Content {
    let (content, mut buffer) = content(path, 0, byte, EXTENT as usize - 100);
    volume
        .put(SlotIndex(slot), &content, &mut buffer)
        .expect("written");
    let holds = Record::Holds {
        slot: SlotIndex(slot),
        content: content.clone(),
        is_dirty: true,
        since: Duration::from_millis(5),
        keep: Keep::No,
    };
    volume
        .commit(&commit(&[slot], vec![holds]))
        .expect("durable");
    content
}

fn disk_with(files: u32) -> (Disk, Superblock) {
    let disk = Disk::new(usize::try_from(BYTES).expect("small"), 1, &Power::default());
    let superblock = format(&disk, &wanted(EXTENT, BYTES)).expect("formatted");
    let volume = Volume::open(disk.clone(), NODE).expect("opened").0;
    for slot in 0..files {
        put(&volume, slot, &format!("f{slot}"), 1);
    }
    (disk, superblock)
}

/// Where the log of a new volume lies.
fn log_at(superblock: &Superblock) -> u64 {
    superblock.layout.area_at(superblock.area)
}

fn open(disk: &Disk) -> Result<usize, OpenError> {
    Volume::open(disk.clone(), NODE).map(|(_, extents)| extents.len())
}

#[test]
fn a_torn_end_is_no_damage_and_damage_before_the_end_is() {
    let (disk, superblock) = disk_with(5);
    assert_eq!(open(&disk).expect("opened"), 5);
    let frame = |number: u64| log_at(&superblock) + number * 4096;
    disk.rot(frame(4) + 60, 1);
    assert_eq!(open(&disk).expect("the last frame is torn"), 4);
    let found = survey(&disk).expect("readable");
    assert!(found.is_torn && found.damage.is_empty());
    disk.rot(frame(2) + 60, 1);
    let damage = Damage::Frames {
        from: 2,
        to: 3,
        at: frame(2),
    };
    assert!(matches!(open(&disk), Err(OpenError::Damaged(found)) if found == [damage.clone()]));
    let found = survey(&disk).expect("readable");
    assert_eq!((found.damage, found.extents.len()), (vec![damage], 3));
}

#[test]
fn frames_continue_after_a_torn_end() {
    let (disk, superblock) = disk_with(3);
    disk.rot(log_at(&superblock) + 2 * 4096 + 60, 1);
    let (volume, extents) = Volume::open(disk.clone(), NODE).expect("opened");
    assert_eq!(extents.len(), 2);
    put(&volume, 7, "again", 3);
    put(&volume, 8, "again2", 3);
    assert_eq!(open(&disk).expect("opened"), 4);
}

#[test]
fn either_superblock_is_enough_and_none_is_no_buffer() {
    for bad in [&[0][..], &[64 << 10], &[0, 64 << 10]] {
        let (disk, _) = disk_with(2);
        bad.iter().for_each(|at| disk.rot(*at, 512));
        match bad.len() {
            1 => assert_eq!(open(&disk).expect("opened"), 2),
            _ => assert!(matches!(open(&disk), Err(OpenError::NoBuffer))),
        }
    }
}

#[test]
fn the_buffer_of_another_node_is_refused() {
    let (disk, _) = disk_with(1);
    let other = Volume::open(disk, "gw1-other");
    assert!(matches!(other, Err(OpenError::OtherNode(node)) if node == NODE));
}

#[test]
fn a_place_that_is_smaller_than_its_superblock_says_is_refused() {
    let directory = tempfile::tempdir().expect("made");
    let path = directory.path().join("buffer");
    std::fs::write(&path, b"").expect("made");
    let open = || Device::open(&path, Access::Own).expect("opened");
    let mut device = open();
    device.extend(BYTES).expect("room");
    let mut superblock = format(&device, &wanted(EXTENT, BYTES)).expect("formatted");
    drop(device);
    // The superblock claims more slots than the file has room for.
    superblock.generation += 1;
    superblock.layout.slots = 3000;
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[..512].copy_from_slice(&superblock.encode());
    std::fs::write(&path, bytes).expect("written");
    assert!(matches!(survey(&open()), Err(OpenError::Shorter)));
    let opened = Volume::open(open(), NODE);
    assert!(matches!(opened, Err(OpenError::Shorter)));

    let below = directory.path().join("below");
    let made = Directory::make(&below).expect("made");
    let superblock = format(&made, &wanted(EXTENT, BYTES)).expect("formatted");
    survey(&made).expect("a directory holds its slots in files");
    drop(made);
    let log = std::fs::File::options().write(true).open(below.join("log"));
    let bytes = superblock.layout.data_at - 1;
    log.and_then(|log| log.set_len(bytes)).expect("cut");
    let cut = Directory::open(&below, Access::Own).expect("opened");
    assert!(matches!(survey(&cut), Err(OpenError::Shorter)));
}

#[test]
fn the_last_number_of_a_frame_is_damage() {
    let (disk, superblock) = disk_with(1);
    let mut writer = FrameWriter::new(superblock.salt, u64::MAX);
    writer.push(&Entry::Free(SlotIndex(0)));
    let frame = writer.finish();
    let mut page = PageBuffer::new(frame.len()).expect("memory");
    page.copy_from_slice(&frame);
    disk.write_at(log_at(&superblock) + 2 * 4096, &page)
        .expect("written");
    let found = survey(&disk).expect("readable");
    let frame = u64::MAX;
    assert_eq!(found.damage.len(), 2, "{:?}", found.damage);
    assert_eq!(found.damage[1], Damage::Contradiction { frame });
    assert!(matches!(open(&disk), Err(OpenError::Damaged(_))));
}

#[test]
fn many_commits_take_many_checkpoints_and_keep_the_state() {
    let (disk, superblock) = disk_with(0);
    let slots = superblock.layout.slots;
    let volume = Volume::open(disk.clone(), NODE).expect("opened").0;
    let mut seeded = Seeded(4);
    for turn in 0..600u32 {
        let slot = u32::try_from(seeded.below(u64::from(slots))).expect("small");
        put(&volume, slot, &format!("{}{turn}", "long/".repeat(40)), 2);
        let other = SlotIndex(u32::try_from(seeded.below(u64::from(slots))).expect("small"));
        let record = if seeded.one_in(2) {
            Record::Free(other)
        } else {
            Record::Clean(other)
        };
        volume.commit(&commit(&[], vec![record])).expect("durable");
    }
    let found = survey(&disk).expect("readable");
    assert!(
        found.superblock.generation > 5,
        "{}",
        found.superblock.generation
    );
    assert_eq!(found.extents, volume.extents());
    assert_eq!(check(&disk, &found).expect("read").len(), 0);
    // A changed bit in the checkpoint is damage: the data after it cannot be trusted.
    disk.rot(log_at(&found.superblock) + 100, 1);
    assert!(matches!(open(&disk), Err(OpenError::Damaged(_))));
}

#[test]
fn a_keep_time_outlives_a_checkpoint() {
    let (disk, _) = disk_with(2);
    let (volume, extents) = Volume::open(disk.clone(), NODE).expect("opened");
    let until = Keep::Until(Duration::from_secs(9));
    let keep = Record::Keep(Arc::clone(&extents[0].content.file), until);
    volume.commit(&commit(&[], vec![keep])).expect("durable");
    for _ in 0..200 {
        volume
            .commit(&commit(&[], vec![Record::Free(SlotIndex(9))]))
            .expect("durable");
    }
    let (_, extents) = Volume::open(disk, NODE).expect("opened");
    assert_eq!((extents[0].keep, extents[1].keep), (until, Keep::No));
}

#[test]
fn contents_are_checked_on_the_way_in_and_out() {
    let (disk, superblock) = disk_with(0);
    let volume = Volume::open(disk.clone(), NODE).expect("opened").0;
    let content = put(&volume, 3, "a", 8);
    let mut buffer = PageBuffer::new(EXTENT as usize).expect("memory");
    let read = volume
        .get(SlotIndex(3), &content, &mut buffer)
        .expect("right");
    assert!(read.iter().all(|byte| *byte == 8) && read.len() == EXTENT as usize - 100);
    disk.rot(superblock.layout.slot_at(SlotIndex(3)) + 5000, 1);
    let read = volume.get(SlotIndex(3), &content, &mut buffer);
    assert!(matches!(read, Err(GetError::Damaged)));
    buffer.fill(9);
    let written = volume.put(SlotIndex(4), &content, &mut buffer);
    assert!(matches!(written, Err(PutError::Damaged)));
    let found = survey(&disk).expect("readable");
    let bad = check(&disk, &found).expect("read");
    assert_eq!((bad.len(), bad[0].extent.slot), (1, SlotIndex(3)));
}

fn on_a_real_place<B: Backing>(open: impl Fn(Access) -> B, bytes: u64) {
    format(&open(Access::Own), &wanted(EXTENT, bytes)).expect("formatted");
    let content = {
        let volume = Volume::open(open(Access::Own), NODE).expect("opened").0;
        std::thread::scope(|scope| {
            for slot in 0..4 {
                let volume = &volume;
                scope.spawn(move || {
                    let (content, mut buffer) = content("threads", 0, 4, 5000);
                    volume
                        .put(SlotIndex(slot), &content, &mut buffer)
                        .expect("written");
                });
            }
        });
        let content = put(&volume, 1, "a", 6);
        put(&volume, 2, "b", 7);
        volume
            .commit(&commit(&[], vec![Record::Free(SlotIndex(2))]))
            .expect("durable");
        content
    };
    let (volume, extents) = Volume::open(open(Access::Own), NODE).expect("opened again");
    assert_eq!(extents.len(), 1);
    assert_eq!(extents[0].content, content);
    let mut buffer = PageBuffer::new(EXTENT as usize).expect("memory");
    assert!(volume.get(SlotIndex(1), &content, &mut buffer).is_ok());
    drop(volume);
    let found = survey(&open(Access::Check)).expect("readable");
    assert_eq!(found.extents.len(), 1);
}

#[test]
fn a_file_is_a_device() {
    let directory = tempfile::tempdir().expect("made");
    let path = directory.path().join("buffer");
    std::fs::write(&path, b"").expect("made");
    Device::open(&path, Access::Own)
        .expect("opened")
        .extend(BYTES)
        .expect("room");
    on_a_real_place(|access| Device::open(&path, access).expect("opened"), BYTES);
    let blocks = || std::fs::metadata(&path).expect("there").blocks();
    let device = Device::open(&path, Access::Own).expect("opened");
    let volume = Volume::open(device, NODE).expect("opened").0;
    put(&volume, 5, "c", 8);
    let before = blocks();
    volume
        .commit(&commit(&[], vec![Record::Free(SlotIndex(5))]))
        .expect("durable");
    assert!(blocks() < before, "a freed slot gives its room back");
    drop(volume);
    let owner = Device::open(&path, Access::Own).expect("opened");
    for access in [Access::Own, Access::Check] {
        let error = Device::open(&path, access).expect_err("in use");
        assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
    }
    assert!(Device::open(&path, Access::Look).is_ok());
    drop(owner);
    assert!(Device::open(Path::new("/dev/null"), Access::Look).is_err());
}

#[test]
fn a_directory_is_a_volume_and_gives_room_back() {
    let directory = tempfile::tempdir().expect("made");
    let path = directory.path().join("buffer");
    drop(Directory::make(&path).expect("made"));
    on_a_real_place(
        |access| Directory::open(&path, access).expect("opened"),
        BYTES,
    );
    let files = || {
        std::fs::read_dir(path.join("extents/0000"))
            .expect("listed")
            .count()
    };
    assert_eq!(files(), 1, "only the held extent has a file");
    std::fs::write(path.join("extents/0000/0000009"), b"left").expect("written");
    drop(Volume::open(Directory::open(&path, Access::Own).expect("opened"), NODE).expect("opened"));
    assert_eq!(files(), 1, "what an earlier process left is swept");
    assert_eq!(
        Directory::strangers(&path).expect("listed"),
        Vec::<String>::new()
    );
}

#[test]
fn a_directory_follows_no_link_of_its_owner() {
    let place = tempfile::tempdir().expect("made");
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir(at("outside")).expect("made");
    let outside = || {
        let names = std::fs::read_dir(at("outside")).expect("listed");
        names.count()
    };
    // The link leads to a file that there is not.
    std::fs::create_dir(at("linked")).expect("made");
    symlink(at("outside/log"), at("linked/log")).expect("linked");
    assert!(Directory::make(&at("linked")).is_err());
    assert!(Directory::open(&at("linked"), Access::Look).is_err());
    assert_eq!(outside(), 0);

    // Another directory takes the name while the volume is made.
    let made = Directory::make(&at("buffer")).expect("made");
    std::fs::rename(at("buffer"), at("moved")).expect("moved");
    symlink(at("outside"), at("buffer")).expect("linked");
    let superblock = format(&made, &wanted(EXTENT, BYTES)).expect("formatted");
    drop(made);
    assert_eq!(outside(), 0);
    assert!(at("moved/extents/0000").is_dir());

    // A directory of slots is replaced.
    std::fs::write(at("outside/0000001"), vec![7; EXTENT as usize]).expect("written");
    std::fs::remove_dir(at("moved/extents/0000")).expect("removed");
    symlink(at("outside"), at("moved/extents/0000")).expect("linked");
    let moved = Directory::open(&at("moved"), Access::Own).expect("opened");
    let (layout, slot) = (&superblock.layout, SlotIndex(1));
    let mut buffer = PageBuffer::new(EXTENT as usize).expect("memory");
    assert!(moved.read_slot(layout, slot, &mut buffer).is_err());
    assert!(moved.write_slot(layout, slot, &buffer).is_err());
    assert!(moved.discard_slot(layout, slot).is_err());
    assert!(moved.sweep(layout, &|_| false).is_err());
    moved.prepare(layout).expect("made again");
    assert_eq!(outside(), 1);
    assert!(!at("moved/extents/0000").is_symlink());
}

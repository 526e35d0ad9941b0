//! Cuts the power of a process that writes into a buffer, at moments from a seed, and looks at what is left: the process is killed, and writes
//! that no flush followed are dropped. As root the buffer lies on a loop device, otherwise in a file.
//!
//! `GODWIT_POWER_CUTS=500` makes as many cuts.

mod kill {
    pub(crate) mod cut;
}

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use godwit_buffer::device::{Access, Device};
use godwit_buffer::extent::{
    Content, FileKey, Generation, Keep, Record, SlotIndex, SourceId, VolumeIndex,
};
use godwit_buffer::inspect;
use godwit_buffer::ledger::Commit;
use godwit_buffer::volume::{Format, Volume, format};
use godwit_seeded::{Seeded, mix};
use godwit_store::digest::DigestKind;
use godwit_sys::page_buffer::PageBuffer;
use kill::cut::{Undoable, cut};

const BYTES: u64 = 64 << 20;
const EXTENT: u32 = 1 << 20;
const NODE: &str = "gw1-node";
/// Names the place to the process that writes, and the number of its life.
const PLACE: &str = "GODWIT_TEST_BUFFER";
/// Names the file in which that process remembers what its writes replace.
const UNDO: &str = "GODWIT_TEST_UNDO";
/// The number of cuts, and the number without this variable.
const CUTS: &str = "GODWIT_POWER_CUTS";
const CUTS_USUAL: u64 = 20;

/// The slots of the buffer of this test.
fn slots() -> u32 {
    godwit_buffer::layout::Layout::of(BYTES, EXTENT)
        .expect("room")
        .slots
}

fn data(slot: u32, version: u64) -> Vec<u8> {
    let mut seeded = Seeded(mix(u64::from(slot) << 32 ^ version));
    let words = (0..EXTENT / 8).flat_map(|_| seeded.draw().to_le_bytes());
    words.collect()
}

fn content(slot: u32, version: u64, data: &[u8]) -> Content {
    let file = Arc::new(FileKey {
        source: SourceId([1; 16]),
        path: format!("slot{slot}").into_bytes(),
        generation: Generation {
            bytes: u64::from(EXTENT),
            stamp: version,
        },
    });
    Content::of(&file, 0, data, DigestKind::Crc64Nvme)
}

/// The process that writes: frees and fills slots in turn, and prints each commit that counts, until it is killed.
#[test]
fn writer() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let (path, life) = place.split_once(',').expect("two words");
    let life: u64 = life.parse().expect("a number");
    let undo = std::env::var(UNDO).expect("a path");
    let device = Undoable::open(Path::new(path), Path::new(&undo)).expect("free");
    let (volume, _) = Volume::open(device, NODE).expect("it opens");
    let mut buffer = PageBuffer::new(EXTENT as usize).expect("memory");
    let mut out = std::io::stdout();
    let mut seeded = Seeded(life);
    let mut number = 0;
    let mut commit = |slots: &[u32], records: Vec<Record>, freed: Vec<SlotIndex>| {
        number += 1;
        let commit = Commit {
            volume: VolumeIndex(0),
            number,
            slots: slots.iter().copied().map(SlotIndex).collect(),
            records,
            freed,
        };
        volume.commit(&commit).expect("durable");
    };
    for turn in 0.. {
        let version = life << 32 | turn;
        let slot = u32::try_from(seeded.below(u64::from(slots()))).expect("small");
        let freed = SlotIndex(slot);
        // The line comes first: from here on the slot may be free or not.
        writeln!(out, "\nfree {slot}").expect("a reader");
        out.flush().expect("a reader");
        commit(&[], vec![Record::Free(freed)], vec![freed]);
        buffer.copy_from_slice(&data(slot, version));
        let content = content(slot, version, &buffer);
        volume.put(freed, &content, &mut buffer).expect("written");
        let holds = Record::Holds {
            slot: freed,
            content,
            is_dirty: true,
            since: Duration::from_secs(version & 0xffff),
            keep: Keep::No,
        };
        commit(&[slot], vec![holds], Vec::new());
        writeln!(out, "\nholds {slot} {version}").expect("a reader");
        out.flush().expect("a reader");
    }
}

struct Place {
    directory: tempfile::TempDir,
    path: PathBuf,
    is_loop: bool,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("made");
        let path = directory.path().join("image");
        File::create(&path)
            .and_then(|file| file.set_len(BYTES))
            .expect("room");
        let set = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(&path)
            .output();
        let set = set.ok().filter(|set| set.status.success());
        let device = set.map(|set| PathBuf::from(String::from_utf8_lossy(&set.stdout).trim()));
        Self {
            directory,
            is_loop: device.is_some(),
            path: device.unwrap_or(path),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_loop {
            let _ = Command::new("losetup")
                .arg("--detach")
                .arg(&self.path)
                .status();
        }
    }
}

/// The content of each slot that a version has, made once.
#[derive(Default)]
struct Expected(BTreeMap<(u32, u64), Content>);

impl Expected {
    fn is(&mut self, slot: u32, found: &Content) -> bool {
        let version = found.file.generation.stamp;
        let expected = self.0.entry((slot, version));
        *found == *expected.or_insert_with(|| content(slot, version, &data(slot, version)))
    }
}

#[test]
fn power_cuts_lose_nothing_that_was_acknowledged() {
    let cuts = std::env::var(CUTS).ok();
    let cuts = cuts.map_or(CUTS_USUAL, |cuts| cuts.parse().expect("a number"));
    let place = Place::new();
    let undo = place.directory.path().join("undo");
    let wanted = Format {
        id: [1; 16],
        salt: 5,
        node: NODE.to_owned(),
        serial: String::new(),
        bytes: BYTES,
        extent_bytes: EXTENT,
        made: Duration::ZERO,
    };
    format(
        &Device::open(&place.path, Access::Own).expect("free"),
        &wanted,
    )
    .expect("formatted");
    let mut seeded = Seeded(20);
    // The version that each slot holds; `None` while it is being replaced.
    let mut owed: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    let mut expected = Expected::default();
    let (mut acknowledged, mut dropped) = (0, 0);
    let (mut lost, mut wrong) = (Vec::new(), Vec::new());
    for life in 1..=cuts {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["writer", "--exact", "--nocapture"])
            .env(PLACE, format!("{},{life}", place.path.display()))
            .env(UNDO, &undo)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let wanted = 1 + seeded.below(40);
        let mut read = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["free", slot] => drop(owed.insert(slot.parse().expect("a slot"), None)),
                ["holds", slot, version] => {
                    owed.insert(slot.parse().expect("a slot"), version.parse().ok());
                    return true;
                }
                _ => {}
            }
            false
        };
        let mut answers = 0;
        while answers < wanted {
            let line = lines.next().expect("it goes on").expect("readable");
            answers += u64::from(read(&line));
        }
        // Somewhere in the next turn.
        std::thread::sleep(Duration::from_micros(seeded.below(8_000)));
        child.kill().expect("it runs");
        child.wait().expect("it ended");
        for line in lines.map_while(Result::ok) {
            answers += u64::from(read(&line));
        }
        acknowledged += answers;
        dropped += cut(&place.path, &undo, &mut seeded);

        let device = Device::open(&place.path, Access::Check).expect("free");
        let found = inspect::survey(&device).expect("it opens");
        assert_eq!(found.damage, [], "life {life}");
        let bad = inspect::check(&device, &found).expect("read");
        let bad: BTreeSet<u32> = bad.iter().map(|one| one.extent.slot.0).collect();
        let mut held: BTreeMap<u32, u64> = BTreeMap::new();
        for one in &found.extents {
            let (slot, version) = (one.slot.0, one.content.file.generation.stamp);
            if bad.contains(&slot) {
                lost.push((life, slot, Some(version)));
                continue;
            }
            held.insert(slot, version);
            if !one.is_dirty || !expected.is(slot, &one.content) {
                wrong.push((life, slot, version));
            }
        }
        for (slot, version) in &mut owed {
            if version.is_some_and(|version| held.get(slot) != Some(&version)) {
                if !bad.contains(slot) {
                    lost.push((life, *slot, *version));
                }
                // It counts once.
                *version = None;
            }
        }
    }
    eprintln!(
        "{cuts} power cuts on {}: {acknowledged} extents acknowledged, {dropped} sectors of writes without a flush dropped, {} extents lost, {} served wrong",
        place.path.display(),
        lost.len(),
        wrong.len()
    );
    assert!(
        lost.is_empty() && wrong.is_empty(),
        "lost {lost:?}, wrong {wrong:?}"
    );
    assert!(acknowledged > cuts * 10, "{acknowledged}");
    assert!(dropped > cuts, "{dropped}");
}

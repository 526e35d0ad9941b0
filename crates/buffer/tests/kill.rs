//! Kills a process that writes into a buffer, at moments from a seed, and looks at what is left. As root the buffer lies on a loop device,
//! otherwise in a file.

use std::collections::BTreeMap;
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

const BYTES: u64 = 64 << 20;
const EXTENT: u32 = 1 << 20;
const NODE: &str = "gw1-node";
/// Names the place to the process that writes, and the number of its life.
const PLACE: &str = "GODWIT_TEST_BUFFER";

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
    let device = Device::open(Path::new(path), Access::Own).expect("free");
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
    _directory: tempfile::TempDir,
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
            _directory: directory,
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

#[test]
fn twenty_kills_lose_nothing_that_was_acknowledged() {
    let place = Place::new();
    eprintln!("on {}", place.path.display());
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
    let mut acknowledged = 0;
    for life in 1..=20 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["writer", "--exact", "--nocapture"])
            .env(PLACE, format!("{},{life}", place.path.display()))
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

        let device = Device::open(&place.path, Access::Check).expect("free");
        let found = inspect::survey(&device).expect("it opens");
        assert_eq!(found.damage, [], "life {life}");
        let bad = inspect::check(&device, &found).expect("read");
        assert!(bad.is_empty(), "life {life}: {bad:?}");
        let held: BTreeMap<u32, u64> = found
            .extents
            .iter()
            .map(|one| (one.slot.0, one.content.file.generation.stamp))
            .collect();
        for (slot, version) in owed
            .iter()
            .filter_map(|(slot, version)| Some((slot, (*version)?)))
        {
            assert_eq!(held.get(slot), Some(&version), "life {life}, slot {slot}");
        }
    }
    assert!(acknowledged > 200, "{acknowledged}");
}

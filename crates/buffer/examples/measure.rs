//! Measures a buffer on a device or file: sequential writes and reads of extents with their digests, and the time to open a full one.
//! All data at the place is lost. `docs/performance/results/buffer.tsv` has figures.
//!
//! ```text
//! measure PLACE rates GIB THREADS     writes and reads this amount
//! measure PLACE open                  fills the log, and opens the volume
//! ```

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use godwit_buffer::backing::Backing;
use godwit_buffer::device::{Access, Device};
use godwit_buffer::directory::Directory;
use godwit_buffer::extent::{
    Content, FileKey, Generation, Keep, Record, SlotIndex, SourceId, VolumeIndex,
};
use godwit_buffer::ledger::Commit;
use godwit_buffer::volume::{Format, Volume, format};
use godwit_seeded::Seeded;
use godwit_store::digest::DigestKind;
use godwit_sys::page_buffer::PageBuffer;

const EXTENT: u32 = 4 << 20;

fn key(slot: u32, each: u32) -> Arc<FileKey> {
    let number = slot / each;
    Arc::new(FileKey {
        source: SourceId([1; 16]),
        path: format!(
            "campaign-2026/run{:04}/detector/frame-{number:07}.h5",
            number / 1000
        )
        .into_bytes(),
        generation: Generation {
            bytes: u64::from(EXTENT) * u64::from(each),
            stamp: 1,
        },
    })
}

fn commit(number: u64, slots: Vec<SlotIndex>, records: Vec<Record>) -> Commit {
    Commit {
        volume: VolumeIndex(0),
        number,
        slots,
        records,
        freed: Vec::new(),
    }
}

fn holds(slot: u32, content: Content) -> Record {
    Record::Holds {
        slot: SlotIndex(slot),
        content,
        is_dirty: true,
        since: Duration::from_secs(1_700_000_000),
        keep: Keep::No,
    }
}

fn rates<B: Backing>(volume: &Volume<B>, extents: u32, threads: u32) {
    let next = AtomicU32::new(0);
    let contents: Vec<std::sync::OnceLock<Content>> =
        (0..extents).map(|_| std::sync::OnceLock::new()).collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (next, contents) = (&next, &contents);
            scope.spawn(move || {
                let mut buffer = PageBuffer::new(EXTENT as usize).expect("memory");
                let mut seeded = Seeded(u64::from(thread));
                for word in buffer.chunks_exact_mut(8) {
                    word.copy_from_slice(&seeded.draw().to_le_bytes());
                }
                // The digest comes with the data, as in a transfer; this one depends on the data alone.
                let known = Content::of(&key(0, 256), 0, &buffer, DigestKind::Crc64Nvme);
                loop {
                    let slot = next.fetch_add(1, Ordering::Relaxed);
                    if slot >= extents {
                        return;
                    }
                    let offset = u64::from(slot % 256) * u64::from(EXTENT);
                    let content = Content {
                        file: key(slot, 256),
                        offset,
                        ..known.clone()
                    };
                    volume
                        .put(SlotIndex(slot), &content, &mut buffer)
                        .expect("written");
                    // A commit for each 64 MiB, as a busy node has.
                    contents[slot as usize].set(content.clone()).expect("once");
                    if slot % 16 == 15 {
                        volume
                            .commit(&commit(
                                u64::from(slot),
                                vec![SlotIndex(slot)],
                                vec![holds(slot, content)],
                            ))
                            .expect("durable");
                    }
                }
            });
        }
    });
    let last: Vec<Record> = (0..extents)
        .map(|slot| {
            holds(
                slot,
                contents[slot as usize].get().expect("written").clone(),
            )
        })
        .collect();
    for some in last.chunks(1024) {
        volume
            .commit(&commit(0, vec![SlotIndex(0)], some.to_vec()))
            .expect("durable");
    }
    report("write", extents, started);
    next.store(0, Ordering::Relaxed);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (next, contents) = (&next, &contents);
            scope.spawn(move || {
                let mut buffer = PageBuffer::new(EXTENT as usize).expect("memory");
                loop {
                    let slot = next.fetch_add(1, Ordering::Relaxed);
                    let Some(content) = contents.get(slot as usize) else {
                        return;
                    };
                    let content = content.get().expect("written");
                    volume
                        .get(SlotIndex(slot), content, &mut buffer)
                        .expect("right");
                }
            });
        }
    });
    report("read", extents, started);
}

fn report(what: &str, extents: u32, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    let bytes = f64::from(extents) * f64::from(EXTENT);
    println!("{what}\t{seconds:.3} s\t{:.1} MB/s", bytes / seconds / 1e6);
}

fn measure<B: Backing>(open: impl Fn() -> B, bytes: u64, words: &[String]) {
    let wanted = Format {
        id: [1; 16],
        salt: 1,
        node: "gw1-node".to_owned(),
        serial: String::new(),
        bytes,
        extent_bytes: EXTENT,
        made: Duration::ZERO,
    };
    format(&open(), &wanted).expect("formatted");
    let (volume, _) = Volume::open(open(), "gw1-node").expect("opened");
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
    if let (Some(gib), Some(threads)) = (number(3), number(4)) {
        rates(&volume, gib * 256, threads);
        return;
    }
    let slots = volume.layout().slots;
    let started = Instant::now();
    let data = vec![0; 4096];
    for first in (0..slots).step_by(1000) {
        let records = (first..slots.min(first + 1000)).map(|slot| {
            let file = key(slot, 1);
            holds(slot, Content::of(&file, 0, &data, DigestKind::Crc64Nvme))
        });
        volume
            .commit(&commit(u64::from(first), Vec::new(), records.collect()))
            .expect("durable");
    }
    println!(
        "filled the log for {slots} slots\t{:.3} s",
        started.elapsed().as_secs_f64()
    );
    drop(volume);
    for _ in 0..5 {
        let started = Instant::now();
        let (_, extents) = Volume::open(open(), "gw1-node").expect("opened");
        println!(
            "opened with {} extents of as many files\t{:.3} s",
            extents.len(),
            started.elapsed().as_secs_f64()
        );
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let path = Path::new(&words[1]);
    if path.is_dir() {
        drop(Directory::make(path).expect("made"));
        measure(
            || Directory::open(path, Access::Own).expect("opened"),
            40 << 30,
            &words,
        );
    } else {
        let device = || Device::open(path, Access::Own).expect("opened");
        let bytes = device().bytes();
        measure(device, bytes, &words);
    }
}

//! Tests of the extents that a node gives to others: read once, in the right generation, and nothing else.
//! Asks no node.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use godwit_buffer::in_use::Places;
use godwit_buffer::make::{self, Request};
use godwit_buffer::service::open_volumes;
use godwit_store::{Confine, FsOptions, FsStorage};
use tempfile::TempDir;

use super::*;

const NODE: &str = "gw1-test";
const ORIGIN: [u8; 16] = [5; 16];
const EXTENT: u32 = 1 << 20;
const FILE: usize = EXTENT as usize + 300_000;
const PART: usize = 800_000;

/// An export with one file, and a buffer.
struct World {
    directory: TempDir,
    buffer: Buffer,
    open: OpenStorage,
    opened: Arc<AtomicUsize>,
}

fn contents() -> Vec<u8> {
    (0..FILE)
        .map(|at| u8::try_from(at / 13 % 251).expect("small"))
        .collect()
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (export, flash) = (
            directory.path().join("export"),
            directory.path().join("flash"),
        );
        fs::create_dir(&export).expect("made");
        fs::write(export.join("file"), contents()).expect("written");
        let request = Request {
            path: flash.clone(),
            bytes: Some(48 << 20),
            extent_bytes: EXTENT,
            node: NODE.to_owned(),
            force: None,
            id: [1; 16],
            salt: 7,
            now: Duration::from_secs(1),
        };
        make::make(&request, &Places::default()).expect("made");
        let (mounted, failed) = open_volumes(&[flash], NODE);
        let buffer = Buffer::start(mounted, failed, Arc::new(|_: &str| {})).expect("threads");
        let opened = Arc::new(AtomicUsize::new(0));
        let open: OpenStorage = {
            let (opened, spill) = (Arc::clone(&opened), directory.path().to_owned());
            Arc::new(move || {
                opened.fetch_add(1, Ordering::SeqCst);
                let options = FsOptions {
                    origin: Some(ORIGIN),
                    ..FsOptions::new(Confine::Export)
                };
                let storage = FsStorage::open_with(&export, &spill, options);
                let storage: Arc<dyn Storage> = Arc::new(storage.expect("opened"));
                Ok(storage)
            })
        };
        let world = Self {
            directory,
            buffer,
            open,
            opened,
        };
        while !is_settled(&world.meta(), now()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        world
    }

    fn meta(&self) -> Meta {
        let storage = (self.open)().expect("opened");
        self.opened.store(0, Ordering::SeqCst);
        let file = storage.open(&RelPath::parse(b"file").expect("a path"));
        file.expect("opened").meta().expect("a state")
    }

    fn question(&self, offset: u64) -> PoolQuestion {
        let question = PoolQuestion {
            origin: ORIGIN,
            path: b"file".to_vec(),
            bytes: FILE as u64,
            stamp: self.meta().generation(),
            offset: 0,
            length: 0,
            keep_for: Duration::ZERO,
        };
        question.at(offset, EXTENT)
    }

    /// Asks until the work is done.
    fn part(
        &self,
        answers: &PoolAnswers,
        question: &PoolQuestion,
        from: u32,
        fill: bool,
    ) -> Result<PoolPart, PoolFault> {
        loop {
            let open = fill.then_some(&self.open);
            let part = answers.part(&self.buffer, question, (from, PART), open, &[]);
            match part {
                Err(PoolFault::Later) => {}
                part => return part,
            }
        }
    }

    /// Waits until another node would get the extent from flash.
    fn wait_until_held(&self, question: &PoolQuestion) -> PoolPart {
        loop {
            match self.part(&PoolAnswers::default(), question, 0, false) {
                Ok(part) => return part,
                Err(fault) => assert_eq!(fault, PoolFault::NotHeld),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.buffer.close();
        assert!(self.directory.path().exists());
    }
}

#[test]
fn an_extent_is_read_once_for_all_its_parts_and_then_comes_from_flash() {
    let world = World::new();
    let (answers, first) = (PoolAnswers::default(), world.question(0));
    let refused = world
        .part(&answers, &first, 0, false)
        .expect_err("not there");
    assert_eq!(refused, PoolFault::NotHeld);
    let mut got = Vec::new();
    while got.len() < EXTENT as usize {
        let from = u32::try_from(got.len()).expect("small");
        let part = world.part(&answers, &first, from, true).expect("a part");
        assert!(part.filled && part.bytes.len() <= PART);
        let at = u64::from(from);
        assert_eq!(part.checksum, checksum(&first.key(), at, &part.bytes));
        got.extend(part.bytes);
    }
    assert!(got == contents()[..EXTENT as usize]);
    assert_eq!(world.opened.load(Ordering::SeqCst), 1);
    let held = world.wait_until_held(&first);
    assert!(!held.filled && held.bytes == contents()[..PART]);

    // The end of the file, ahead of a question.
    let last = world.question(u64::from(EXTENT));
    let end = [u64::from(EXTENT)];
    let range = (0, PART);
    let open = Some(&world.open);
    let again = answers.part(&world.buffer, &first, range, open, &end);
    again.expect("a part");
    let held = world.wait_until_held(&last);
    assert!(held.bytes == contents()[EXTENT as usize..]);
}

#[test]
fn another_generation_is_not_read_and_takes_nothing_from_the_present_one() {
    let world = World::new();
    let present = world.question(0);
    let answers = PoolAnswers::default();
    world.part(&answers, &present, 0, true).expect("a part");
    world.wait_until_held(&present);
    for other in [
        PoolQuestion {
            stamp: present.stamp ^ 1,
            ..present.clone()
        },
        PoolQuestion {
            path: b"other".to_vec(),
            ..present.clone()
        },
        PoolQuestion {
            path: b"../export/file".to_vec(),
            ..present.clone()
        },
        PoolQuestion {
            origin: [6; 16],
            ..present.clone()
        },
    ] {
        let refused = world.part(&answers, &other, 0, true).expect_err("another");
        assert!(matches!(refused, PoolFault::Unread(_)), "{refused:?}");
    }
    world.wait_until_held(&present);
}

#[test]
fn a_range_that_is_no_extent_is_refused() {
    let world = World::new();
    let answers = PoolAnswers::default();
    let extent = world.question(0);
    let with = |change: fn(&mut PoolQuestion)| {
        let mut question = extent.clone();
        change(&mut question);
        question
    };
    for question in [
        with(|question| question.offset = 7),
        with(|question| question.offset = 2 << 20),
        with(|question| question.length -= 1),
        with(|question| question.length = u32::MAX),
        with(|question| question.bytes = 0),
    ] {
        let refused = world.part(&answers, &question, 0, true);
        assert_eq!(refused.expect_err("no extent"), PoolFault::NoExtent);
    }
    let behind = world.part(&answers, &extent, EXTENT, true);
    assert_eq!(behind.expect_err("no byte"), PoolFault::NoExtent);
}

/// Another node, which reads each extent for this one.
struct Reads(Vec<u8>);

impl Mates for Reads {
    fn fetch(&self, _: &Arc<FileKey>, _: Wish) -> Fetched {
        Fetched::Here(Arc::new(Extent {
            bytes: self.0.clone(),
            filled: true,
        }))
    }

    fn room(&self, _: SourceId) -> u64 {
        0
    }
}

#[test]
fn a_short_extent_takes_a_whole_slot_of_another_node() {
    let world = World::new();
    let offset = u64::from(EXTENT);
    let key = world.question(offset).key();
    let file = world.buffer.named(key, Keep::No).expect("a buffer");
    let mate = Reads(contents()[EXTENT as usize..].to_vec());
    let wish = |offset, bytes| Wish {
        offset,
        bytes,
        fill: true,
        keep_for: Duration::ZERO,
    };
    for (length, new) in [(300_000, offset), (100, 100)] {
        let mut out = vec![0; length];
        let got = fetch(&mate, &file, wish, (EXTENT, offset), &mut out);
        let wanted = Got {
            bytes: length,
            new,
            has_asked: true,
        };
        assert_eq!(got, wanted);
        assert!(out == mate.0[..length]);
    }
}

//! Tests when batches are synced, and which files a failed sync concerns.
//! Syncs no real file system.

use std::cell::RefCell;
use std::ops::Range;

use godwit_proto::Record;
use godwit_store::{Kind, Meta, Timestamp};

use super::*;

/// A file on a device.
struct OnDevice(u64);

impl ReadFile for OnDevice {
    fn meta(&self) -> Result<Meta, StoreError> {
        Ok(Meta {
            kind: Kind::File,
            mode: 0o644,
            bytes: 0,
            sparse: false,
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            inode: 1,
            device: self.0,
            links: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
        })
    }

    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> Result<usize, StoreError> {
        Ok(0)
    }

    fn next_data(&self, _offset: u64) -> Result<Option<Range<u64>>, StoreError> {
        Ok(None)
    }

    fn drop_cache(&self) {}
}

/// A batch of one file on this device.
fn batch(number: u64, device: u64) -> Batch {
    Batch {
        checked: Checked {
            number,
            records: vec![Record::default()],
            findings: vec![Finding::Same(None)],
        },
        bytes: 0,
        devices: BTreeMap::from([(device, 0)]),
    }
}

fn good(batches: &[Batch]) -> Vec<bool> {
    let findings = batches.iter().map(|batch| &batch.checked.findings[0]);
    findings
        .map(|finding| matches!(finding, Finding::Same(_)))
        .collect()
}

#[test]
fn many_small_batches_share_few_syncs_and_each_waits_for_a_later_one() {
    let mut held = Held::default();
    let start = Instant::now();
    let mut syncs = 0;
    let mut reported = 0;
    // A batch each millisecond for ten seconds.
    for number in 0..10_000 {
        let now = start + Duration::from_millis(number);
        held.add(batch(number, 1));
        if let Some(batches) = held.begin(now) {
            // A batch that comes during a sync waits for the next one.
            held.add(batch(number, 1));
            assert!(held.begin(now + SYNC_EVERY).is_none() && held.pause(now).is_none());
            syncs += 1;
            reported += batches.len() as u64;
            held.end(now);
        }
    }
    assert_eq!(syncs, 5);
    // The last ones need no further batch, and no message of the client.
    let now = start + Duration::from_secs(10);
    let pause = held.pause(now).expect("they wait");
    assert!(pause <= SYNC_EVERY, "{pause:?}");
    let batches = held.begin(now + pause).expect("due");
    assert_eq!(reported + batches.len() as u64, 10_000 + syncs);
    held.end(now + pause);
    assert_eq!(held.pause(now + pause), None);
}

#[test]
fn each_file_system_is_synced_once_and_its_failure_concerns_its_batches_alone() {
    let mut batches = [batch(0, 1), batch(1, 2), batch(2, 1), batch(3, 3)];
    let synced = RefCell::new(Vec::new());
    let open = |batch: &Batch, _: usize| -> Result<Box<dyn ReadFile>, StoreError> {
        let device = batch.devices.keys().next().expect("one");
        Ok(Box::new(OnDevice(*device)))
    };
    let sync = |file: &dyn ReadFile| {
        let device = file.meta().expect("known").device;
        synced.borrow_mut().push(device);
        match device {
            2 => Err(Errno::IO),
            _ => Ok(()),
        }
    };
    sync_all(&mut batches, &open, &sync);
    assert_eq!(*synced.borrow(), [1, 2, 3]);
    assert_eq!(good(&batches), [true, false, true, true]);
}

#[test]
fn a_file_that_is_gone_or_on_another_device_leaves_the_others_of_a_sync() {
    let mut batches = [batch(0, 1), batch(1, 1), batch(2, 1), batch(3, 1)];
    let synced = RefCell::new(0);
    let open = |batch: &Batch, _: usize| -> Result<Box<dyn ReadFile>, StoreError> {
        match batch.checked.number {
            0 => {
                let kind = StoreErrorKind::NotFound;
                Err(StoreError::new("open", &RelPath::root(), kind))
            }
            1 => Ok(Box::new(OnDevice(9))),
            _ => Ok(Box::new(OnDevice(1))),
        }
    };
    let sync = |_: &dyn ReadFile| -> Result<(), Errno> {
        *synced.borrow_mut() += 1;
        Ok(())
    };
    sync_all(&mut batches, &open, &sync);
    assert_eq!(*synced.borrow(), 1);
    assert_eq!(good(&batches), [false, false, true, true]);
}

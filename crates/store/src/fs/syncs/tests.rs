//! Tests a group whose syncs end one by one with results that the test chooses, and a group with many users.

use super::{Failure, Group};
use crate::fs::directories::lock;
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// More syncs than any test runs on one disk.
const SYNCS_MAX: usize = 16;

/// Each sync reports its start and returns a result that the test chooses.
struct Disk {
    group: Group,
    begun: Mutex<SyncSender<()>>,
    results: Mutex<Receiver<Result<(), Errno>>>,
}

type Synced = JoinHandle<Result<(), Failure>>;

fn disk() -> (Arc<Disk>, Receiver<()>, SyncSender<Result<(), Errno>>) {
    let (begun, has_begun) = sync_channel(SYNCS_MAX);
    let (end, results) = sync_channel(SYNCS_MAX);
    let disk = Disk {
        group: Group::default(),
        begun: begun.into(),
        results: results.into(),
    };
    (Arc::new(disk), has_begun, end)
}

impl Disk {
    fn sync(self: &Arc<Self>, member: &Arc<AtomicU64>) -> Synced {
        let (disk, member) = (Arc::clone(self), Arc::clone(member));
        std::thread::spawn(move || {
            disk.group.sync(&member, || {
                lock(&disk.begun).send(()).unwrap();
                lock(&disk.results).recv().unwrap()
            })
        })
    }

    fn wait_until_waiting(&self, callers: usize) {
        while lock(&self.group.state).waiting < callers {
            std::thread::yield_now();
        }
    }
}

/// Waits for a sync to begin; the test fails if none does.
fn begin(begun: &Receiver<()>) {
    begun.recv_timeout(Duration::from_secs(60)).unwrap();
}

fn member() -> Arc<AtomicU64> {
    Arc::default()
}

#[test]
fn all_who_wait_share_one_sync_that_begins_after_they_came() {
    let (disk, begun, end) = disk();
    let early = disk.sync(&member());
    begin(&begun);
    let late: Vec<Synced> = (0..8).map(|_| disk.sync(&member())).collect();
    disk.wait_until_waiting(8);
    end.send(Ok(())).unwrap();
    early.join().unwrap().unwrap();
    // The sync that was running when the callers arrived does not serve them.
    begin(&begun);
    assert!(late.iter().all(|caller| !caller.is_finished()));
    end.send(Ok(())).unwrap();
    for caller in late {
        caller.join().unwrap().unwrap();
    }
    assert_eq!(lock(&disk.group.state).begun, 2, "one sync for all of them");
}

#[test]
fn an_error_reaches_all_who_waited_and_everybody_else_at_the_next_sync() {
    let (disk, begun, end) = disk();
    let absent = member();
    let early = disk.sync(&member());
    begin(&begun);
    let late: Vec<Synced> = (0..5).map(|_| disk.sync(&member())).collect();
    disk.wait_until_waiting(5);
    end.send(Ok(())).unwrap();
    assert_eq!(early.join().unwrap(), Ok(()));
    begin(&begun);
    end.send(Err(Errno::IO)).unwrap();
    for caller in late {
        assert_eq!(caller.join().unwrap().unwrap_err().errno, Errno::IO);
    }
    // The kernel has already reported the failure and does not repeat it.
    end.send(Ok(())).unwrap();
    let failure = disk.sync(&absent).join().unwrap().unwrap_err();
    assert_eq!(failure.errno, Errno::IO);
    // Each sync reports the failure until `believe` accepts it. The kernel may have reported it to another thread of the
    // storage.
    end.send(Ok(())).unwrap();
    assert!(disk.sync(&absent).join().unwrap().is_err());
    absent.store(failure.number, Ordering::SeqCst);
    end.send(Ok(())).unwrap();
    assert_eq!(disk.sync(&absent).join().unwrap(), Ok(()));
}

#[test]
fn a_failure_that_is_believed_while_another_thread_waits_reaches_that_thread_too() {
    let (disk, begun, end) = disk();
    let storage = member();
    let first = disk.sync(&storage);
    begin(&begun);
    let second = disk.sync(&storage);
    disk.wait_until_waiting(1);
    end.send(Err(Errno::NOSPC)).unwrap();
    let failure = first.join().unwrap().unwrap_err();
    storage.store(failure.number, Ordering::SeqCst);
    begin(&begun);
    end.send(Ok(())).unwrap();
    assert_eq!(second.join().unwrap().unwrap_err().errno, Errno::NOSPC);
}

#[test]
fn bytes_written_before_a_sync_are_durable_after_it_with_many_callers() {
    let group = Group::default();
    let (written, durable) = (AtomicU64::new(0), AtomicU64::new(0));
    let syncs = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let member = AtomicU64::new(0);
                for _ in 0..200 {
                    let own = written.fetch_add(1, Ordering::SeqCst) + 1;
                    let sync = || {
                        let found = written.load(Ordering::SeqCst);
                        std::thread::yield_now();
                        durable.fetch_max(found, Ordering::SeqCst);
                        syncs.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    };
                    group.sync(&member, sync).unwrap();
                    assert!(durable.load(Ordering::SeqCst) >= own);
                }
            });
        }
    });
    assert_eq!(lock(&group.state).begun, syncs.load(Ordering::SeqCst));
}

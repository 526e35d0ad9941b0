//! Reads, waits and copies as a hold decides, on the threads of the transfers.
//! Opens no file.
//!
//! One lock guards the hold and the waiting threads. No thread holds it while it reads, copies or waits.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use godwit_engine::{OnceDigest, ReadError};
use godwit_hold::{
    Answer, AskId, Bound, Destination, Figures, Lane, Outcome, ReadHold, ReadId, TakeId,
};
use godwit_proto::{EntryId, Fault, Record};

use super::shelf::{Contents, Shelf};
use super::with_entry;

/// Bytes that the description of a kept block takes beside its contents, with a name of usual length.
const DESCRIPTION_BYTES: u64 = 512;

/// Bytes of a name of usual length. Those of a longer one count like contents.
const NAME_BYTES: usize = 256;

/// Most kept blocks: 8 MiB of descriptions.
const BLOCKS_MAX: usize = 16 << 10;

/// A file in one generation.
#[derive(Debug, Eq, Hash, PartialEq)]
pub(super) struct FileKey {
    root: u16,
    generation: u64,
    bytes: u64,
    path: Vec<u8>,
}

impl FileKey {
    /// The file of a record below the root with this number.
    pub(super) fn of(record: &Record, root: u16) -> Self {
        Self {
            root,
            generation: record.generation.0,
            bytes: record.bytes,
            path: record.path.clone(),
        }
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }
}

/// A range of a file.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Key {
    file: Arc<FileKey>,
    offset: u64,
    bytes: usize,
}

impl Key {
    pub(super) const fn new(file: Arc<FileKey>, offset: u64, bytes: usize) -> Self {
        Self {
            file,
            offset,
            bytes,
        }
    }

    /// Memory of the block, and of the part of its path that exceeds the usual length.
    fn weight(&self) -> u64 {
        (self.bytes + self.file.path.len().saturating_sub(NAME_BYTES)) as u64
    }
}

/// A transfer that reads an entry.
pub(super) struct Asker {
    pub(super) who: Destination,
    /// Number of the entry in the transfer.
    pub(super) id: EntryId,
    /// The transfer has ended, so it waits for no other one.
    pub(super) is_closed: Arc<AtomicBool>,
}

/// Why a read has failed, for all that waited for it.
#[derive(Clone)]
enum Failure {
    Changed,
    Failed(Fault),
}

type KeyHold = ReadHold<Key, Arc<Contents>, Failure>;

/// The reads of several destinations.
pub(super) struct Reads {
    state: Mutex<State>,
    began: Instant,
    shelf: Arc<Shelf>,
}

struct State {
    hold: KeyHold,
    waiting: HashMap<AskId, Thread>,
}

impl Reads {
    pub(super) fn new(bytes: u64) -> Self {
        let bound = Bound {
            bytes,
            blocks: BLOCKS_MAX,
            beside: DESCRIPTION_BYTES,
        };
        Self {
            state: Mutex::new(State {
                hold: ReadHold::new(bound),
                waiting: HashMap::new(),
            }),
            began: Instant::now(),
            shelf: Arc::default(),
        }
    }

    pub(super) fn join(&self, who: Destination) {
        self.with(|hold, now| hold.join(now, who));
    }

    pub(super) fn leave(&self, who: Destination) {
        self.with(|hold, now| hold.leave(now, who));
    }

    pub(super) fn figures(&self) -> Figures {
        self.lock().hold.figures()
    }

    pub(super) fn is_behind(&self, who: Destination) -> bool {
        self.lock().hold.is_behind(who)
    }

    /// Has all that wait ask again, so that those of a closed transfer end.
    pub(super) fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for thread in waiting.into_values() {
            thread.unpark();
        }
    }

    /// Fills `buffer` with the bytes of `key` for the asker: reads them with `read`, copies them, or waits for another reader. Returns the
    /// digest that it shares with the others.
    pub(super) fn read(
        &self,
        asker: &Asker,
        key: &Key,
        buffer: &mut [u8],
        read: &mut dyn FnMut(&mut [u8]) -> Result<(), ReadError>,
    ) -> Result<Option<OnceDigest>, ReadError> {
        let (bytes, id) = (key.weight(), asker.id);
        let lane = Lane(asker.who, lane());
        let mut answer = self.ask(|hold, now| hold.ask(now, lane, key, bytes));
        loop {
            match answer {
                Answer::Take(take, contents) => {
                    let _copying = Copying(self, take);
                    let bytes = contents.as_slice();
                    buffer[..bytes.len()].copy_from_slice(bytes);
                    return Ok(Some(contents.digest().clone()));
                }
                Answer::Read(number, is_kept) => {
                    let reading = Reading(self, Some(number));
                    let mut digest = None;
                    let done = read(&mut buffer[..key.bytes]);
                    let outcome = match &done {
                        Ok(()) => Outcome::Content(is_kept.then(|| {
                            let contents = self.shelf.copy(&buffer[..key.bytes]);
                            digest = Some(contents.digest().clone());
                            Arc::new(contents)
                        })),
                        Err(ReadError::Changed) => Outcome::Failed(Failure::Changed),
                        Err(ReadError::Failed(fault)) => {
                            Outcome::Failed(Failure::Failed(fault.clone()))
                        }
                    };
                    reading.end(outcome);
                    return match done {
                        Ok(()) => Ok(digest),
                        Err(error) => Err(with_entry(error, id)),
                    };
                }
                // Its destination may have begun another transfer.
                Answer::Wait(ask, _) if asker.is_closed.load(Ordering::Relaxed) => {
                    self.forget(ask);
                    return read(&mut buffer[..key.bytes]).map(|()| None);
                }
                Answer::Wait(ask, until) => {
                    self.wait(until);
                    // The wait may have ended at its time.
                    self.lock().waiting.remove(&ask);
                    answer = self.ask(|hold, now| hold.again(now, ask));
                }
                Answer::Failed(Failure::Changed) => return Err(ReadError::Changed),
                Answer::Failed(Failure::Failed(fault)) => {
                    return Err(with_entry(ReadError::Failed(fault), id));
                }
                // The transfer has ended, so its entries must not fail because of the read.
                Answer::Gone => return read(&mut buffer[..key.bytes]).map(|()| None),
            }
        }
    }

    /// Asks, and notes the thread if it has to wait.
    fn ask<A, E>(&self, ask: impl FnOnce(&mut KeyHold, Duration) -> Answer<A, E>) -> Answer<A, E> {
        let mut state = self.lock();
        let now = self.began.elapsed();
        let answer = ask(&mut state.hold, now);
        if let Answer::Wait(id, _) = &answer {
            state.waiting.insert(*id, std::thread::current());
        }
        wake(state);
        answer
    }

    /// Takes back a question that waits.
    fn forget(&self, id: AskId) {
        let mut state = self.lock();
        state.waiting.remove(&id);
        let now = self.began.elapsed();
        state.hold.forget(now, id);
        wake(state);
    }

    fn wait(&self, until: Option<Duration>) {
        match until {
            None => std::thread::park(),
            Some(until) => {
                std::thread::park_timeout(until.saturating_sub(self.began.elapsed()));
            }
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut KeyHold, Duration) -> T) -> T {
        let mut state = self.lock();
        let now = self.began.elapsed();
        let done = act(&mut state.hold, now);
        wake(state);
        done
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the threads whose questions are to be asked again.
fn wake(mut state: MutexGuard<'_, State>) {
    let woken = state.hold.woken();
    if woken.is_empty() {
        return;
    }
    let threads: Vec<Thread> = woken
        .iter()
        .filter_map(|id| state.waiting.remove(id))
        .collect();
    drop(state);
    for thread in threads {
        thread.unpark();
    }
}

/// A read; if its thread panics, another one reads.
struct Reading<'a>(&'a Reads, Option<ReadId>);

impl Reading<'_> {
    fn end(mut self, outcome: Outcome<Arc<Contents>, Failure>) {
        if let Some(id) = self.1.take() {
            self.0.with(|hold, now| hold.finish(now, id, outcome));
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.1.take() {
            let outcome = Outcome::Abandoned;
            self.0.with(|hold, now| hold.finish(now, id, outcome));
        }
    }
}

struct Copying<'a>(&'a Reads, TakeId);

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.0.with(|hold, now| hold.handle_copied(now, self.1));
    }
}

/// The number of this thread among all lanes.
fn lane() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static LANE: Cell<u64> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    LANE.with(Cell::get)
}

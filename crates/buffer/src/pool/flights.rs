//! Owns work that several readers wait for: each piece is done once at a time, by few threads, and its latest results stay for the next
//! readers. Knows neither nodes nor files.
//!
//! A reader waits no longer than it wants to. Work that hangs holds up its thread alone.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// A result that has no reader for this time is dropped.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Bounds of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Threads. Each has one piece.
    pub threads: usize,
    /// Pieces that wait for a thread. Those that are not urgent leave half of the places free.
    pub waiting: usize,
    /// Results that stay for further readers.
    pub kept: usize,
}

/// How long a reader waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Without any sign of life.
    pub silent: Duration,
    /// In all.
    pub all: Duration,
}

/// Pieces of work by their names.
pub struct Flights<K, T, E> {
    bounds: Bounds,
    state: Mutex<State<K, T, E>>,
}

/// A piece of work. It gets a function that it calls at each sign of life.
type Work<T, E> = Box<dyn FnOnce(&dyn Fn()) -> Result<T, E> + Send>;

/// A piece that waits for a thread.
type Queued<K, T, E> = (K, Arc<Flight<T, E>>, Work<T, E>);

struct State<K, T, E> {
    /// The latest use is the last.
    ready: VecDeque<(K, Arc<T>, Instant)>,
    under_way: HashMap<K, Arc<Flight<T, E>>>,
    queue: VecDeque<Queued<K, T, E>>,
    threads: usize,
}

/// A piece that waits for a thread, or has one.
pub struct Flight<T, E> {
    progress: Mutex<Progress<T, E>>,
    done: Condvar,
}

struct Progress<T, E> {
    result: Option<Result<Arc<T>, E>>,
    /// The last sign of life; None before the work begins.
    alive_at: Option<Instant>,
}

/// The answer to a reader.
pub enum Begun<T, E> {
    /// The result is there.
    Ready(Arc<T>),
    /// The reader may wait for it.
    Flies(Arc<Flight<T, E>>),
    /// Too much waits already.
    Full,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Landed<T, E> {
    /// With a result.
    Here(Arc<T>),
    /// The work failed.
    Failed(E),
    /// The work gave no sign of life for too long.
    Silent,
    /// The work continues, and this reader stopped waiting.
    Late,
    /// The work has not begun.
    Waits,
}

impl<K, T, E> Flights<K, T, E>
where
    K: Clone + Eq + Hash + Send + 'static,
    T: Send + Sync + 'static,
    E: Clone + Send + 'static,
{
    /// No work yet.
    #[must_use]
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            state: Mutex::new(State {
                ready: VecDeque::new(),
                under_way: HashMap::new(),
                queue: VecDeque::new(),
                threads: 0,
            }),
        })
    }

    /// Begins a piece, or joins the work on it. An urgent piece overtakes waiting pieces, even if it is waiting already.
    pub fn begin(
        self: &Arc<Self>,
        key: K,
        is_urgent: bool,
        work: impl FnOnce(&dyn Fn()) -> Result<T, E> + Send + 'static,
    ) -> Begun<T, E> {
        let mut state = lock(&self.state);
        let at = state.ready.iter().position(|(one, ..)| *one == key);
        if let Some((key, found, _)) = at.and_then(|at| state.ready.remove(at)) {
            let result = Arc::clone(&found);
            state.ready.push_back((key, found, Instant::now()));
            return Begun::Ready(result);
        }
        if let Some(flight) = state.under_way.get(&key) {
            let flight = Arc::clone(flight);
            if is_urgent {
                state.hurry(&key);
            }
            return Begun::Flies(flight);
        }
        let waiting = match is_urgent {
            true => self.bounds.waiting,
            false => self.bounds.waiting.div_ceil(2),
        };
        if state.queue.len() >= waiting {
            return Begun::Full;
        }
        let flight = Arc::new(Flight::new());
        state.under_way.insert(key.clone(), Arc::clone(&flight));
        let piece: (_, _, Work<T, E>) = (key, Arc::clone(&flight), Box::new(work));
        match is_urgent {
            true => state.queue.push_front(piece),
            false => state.queue.push_back(piece),
        }
        if state.threads >= self.bounds.threads {
            return Begun::Flies(flight);
        }
        let own = Arc::clone(self);
        let thread = Builder::new().name("gw-pool".to_owned());
        match thread.spawn(move || own.work()) {
            Ok(_) => state.threads += 1,
            Err(_) if state.threads > 0 => {}
            // The system has no thread for the work, so none of it waits.
            Err(_) => {
                state.queue.clear();
                state.under_way.clear();
                return Begun::Full;
            }
        }
        Begun::Flies(flight)
    }

    /// Does pieces until none waits.
    fn work(&self) {
        loop {
            let mut state = lock(&self.state);
            let Some((key, flight, work)) = state.queue.pop_front() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            flight.mark_alive();
            let result = work(&|| flight.mark_alive()).map(Arc::new);
            let mut state = lock(&self.state);
            state.under_way.remove(&key);
            if let Ok(result) = &result
                && self.bounds.kept > 0
            {
                if state.ready.len() >= self.bounds.kept {
                    state.ready.pop_front();
                }
                let result = Arc::clone(result);
                state.ready.push_back((key, result, Instant::now()));
            }
            drop(state);
            flight.land(result);
        }
    }

    /// Forgets results that have had no reader for a while.
    pub fn trim(&self) {
        let mut state = lock(&self.state);
        state.ready.retain(|(_, _, used)| used.elapsed() < KEPT_FOR);
    }
}

impl<K: Eq, T, E> State<K, T, E> {
    /// Moves a piece that waits before the others.
    fn hurry(&mut self, key: &K) {
        let at = self.queue.iter().position(|(one, ..)| one == key);
        if let Some(piece) = at.and_then(|at| self.queue.remove(at)) {
            self.queue.push_front(piece);
        }
    }
}

impl<T, E: Clone> Flight<T, E> {
    fn new() -> Self {
        Self {
            progress: Mutex::new(Progress {
                result: None,
                alive_at: None,
            }),
            done: Condvar::new(),
        }
    }

    fn mark_alive(&self) {
        lock(&self.progress).alive_at = Some(Instant::now());
        self.done.notify_all();
    }

    fn land(&self, result: Result<Arc<T>, E>) {
        lock(&self.progress).result = Some(result);
        self.done.notify_all();
    }

    /// Waits for the result.
    #[must_use]
    pub fn wait(&self, limits: Limits) -> Landed<T, E> {
        let begun = Instant::now();
        let mut progress = lock(&self.progress);
        loop {
            match &progress.result {
                Some(Ok(result)) => return Landed::Here(Arc::clone(result)),
                Some(Err(error)) => return Landed::Failed(error.clone()),
                None => {}
            }
            let left = limits.all.saturating_sub(begun.elapsed());
            let alive_at = progress.alive_at.unwrap_or(begun);
            let patience = limits.silent.saturating_sub(alive_at.elapsed());
            match (left.is_zero(), patience.is_zero(), progress.alive_at) {
                (false, false, _) => {}
                (_, _, None) => return Landed::Waits,
                (_, true, Some(_)) => return Landed::Silent,
                (true, false, Some(_)) => return Landed::Late,
            }
            let waited = self.done.wait_timeout(progress, left.min(patience));
            (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::sync_channel;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        threads: 1,
        waiting: 1,
        kept: 1,
    };
    const LONG: Limits = Limits {
        silent: Duration::from_secs(60),
        all: Duration::from_secs(60),
    };
    const NONE: Limits = Limits {
        silent: Duration::ZERO,
        all: Duration::ZERO,
    };

    type Tested = Arc<Flights<u32, u32, &'static str>>;

    fn flies(begun: Begun<u32, &'static str>) -> Arc<Flight<u32, &'static str>> {
        match begun {
            Begun::Flies(flight) => flight,
            Begun::Ready(_) => panic!("it is ready"),
            Begun::Full => panic!("it is full"),
        }
    }

    #[test]
    fn a_piece_is_done_once_for_all_that_wait_and_stays_for_the_next_reader() {
        let flights: Tested = Flights::new(BOUNDS);
        let (go, gate) = sync_channel::<()>(1);
        let first = flies(flights.begin(1, true, move |_| {
            gate.recv().expect("the test goes on");
            Ok(7)
        }));
        let times = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&times);
        let second = flies(flights.begin(1, true, move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(8)
        }));
        go.send(()).expect("it waits");
        assert_eq!(first.wait(LONG), Landed::Here(Arc::new(7)));
        assert_eq!(second.wait(LONG), Landed::Here(Arc::new(7)));
        assert_eq!(times.load(Ordering::SeqCst), 0);
        assert!(matches!(flights.begin(1, true, |_| Ok(9)), Begun::Ready(found) if *found == 7));
    }

    #[test]
    fn work_that_hangs_is_silent_and_later_pieces_wait_or_find_no_room() {
        let flights: Tested = Flights::new(BOUNDS);
        let (go, gate) = sync_channel::<()>(1);
        let (begins, has_begun) = sync_channel::<()>(1);
        let hangs = flies(flights.begin(1, true, move |_| {
            begins.send(()).expect("the test waits");
            gate.recv().expect("the test goes on");
            Err("ended")
        }));
        has_begun.recv().expect("it begins");
        assert_eq!(hangs.wait(NONE), Landed::Silent);
        let waits = flies(flights.begin(2, true, |_| Ok(2)));
        assert_eq!(waits.wait(NONE), Landed::Waits);
        assert!(matches!(flights.begin(3, true, |_| Ok(3)), Begun::Full));
        go.send(()).expect("it waits");
        assert_eq!(hangs.wait(LONG), Landed::Failed("ended"));
        assert_eq!(waits.wait(LONG), Landed::Here(Arc::new(2)));
        // A failure is not kept.
        let again = flies(flights.begin(1, true, |_| Ok(1)));
        assert_eq!(again.wait(LONG), Landed::Here(Arc::new(1)));
    }

    #[test]
    fn a_piece_that_becomes_urgent_comes_before_those_that_wait() {
        let flights: Tested = Flights::new(Bounds {
            waiting: 4,
            ..BOUNDS
        });
        let (go, gate) = sync_channel::<()>(1);
        let (begins, order) = sync_channel(4);
        let first = begins.clone();
        let hangs = flies(flights.begin(1, true, move |_| {
            first.send(1).expect("the test waits");
            gate.recv().expect("the test goes on");
            Ok(1)
        }));
        assert_eq!(order.recv(), Ok(1));
        let piece = |number: u32| {
            let begins = begins.clone();
            move |_: &dyn Fn()| {
                begins.send(number).expect("there is room");
                Ok(number)
            }
        };
        let waits = flies(flights.begin(2, false, piece(2)));
        let background = flights.begin(3, false, piece(3));
        assert!(matches!(background, Begun::Flies(_)));
        let further = flights.begin(4, false, piece(4));
        assert!(matches!(further, Begun::Full), "half is for urgent ones");
        flies(flights.begin(5, true, piece(5)));
        flies(flights.begin(3, true, piece(3)));
        go.send(()).expect("it waits");
        assert_eq!(hangs.wait(LONG), Landed::Here(Arc::new(1)));
        assert_eq!(waits.wait(LONG), Landed::Here(Arc::new(2)));
        assert_eq!(order.try_iter().collect::<Vec<u32>>(), [3, 5, 2]);
    }

    #[test]
    fn signs_of_life_keep_a_reader_waiting_up_to_its_bound() {
        let flights: Tested = Flights::new(BOUNDS);
        let (go, gate) = sync_channel::<()>(1);
        let lives = flies(flights.begin(1, true, move |sign| {
            while gate.try_recv().is_err() {
                sign();
                std::thread::yield_now();
            }
            Ok(1)
        }));
        let limits = Limits {
            silent: Duration::from_secs(60),
            all: Duration::from_millis(50),
        };
        let landed = lives.wait(limits);
        assert!(matches!(landed, Landed::Late | Landed::Waits), "{landed:?}");
        go.send(()).expect("it lives");
        assert_eq!(lives.wait(LONG), Landed::Here(Arc::new(1)));
    }
}

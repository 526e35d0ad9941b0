//! Joins the buffers of the nodes of a cluster to one pool: who is in it, questions to all of them, and extents of the node that fills them.
//! Places no extent (`buffer::pool`), reads no file, and checks no right of a user (`web`).
//!
//! No reader waits for a silent node longer than a moment: each question has a thread, and a node that does wrong is left out for a while.
//!
//! Lock order: none. No lock is held while another one is taken, or while a node is asked.

mod exchange;
mod replies;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Answer, AnswerBuffer, AskExtent, AskSites, BufferAnswer, BufferQuestion, NEXT_MAX, Peer,
    Question, code,
};
use godwit_api::job::Text;
use godwit_buffer::extent::{FileKey, SourceId};
use godwit_buffer::pool::flights::{Begun, Bounds, Flight, Flights, Landed, Limits};
use godwit_buffer::pool::watch::{Misdeed, Refusals, Watch};
use godwit_buffer::pool::{Extent, Fetched, Mates, Wish, place};
use godwit_buffer::service::{Buffer, Log};
use godwit_state::{Node, Replica};
use godwit_web::{BufferControl, BufferMates};

use exchange::Fault;
use replies::{SILENT, reason};

/// Nodes that are asked at once.
const NODES_MAX: usize = 64;
/// How often this node looks who is in the pool.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long a node may take to describe its buffer meanwhile. No user waits.
const LOOK_WITHIN: Duration = Duration::from_secs(3);
/// How long a user waits for the figures of the other nodes, for their lists, and for their changes.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);
const LISTED_WITHIN: Duration = Duration::from_secs(2);
const CHANGED_WITHIN: Duration = Duration::from_secs(5);
/// Deadlines of one extent. A node that still reads from slow storage says so every half second.
const EXTENT: Limits = Limits {
    silent: Duration::from_secs(2),
    all: Duration::from_secs(5),
};
/// Extents of one node on their way, and those that stay for the next blocks of their readers.
const EXTENTS: Bounds = Bounds {
    threads: 4,
    waiting: 8,
    kept: 4,
};
/// Further places for extents that stay; the nodes share them. Each reader of a slow export has its own file: without its
/// extent in memory,
/// it would get the whole extent again for each block.
const KEPT_SHARED: usize = 32;
/// Questions to one node about its buffer.
const WORDS: Bounds = Bounds {
    threads: 2,
    waiting: 32,
    kept: 0,
};
/// Extents behind the wanted one among which the next ones of its node are looked for.
const LOOK_AHEAD: u64 = 64;

/// The pool, seen from one of its nodes. Clones share it.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Shared>);

/// Gets names of exports.
pub(crate) type Share = Box<dyn Fn(&BTreeSet<String>) + Send + Sync>;

/// The parts of this node that the pool needs.
pub(crate) struct PoolConfig {
    /// Identity of this node.
    pub(crate) identity: String,
    pub(crate) replica: Arc<Replica>,
    pub(crate) sites: Arc<dyn AskSites>,
    pub(crate) buffer: Option<Buffer>,
    /// The same buffer, as users see it.
    pub(crate) control: Option<Arc<dyn BufferControl>>,
    /// The names of the exports, with the names of their files in the buffer.
    pub(crate) exports: Vec<(String, SourceId)>,
    /// Gets the names of the exports that other nodes serve, too.
    pub(crate) share: Share,
    pub(crate) log: Log,
}

struct Shared {
    config: PoolConfig,
    /// This node, to the choice of places.
    own: u64,
    begun: Instant,
    /// The other nodes, by their identities.
    mates: Mutex<BTreeMap<String, Arc<Mate>>>,
    /// Those that have a part in the pool.
    members: Mutex<Arc<Vec<Member>>>,
    asked: AtomicU64,
    stopping: Mutex<bool>,
    woken: Condvar,
}

/// Another node.
struct Mate {
    name: String,
    peer: Mutex<Peer>,
    watch: Mutex<Watch>,
    /// By the names of exports.
    refusals: Mutex<BTreeMap<String, Refusals>>,
    extents: Arc<Flights<(Arc<FileKey>, u64), Extent, Fault>>,
    words: Arc<Flights<u64, BufferAnswer, String>>,
}

/// A node with a part in the pool.
struct Member {
    mate: Arc<Mate>,
    /// The node, to the choice of places.
    place: u64,
    /// Bytes that its buffer holds.
    room: u64,
    exports: Vec<String>,
}

/// A node with its answer, or the reason why there is none.
type Answered = (Arc<Mate>, Result<BufferAnswer, String>);

impl Pool {
    /// The pool of this node's cluster. A node with a buffer looks from now on who else has one.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(config: PoolConfig) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            own: place::node(&config.identity),
            config,
            begun: Instant::now(),
            mates: Mutex::default(),
            members: Mutex::default(),
            asked: AtomicU64::new(0),
            stopping: Mutex::new(false),
            woken: Condvar::new(),
        });
        if let Some(buffer) = &shared.config.buffer {
            // Before the first file arrives.
            shared.share();
            let mates: Arc<dyn Mates> = Arc::clone(&shared) as Arc<dyn Mates>;
            buffer.join_pool(&mates);
            let looking = Arc::clone(&shared);
            let thread = Builder::new().name("gw-pool".to_owned());
            // No thread joins it: a look at a silent node takes seconds.
            thread.spawn(move || looking.follow())?;
        }
        Ok(Self(shared))
    }

    /// The buffers of the other nodes, for the API.
    pub(crate) fn mates(&self) -> Arc<dyn BufferMates> {
        Arc::clone(&self.0) as Arc<dyn BufferMates>
    }

    /// The buffer of this node, for the API.
    pub(crate) fn control(&self) -> Option<Arc<dyn BufferControl>> {
        self.0.config.control.clone()
    }

    /// The buffer of this node, for the other nodes.
    pub(crate) fn answers(&self) -> Arc<dyn AnswerBuffer> {
        Arc::clone(&self.0) as Arc<dyn AnswerBuffer>
    }

    /// Ends the looks at other nodes.
    pub(crate) fn stop(&self) {
        *lock(&self.0.stopping) = true;
        self.0.woken.notify_all();
    }
}

impl Mate {
    /// Whether the node is asked now to read files of an export. A node that lacks a file, and must not read it, is asked again.
    fn gives(&self, export: &str, now: Duration) -> bool {
        let refusals = lock(&self.refusals);
        let known = refusals.get(export);
        known.is_none_or(|known| known.may_ask(now))
    }

    fn handle_refused(&self, export: &str, now: Duration) {
        let mut refusals = lock(&self.refusals);
        let known = refusals.entry(export.to_owned()).or_default();
        known.handle_refused(now);
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Looks who is in the pool, until this node stops.
    fn follow(&self) {
        loop {
            self.look();
            let stopping = lock(&self.stopping);
            let waited = self
                .woken
                .wait_timeout_while(stopping, LOOK_EVERY, |stops| !*stops);
            let (stopping, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if *stopping {
                return;
            }
        }
    }

    fn look(&self) {
        self.share();
        let rows = self.others();
        let answers = self.ask_all(&rows, &BufferQuestion::View {}, LOOK_WITHIN);
        self.note(&rows, &answers, true);
        for (mate, _) in answers {
            mate.extents.trim();
        }
    }

    /// Notes who is in the pool by these answers. Only after a patient look a silent member is none.
    fn note(&self, rows: &[Node], answers: &[Answered], is_patient: bool) {
        let Some(buffer) = &self.config.buffer else {
            return;
        };
        let before = Arc::clone(&lock(&self.members));
        let mut members = Vec::new();
        for (row, (mate, answer)) in rows.iter().zip(answers) {
            let place = place::node(&row.identity);
            let room = match answer {
                Ok(BufferAnswer::View(view)) => {
                    lock(&mate.watch).handle_alive(self.now());
                    let shares = view.extent_bytes == u64::from(buffer.extent_bytes());
                    if shares { view.bytes_total / 10 * 9 } else { 0 }
                }
                _ => match before.iter().find(|member| member.place == place) {
                    // Only the loss of a member is news.
                    Some(_) if is_patient => {
                        self.blame(mate, Misdeed::Silent);
                        0
                    }
                    Some(member) => member.room,
                    None => 0,
                },
            };
            if room > 0 {
                members.push(Member {
                    mate: Arc::clone(mate),
                    place,
                    room,
                    exports: row.exports.clone(),
                });
            }
        }
        *lock(&self.members) = Arc::new(members);
        let is_there = |identity: &String| rows.iter().any(|row| row.identity == *identity);
        lock(&self.mates).retain(|identity, _| is_there(identity));
    }

    /// The other nodes of the cluster. A node that was removed has none.
    fn others(&self) -> Vec<Node> {
        let rows: Vec<Node> = self.config.replica.reader().objects().unwrap_or_default();
        let own = &self.config.identity;
        if !rows.iter().any(|row| row.identity == *own) {
            return Vec::new();
        }
        let others = rows.into_iter().filter(|row| row.identity != *own);
        others.take(NODES_MAX).collect()
    }

    /// The state of a node among `among` nodes.
    fn mate(&self, row: &Node, among: usize) -> Arc<Mate> {
        let peer = Peer {
            name: row.name.clone(),
            addresses: row.addresses.clone(),
            identity: row.identity.clone(),
        };
        let kept = EXTENTS.kept.max(KEPT_SHARED / among.max(1));
        let mut mates = lock(&self.mates);
        let mate = mates.entry(row.identity.clone()).or_insert_with(|| {
            Arc::new(Mate {
                name: row.name.clone(),
                peer: Mutex::new(peer.clone()),
                watch: Mutex::default(),
                refusals: Mutex::default(),
                extents: Flights::new(Bounds { kept, ..EXTENTS }),
                words: Flights::new(WORDS),
            })
        });
        let mate = Arc::clone(mate);
        drop(mates);
        *lock(&mate.peer) = peer;
        mate
    }

    /// Asks these nodes at once. All answers come within this time, in the order of the nodes.
    fn ask_all(&self, rows: &[Node], question: &BufferQuestion, within: Duration) -> Vec<Answered> {
        let until = Instant::now() + within;
        let begun: Vec<_> = rows
            .iter()
            .map(|row| {
                let mate = self.mate(row, rows.len());
                let flight = self.ask_one(&mate, question, until);
                (mate, flight)
            })
            .collect();
        let answers = begun.into_iter().map(|(mate, flight)| {
            let left = until.saturating_duration_since(Instant::now());
            let limits = Limits {
                silent: left,
                all: left,
            };
            let landed = flight.map(|flight| flight.wait(limits));
            let answer = match landed {
                Some(Landed::Here(answer)) => Ok((*answer).clone()),
                Some(Landed::Failed(reason)) => Err(reason),
                _ => Err(SILENT.to_owned()),
            };
            (mate, answer)
        });
        answers.collect()
    }

    fn ask_one(
        &self,
        mate: &Mate,
        question: &BufferQuestion,
        until: Instant,
    ) -> Option<Arc<Flight<BufferAnswer, String>>> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let sites = Arc::clone(&self.config.sites);
        let peer = lock(&mate.peer).clone();
        let unknown = question.unknown();
        let question = Question::Buffer(question.clone());
        let begun = mate.words.begin(number, false, move |_| {
            let answer = sites.ask(Some(&peer), &question, &mut |_| Instant::now() < until);
            match answer {
                Ok(Answer::Buffer(answer)) => Ok(answer),
                Ok(_) => Err(SILENT.to_owned()),
                Err(refusal) if refusal.code.known() == Some(code::INVALID) => {
                    unknown.ok_or_else(|| reason(&refusal).to_owned())
                }
                Err(refusal) => Err(reason(&refusal).to_owned()),
            }
        });
        match begun {
            Begun::Flies(flight) => Some(flight),
            Begun::Ready(_) | Begun::Full => None,
        }
    }

    /// Records a misdeed of a node. Logs the misdeed if it newly leaves the node out of the pool.
    fn blame(&self, mate: &Mate, misdeed: Misdeed) {
        let lasts = lock(&mate.watch).handle_fault(self.now(), misdeed);
        if let Some(lasts) = lasts {
            (self.config.log)(&format!(
                "buffer: the node {} is left out of the pool for {} s: {misdeed}",
                mate.name,
                lasts.as_secs()
            ));
        }
    }

    /// The name of the export whose files the buffer has under this name.
    fn export(&self, source: SourceId) -> Option<&str> {
        let mut exports = self.config.exports.iter();
        let found = exports.find(|(_, one)| *one == source);
        found.map(|(name, _)| &name[..])
    }

    /// The members that serve an export, have room for a file of this size, and are asked at present.
    fn serving<'a>(&self, members: &'a [Member], export: &str, bytes: u64) -> Vec<&'a Member> {
        let now = self.now();
        let serves = |member: &&Member| {
            let has = member.exports.iter().any(|name| name == export);
            has && member.room >= bytes && lock(&member.mate.watch).may_ask(now)
        };
        members.iter().filter(serves).collect()
    }

    /// The question about an extent, and further extents that the same node fills.
    fn question(
        &self,
        export: &str,
        file: &FileKey,
        wish: Wish,
        is_home: impl Fn(u64) -> bool,
    ) -> AskExtent {
        let each = self.config.buffer.as_ref().map_or(0, Buffer::extent_bytes);
        let later = (1..=LOOK_AHEAD).map(|number| wish.offset + number * u64::from(each));
        let later = later.take_while(|offset| wish.fill && *offset < file.generation.bytes);
        AskExtent {
            export: export.to_owned(),
            path: Text(file.path.clone()),
            bytes: file.generation.bytes,
            stamp: file.generation.stamp,
            offset: wish.offset,
            length: wish.bytes,
            from: 0,
            fill: wish.fill,
            keep_ms: match wish.keep_for {
                Duration::ZERO => None,
                keep_for => u64::try_from(keep_for.as_millis()).ok(),
            },
            next: later
                .filter(|offset| is_home(*offset))
                .take(NEXT_MAX / 2)
                .collect(),
        }
    }
}

impl Mates for Shared {
    fn fetch(&self, file: &Arc<FileKey>, wish: Wish) -> Fetched {
        let Some(export) = self.export(file.source) else {
            return Fetched::Own;
        };
        let members = Arc::clone(&lock(&self.members));
        let members = self.serving(&members, export, file.generation.bytes);
        let mut places = vec![self.own];
        places.extend(members.iter().map(|member| member.place));
        let name = place::file(export, file);
        let home = |offset| place::home(&places, name, offset);
        let at = home(wish.offset).and_then(|at| at.checked_sub(1));
        let Some(member) = at.and_then(|at| members.get(at)) else {
            return Fetched::Own;
        };
        let is_home = |offset| home(offset) == at.map(|at| at + 1);
        let asked = self.question(export, file, wish, is_home);
        let mate = &member.mate;
        if wish.fill && !mate.gives(export, self.now()) {
            return Fetched::Missed;
        }
        let (sites, peer) = (Arc::clone(&self.config.sites), lock(&mate.peer).clone());
        let key = Arc::clone(file);
        let name = (Arc::clone(file), wish.offset);
        let begun = mate.extents.begin(name, true, move |sign| {
            exchange::whole(&*sites, &peer, &asked, &key, EXTENT, sign)
        });
        let flight = match begun {
            Begun::Ready(extent) => return Fetched::Here(extent),
            Begun::Flies(flight) => flight,
            Begun::Full => return Fetched::Missed,
        };
        match flight.wait(EXTENT) {
            Landed::Here(extent) => {
                lock(&mate.watch).handle_good(self.now());
                lock(&mate.refusals).remove(export);
                return Fetched::Here(extent);
            }
            Landed::Failed(Fault::Did(misdeed)) => self.blame(mate, misdeed),
            Landed::Silent => self.blame(mate, Misdeed::Silent),
            Landed::Late => self.blame(mate, Misdeed::Slow),
            Landed::Failed(Fault::Refused) if wish.fill => mate.handle_refused(export, self.now()),
            Landed::Failed(Fault::Refused) | Landed::Waits => {}
        }
        Fetched::Missed
    }

    fn room(&self, source: SourceId) -> u64 {
        let Some(export) = self.export(source) else {
            return 0;
        };
        let members = Arc::clone(&lock(&self.members));
        let serving = self.serving(&members, export, 0);
        let rooms = serving.iter().map(|member| member.room);
        rooms.fold(0, u64::saturating_add)
    }
}

impl BufferMates for Shared {
    fn ask(&self, question: &BufferQuestion) -> Vec<(String, Result<BufferAnswer, String>)> {
        let within = match question {
            BufferQuestion::View {} => SHOWN_WITHIN,
            BufferQuestion::Files { .. } | BufferQuestion::Waiting { .. } => LISTED_WITHIN,
            _ => CHANGED_WITHIN,
        };
        let rows = self.others();
        let answers = self.ask_all(&rows, question, within);
        if matches!(question, BufferQuestion::View {}) {
            self.note(&rows, &answers, false);
        }
        answers
            .into_iter()
            .map(|(mate, answer)| (mate.name.clone(), answer))
            .collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

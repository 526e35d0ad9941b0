//! Decides how several scans of one source share what they read: which page is kept, and which scan reads, waits or takes.
//! Knows no contents, and has no clock, thread, lock or file.
//!
//! A **page** is a part of a scan under a key: names of a directory, or the metadata of some of them.
//!
//! - The first scan that needs a page reads it. Others wait for that read, for at most [`READER_WAIT`], and then read too.
//! - A page leaves when each destination that takes part has had it, or at the age of the bound. If room is needed, the oldest leaves.
//!   No scan waits for room. A scan that finds no page reads.
//! - A destination that comes back takes only pages whose reading began after its return. An older page is read again for all.
//! - An incomplete or failed reading is not kept, so each scan finds faults in the storage.

mod had;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

use self::had::Had;
use crate::destinations::{Mask, bit};
use crate::{AskId, Destination, ReadId};

/// A scan waits this long for the reader of a page, whose storage may hang. A page of 128 looks at a distant server takes some seconds.
pub const READER_WAIT: Duration = Duration::from_secs(10);

/// The most that is kept of scans.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PageBound {
    /// Bytes of kept pages.
    pub bytes: u64,
    /// Time after the beginning of its reading from which on a page is not taken.
    pub age: Duration,
}

/// The next act of a scan that needs a page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PageAnswer<B> {
    /// Take the page.
    Take(B),
    /// Read, then call [`PageHold::finish`] if there is a number. Without one, no other scan gets the page.
    Read(Option<ReadId>),
    /// Wait until woken, or until this time, then call [`PageHold::again`].
    Wait(AskId, Duration),
}

/// Figures of the pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PageFigures {
    /// Pages that scans read from storage.
    pub reads: u64,
    /// Those of `reads` that a scan had read before.
    pub again: u64,
    /// Pages that scans took.
    pub takes: u64,
    /// Bytes of pages that are kept now.
    pub kept_bytes: u64,
}

/// Pages of one source that several scans share. `K` is a key, `B` a cheap handle of contents.
#[derive(Debug)]
pub struct PageHold<K, B> {
    bound: PageBound,
    here: Mask,
    /// When the present attempt of each destination began.
    began: HashMap<Destination, Duration>,
    slots: HashMap<K, Slot>,
    /// Kept pages by number, the oldest first.
    pages: BTreeMap<u64, Page<K, B>>,
    reads: BTreeMap<ReadId, PageRead<K>>,
    asks: BTreeMap<AskId, PageQuestion<K>>,
    had: Had,
    held: u64,
    next: u64,
    woken: BTreeSet<AskId>,
    figures: PageFigures,
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    Reading(ReadId),
    Kept(u64),
}

#[derive(Debug)]
struct Page<K, B> {
    key: K,
    content: B,
    bytes: u64,
    /// Destinations that have not had it.
    wanted: Mask,
    /// When its reading began.
    began: Duration,
}

#[derive(Debug)]
struct PageRead<K> {
    key: K,
    began: Duration,
    waiting: BTreeSet<AskId>,
}

#[derive(Debug)]
struct PageQuestion<K> {
    who: Destination,
    /// No page whose reading began earlier is taken.
    since: Duration,
    key: K,
    read: ReadId,
}

impl<K: Clone + Eq + Hash, B: Clone> PageHold<K, B> {
    /// No pages.
    #[must_use]
    pub fn new(bound: PageBound) -> Self {
        Self {
            bound,
            here: 0,
            began: HashMap::new(),
            slots: HashMap::new(),
            pages: BTreeMap::new(),
            reads: BTreeMap::new(),
            asks: BTreeMap::new(),
            had: Had::default(),
            held: 0,
            next: 0,
            woken: BTreeSet::new(),
            figures: PageFigures::default(),
        }
    }

    /// A destination begins, perhaps again.
    pub fn join(&mut self, now: Duration, who: Destination) {
        if self.here & bit(who) == 0 && bit(who) != 0 {
            self.here |= bit(who);
            self.began.insert(who, now);
            self.had.forget(bit(who));
        }
    }

    /// A destination has ended, or begins again later.
    pub fn leave(&mut self, who: Destination) {
        self.here &= !bit(who);
        let left: Vec<u64> = self
            .pages
            .iter_mut()
            .filter_map(|(number, page)| {
                page.wanted &= !bit(who);
                (page.wanted == 0).then_some(*number)
            })
            .collect();
        for number in left {
            self.drop_page(number);
        }
        let own = self.asks.iter().filter(|(_, ask)| ask.who == who);
        self.woken.extend(own.map(|(id, _)| *id));
    }

    /// A scan of a destination needs a page.
    pub fn ask(&mut self, now: Duration, who: Destination, key: &K) -> PageAnswer<B> {
        self.ask_since(now, (who, Duration::ZERO), key)
    }

    /// Like [`PageHold::ask`], for a scan that takes no page whose reading began before `since`.
    pub fn ask_since(
        &mut self,
        now: Duration,
        (who, since): (Destination, Duration),
        key: &K,
    ) -> PageAnswer<B> {
        while let Some((number, page)) = self.pages.first_key_value()
            && self.is_old(now, page.began)
        {
            let number = *number;
            self.drop_page(number);
        }
        let began = self.began.get(&who).copied();
        let Some(began) = began.filter(|_| self.here & bit(who) != 0) else {
            return self.read(key, who, None);
        };
        let began = began.max(since);
        match self.slots.get(key).copied() {
            Some(Slot::Kept(number)) => match self.take(now, number, (who, began)) {
                Some(content) => return PageAnswer::Take(content),
                // The new page is as good for the others.
                None => self.drop_page(number),
            },
            Some(Slot::Reading(id)) => return self.wait(now, id, (who, began), key),
            None => {}
        }
        if self.here & !self.had.of(key) & !bit(who) == 0 {
            return self.read(key, who, None);
        }
        let id = ReadId(self.number());
        let read = PageRead {
            key: key.clone(),
            began: now,
            waiting: BTreeSet::new(),
        };
        self.reads.insert(id, read);
        self.slots.insert(key.clone(), Slot::Reading(id));
        self.read(key, who, Some(id))
    }

    /// A scan that waited asks again.
    pub fn again(&mut self, now: Duration, id: AskId) -> PageAnswer<B> {
        self.woken.remove(&id);
        let Some(asked) = self.asks.remove(&id) else {
            return PageAnswer::Read(None);
        };
        if let Some(read) = self.reads.get_mut(&asked.read) {
            read.waiting.remove(&id);
        }
        self.ask_since(now, (asked.who, asked.since), &asked.key)
    }

    /// A read has ended, with a page and its bytes unless it failed.
    pub fn finish(&mut self, id: ReadId, page: Option<(B, u64)>) {
        let Some(read) = self.reads.remove(&id) else {
            return;
        };
        self.woken.extend(&read.waiting);
        self.slots.remove(&read.key);
        let wanted = self.here & !self.had.of(&read.key);
        let Some((content, bytes)) = page.filter(|(_, bytes)| *bytes <= self.bound.bytes) else {
            return;
        };
        if wanted == 0 {
            return;
        }
        while self.held + bytes > self.bound.bytes
            && let Some((oldest, _)) = self.pages.first_key_value()
        {
            let oldest = *oldest;
            self.drop_page(oldest);
        }
        let number = self.number();
        self.held += bytes;
        self.slots.insert(read.key.clone(), Slot::Kept(number));
        let page = Page {
            key: read.key,
            content,
            bytes,
            wanted,
            began: read.began,
        };
        self.pages.insert(number, page);
    }

    /// The questions to ask again, each once.
    pub fn woken(&mut self) -> BTreeSet<AskId> {
        std::mem::take(&mut self.woken)
    }

    /// The figures so far.
    #[must_use]
    pub fn figures(&self) -> PageFigures {
        PageFigures {
            kept_bytes: self.held,
            ..self.figures
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn is_old(&self, now: Duration, began: Duration) -> bool {
        now.saturating_sub(began) >= self.bound.age
    }

    fn read(&mut self, key: &K, who: Destination, id: Option<ReadId>) -> PageAnswer<B> {
        self.figures.reads += 1;
        self.figures.again += u64::from(self.had.of(key) != 0);
        self.had.add(key, bit(who));
        PageAnswer::Read(id)
    }

    /// The page, unless it is too old for this destination.
    fn take(
        &mut self,
        now: Duration,
        number: u64,
        (who, began): (Destination, Duration),
    ) -> Option<B> {
        let page = self.pages.get(&number)?;
        if page.began < began || self.is_old(now, page.began) {
            return None;
        }
        let (content, key) = (page.content.clone(), page.key.clone());
        let wanted = page.wanted & !bit(who);
        self.had.add(&key, bit(who));
        self.figures.takes += 1;
        match self.pages.get_mut(&number) {
            Some(page) if wanted != 0 => page.wanted = wanted,
            _ => self.drop_page(number),
        }
        Some(content)
    }

    /// Waits for another reader, unless its read began too early, or takes too long.
    fn wait(
        &mut self,
        now: Duration,
        id: ReadId,
        (who, began): (Destination, Duration),
        key: &K,
    ) -> PageAnswer<B> {
        let ask = AskId(self.number());
        if let Some(read) = self.reads.get_mut(&id)
            && read.began >= began
            && now < read.began + READER_WAIT
        {
            read.waiting.insert(ask);
            let until = read.began + READER_WAIT;
            let asked = PageQuestion {
                who,
                since: began,
                key: key.clone(),
                read: id,
            };
            self.asks.insert(ask, asked);
            return PageAnswer::Wait(ask, until);
        }
        self.read(key, who, None)
    }

    fn drop_page(&mut self, number: u64) {
        if let Some(page) = self.pages.remove(&number) {
            self.slots.remove(&page.key);
            self.held = self.held.saturating_sub(page.bytes);
        }
    }
}

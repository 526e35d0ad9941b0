//! Owns the rights by which a question was let in: they are looked at again while its work lasts.
//! Decides nothing: the caller brings who may do what.

use std::cell::{Cell, RefCell};
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{Refusal, code};
use godwit_api::grant::Right;
use godwit_store::RelPath;

use super::here::May;

/// How often the rights are looked at: a fast disk removes some 100,000 files in this time.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A right that is missing is looked at once more after this time: a file of grants that is being written is empty for a moment.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The rights of one question.
pub(super) struct Held<'a> {
    may: &'a May<'a>,
    rights: RefCell<Vec<(String, RelPath, Right)>>,
    next: Cell<Instant>,
    ended: RefCell<Option<Refusal>>,
}

impl<'a> Held<'a> {
    pub(super) fn new(may: &'a May<'a>) -> Self {
        Self {
            may,
            rights: RefCell::default(),
            next: Cell::new(Instant::now() + LOOK_EVERY),
            ended: RefCell::default(),
        }
    }

    /// Whether the asker has a right, which the work then needs until its end.
    pub(super) fn may(&self, export: &str, path: &RelPath, right: Right) -> Result<(), Refusal> {
        (self.may)(export, path, right)?;
        let needed = (export.to_owned(), path.clone(), right);
        self.rights.borrow_mut().push(needed);
        Ok(())
    }

    /// Whether the asker still has the rights, as it was found a moment ago.
    pub(super) fn hold(&self) -> bool {
        if self.ended.borrow().is_some() {
            return false;
        }
        let now = Instant::now();
        if now < self.next.get() {
            return true;
        }
        self.next.set(now + LOOK_EVERY);
        if self.missing().is_none() {
            return true;
        }
        thread::sleep(LOOK_AGAIN_AFTER);
        let missing = self.missing();
        let holds = missing.is_none();
        *self.ended.borrow_mut() = missing;
        holds
    }

    /// Why the rights ended during the work, if they did.
    pub(super) fn ended(self) -> Option<Refusal> {
        let no = self.ended.into_inner()?;
        let message = format!(
            "the work was given up before its end, because the right to it ended: {}",
            no.message
        );
        Some(Refusal::new(code::GIVEN_UP, message))
    }

    /// While grants cannot be read, work that was let in goes on.
    fn missing(&self) -> Option<Refusal> {
        let rights = self.rights.borrow();
        let mut refused = rights
            .iter()
            .filter_map(|(export, path, right)| (self.may)(export, path, *right).err());
        refused.find(|no| [code::NOT_GRANTED, code::UNKNOWN_IDENTITY].contains(&no.code.as_str()))
    }
}

//! Owns the rights by which a question was admitted, and checks them again while its work runs.
//! Does not decide; the caller supplies the rights.

use std::cell::{OnceCell, RefCell};
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{Refusal, code};
use godwit_api::grant::Right;
use godwit_api::grant::lasting::{Lasting, Look, UNREAD_MAX};
use godwit_store::RelPath;

use super::here::May;

/// Reads the grants and returns a check of rights, so that all rights of a question are judged by
/// one reading.
pub(super) type ReadRights<'a> = dyn Fn() -> Result<Box<May<'a>>, Refusal> + 'a;

/// The rights of one question.
pub(super) struct Held<'a> {
    read: &'a ReadRights<'a>,
    first: OnceCell<Result<Box<May<'a>>, Refusal>>,
    rights: RefCell<Vec<(String, RelPath, Right)>>,
    lasting: RefCell<Lasting<Refusal>>,
}

impl<'a> Held<'a> {
    pub(super) fn new(read: &'a ReadRights<'a>) -> Self {
        Self {
            read,
            first: OnceCell::new(),
            rights: RefCell::default(),
            lasting: RefCell::new(Lasting::new(Instant::now())),
        }
    }

    /// Whether the asker has a right, which the work then needs until its end.
    pub(super) fn may(&self, export: &str, path: &RelPath, right: Right) -> Result<(), Refusal> {
        let may = self.first.get_or_init(|| (self.read)());
        may.as_ref().map_err(Refusal::clone)?(export, path, right)?;
        let needed = (export.to_owned(), path.clone(), right);
        self.rights.borrow_mut().push(needed);
        Ok(())
    }

    /// Whether the asker still had the rights at the latest check.
    pub(super) fn hold(&self) -> bool {
        self.hold_at(Instant::now(), &thread::sleep)
    }

    fn hold_at(&self, now: Instant, pause: &dyn Fn(Duration)) -> bool {
        let look = || self.look();
        self.lasting.borrow_mut().holds(now, &look, pause)
    }

    /// The reason why the rights ended during the work, if they did.
    pub(super) fn ended(self) -> Option<Refusal> {
        let (why, no) = match self.lasting.into_inner().take_end()? {
            Look::Holds => return None,
            Look::Gone(no) => ("the right to this place ended".to_owned(), no),
            Look::Unread(no) => {
                let seconds = UNREAD_MAX.as_secs();
                (format!("rights could not be read for {seconds} s"), no)
            }
        };
        let message = format!(
            "the work was stopped before its end, because {why}: {}",
            no.message
        );
        Some(Refusal::new(code::GIVEN_UP, message))
    }

    fn look(&self) -> Look<Refusal> {
        let may = match (self.read)() {
            Ok(may) => may,
            Err(no) => return Look::Unread(no),
        };
        let rights = self.rights.borrow();
        let refused = rights
            .iter()
            .filter_map(|(export, path, right)| may(export, path, *right).err());
        let mut unread = None;
        for no in refused {
            if no
                .code
                .is_one_of(&[code::NOT_GRANTED, code::UNKNOWN_IDENTITY])
            {
                return Look::Gone(no);
            }
            unread.get_or_insert(no);
        }
        unread.map_or(Look::Holds, Look::Unread)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn work_continues_for_a_bounded_time_while_rights_cannot_be_read() {
        let answer = Cell::new(None);
        let readings = Cell::new(0);
        let read = || -> Result<Box<May<'_>>, Refusal> {
            readings.set(readings.get() + 1);
            Ok(Box::new(|_, _, _| match answer.get() {
                None => Ok(()),
                Some(code) => Err(Refusal::new(code, format!("it is {code}"))),
            }))
        };
        let no_pause = |_| {};
        for (code, holds_for, says) in [
            (code::IO, UNREAD_MAX, "could not be read for 10 s: it is io"),
            (
                code::NOT_GRANTED,
                Duration::ZERO,
                "the right to this place ended",
            ),
        ] {
            answer.set(None);
            let held = Held::new(&read);
            readings.set(0);
            for _ in 0..100 {
                let allowed = held.may("data", &RelPath::root(), Right::Write);
                assert_eq!(allowed, Ok(()));
            }
            assert_eq!(readings.get(), 1, "one reading judges a list");
            answer.set(Some(code));
            let start = Instant::now();
            let second = Duration::from_secs(1);
            let looked = held.hold_at(start + second, &no_pause);
            assert_eq!(looked, !holds_for.is_zero(), "{code}");
            assert!(!held.hold_at(start + holds_for + second, &no_pause));
            let said = held.ended().expect("it ended");
            assert_eq!(said.code, code::GIVEN_UP);
            assert!(said.message.contains(says), "{said:?}");
        }
    }
}

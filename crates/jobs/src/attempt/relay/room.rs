//! Reserves the room for a relay before data moves: all bytes must fit besides those that other running jobs need. A relay without room waits
//! for these others, and says so.
//! Keeps no promise (`promises`), and moves no data.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::event::EventSink as _;
use godwit_api::failure::{Failure, FailureCode};
use godwit_api::rest::Place;
use godwit_api::units::human_size;
use godwit_state::{JobAmounts, JobState, Reason};

use super::{Checks, Ends, exported_path, kept};
use crate::attempt::lack;
use crate::attempt::promises::{FileSystem, Promise};
use crate::basis::documents;
use crate::basis::error::JobsError;
use crate::basis::relay::{self, Pair};
use crate::basis::words::clip;

/// Least room beyond the bytes of the files.
const MARGIN_MIN: u64 = 8 << 20;

/// How long a relay waits for room that others need. Then the source is next.
const WAITS_MAX: Duration = Duration::from_mins(10);

/// Between two looks at the free room.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Between two looks whether the attempt is to stop.
const STOP_EVERY: Duration = Duration::from_millis(100);

/// The room for the relay of these checks.
pub(super) struct Room<'a>(pub(super) &'a Checks<'a>);

impl Room<'_> {
    /// Reserves the room for all data. Refuses a taker that has no room even without the promises to others, if none of the data can be there
    /// yet and its site says how much is free.
    pub(super) fn reserve(&self, ends: &Ends) -> Result<(), Failure> {
        let this = &self.0.asking.this;
        let total = match ends.is_round {
            false => kept::total(&this.directory, &ends.giver.id),
            true => self.known_total(ends).map_err(Failure::local)?,
        };
        let Some(needed) = total else {
            return Ok(());
        };
        let left = relay::left(&this.reader(), &ends.taker).map_err(Failure::local)?;
        let is_empty = ends.taker.attempts == 0 && !left.is_some_and(|left| left.has_begun);
        let Some(at) = self.file_system(&ends.to) else {
            return Ok(());
        };
        let promise = Promise {
            at,
            bytes: needed.saturating_add(margin(needed)),
            arrived: self.brought_before(ends).map_err(Failure::local)?,
            relay: self.0.job.id.clone(),
        };
        self.wait_for_room(ends, &promise, is_empty)
    }

    /// Bytes of all files, as far as the running copies of the data set know; None before the first scan has ended.
    fn known_total(&self, ends: &Ends) -> Result<Option<u64>, JobsError> {
        let siblings = relay::siblings(&self.0.asking.this.reader(), &ends.taker)?;
        let live = &self.0.events.reports.live;
        let totals = siblings.unwrap_or_default().into_iter();
        let totals = totals.filter_map(|one| live.progress(&one.id)?.bytes_total);
        Ok(totals.max())
    }

    /// Bytes that rounds have brought before.
    fn brought_before(&self, ends: &Ends) -> Result<u64, JobsError> {
        let reader = self.0.asking.this.reader();
        let mut arrived = 0_u64;
        for (_, round) in relay::rounds(&reader, &ends.taker)? {
            if round.id != self.0.job.id {
                arrived = arrived.saturating_add(JobAmounts(&reader).of(&round.id)?.bytes);
            }
        }
        Ok(arrived)
    }

    /// Reserves the room once it is there.
    fn wait_for_room(&self, ends: &Ends, promise: &Promise, is_empty: bool) -> Result<(), Failure> {
        let live = &self.0.events.reports.live;
        let brought = |relay: &str| {
            let progress = live.progress(relay);
            progress.map_or(0, |progress| progress.moved.bytes)
        };
        let begun = Instant::now();
        let mut waits = false;
        loop {
            // Of a taker with a part of the data, nothing says how much is still to come.
            let free = if is_empty { self.free(ends) } else { None };
            let short = |promised: u64, free: u64| lacks(ends, promise.bytes, promised, free);
            if let Some(free) = free.filter(|free| *free < promise.bytes) {
                return Err(short(0, free));
            }
            let needs = match free {
                Some(_) => self.needed_by_jobs(&promise.at).map_err(Failure::local)?,
                None => 0,
            };
            let room = (free, needs);
            let reserved = live
                .promises
                .reserve(&ends.taker.id, promise.clone(), room, &brought);
            let Err(promised) = reserved else {
                if waits {
                    self.0.events.waits(None);
                }
                return Ok(());
            };
            let failure = short(promised, free.unwrap_or(0));
            if begun.elapsed() >= WAITS_MAX {
                return Err(failure);
            }
            if !waits {
                waits = true;
                self.0.events.note(&failure.message);
                let text = format!("{}.", failure.message);
                self.0
                    .events
                    .waits(Some(Reason::new(FailureCode::NoSpace, clip(&text))));
            }
            self.rest()?;
        }
    }

    /// Bytes that the running jobs without relays still bring to a file system.
    fn needed_by_jobs(&self, at: &FileSystem) -> Result<u64, JobsError> {
        let live = &self.0.events.reports.live;
        let reader = self.0.asking.this.reader();
        let mut needed = 0_u64;
        for (id, _) in live.all() {
            let progress = live.progress(&id);
            let left = progress.and_then(|one| Some(one.bytes_total?.saturating_sub(one.bytes)));
            // All bytes of a copy that is read back are there.
            let job = reader
                .job(&id)?
                .filter(|job| Pair::of(job).is_none() && job.state != JobState::Verifying);
            let (Some(left), Some(job)) = (left, job) else {
                continue;
            };
            let to = documents::parts(&job.destination)?;
            if !to.is_memory() && self.file_system(&to).as_ref() == Some(at) {
                needed = needed.saturating_add(left);
            }
        }
        Ok(needed)
    }

    /// Waits a moment, unless the attempt is to stop.
    fn rest(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        while begun.elapsed() < LOOK_EVERY {
            if self.0.control.is_cancelled() {
                let why = "stopped while the relay waited for room";
                return Err(Failure::new(FailureCode::Cancelled, why));
            }
            thread::sleep(STOP_EVERY);
        }
        Ok(())
    }

    /// Free bytes at the place of a taker; None if unknown.
    fn free(&self, ends: &Ends) -> Option<u64> {
        match ends.to.is_here() {
            true => self.0.exported.free_bytes(&exported_path(&ends.to)),
            false => lack::free_there(self.0.asking, self.0.job),
        }
    }

    /// The file system of a taker; None if an export here does not say which it is.
    fn file_system(&self, to: &Place) -> Option<FileSystem> {
        if !to.is_here() {
            return Some(FileSystem::Export {
                site: to.site.clone(),
                export: to.export.clone(),
            });
        }
        let real = self.0.exported.real(&Path::new("/").join(&to.export))?;
        let found = fs::metadata(Path::new(OsStr::from_bytes(&real))).ok()?;
        Some(FileSystem::Device(found.dev()))
    }
}

/// The failure of a relay whose taker has too little room, some of which others need.
fn lacks(ends: &Ends, needed: u64, promised: u64, free: u64) -> Failure {
    let promised = match promised {
        0 => String::new(),
        _ => format!(", of which other jobs need {}", human_size(promised)),
    };
    Failure::new(
        FailureCode::NoSpace,
        format!(
            "{} has no room: the data needs {}, and {} are free there{promised}",
            relay::words(&ends.taker),
            human_size(needed),
            human_size(free)
        ),
    )
}

/// Room beyond the bytes of the files: for directories, metadata and temporary names.
const fn margin(needed: u64) -> u64 {
    needed / 100 + MARGIN_MIN
}

//! Watches the free space of a destination, and stops an attempt that cannot fit.
//! Asks no other site: of a destination there it knows the room before the attempt, or the failed entries show the lack of space.
//!
//! The remaining need of an attempt is the size of all files without those that are done. This
//! estimate is too high while existing files are still being compared, and for files with holes. So
//! the lack has to last for a time, which doubles with each retry: an attempt that was stopped
//! wrongly gets further the next time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_api::event::Progress;
use godwit_run::local::ExportedFiles;

/// How long a shortage of space must last in the first attempt until the attempt ends.
const LASTS_MIN: Duration = Duration::from_secs(1);

/// Largest value that this time grows to in later attempts.
const LASTS_MAX: Duration = Duration::from_mins(10);

/// More room that is worth another attempt: the need is not known exactly.
const GROWTH_MIN: u64 = 8 << 20;

/// Shortest interval between two reads of the free space.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A lack of space at a destination.
#[derive(Clone, Debug)]
pub(crate) struct Shortage {
    /// The destination as the exports of this node know it; None for one at another site.
    pub(crate) path: Option<PathBuf>,
    /// The most that may still have to be written there.
    pub(crate) needed: u64,
    /// Bytes that were free there when the attempt ended.
    pub(crate) free: u64,
}

impl Shortage {
    /// Whether another attempt may succeed with this much free space: everything fits, or clearly more space is free than before.
    pub(crate) fn is_over(&self, free: u64) -> bool {
        free >= self.needed || free >= self.free.saturating_add(GROWTH_MIN)
    }
}

/// The room of a destination.
enum Room {
    /// In the exports of this node.
    Here(Arc<dyn ExportedFiles>, PathBuf),
    /// At another site, which said before the attempt that these bytes are free.
    There(u64),
}

/// The watch over one attempt.
pub(super) struct SpaceWatch {
    room: Room,
    lasts: Duration,
    looked: Option<Instant>,
    lacks_since: Option<Instant>,
    /// Size of all files, and the size of the finished ones, by the latest progress.
    sizes: Option<(u64, u64)>,
}

impl SpaceWatch {
    /// Watches the destination `path` of an attempt after `retries` earlier ones.
    pub(super) fn new(exports: Arc<dyn ExportedFiles>, path: PathBuf, retries: u32) -> Self {
        Self::of(Room::Here(exports, path), retries)
    }

    /// Watches a destination at another site, where `free` bytes were free before the attempt.
    pub(super) fn there(free: u64, retries: u32) -> Self {
        Self::of(Room::There(free), retries)
    }

    fn of(room: Room, retries: u32) -> Self {
        let factor = 1_u32.checked_shl(retries).unwrap_or(u32::MAX);
        Self {
            room,
            lasts: LASTS_MIN.saturating_mul(factor).min(LASTS_MAX),
            looked: None,
            lacks_since: None,
            sizes: None,
        }
    }

    /// Whether the attempt cannot fit and is to be stopped.
    pub(super) fn is_short(&mut self, progress: &Progress, now: Instant) -> bool {
        let Some(total) = progress.bytes_total else {
            return false;
        };
        let needed = total.saturating_sub(progress.bytes);
        self.sizes = Some((total, progress.bytes));
        if self
            .looked
            .is_some_and(|then| now.duration_since(then) < LOOK_EVERY)
        {
            return false;
        }
        self.looked = Some(now);
        let lacks = self.free_bytes().is_some_and(|free| free < needed);
        if !lacks {
            self.lacks_since = None;
            return false;
        }
        let since = *self.lacks_since.get_or_insert(now);
        now.duration_since(since) >= self.lasts
    }

    /// The lack of space now. At the end of an attempt files that failed count as done, so `delivered` counts instead.
    pub(super) fn shortage(&self, delivered: Option<u64>) -> Option<Shortage> {
        let (total, done) = self.sizes?;
        let needed = total.saturating_sub(delivered.unwrap_or(done));
        let free = self.free_bytes()?;
        let path = match &self.room {
            Room::Here(_, path) => Some(path.clone()),
            // The attempt itself may have used up what was free.
            Room::There(_) if free >= needed => return None,
            Room::There(_) => None,
        };
        Some(Shortage { path, needed, free })
    }

    fn free_bytes(&self) -> Option<u64> {
        match &self.room {
            Room::Here(exports, path) => exports.free_bytes(path),
            Room::There(free) => Some(*free),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use godwit_run::local::{Access, DestinationPlace, LocalError, LocalSource};

    use super::*;

    /// An export with this free space and no other fact.
    struct Export(AtomicU64);

    impl ExportedFiles for Export {
        fn source(&self, _: &Path, _: Access) -> Result<LocalSource, LocalError> {
            unreachable!("nobody reads")
        }

        fn destination(&self, _: &Path, _: Access) -> Result<DestinationPlace, LocalError> {
            unreachable!("nobody writes")
        }

        fn free_bytes(&self, _: &Path) -> Option<u64> {
            Some(self.0.load(Ordering::Relaxed))
        }
    }

    fn progress(bytes: u64, total: Option<u64>) -> Progress {
        Progress {
            bytes,
            bytes_total: total,
            ..Progress::default()
        }
    }

    #[test]
    fn only_a_lack_that_lasts_stops_an_attempt() {
        let room = Arc::new(Export(AtomicU64::new(50)));
        let began = Instant::now();
        let after = |millis| began + Duration::from_millis(millis);
        let mut watch = SpaceWatch::new(Arc::clone(&room) as _, "/e/d".into(), 1);
        assert!(
            !watch.is_short(&progress(0, None), after(0)),
            "unknown size"
        );
        assert!(!watch.is_short(&progress(0, Some(100)), after(0)));
        // The comparison finds existing files a moment later.
        assert!(!watch.is_short(&progress(60, Some(100)), after(1_900)));
        assert!(!watch.is_short(&progress(60, Some(200)), after(3_000)));
        assert!(!watch.is_short(&progress(60, Some(200)), after(4_900)));
        assert!(watch.is_short(&progress(60, Some(200)), after(5_200)));
        let short = watch.shortage(None).expect("short");
        assert_eq!((short.needed, short.free), (140, 50));
        // Much more room than before is worth an attempt, even if less than needed.
        let over = [139, 140, 50 + GROWTH_MIN].map(|free| short.is_over(free));
        assert_eq!(over, [false, true, true]);
        let short = watch.shortage(Some(5)).expect("short");
        assert_eq!(short.needed, 195);
        room.0.store(140, Ordering::Relaxed);
        assert!(!watch.is_short(&progress(60, Some(200)), after(6_000)));
    }

    #[test]
    fn a_lack_at_another_site_is_that_before_the_attempt() {
        let began = Instant::now();
        let after = |millis| began + Duration::from_millis(millis);
        let mut watch = SpaceWatch::there(50, 0);
        assert!(!watch.is_short(&progress(0, Some(100)), after(0)));
        assert!(watch.is_short(&progress(10, Some(100)), after(1_100)));
        let short = watch.shortage(None).expect("short");
        assert_eq!((short.path, short.needed, short.free), (None, 90, 50));
        // The rest would have fitted, so the site has to be asked again.
        assert!(watch.shortage(Some(60)).is_none());
    }

    #[test]
    fn each_retry_waits_twice_as_long() {
        let room = Arc::new(Export(AtomicU64::new(0)));
        let lasts = [0, 1, 4, 40]
            .map(|retries| SpaceWatch::new(Arc::clone(&room) as _, "/e/d".into(), retries).lasts);
        assert_eq!(lasts.map(|time| time.as_secs()), [1, 2, 16, 600]);
    }
}

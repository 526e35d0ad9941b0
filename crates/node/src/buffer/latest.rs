//! Owns how long the figures of the transfer buffer count before the next look at all its slots.
//! Reads no buffer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use godwit_api::rest::BufferView;

/// Figures count this long for each slot. A look walks over all slots, and transfers wait for its lock. So looks of any number of callers, strangers
/// among them, take a small part of the time. The figures of a million slots count for 0.2 s.
const COUNT_FOR_EACH: Duration = Duration::from_nanos(200);

/// The latest figures, and until when they count.
#[derive(Default)]
pub(super) struct Latest(Mutex<Option<(Instant, BufferView)>>);

impl Latest {
    /// The latest figures; those of a new look if they count no longer. Of simultaneous callers one looks.
    pub(super) fn get(&self, now: Instant, look: impl FnOnce() -> BufferView) -> BufferView {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, view)) = &*latest
            && now < *until
        {
            return view.clone();
        }
        let view = look();
        let slots = view.bytes_total / view.extent_bytes.max(1);
        let counts = COUNT_FOR_EACH.saturating_mul(u32::try_from(slots).unwrap_or(u32::MAX));
        *latest = Some((now + counts, view.clone()));
        view
    }

    /// The figures have changed by a request of a user, who looks next.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_callers_looks_at_a_large_buffer_a_few_times_a_second() {
        let latest = Latest::default();
        let view = |slots: u64| BufferView {
            extent_bytes: 4,
            bytes_total: 4 * slots,
            ..BufferView::default()
        };
        let begin = Instant::now();
        let mut looks = 0;
        for milliseconds in 0..1_000 {
            let now = begin + Duration::from_millis(milliseconds);
            let seen = latest.get(now, || {
                looks += 1;
                view(1_000_000)
            });
            assert_eq!(seen.bytes_total, 4_000_000);
        }
        assert_eq!(looks, 5);
        // A change shows at once, and a small buffer is always looked at.
        latest.forget();
        let late = begin + Duration::from_secs(1);
        for slots in 1..10 {
            let now = late + Duration::from_millis(slots);
            assert_eq!(latest.get(now, || view(slots)), view(slots));
        }
    }
}

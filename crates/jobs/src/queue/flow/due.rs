//! Decides when the next run of a hop starts, from what is so now.
//! Reads no state and no clock, and knows no other hop than the one before.

use godwit_api::rest::{Amount, Timestamp};

/// The shortest pause between two runs of a hop, in milliseconds, so that files that arrive together are passed on together.
const PAUSE: i64 = 1_000;

/// The latest run of a hop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Latest {
    /// There was none.
    Never,
    /// It runs, waits or is paused.
    Open,
    /// It has ended.
    Ended {
        /// When it was submitted.
        started: Timestamp,
        /// When it ended.
        at: Timestamp,
        /// It failed, or was cancelled.
        failed: bool,
    },
}

/// The facts about a hop that decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) latest: Latest,
    /// Whether there is something to read: the hop before has moved a file, or has ended a run that was complete.
    pub(crate) has_source: bool,
    /// Amount that the hop before has moved; None for the first hop.
    pub(crate) arrived: Option<Amount>,
    /// The same when the latest run was submitted.
    pub(crate) seen: Amount,
    /// The longest pause between two runs, in milliseconds.
    pub(crate) every: i64,
}

/// When the next run of a hop starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// At once.
    Now,
    /// At this time, or earlier if files arrive.
    At(Timestamp),
    /// After the end of the latest one.
    AfterLatest,
    /// When the hop before has moved something.
    AfterOther,
}

/// When the next run starts. A scan of a large place takes long, so a hop pauses as long as its latest run took.
pub(crate) fn next(facts: &Facts, at: Timestamp) -> Next {
    let (started, ended, failed) = match facts.latest {
        Latest::Open => return Next::AfterLatest,
        Latest::Never if facts.has_source => return Next::Now,
        Latest::Never => return Next::AfterOther,
        Latest::Ended {
            started,
            at,
            failed,
        } => (started, at, failed),
    };
    let every = facts.every.max(PAUSE);
    let took = ended.0.saturating_sub(started.0).clamp(PAUSE, every);
    let pause = match failed {
        false if has_news(facts) => took,
        _ => every,
    };
    let due = Timestamp(ended.0.saturating_add(pause));
    // The clock was set back.
    let is_set = at < ended;
    match is_set || due <= at {
        true => Next::Now,
        false => Next::At(due),
    }
}

/// Whether files have arrived since the latest run was submitted.
fn has_news(facts: &Facts) -> bool {
    let arrived = facts.arrived.unwrap_or_default();
    arrived.files > facts.seen.files
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVERY: i64 = 60_000;

    fn amount(files: u64) -> Amount {
        Amount {
            files,
            bytes: files,
        }
    }

    fn ended(started: i64, at: i64, failed: bool) -> Latest {
        Latest::Ended {
            started: Timestamp(started),
            at: Timestamp(at),
            failed,
        }
    }

    fn facts(latest: Latest, arrived: Option<u64>, seen: u64) -> Facts {
        Facts {
            latest,
            has_source: arrived != Some(0),
            arrived: arrived.map(amount),
            seen: amount(seen),
            every: EVERY,
        }
    }

    #[test]
    fn a_hop_begins_with_the_first_file_and_continues_with_the_next() {
        let at = |facts: Facts, at: i64| next(&facts, Timestamp(at));
        assert_eq!(at(facts(Latest::Never, None, 0), 0), Next::Now);
        assert_eq!(at(facts(Latest::Never, Some(0), 0), 0), Next::AfterOther);
        assert_eq!(at(facts(Latest::Never, Some(1), 0), 0), Next::Now);
        assert_eq!(at(facts(Latest::Open, Some(9), 0), 0), Next::AfterLatest);
        let short = |failed| ended(10_000, 10_200, failed);
        // Nothing new: the interval.
        let idle = facts(short(false), Some(3), 3);
        assert_eq!(at(idle, 11_200), Next::At(Timestamp(70_200)));
        assert_eq!(at(idle, 70_200), Next::Now);
        // News: after a pause as long as the run, at least a second.
        let news = facts(short(false), Some(4), 3);
        assert_eq!(at(news, 11_199), Next::At(Timestamp(11_200)));
        assert_eq!(at(news, 11_200), Next::Now);
        let long = facts(ended(0, 20_000, false), Some(4), 3);
        assert_eq!(at(long, 39_999), Next::At(Timestamp(40_000)));
        let longer = facts(ended(0, 900_000, false), Some(4), 3);
        assert_eq!(at(longer, 900_001), Next::At(Timestamp(960_000)));
        // A failure waits for the interval.
        let failed = facts(short(true), Some(4), 3);
        assert_eq!(at(failed, 11_200), Next::At(Timestamp(70_200)));
        // The first hop has none before.
        let first = facts(short(false), None, 0);
        assert_eq!(at(first, 70_199), Next::At(Timestamp(70_200)));
        // The clock was set back, and may stay so.
        assert_eq!(at(idle, 10_199), Next::Now);
    }

    /// A hop of a simulated flow: files are numbers below a count.
    #[derive(Clone, Debug)]
    struct Hop {
        latest: Latest,
        /// Files at its destination.
        moved: u64,
        /// Files at its source when the open run began, and when it ends.
        open: Option<(u64, i64, bool)>,
        seen: u64,
        complete: bool,
    }

    /// Lengths and outcomes of runs.
    #[derive(Clone, Copy, Debug)]
    struct Run {
        takes: i64,
        fails: bool,
    }

    fn run() -> impl Strategy<Value = Run> {
        (1..40_000_i64, proptest::bool::weighted(0.3))
            .prop_map(|(takes, fails)| Run { takes, fails })
    }

    /// Runs a flow for some time by steps of a second. `check` sees each decision.
    fn simulate(
        hops: &mut [Hop],
        files: &[u64],
        run_of: &mut dyn FnMut(usize) -> Run,
        seconds: std::ops::Range<i64>,
        check: &mut dyn FnMut(usize, &Facts, Next, i64),
    ) {
        for second in seconds {
            let at = second * 1_000;
            let at_source = usize::try_from(second)
                .ok()
                .and_then(|second| files.get(second));
            let first = at_source.or_else(|| files.last()).copied().unwrap_or(0);
            for number in 0..hops.len() {
                let before = number.checked_sub(1).map(|before| hops[before].clone());
                let source = before.as_ref().map_or(first, |before| before.moved);
                let hop = &mut hops[number];
                if let Some((carries, until, fails)) = hop.open.filter(|(_, until, _)| *until <= at)
                {
                    let started = match hop.latest {
                        Latest::Ended { started, .. } => started,
                        _ => Timestamp(until),
                    };
                    // A run that fails has moved a part.
                    let moved = if fails { carries / 2 } else { carries };
                    hop.moved = hop.moved.max(moved);
                    hop.complete |= !fails;
                    hop.open = None;
                    hop.latest = Latest::Ended {
                        started,
                        at: Timestamp(until),
                        failed: fails,
                    };
                }
                let facts = Facts {
                    latest: match hop.open {
                        Some(_) => Latest::Open,
                        None => hop.latest,
                    },
                    has_source: before
                        .as_ref()
                        .is_none_or(|before| before.complete || before.moved > 0),
                    arrived: before.as_ref().map(|before| amount(before.moved)),
                    seen: amount(hop.seen),
                    every: EVERY,
                };
                let next = next(&facts, Timestamp(at));
                check(number, &facts, next, at);
                if next == Next::Now {
                    let run = run_of(number);
                    hop.seen = before.as_ref().map_or(0, |before| before.moved);
                    hop.open = Some((source, at + run.takes, run.fails));
                    hop.latest = ended(at, at, false);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever fails on the way: no hop has two runs, and all files arrive once nothing fails any more.
        #[test]
        fn all_files_arrive_once_nothing_fails(
            came in proptest::collection::vec(0..4_u64, 1..200),
            odd in proptest::collection::vec(run(), 1..40),
            even in proptest::collection::vec(1..40_000_i64, 1..40),
        ) {
            let files: Vec<u64> = came
                .iter()
                .scan(0, |sum, new| { *sum += new; Some(*sum) })
                .collect();
            let all = files.last().copied().unwrap_or(0);
            let hop = Hop { latest: Latest::Never, moved: 0, open: None, seen: 0, complete: false };
            let mut hops = vec![hop; 3];
            let mut wrong = Vec::new();
            let mut check = |number: usize, facts: &Facts, next: Next, at: i64| {
                let may = facts.latest != Latest::Open && (facts.has_source || facts.latest != Latest::Never);
                if next == Next::Now && !may {
                    wrong.push(format!("hop {number} at {at}: {facts:?}"));
                }
                // A hop waits for no longer than the interval, and no time is in the past.
                if let Next::At(due) = next
                    && !(at < due.0 && due.0 <= at + EVERY)
                {
                    wrong.push(format!("hop {number} at {at}: due {due:?}"));
                }
            };
            let mut odd = odd.into_iter().cycle();
            let mut some = |_: usize| odd.next().unwrap_or(Run { takes: 1, fails: false });
            simulate(&mut hops, &files, &mut some, 0..600, &mut check);
            let mut even = even.into_iter().cycle();
            let mut good = |_: usize| Run { takes: even.next().unwrap_or(1), fails: false };
            // Each hop: the end of an open run, a pause, and a run.
            simulate(&mut hops, &files, &mut good, 600..1_200, &mut check);
            prop_assert!(wrong.is_empty(), "{:?}", wrong);
            prop_assert_eq!(hops.last().map(|hop| hop.moved), Some(all));
        }

        /// A hop that fails again and again changes nothing for the hops before it.
        #[test]
        fn a_failure_is_no_matter_of_the_hops_before(
            came in proptest::collection::vec(0..4_u64, 1..200),
            takes in 1..40_000_i64,
        ) {
            let files: Vec<u64> = came
                .iter()
                .scan(0, |sum, new| { *sum += new; Some(*sum) })
                .collect();
            let hop = Hop { latest: Latest::Never, moved: 0, open: None, seen: 0, complete: false };
            let [mut with, mut without] = [vec![hop.clone(); 2], vec![hop; 1]];
            let mut run_of = |number: usize| Run { takes, fails: number > 0 };
            let mut starts = [Vec::new(), Vec::new()];
            let [of_two, of_one] = &mut starts;
            simulate(&mut with, &files, &mut run_of, 0..300, &mut |number, _, next, at| {
                if number == 0 && next == Next::Now {
                    of_two.push(at);
                }
            });
            simulate(&mut without, &files, &mut run_of, 0..300, &mut |_, _, next, at| {
                if next == Next::Now {
                    of_one.push(at);
                }
            });
            prop_assert_eq!(&starts[0], &starts[1]);
        }
    }
}

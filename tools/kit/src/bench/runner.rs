//! Owns the order of runs: contenders take turns, disturbed runs are repeated, destinations are removed. Makes no comparisons.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::case::{Case, Kind, Storage};
use super::contender::{Contender, Job, Outcome, RUN_LIMIT, Stage, prepare};
use super::data::{Arrival, Set, remove};
use super::machine::Ticks;
use super::place::Place;
use super::process::TooLong;
use super::rates::Rates;
use super::spent::{Spent, timed};
use super::world::World;

/// A run during which the host used a larger share of the processors for others is discarded.
pub(crate) const STEAL_MAX: f64 = 0.05;
/// Largest number of runs of one contender in one round; a last run that was disturbed counts in no pair.
pub(crate) const ATTEMPTS_MAX: u32 = 4;

/// A contender that takes this many times as long as the subject in the warm-up is measured once: at this distance a median gives no
/// better proof.
const SLOW: f64 = 5.0;
/// Below this duration, five runs are quick enough.
const SLOW_SECONDS_MIN: f64 = 3.0;
/// A contender is stopped if it takes longer than this many times the subject's time, and longer than the minimum below.
pub(crate) const GIVEN_UP: f64 = 30.0;
const GIVEN_UP_AFTER_MIN: Duration = Duration::from_secs(60);

/// One run with its measurements; reports have all runs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    /// Number of the round; round 0 warms up and does not count.
    pub(crate) round: u32,
    /// Share of the machine's time that the host used for others, 0 to 1.
    pub(crate) steal: f64,
    /// Whether the run counts.
    pub(crate) counts: bool,
    #[serde(flatten)]
    pub(crate) rates: Rates,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// All runs of a contender in a case.
#[derive(Debug, Serialize)]
pub(crate) struct Track {
    pub(crate) contender: Kind,
    pub(crate) title: String,
    pub(crate) commands: String,
    /// Bytes that the contender moves.
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) samples: Vec<Sample>,
    /// The contender was stopped: it took [`GIVEN_UP`] times as long as the subject.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) given_up: bool,
    /// The reason why the contender does not take part, or no longer does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

impl Track {
    /// The runs that count.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.counts)
    }

    /// The figures by round, from the first round that counts.
    pub(crate) fn by_round(
        &self,
        rounds: u32,
        figure: &dyn Fn(&Sample) -> f64,
    ) -> Vec<Option<f64>> {
        let of = |round| self.counted().find(|sample| sample.round == round);
        (1..=rounds).map(|round| of(round).map(figure)).collect()
    }

    /// The largest memory of its source and of its destination.
    pub(crate) fn peak_bytes(&self) -> Option<[u64; 2]> {
        let peaks = self.counted().map(|sample| {
            let Outcome {
                source,
                destination,
                ..
            } = &sample.outcome;
            [source.peak_rss_bytes, destination.peak_rss_bytes]
        });
        peaks.reduce(|most, next| std::array::from_fn(|side| most[side].max(next[side])))
    }
}

/// The data sets of a case: its main load, and the load beside it.
pub(crate) struct Sets {
    pub(crate) main: Set,
    pub(crate) beside: Option<Set>,
}

impl Sets {
    /// Removes the data sets.
    pub(crate) fn remove(&self) -> anyhow::Result<()> {
        let all = std::iter::once(&self.main).chain(&self.beside);
        all.into_iter().try_for_each(Set::remove)
    }

    fn of(&self, kind: Kind) -> &Set {
        match &self.beside {
            Some(beside) if kind.moves_beside() => beside,
            _ => &self.main,
        }
    }
}

/// Runs a case: a warm-up round, then `rounds` in which each contender runs once.
///
/// # Errors
/// The user interrupts, or the place itself fails. A contender that fails is recorded and omitted.
pub(crate) fn run(
    case: &Case,
    rounds: u32,
    wanted: &dyn Fn(Kind) -> bool,
    sets: &Sets,
    stage: &Stage,
    world: &mut World,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<(Vec<Track>, Spent)> {
    let place = Place::make(&stage.place, case.line.as_ref(), &stage.programs);
    let place = Rc::new(place.context("cannot make the place of the case")?);
    let mut tracks = Vec::new();
    let mut contenders: Vec<Option<Box<dyn Contender>>> = Vec::new();
    for kind in case.contenders().into_iter().filter(|&kind| wanted(kind)) {
        let (contender, commands, failure) = match prepare(kind, case, stage, &place, world) {
            Ok(contender) => {
                let commands = contender.commands(case);
                (Some(contender), commands, None)
            }
            Err(error) => (None, String::new(), Some(format!("{error:#}"))),
        };
        let set = sets.of(kind);
        tracks.push(Track {
            contender: kind,
            title: case.title_of(kind),
            commands,
            bytes: set.bytes,
            files: set.names,
            samples: Vec::new(),
            given_up: false,
            failure,
        });
        contenders.push(contender);
    }
    // A case about memory needs one round and no warm-up: its time does not matter.
    let rounds = if case.rss_max.is_some() {
        1..=1
    } else {
        0..=rounds
    };
    let mut patience = Patience::default();
    let mut copy = None;
    let mut spent = Spent::default();
    for round in rounds {
        // The order rotates, so that no contender always follows the same other. The warm-up round keeps the order, because the subject's
        // time sets the time limits of the others.
        let first = round as usize % tracks.len().max(1);
        for at in (first..tracks.len()).chain(0..first) {
            let (track, slot) = (&mut tracks[at], &mut contenders[at]);
            world.check()?;
            let Some(contender) = slot else { continue };
            if patience.is_enough(track, round) {
                continue;
            }
            let turn = Turn {
                case,
                round,
                set: sets.of(track.contender),
                limit: patience.limit(),
            };
            let result = turn.take(&mut **contender, track, &mut copy, world, &mut spent);
            patience.note(case, track);
            if let Err(error) = result {
                world.check()?;
                // The failed contender may have changed the copy.
                let left: Option<PathBuf> = copy.take();
                left.as_deref().map_or(Ok(()), remove)?;
                track.given_up = error.is::<TooLong>() && track.contender != case.subject;
                track.failure = Some(why(&error, track.contender));
                *slot = None;
            }
            let name = &track.title;
            match (&track.failure, track.samples.last()) {
                (Some(failure), _) => say(&format!("  {name}: {failure}")),
                (None, Some(last)) => {
                    say(&format!(
                        "  round {round}, {name}: {:.3} s",
                        last.outcome.seconds
                    ));
                }
                (None, None) => {}
            }
        }
    }
    let left = copy.as_deref();
    timed(&mut spent.removing, || left.map_or(Ok(()), remove))?;
    Ok((tracks, spent))
}

/// The text for a failed contender in a table: the error, and the known cause if its time was over.
fn why(error: &anyhow::Error, contender: Kind) -> String {
    let mut why = format!("{error:#}");
    if let Kind::Peer(peer) = contender
        && let Some(slow) = peer.slow.as_ref().filter(|_| error.is::<TooLong>())
    {
        why += &format!(": {slow}");
    }
    why
}

/// Copies the source, as a first run does.
fn fill(into: &Path, source: Option<&Path>) -> anyhow::Result<()> {
    let source = source.context("this load is no file")?;
    let status = Command::new("cp")
        .arg("-a")
        .arg(source)
        .arg(into)
        .status()?;
    ensure!(status.success(), "cp: {status}");
    Ok(())
}

/// Time limits of the other contenders, based on the time of the subject.
#[derive(Default)]
struct Patience {
    subject_seconds: Option<f64>,
}

impl Patience {
    fn note(&mut self, case: &Case, track: &Track) {
        if track.contender == case.subject {
            let last = track.samples.last().map(|sample| sample.outcome.seconds);
            self.subject_seconds = last.or(self.subject_seconds);
        }
    }

    /// Whether a slow contender has been measured often enough.
    fn is_enough(&self, track: &Track, round: u32) -> bool {
        let first = track.samples.first().map(|sample| sample.outcome.seconds);
        let is_slow = self
            .subject_seconds
            .zip(first)
            .is_some_and(|(subject, first)| first > SLOW_SECONDS_MIN && first > SLOW * subject);
        is_slow && round > 1 && track.counted().next().is_some()
    }

    fn limit(&self) -> Duration {
        self.subject_seconds.map_or(RUN_LIMIT, |subject| {
            let many = Duration::from_secs_f64(GIVEN_UP * subject);
            many.clamp(GIVEN_UP_AFTER_MIN, RUN_LIMIT)
        })
    }
}

/// One contender's work in one round.
struct Turn<'a> {
    case: &'a Case,
    round: u32,
    set: &'a Set,
    limit: Duration,
}

impl Turn<'_> {
    /// Repeats the run until one was undisturbed, or no attempts are left. The copy for second runs is made once for a case, in `copy`: no
    /// run changes it.
    fn take(
        &self,
        contender: &mut dyn Contender,
        track: &mut Track,
        copy: &mut Option<PathBuf>,
        world: &mut World,
        spent: &mut Spent,
    ) -> anyhow::Result<()> {
        let &Self {
            case,
            round,
            set,
            limit,
        } = self;
        for _ in 0..ATTEMPTS_MAX {
            let into = match copy {
                Some(copy) => copy.clone(),
                None => world.destination(case.storage == Storage::DiskWrite)?,
            };
            timed(&mut spent.preparing, || {
                if case.again && copy.is_none() {
                    fill(copy.insert(into.clone()), set.path.as_deref())?;
                }
                match case.storage {
                    Storage::Memory => {}
                    Storage::DiskRead => set.cool()?,
                    // The disk gets the space of the last copy back when its journal is written, which must not happen during the run.
                    Storage::DiskWrite => rustix::fs::syncfs(std::fs::File::open(&into)?)?,
                }
                // This is the last preparation, and the same for all contenders.
                world.warm(case.warm_bytes(set.load))?;
                anyhow::Ok(())
            })?;
            let before = Ticks::now()?;
            let job = Job {
                case,
                load: set.load,
                set,
                source: set.path.as_deref(),
                into: &into,
                limit,
                world,
            };
            let outcome = timed(&mut spent.running, || contender.run(&job));
            let steal = Ticks::now()?.stolen_since(before);
            let first = track.samples.is_empty();
            let arrived = outcome.and_then(|outcome| {
                if case.moves() {
                    let arrival = contender.arrival();
                    timed(&mut spent.checking, || check(set, &into, arrival, first))?;
                }
                Ok(outcome)
            });
            if copy.is_none() {
                timed(&mut spent.removing, || remove(&into))?;
            }
            let quiet = steal <= STEAL_MAX;
            let counts = quiet && round > 0;
            let outcome = arrived?;
            let sides = [outcome.source, outcome.destination];
            track.samples.push(Sample {
                round,
                steal,
                counts,
                rates: Rates::of(set.bytes, set.names, outcome.seconds, sides),
                outcome,
            });
            if quiet {
                break;
            }
        }
        Ok(())
    }
}

/// Checks the copy, outside the measured time: contents once for each contender and case, sizes always.
fn check(set: &Set, into: &Path, arrival: Arrival, first: bool) -> anyhow::Result<()> {
    if set.path.is_none() || arrival == Arrival::Nothing {
        return Ok(());
    }
    set.check(into)?;
    if first && arrival == Arrival::Contents {
        set.compare(into)?;
    }
    Ok(())
}

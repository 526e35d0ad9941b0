//! Owns the order of runs: contenders take turns, disturbed runs are repeated, destinations are removed.
//! Judges nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::case::{Case, Kind};
use super::contender::{Contender, Job, Outcome, Programs, prepare};
use super::machine::Ticks;
use super::world::World;

/// A run during which the host took more of the processors than this is discarded.
const STEAL_MAX: f64 = 0.05;
/// Runs of one contender in one round; the last one counts in no pair if it was disturbed too.
const ATTEMPTS_MAX: u32 = 4;

/// One run as it was; none is thrown away unseen.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    /// 0 warms up and does not count.
    pub(crate) round: u32,
    /// Part of the machine's time that others took, 0 to 1.
    pub(crate) steal: f64,
    /// Whether it counts.
    pub(crate) counts: bool,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// All runs of a contender in a case.
#[derive(Debug, Serialize)]
pub(crate) struct Track {
    pub(crate) contender: Kind,
    pub(crate) commands: String,
    pub(crate) samples: Vec<Sample>,
    /// Why it takes no part, or no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

impl Track {
    /// The runs that count.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.counts)
    }

    /// Seconds by round, from the first that counts.
    pub(crate) fn seconds(&self, rounds: u32) -> Vec<Option<f64>> {
        let of = |round| self.counted().find(|sample| sample.round == round);
        (1..=rounds)
            .map(|round| of(round).map(|sample| sample.outcome.seconds))
            .collect()
    }
}

/// Runs a case: a round to warm up, then `rounds` in which everybody takes a turn.
///
/// # Errors
/// On interruption, or when the place itself fails. A contender that fails is recorded and left out.
pub(crate) fn run(
    case: &Case,
    rounds: u32,
    wanted: &dyn Fn(Kind) -> bool,
    source: Option<&Path>,
    programs: &Programs,
    world: &mut World,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Track>> {
    let mut tracks = Vec::new();
    let mut contenders: Vec<Option<Box<dyn Contender>>> = Vec::new();
    for kind in case.contenders().into_iter().filter(|&kind| wanted(kind)) {
        let (contender, commands, failure) = match prepare(kind, case, programs, world) {
            Ok(contender) => {
                let commands = contender.commands(case.class);
                (Some(contender), commands, None)
            }
            Err(error) => (None, String::new(), Some(format!("{error:#}"))),
        };
        tracks.push(Track {
            contender: kind,
            commands,
            samples: Vec::new(),
            failure,
        });
        contenders.push(contender);
    }
    // What is measured once needs no warmth: its time is not what is asked.
    let rounds = if case.rss_max.is_some() {
        1..=1
    } else {
        0..=rounds
    };
    for round in rounds {
        for (track, slot) in tracks.iter_mut().zip(&mut contenders) {
            world.check()?;
            let Some(contender) = slot else { continue };
            if let Err(error) = turn(case, round, source, &mut **contender, track, world) {
                world.check()?;
                track.failure = Some(format!("{error:#}"));
                *slot = None;
            }
            let name = track.contender.name();
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
    Ok(tracks)
}

/// Copies the source, as a first run would.
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

/// One turn: runs until one was not disturbed, or the attempts are used up.
fn turn(
    case: &Case,
    round: u32,
    source: Option<&Path>,
    contender: &mut dyn Contender,
    track: &mut Track,
    world: &mut World,
) -> anyhow::Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        let into = world.destination()?;
        if case.again {
            fill(&into, source)?;
        }
        let before = Ticks::now()?;
        let outcome = contender.run(&Job {
            case,
            source,
            into: &into,
            world,
        });
        let steal = Ticks::now()?.stolen_since(before);
        let arrived = outcome.and_then(|outcome| {
            if case.moves() {
                case.load.check(&into)?;
            }
            Ok(outcome)
        });
        fs::remove_dir_all(&into)?;
        let quiet = steal <= STEAL_MAX;
        let counts = quiet && round > 0;
        track.samples.push(Sample {
            round,
            steal,
            counts,
            outcome: arrived?,
        });
        if quiet {
            break;
        }
    }
    Ok(())
}

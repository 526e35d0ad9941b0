//! Owns one turn: its network, the flows that start and end in it, and the observations during it. Makes no
//! comparisons.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::super::contender::{Stage, command};
use super::super::data::{Set, remove};
use super::super::machine::Ticks;
use super::super::place::{CableSpec, Place, PlaceSpec};
use super::super::process::Side;
use super::super::runner::STEAL_MAX;
use super::super::world::World;
use super::flow::{RunningFlow, Surroundings, Trace};
use super::row::{Cut, Net, Row, Turn};
use super::series::Series;
use super::watch;

/// Interval between observations.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Packet size of cables: the usual default.
const CABLE_MTU: u16 = 1500;
/// Prefix of the names of cable devices.
const CABLE: &str = "cable";

/// Record of a turn.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Course {
    pub(super) title: String,
    pub(super) flows: Vec<Trace>,
    /// Bytes that each cable has carried, with all headers, by the name of its device.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) cables: BTreeMap<String, Series>,
    /// Processor seconds that the emulator used per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line_cpu: Option<f64>,
    /// Share of the machine's time that the host used for others, 0 to 1.
    pub(super) steal: f64,
    /// Whether the turn was undisturbed.
    pub(super) counts: bool,
    pub(super) seconds: f64,
}

/// Runs a turn of `row`.
///
/// # Errors
/// The network of the turn cannot be made, or a flow fails.
pub(super) fn run(
    row: &Row,
    turn: &Turn,
    set: Option<&Set>,
    stage: &Stage,
    world: &World,
) -> anyhow::Result<Course> {
    let scratch = world.scratch("wan")?;
    let course = run_in(&scratch, row, turn, set, stage, world);
    remove(&scratch)?;
    course
}

fn run_in(
    scratch: &Path,
    row: &Row,
    turn: &Turn,
    set: Option<&Set>,
    stage: &Stage,
    world: &World,
) -> anyhow::Result<Course> {
    let place = Rc::new(network(row, turn, stage)?);
    let mut flows = Vec::new();
    for (number, flow) in turn.flows.iter().enumerate() {
        let around = Surroundings {
            programs: &stage.programs,
            place: &place,
            scratch: scratch.join(number.to_string()),
            set: set.filter(|_| super::flow::load(flow).is_some()),
        };
        flows.push(RunningFlow::prepare(flow, &around).context(flow.title.clone())?);
    }
    let before = Ticks::now()?;
    let line_before = place.line_cpu_seconds();
    let mut cables = BTreeMap::new();
    let mut cutting = turn.cut.map(Cutting::new);
    let started = Instant::now();
    let over = |flows: &mut Vec<RunningFlow<'_>>, cables: &mut BTreeMap<_, _>| {
        let seen = watch::connections(place.at(Side::Source, command("ss")));
        if let Some(pid) = flows.iter().find_map(RunningFlow::pid) {
            watch::devices(pid, CABLE, started.elapsed().as_secs_f64(), cables);
        }
        let mut over = true;
        for flow in flows.iter_mut() {
            over &= flow.step(started, &seen)?;
        }
        anyhow::Ok(over)
    };
    while !over(&mut flows, &mut cables)? {
        world.check()?;
        if let Some(cutting) = &mut cutting {
            cutting.step(started.elapsed().as_secs_f64(), &place)?;
        }
        if let Some(flow) = flows.first() {
            flow.wait(LOOK_EVERY)?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let line = place.line_cpu_seconds().zip(line_before);
    let steal = Ticks::now()?.stolen_since(before);
    let mut traces = Vec::new();
    for flow in flows {
        let moves = super::flow::load(flow.flow).is_some();
        traces.push(flow.finish(set.filter(|_| moves))?);
    }
    Ok(Course {
        title: turn.title.clone(),
        flows: traces,
        cables,
        line_cpu: line.map(|(after, before)| (after - before) / seconds),
        steal,
        counts: steal <= STEAL_MAX,
        seconds,
    })
}

fn network(row: &Row, turn: &Turn, stage: &Stage) -> anyhow::Result<Place> {
    let place = match row.net {
        Net::Line(line) => Place::make(&stage.place, Some(&line), &stage.programs),
        Net::Cables(count, rates) => {
            let cables = CableSpec {
                count,
                rate: Some(rates.to_owned()),
                mtu: CABLE_MTU,
            };
            Place::make(&PlaceSpec::Namespaces(cables), None, &stage.programs)
        }
    };
    let place = place.context("cannot make the network of the row")?;
    if let Some([send, receive]) = turn.buffer_bytes_max {
        for side in [Side::Source, Side::Destination] {
            for (name, first, max) in [("wmem", 16 << 10, send), ("rmem", 128 << 10, receive)] {
                let mut sysctl = command("sysctl");
                sysctl.arg("-qw");
                sysctl.arg(format!("net.ipv4.tcp_{name}=4096 {first} {max}"));
                let output = place.at(side, sysctl).output()?;
                let error = String::from_utf8_lossy(&output.stderr);
                ensure!(output.status.success(), "sysctl: {}", error.trim());
            }
        }
    }
    Ok(place)
}

/// A cable that is disconnected and reconnected.
struct Cutting {
    cut: Cut,
    is_up: bool,
}

impl Cutting {
    fn new(cut: Cut) -> Self {
        Self { cut, is_up: true }
    }

    fn step(&mut self, now: f64, place: &Place) -> anyhow::Result<()> {
        let wanted = !(self.cut.from..self.cut.until).contains(&now);
        if wanted != self.is_up {
            place.set_carrier(self.cut.cable, wanted)?;
            self.is_up = wanted;
        }
        Ok(())
    }
}

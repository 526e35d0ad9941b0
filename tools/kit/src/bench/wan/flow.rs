//! Owns one running flow: its server, its client, and the output of both. Does not observe the flow from outside: `watch`
//! does.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::super::contender::{Godwit, Programs, command, free_port, require};
use super::super::data::{Load, Set};
use super::super::place::Place;
use super::super::process::{Process, Side, Usage};
use super::super::rates::Rates;
use super::super::world::World;
use super::disk::SlowDisk;
use super::judge;
use super::row::{Flow, What, Who};
use super::series::Series;
use super::watch::{Connections, Seen};

/// The environment that a flow needs to start.
pub(super) struct Surroundings<'a> {
    pub(super) programs: &'a Programs,
    pub(super) place: &'a Rc<Place>,
    /// Directory for this flow only.
    pub(super) scratch: PathBuf,
    /// Files to move, if the flow moves files.
    pub(super) set: Option<&'a Set>,
}

/// A running flow.
pub(super) struct RunningFlow<'a> {
    pub(super) flow: &'a Flow,
    /// The port of the flow's server.
    port: u16,
    server: Process,
    client: Option<Process>,
    /// The files with the output of client and server.
    said: [PathBuf; 2],
    /// The client's command.
    pending: Option<Command>,
    pub(super) commands: String,
    began: f64,
    ended: Option<f64>,
    seen: Seen,
    into: Option<PathBuf>,
    /// The disk to which the data is written; it must exist longer than the server.
    _disk: Option<SlowDisk>,
}

/// Record of a flow.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Trace {
    pub(super) title: String,
    pub(super) commands: String,
    /// The times in seconds when the flow began and ended.
    pub(super) began: f64,
    pub(super) ended: f64,
    /// Whether the flow ended without a signal.
    pub(super) complete: bool,
    /// Bytes that had arrived at the other end, as the program reports.
    pub(super) arrived: Series,
    #[serde(flatten)]
    pub(super) seen: Seen,
    pub(super) source: Usage,
    pub(super) destination: Usage,
    /// The rates of the whole flow.
    #[serde(flatten)]
    pub(super) rates: Rates,
    /// The final summary of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<Value>,
    /// The decisions and messages of the program, with its progress at each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<Value>,
}

/// Files with the output of client and server.
const SAID: [&str; 2] = ["said-by-client", "said-by-server"];
/// Largest number of stored events of one flow.
const EVENTS_MAX: usize = 2000;

impl<'a> RunningFlow<'a> {
    /// Starts the server, and prepares the client.
    ///
    /// # Errors
    /// A program is missing or does not start.
    pub(super) fn prepare(flow: &'a Flow, around: &Surroundings<'_>) -> anyhow::Result<Self> {
        fs::create_dir_all(&around.scratch)?;
        match &flow.who {
            Who::Iperf {
                streams,
                cable,
                congestion,
            } => Self::iperf(flow, around, *streams, *cable, *congestion),
            Who::Godwit { what, options, .. } => Self::godwit(flow, around, *what, options),
        }
    }

    fn iperf(
        flow: &'a Flow,
        around: &Surroundings<'_>,
        streams: u32,
        cable: u8,
        congestion: Option<&'static str>,
    ) -> anyhow::Result<Self> {
        require("iperf3")?;
        let place = around.place;
        let [near, far] = [Side::Source, Side::Destination].map(|side| {
            let all = place.addresses(side);
            let of_cable = all.split(',').nth(usize::from(cable));
            of_cable.unwrap_or_else(|| place.address(side)).to_owned()
        });
        let port = free_port()?;
        let said = SAID.map(|end| around.scratch.join(end));
        let mut server = command("iperf3");
        server.args(["-s", "-1", "-J", "-i", "0.25", "-B", &far, "-p"]);
        server.arg(port.to_string());
        let mut server = place.at(Side::Destination, server);
        server.stdout(File::create(&said[1])?);
        let server = Process::start("iperf3 -s", Side::Destination, server, false)?;
        server.wait_until_it_listens(port)?;
        let mut client = command("iperf3");
        let seconds = (flow.until - flow.from).ceil().max(1.0);
        client.args(["-c", &far, "-B", &near, "-p", &port.to_string()]);
        client.args(["-P", &streams.to_string(), "-t", &seconds.to_string()]);
        client.args(congestion.iter().flat_map(|name| ["-C", name]));
        let commands = format!("iperf3 -c ADDR -P {streams} -t {seconds}");
        let congestion = congestion.map_or_else(String::new, |name| format!(" -C {name}"));
        let mut client = place.at(Side::Source, client);
        client.stdout(File::create(&said[0])?);
        Ok(Self {
            flow,
            port,
            server,
            client: None,
            said,
            pending: Some(client),
            commands: commands + &congestion,
            began: 0.0,
            ended: None,
            seen: Seen::default(),
            into: None,
            _disk: None,
        })
    }

    fn godwit(
        flow: &'a Flow,
        around: &Surroundings<'_>,
        what: What,
        options: &[&'static str],
    ) -> anyhow::Result<Self> {
        let Surroundings {
            programs,
            place,
            scratch,
            set,
        } = around;
        let godwit = Godwit::prepare(programs, place, scratch)?;
        let mut into = scratch.join("into");
        fs::create_dir_all(&into)?;
        let mut disk = None;
        if let What::SlowDisk { bytes, rate } = what {
            let made = SlowDisk::make(scratch, bytes, rate)?;
            into = made.path().to_owned();
            disk = Some(made);
        }
        let files = set.and_then(|set| set.path.as_deref());
        let side = flow.who.client();
        let exported = match (side, files) {
            (Side::Destination, Some(path)) => path.parent().context("no parent")?,
            _ => into.as_path(),
        };
        // All cables lead to this address.
        let listen = match &***place {
            Place::Cables(_) => "0.0.0.0",
            _ => place.address(side.other()),
        };
        let (server, listening) = godwit.serve(side.other(), listen, exported, false)?;
        let port = listening.rsplit_once(':').context("no port")?.1.parse()?;
        let address = format!("{}:{port}", place.address(side.other()));
        godwit.trust(&address)?;
        let said = SAID.map(|end| scratch.join(end));
        let mut client = godwit.client();
        client.args(["cp", "--json"]).args(options);
        let text = |path| Path::to_str(path).context("a path that is no text");
        let paths = match files {
            Some(files) => Some([text(files)?, text(&into)?]),
            None => None,
        };
        client.args(words(side, &address, what, paths)?);
        let shown = words(side, "ADDR", what, paths.map(|_| ["SRC", "DEST"]))?;
        let shown = shown.each_ref().map(|word| &**word);
        let commands = [&["godwit cp"], options, &shown].concat().join(" ");
        let mut client = place.at(side, client);
        client.stdout(File::create(&said[0])?);
        Ok(Self {
            flow,
            port,
            server,
            client: None,
            said,
            pending: Some(client),
            commands,
            began: 0.0,
            ended: None,
            seen: Seen::default(),
            into: files.is_some().then_some(into),
            _disk: disk,
        })
    }

    /// Starts and ends the flow at its times, and records observations. Returns whether the flow has ended.
    pub(super) fn step(&mut self, started: Instant, seen: &Connections) -> anyhow::Result<bool> {
        let now = || started.elapsed().as_secs_f64();
        if self.ended.is_some() {
            return Ok(true);
        }
        if let Some(pending) = self.pending.take_if(|_| now() >= self.flow.from) {
            self.began = now();
            let title = &self.flow.title;
            let side = self.flow.who.client();
            self.client = Some(Process::start(title, side, pending, false)?);
        }
        let Some(client) = &mut self.client else {
            return Ok(false);
        };
        client.sample();
        self.server.sample();
        // iperf3 ends without a signal, a little later than the time, and its first connection has no data.
        let (patience, idle) = match self.flow.who {
            Who::Iperf { .. } => (20.0, 1),
            Who::Godwit { .. } => (0.0, 0),
        };
        let server = (self.flow.who.client().other(), self.port);
        let rtts = seen.get(&server).map_or(&[][..], Vec::as_slice);
        let rtts = rtts.get(idle..).unwrap_or_default();
        self.seen.add(now(), rtts, &[client, &self.server]);
        if client.has_ended()? || now() >= self.flow.until + patience {
            self.ended = Some(now());
        }
        Ok(self.ended.is_some())
    }

    /// Waits for `limit`, or until the client ends.
    pub(super) fn wait(&self, limit: Duration) -> anyhow::Result<()> {
        if let Some(client) = &self.client
            && self.ended.is_none()
        {
            client.wait(limit)?;
        } else {
            std::thread::sleep(limit);
        }
        Ok(())
    }

    /// A process in the namespace of the sending end.
    pub(super) fn pid(&self) -> Option<u32> {
        match self.flow.who.client() {
            Side::Source => self.client.as_ref().map(Process::id),
            Side::Destination => Some(self.server.id()),
        }
    }

    /// Stops the remaining processes and reads their output.
    ///
    /// # Errors
    /// The flow failed, or the arrived data differs from the sent data.
    pub(super) fn finish(mut self, set: Option<&Set>) -> anyhow::Result<Trace> {
        let mut client = self.client.take().context("it never began")?;
        let complete = client.has_ended()?;
        let mut usages = [client.usage(), self.server.usage()];
        if self.flow.who.client() == Side::Destination {
            usages.reverse();
        }
        let [source, destination] = usages;
        let status = client.collect()?;
        client.settle();
        let said = fs::read_to_string(&self.said[0]).unwrap_or_default();
        let quoted = || {
            let last: Vec<&str> = said.lines().rev().take(3).collect();
            format!("{} {}", client.last_lines(), last.join(" | "))
        };
        ensure!(
            status.success() || !complete,
            "{} ended with {status}: {}",
            self.flow.title,
            quoted()
        );
        let ended = self.ended.unwrap_or(self.flow.until);
        let mut trace = Trace {
            title: self.flow.title.clone(),
            commands: self.commands.clone(),
            began: self.began,
            ended,
            complete,
            arrived: Series::default(),
            seen: std::mem::take(&mut self.seen),
            source,
            destination,
            rates: Rates::default(),
            summary: None,
            events: Vec::new(),
        };
        match self.flow.who {
            Who::Iperf { .. } => {
                // The server of iperf3 ends with its test.
                self.server.wait(Duration::from_secs(10))?;
                self.server.collect()?;
                trace.take_iperf(&self.said[1])?;
            }
            Who::Godwit { .. } => trace.take_godwit(&said),
        }
        ensure!(trace.arrived.bytes() > 0.0, "nothing arrived: {}", quoted());
        if let (Some(set), Some(into)) = (set, &self.into) {
            ensure!(complete, "not done after {:.0} s", self.flow.until);
            set.check(into)?;
        }
        trace.rates = trace.come_to(set.map_or(0, |set| set.names));
        Ok(trace)
    }
}

impl Trace {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of bytes"
    )]
    fn come_to(&self, files: u64) -> Rates {
        let bytes = self.arrived.bytes() as u64;
        let seconds = judge::until(self) - self.began;
        Rates::of(bytes, files, seconds, [self.source, self.destination])
    }

    fn take_iperf(&mut self, path: &Path) -> anyhow::Result<()> {
        let text = fs::read(path)?;
        let report: Value = serde_json::from_slice(&text).context("iperf3 -s said no JSON")?;
        let mut bytes = 0.0;
        let mut series = Series::default();
        series.add(0.0, 0.0);
        for interval in report["intervals"].as_array().into_iter().flatten() {
            let sum = &interval["sum"];
            bytes += sum["bytes"].as_f64().unwrap_or(0.0);
            series.add(sum["end"].as_f64().unwrap_or(0.0), bytes);
        }
        self.summary = report.get("end").map(|end| end["sum_received"].clone());
        self.arrived = series.later_by(self.began);
        Ok(())
    }

    fn take_godwit(&mut self, said: &str) {
        let mut series = Series::default();
        series.add(0.0, 0.0);
        for line in said.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let at = event["seconds"].as_f64();
            match (event["event"].as_str(), at.zip(event["bytes"].as_f64())) {
                (Some("progress"), Some((at, bytes))) => {
                    series.add(at, bytes);
                }
                (Some("summary"), place) => {
                    let whole = event["status"] == "complete";
                    if let Some((at, bytes)) = place.filter(|_| whole) {
                        series.add(at, bytes);
                    }
                    self.summary = Some(event);
                    continue;
                }
                _ => {}
            }
            if self.events.len() < EVENTS_MAX {
                self.events.push(event);
            }
        }
        self.arrived = series.later_by(self.began);
    }
}

/// Source and destination of a copy in the form of its client's command line; the client is at `side`. `paths` are the files,
/// and the directory in which they arrive.
fn words(
    side: Side,
    address: &str,
    what: What,
    paths: Option<[&str; 2]>,
) -> anyhow::Result<[String; 2]> {
    let there = |place: &str| format!("godwit://{address}/{place}");
    let memory = match what {
        What::Endless => Some("mem:1PiB".to_owned()),
        What::Memory { bytes } => Some(format!("mem:{bytes}")),
        What::Files { .. } | What::SlowDisk { .. } => None,
    };
    Ok(match (memory, side) {
        (Some(memory), Side::Source) => [memory, there("null:")],
        (Some(memory), Side::Destination) => [there(&memory), "null:".to_owned()],
        (None, side) => {
            let [files, into] = paths.context("no files")?;
            let name = files.rsplit('/').next().unwrap_or(files);
            match side {
                Side::Source => [files.to_owned(), there("data/")],
                Side::Destination => [there(&format!("data/{name}")), format!("{into}/")],
            }
        }
    })
}

/// The load of a flow that moves files.
pub(super) fn load(flow: &Flow) -> Option<Load> {
    let Who::Godwit { what, .. } = &flow.who else {
        return None;
    };
    match *what {
        What::Files { files, bytes } => Some(Load::Files {
            files,
            bytes,
            directories: if files > 1 { files.div_ceil(1000) } else { 0 },
        }),
        What::SlowDisk { bytes, .. } => Some(Load::Files {
            files: 1,
            bytes,
            directories: 0,
        }),
        What::Endless | What::Memory { .. } => None,
    }
}

/// Makes the files of a row's flows; all flows move the same files.
pub(super) fn make_set(
    flows: &[&Flow],
    programs: &Programs,
    world: &World,
) -> anyhow::Result<Option<Set>> {
    let Some(load) = flows.iter().find_map(|flow| load(flow)) else {
        return Ok(None);
    };
    let parent = world.root().join("wan-source");
    fs::create_dir(&parent)?;
    Set::make(load, &parent, programs, world).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_names_the_other_end_and_its_own_as_it_sees_them() {
        let files = What::Files { files: 1, bytes: 9 };
        let paths = Some(["/from/set", "/into"]);
        let words = |side, what, paths| words(side, "host:7", what, paths).expect("files");
        assert_eq!(
            words(Side::Source, files, paths),
            ["/from/set", "godwit://host:7/data/"]
        );
        assert_eq!(
            words(Side::Destination, files, paths),
            ["godwit://host:7/data/set", "/into/"]
        );
        let some = What::Memory { bytes: 5 };
        assert_eq!(
            words(Side::Source, some, None),
            ["mem:5", "godwit://host:7/null:"]
        );
        assert_eq!(
            words(Side::Destination, some, None),
            ["godwit://host:7/mem:5", "null:"]
        );
    }
}

//! `godwit cp --each` and `sync --each`: one source, several destinations, and a transfer to each of them in this process.
//! Runs no transfer itself: the runner does. The shared reads decide which transfer reads the source.

mod exports;
mod outcome;
mod places;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use godwit_api::endpoint::Endpoint;
use godwit_api::event::EventSink;
use godwit_api::job::{Imposed, JOB_VERSION, JobKind, JobSpec, Text};
use godwit_api::settings::{CpSettings, Order};
use godwit_node::{cores, signals};
use godwit_run::{
    Control, DESTINATIONS_MAX, Env, NameList, Process, Runner, SharedReads, read_selection,
};

use self::outcome::{Done, report_all};
use super::copy::{endpoints, plain_env, refuse_reports};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::list;
use crate::output::{Log, Output, To};
use crate::running::{Steered, StopsWhenFull};

/// How often the command looks for signals and for ended transfers.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Least memory for the blocks of one destination: the least value of `--memory`.
const MEMORY_LEAST: u64 = 8 << 20;

/// The transfer to one destination, before it runs.
struct Copy {
    name: String,
    spec: JobSpec,
    settings: CpSettings,
}

/// The transfer to one destination.
struct DestinationTransfer {
    name: String,
    control: Control,
    thread: Option<JoinHandle<Done>>,
}

/// Runs the transfers to all destinations.
pub(super) fn run(
    kind: JobKind,
    settings: &CpSettings,
    matches: &ArgMatches,
    home: &Home,
    started: Instant,
) -> Result<Exit, Failure> {
    let mut copies = describe(kind, settings, matches)?;
    for copy in &copies {
        refuse_one(copy)?;
    }
    let specs: Vec<&JobSpec> = copies.iter().map(|copy| &copy.spec).collect();
    places::refuse(&specs, settings, home)?;
    let shared = SharedReads::new(settings.memory_bytes / 2, copies.len());
    // Before the mask of file modes is cleared: the log belongs to the user.
    let outputs = outputs(settings, &copies, &shared, started)?;
    let umask = godwit_sys::umask::clear();
    let signalled = Arc::new(AtomicBool::new(false));
    let prepared = read_selection(&settings.selection).and_then(|selection| {
        for copy in &mut copies {
            copy.spec.selection.clone_from(&selection);
        }
        let list = list::open(&settings.selection, home)?;
        // Before any thread is started.
        cores::restrict(settings.threads, &settings.pin)?;
        signals::watch(&signalled)
            .map_err(|error| Failure::local(format!("signals cannot be handled: {error}")))?;
        Ok(list)
    });
    let list = prepared?;
    let surroundings = Surroundings {
        process: Process::with_pool(settings.memory_bytes),
        home,
        started,
        umask,
        list,
        shared: &shared,
    };
    let mut running = Vec::with_capacity(copies.len());
    for (number, (copy, output)) in copies.into_iter().zip(outputs).enumerate() {
        running.push(begin(&surroundings, number, copy, output)?);
    }
    let done = wait(running, &signalled);
    let figures = (&shared.figures(), &shared.scanned());
    Ok(report_all(&done, figures, settings.json))
}

/// The provisions that all destinations share.
struct Surroundings<'a> {
    process: Process,
    home: &'a Home,
    started: Instant,
    umask: u32,
    list: Option<NameList>,
    shared: &'a SharedReads,
}

/// The typed jobs, without their selection.
fn describe(
    kind: JobKind,
    settings: &CpSettings,
    matches: &ArgMatches,
) -> Result<Vec<Copy>, Failure> {
    let command = match kind {
        JobKind::Sync => "sync",
        _ => "cp",
    };
    let mut destinations = endpoints(matches)?;
    if destinations.len() < 3 {
        return Err(Failure::usage(format!(
            "--each takes one source and at least two destinations: godwit {command} --each SOURCE DESTINATION DESTINATION..."
        )));
    }
    let source = destinations.remove(0);
    if destinations.len() > DESTINATIONS_MAX {
        return Err(Failure::usage(format!(
            "{} destinations: --each takes at most {DESTINATIONS_MAX}",
            destinations.len()
        )));
    }
    let here = match &source {
        Endpoint::Local(_) | Endpoint::Memory { .. } => None,
        Endpoint::Stdio => Some("standard input is read once, by one transfer"),
        Endpoint::Null => Some("nothing can be read from it"),
        Endpoint::Remote(_) | Endpoint::Ssh(_) => {
            Some("it is on another machine; run the command on that machine")
        }
    };
    if let Some(why) = here {
        return Err(Failure::usage(format!(
            "{}: --each reads a source of this machine, and {why}",
            shown(&source)
        )));
    }
    if destinations.contains(&Endpoint::Stdio) {
        return Err(Failure::usage(
            "-: with --each, standard output is no destination, because it has the messages of all destinations",
        ));
    }
    if settings.order == Order::Random {
        return Err(Failure::usage(
            "--order random: with --each, all destinations read in the order of the source; leave out --order random",
        ));
    }
    let memory = (settings.memory_bytes / 2 / destinations.len() as u64).max(MEMORY_LEAST);
    let jobs = destinations
        .into_iter()
        .enumerate()
        .map(|(number, destination)| {
            let mut spec = JobSpec {
                version: JOB_VERSION,
                kind,
                sources: vec![source.clone()],
                destination,
                settings: JobSpec::settings_of(&settings.given),
                selection: None,
                member: None,
                items: Vec::new(),
                imposed: Imposed::default(),
            };
            spec.settings.insert(
                "memory".to_owned(),
                vec![Text(memory.to_string().into_bytes())],
            );
            for name in ["manifest", "failed"] {
                // The word is no file, and each copy has a history below it.
                if name == "manifest" && settings.reports.ascmhl.is_some() {
                    continue;
                }
                for file in spec.settings.get_mut(name).into_iter().flatten() {
                    file.0.extend(format!(".{}", number + 1).bytes());
                }
            }
            let mut own = spec.copy_settings().map_err(Failure::usage)?;
            // A description has no place for these.
            own.selection.clone_from(&settings.selection);
            own.reports.log_file.clone_from(&settings.reports.log_file);
            Ok(Copy {
                name: shown(&spec.destination),
                spec,
                settings: own,
            })
        });
    jobs.collect()
}

/// The endpoint as typed.
fn shown(endpoint: &Endpoint) -> String {
    String::from_utf8_lossy(&endpoint.to_text()).into_owned()
}

/// Refuses the transfer to one destination if its settings or reports contradict each other.
fn refuse_one(copy: &Copy) -> Result<(), Failure> {
    let Copy { spec, settings, .. } = copy;
    let is_listed = settings.selection.files_from.is_some();
    godwit_run::check(settings, is_listed, &spec.sources, &spec.destination)?;
    refuse_reports(settings, &spec.sources)
}

/// The output of each destination.
fn outputs(
    settings: &CpSettings,
    copies: &[Copy],
    shared: &SharedReads,
    started: Instant,
) -> Result<Vec<Output>, Failure> {
    let names: Vec<String> = copies.iter().map(|copy| copy.name.clone()).collect();
    let reads = shared.clone();
    let behind: Arc<dyn Fn(usize) -> bool + Send + Sync> =
        Arc::new(move |number| reads.is_behind(number));
    let is_terminal = std::io::stderr().is_terminal();
    let outputs = To::all(&names, &behind).into_iter().map(|to| {
        let log = settings.reports.log_file.as_deref();
        let log = log.map(Log::open).transpose()?;
        let items = settings.verbose || settings.comparison.dry_run;
        Ok(Output::new(settings.json, is_terminal, started, log)
            .showing(items, settings.verbose)
            .about(to))
    });
    outputs.collect()
}

/// Starts the transfer to one destination.
fn begin(
    surroundings: &Surroundings<'_>,
    number: usize,
    copy: Copy,
    output: Output,
) -> Result<DestinationTransfer, Failure> {
    let control = Control::default();
    let Copy {
        name,
        spec,
        settings,
    } = copy;
    let log = settings.reports.log_file.iter();
    let kept_out: Vec<(String, PathBuf)> = log
        .map(|path| (format!("--log-file {}", path.display()), path.clone()))
        .collect();
    let Surroundings {
        process,
        home,
        started,
        umask,
        list,
        shared,
    } = surroundings;
    let env = Env {
        process: process.clone(),
        alone: false,
        list: list.clone(),
        seat: Some(shared.seat(number)),
        ..plain_env(&settings, home, *started, *umask, kept_out)
    };
    let steered = Steered::new(Arc::new(output), home, &control).numbered(number);
    let steered = Arc::new(steered);
    let steering = control.clone();
    let thread = Builder::new()
        .name(format!("gw-each-{number}"))
        .spawn(move || {
            let full = Arc::new(StopsWhenFull::new(steered, &steering));
            let events = Arc::clone(&full) as Arc<dyn EventSink>;
            let ended = Runner::run(&spec, &env, &events, &steering);
            Done::of(ended, full.failure())
        })
        .map_err(|error| Failure::local(format!("{name}: no thread can be started: {error}")))?;
    Ok(DestinationTransfer {
        name,
        control,
        thread: Some(thread),
    })
}

/// Waits until all transfers have ended, and stops them when the user asks for it.
fn wait(mut running: Vec<DestinationTransfer>, signalled: &AtomicBool) -> Vec<(String, Done)> {
    let mut done: Vec<Option<Done>> = Vec::new();
    done.resize_with(running.len(), || None);
    while done.iter().any(Option::is_none) {
        std::thread::sleep(LOOK_EVERY);
        if signalled.load(Ordering::Relaxed) {
            for one in &running {
                one.control.cancel();
            }
        }
        for (one, done) in running.iter_mut().zip(&mut done) {
            if let Some(thread) = one.thread.take_if(|thread| thread.is_finished()) {
                // The panic has been printed.
                *done = Some(thread.join().unwrap_or_else(|_| Done::panicked()));
            }
        }
    }
    let names = running.into_iter().map(|one| one.name);
    names.zip(done.into_iter().flatten()).collect()
}

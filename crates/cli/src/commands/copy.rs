//! `godwit cp` and `godwit sync`: settings and endpoints from the command line, then the transfer.
//! Opens no file and no connection.

use super::{each, not_a_stream, settings};
use crate::args;
use crate::connectors::{SshConnectors, ask};
use crate::exit::{Exit, Failure, FailureCode};
use crate::home::Home;
use crate::list;
use crate::output::{Log, Output};
use crate::running::{Steered, StopsWhenFull};
use clap::ArgMatches;
use godwit_api::endpoint::Endpoint;
use godwit_api::event::{EventSink, Status, Summary};
use godwit_api::job::{Imposed, JOB_VERSION, JobKind, JobSpec};
use godwit_api::settings::{CpSettings, ObeyedBy, Scope, Setting};
use godwit_node::{cores, signals};
use godwit_run::reports::{refuse_inputs, refuse_source};
use godwit_run::{Control, Env, NameList, Process, Runner, read_selection};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Runs the command.
pub(super) fn run(matches: &ArgMatches, home: &Home, started: Instant) -> Result<Exit, Failure> {
    let settings = CpSettings::from_values(&settings(Scope::Cp, matches, home)?)?;
    transfer(JobKind::Copy, &settings, matches, home, started)
}

/// Runs `godwit sync`.
pub(super) fn run_sync(
    matches: &ArgMatches,
    home: &Home,
    started: Instant,
) -> Result<Exit, Failure> {
    let settings = CpSettings::from_sync_values(&settings(Scope::Sync, matches, home)?)?;
    transfer(JobKind::Sync, &settings, matches, home, started)
}

/// Refuses files of reports that are standard streams, lists that are read, or sources.
pub(super) fn refuse_reports(settings: &CpSettings, sources: &[Endpoint]) -> Result<(), Failure> {
    let reports = &settings.reports;
    for file in [&reports.manifest, &reports.failed, &reports.log_file]
        .into_iter()
        .flatten()
    {
        not_a_stream(file)?;
    }
    refuse_inputs(settings)?;
    for source in sources {
        if let Endpoint::Local(path) = source {
            refuse_source(reports, path)?;
        }
    }
    Ok(())
}

/// Refuses a closed stream. A closed input would look empty, and a closed output would look complete.
fn refuse_closed(stream: i32, name: &str) -> Result<(), Failure> {
    if godwit_sys::closed::was_closed(stream) {
        return Err(Failure::usage(format!(
            "-: {name} is closed; the program that starts godwit must keep it open"
        )));
    }
    Ok(())
}

fn transfer(
    kind: JobKind,
    settings: &CpSettings,
    matches: &ArgMatches,
    home: &Home,
    started: Instant,
) -> Result<Exit, Failure> {
    if matches.get_flag(args::EACH) {
        return each::run(kind, settings, matches, home, started);
    }
    let mut spec = describe(kind, settings, matches)?;
    let (sources, destination) = (spec.sources.clone(), spec.destination.clone());
    let selection = spec.selection.as_ref();
    let is_listed = selection.is_some_and(|selection| selection.list.is_some());
    godwit_run::check(settings, is_listed, &sources, &destination)?;
    if sources.contains(&Endpoint::Stdio) {
        nothing_chosen(matches)?;
        refuse_closed(0, "standard input")?;
    }
    if destination == Endpoint::Stdio {
        refuse_closed(1, "standard output")?;
    }
    refuse_reports(settings, &sources)?;
    let reports = &settings.reports;
    // Before the mask of file modes is cleared: this file belongs to the user.
    let log = reports.log_file.as_deref().map(Log::open).transpose()?;
    let output = Output::new(settings.json, std::io::stderr().is_terminal(), started, log)
        .on_stderr(destination == Endpoint::Stdio)
        .showing(
            settings.verbose || settings.comparison.dry_run,
            settings.verbose,
        )
        .sorted(settings.comparison.dry_run);
    let umask = godwit_sys::umask::clear();
    let control = Control::default();
    let prepared = read_selection(&settings.selection).and_then(|selection| {
        spec.selection = selection;
        let list = list::open(&settings.selection, home)?;
        let env = env(
            settings,
            home,
            started,
            umask,
            (&sources, &destination),
            list,
        )?;
        // Before any thread is started.
        cores::restrict(settings.threads, &settings.pin)?;
        signals::watch(control.cancelled())
            .map_err(|error| Failure::local(format!("signals cannot be handled: {error}")))?;
        Ok(env)
    });
    let env = match prepared {
        Ok(env) => env,
        Err(failure) => {
            output.error(&failure);
            return Ok(failure.code.into());
        }
    };
    let steered = Arc::new(Steered::new(Arc::new(output), home, &control));
    let full = Arc::new(StopsWhenFull::new(Arc::clone(&steered) as _, &control));
    // Standard input is one entry, which ends the transfer by its failure.
    let events: Arc<dyn EventSink> = match sources.contains(&Endpoint::Stdio) {
        true => steered,
        false => Arc::clone(&full) as _,
    };
    for note in taken_for_a_machine(&sources) {
        events.note(&note);
    }
    let mut ended = Runner::run(&spec, &env, &events, &control);
    if let Err(failure) = &ended
        && failure.code == FailureCode::EmptySource
        && !settings.json
        && ask("Delete all of it? [y/N] ")?
    {
        spec.settings
            .insert("max-delete".to_owned(), vec![ANY_NUMBER.into()]);
        ended = Runner::run(&spec, &env, &events, &control);
    }
    Ok(match ended {
        Ok(summary) => exit_of(&summary),
        Err(failure) => full.failure().map_or(failure.code, |full| full.code).into(),
    })
}

/// The largest value of `--max-delete`.
const ANY_NUMBER: &str = "18446744073709551614";

/// The note for sources that name both a path of another machine and a local file.
fn taken_for_a_machine(sources: &[Endpoint]) -> Vec<String> {
    let notes = sources.iter().filter_map(|source| {
        let Endpoint::Ssh(place) = source else {
            return None;
        };
        let text = OsString::from_vec(source.to_text());
        std::fs::symlink_metadata(&text).ok()?;
        let text = text.to_string_lossy();
        Some(format!(
            "{text} means a path on the machine {}; for the local file write ./{text}",
            place.login
        ))
    });
    notes.collect()
}

/// The exit code of a finished job.
pub(crate) fn exit_of(summary: &Summary) -> Exit {
    match summary {
        Summary::Transfer(summary) if summary.status == Status::Complete => Exit::Complete,
        _ => Exit::Partial,
    }
}

/// The typed paths, in their order.
pub(super) fn endpoints(matches: &ArgMatches) -> Result<Vec<Endpoint>, Failure> {
    let paths = matches.get_many::<OsString>("paths").unwrap_or_default();
    let endpoints = paths.map(|text| Endpoint::parse(text));
    endpoints.collect::<Result<_, _>>().map_err(Failure::usage)
}

/// The typed job, without its selection.
fn describe(
    kind: JobKind,
    settings: &CpSettings,
    matches: &ArgMatches,
) -> Result<JobSpec, Failure> {
    let mut sources = endpoints(matches)?;
    if matches.get_flag(args::AS_IN_RSYNC)
        && let Some(port) = sources.iter().find_map(port_of_scp)
    {
        return Err(Failure::usage(format!(
            "-P: a port goes into --rsh, as in --rsh 'ssh -p {port}'; for a file of this name write ./{port}"
        )));
    }
    let destination = sources.pop().filter(|_| !sources.is_empty());
    let Some(destination) = destination else {
        return Err(Failure::usage(match kind {
            JobKind::Sync => "name a source and a destination: godwit sync SOURCE DESTINATION",
            _ => "name a source and a destination: godwit cp SOURCE... DESTINATION",
        }));
    };
    if settings.comparison.delete && settings.selection.files_from.is_some() {
        return Err(Failure::usage(
            "--delete and --files-from contradict each other: --delete would delete all entries that the list does not name",
        ));
    }
    Ok(JobSpec {
        version: JOB_VERSION,
        kind,
        sources,
        destination,
        settings: JobSpec::settings_of(&settings.given),
        selection: None,
        member: None,
        items: Vec::new(),
        imposed: Imposed::default(),
    })
}

/// A word that is no file here and may be the port behind `-P` of scp.
fn port_of_scp(source: &Endpoint) -> Option<u16> {
    let Endpoint::Local(path) = source else {
        return None;
    };
    let port = path.to_str()?.parse().ok()?;
    std::fs::symlink_metadata(path).is_err().then_some(port)
}

/// The surroundings that this process gives to the job.
fn env(
    settings: &CpSettings,
    home: &Home,
    started: Instant,
    umask: u32,
    (sources, destination): (&[Endpoint], &Endpoint),
    list: Option<NameList>,
) -> Result<Env, Failure> {
    let streams = |error: rustix::io::Errno| Failure::local(format!("standard streams: {error}"));
    let input = sources
        .contains(&Endpoint::Stdio)
        .then(|| rustix::io::dup(rustix::stdio::stdin()))
        .transpose()
        .map_err(streams)?;
    let output = (*destination == Endpoint::Stdio)
        .then(|| rustix::io::dup(rustix::stdio::stdout()))
        .transpose()
        .map_err(streams)?;
    let log = settings.reports.log_file.iter();
    let kept_out = log
        .map(|path| (format!("--log-file {}", path.display()), path.clone()))
        .collect();
    Ok(Env {
        input,
        output,
        list,
        ..plain_env(settings, home, started, umask, kept_out)
    })
}

/// The environment without streams and lists.
pub(super) fn plain_env(
    settings: &CpSettings,
    home: &Home,
    started: Instant,
    umask: u32,
    kept_out: Vec<(String, PathBuf)>,
) -> Env {
    let connectors = SshConnectors {
        quiet: settings.json,
    };
    Env {
        process: Process::with_pool(settings.memory_bytes),
        umask,
        started,
        alone: true,
        kept_out,
        ..Env::new(home.clone(), Arc::new(connectors))
    }
}

/// The environment of a transfer between memories in this process.
pub(crate) fn memory_env(settings: &CpSettings, home: &Home) -> Env {
    plain_env(settings, home, Instant::now(), 0o022, Vec::new())
}

/// Refuses typed filters for standard input, which is one entry of unknown size and time. Filters in the environment and in files
/// are meant for other transfers.
fn nothing_chosen(matches: &ArgMatches) -> Result<(), Failure> {
    let typed = args::typed(Scope::Cp, matches);
    let choosing = Setting::all_of(Scope::Cp)
        .find(|setting| setting.obeyed_by == ObeyedBy::Rules && typed.contains_key(setting.name));
    match choosing.map(|setting| setting.name) {
        Some(name) => Err(Failure::usage(format!(
            "--{name}: standard input is a single file whose size and time are unknown until it ends, so --{name} cannot choose; leave --{name} out"
        ))),
        None => Ok(()),
    }
}

//! An errand: this agent is the client of another one, and sends its machine's files there.
//! Reports to its client as lines of JSON, and ends when the client hangs up.

use std::fs::File;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use godwit_api::event::EventSink;
use godwit_api::job::JobSpec;
use godwit_engine::session::{Connector, GreetError, Refusal};
use godwit_net::{
    Connection, Identity, IdentityId, Look, PeerAddress, Reach, ReachOptions, Stream as _,
    StreamOptions, is_of_a_machine,
};
use godwit_proto::ErrorCode;
use godwit_proto::agent::{Errand, Start, Started};
use godwit_run::{
    AgentOrder, Connectors, Control, Env, EventDetail, NameList, Process, Runner, SshClient,
    SshTarget, StartedAgent, client_tls, emit_refusal,
};

use super::list::ReceivedList;
use super::{base, broken, listen, receive, started};
use crate::commands::exit_of;
use crate::connectors::SshConnectors;
use crate::exit::{Exit, Failure, FailureCode};
use crate::home::{self, Home};
use crate::output::Output;
use crate::running::Steered;
use crate::ssh::unreachable;

/// Deadline for finding a path to the other agent, over all attempts.
const REACH_DEADLINE: Duration = Duration::from_secs(6);

/// Ready for the order.
pub(super) struct Prepared {
    pub(super) started: Started,
    identity: Identity,
    listener: TcpListener,
    pub(super) home: Home,
}

/// Does everything that can fail before the client learns our identity.
pub(super) fn prepare(start: &Start) -> Result<Prepared, Failure> {
    let home = home::open()?;
    let identity = Identity::ephemeral().map_err(Failure::local)?;
    let (listener, port) = listen(start)?;
    Ok(Prepared {
        started: started(&identity, port),
        identity,
        listener,
        home,
    })
}

/// Reads the order, and carries it out.
pub(super) fn run(prepared: Prepared, mut input: File) -> Result<Exit, Failure> {
    let errand: Errand = receive(&mut input)?;
    let started = Instant::now();
    let spec = JobSpec::from_json(errand.job.as_bytes())
        .map_err(|error| Failure::new(FailureCode::VersionMismatch, error))?;
    let settings = spec
        .copy_settings()
        .map_err(|error| Failure::new(FailureCode::VersionMismatch, error))?;
    let control = Control::default();
    let has_list = spec
        .selection
        .as_ref()
        .is_some_and(|selection| selection.list.is_some());
    let list = match has_list {
        true => {
            let list = ReceivedList::new(&prepared.home.spill()?)
                .map_err(|error| Failure::new(FailureCode::HomeUnusable, error))?;
            Some(Arc::new(list))
        }
        false => None,
    };
    let (reported, taking) = (control.clone(), list.clone());
    std::thread::Builder::new()
        .name("gw-stdin".to_owned())
        .spawn(move || {
            if let Some(list) = taking {
                list.take(&mut input);
            }
            // No more input comes except the end.
            let mut rest = [0; 64];
            while matches!(input.read(&mut rest), Ok(1..)) {}
            reported.cancel();
        })
        .map_err(|error| Failure::new(FailureCode::OutOfResources, error))?;
    let targets: Vec<SocketAddr> = errand
        .addresses
        .iter()
        .filter_map(|text| text.parse().ok())
        .filter(|target: &SocketAddr| is_of_a_machine(target.ip()))
        .collect();
    let options = ReachOptions {
        targets,
        identity: errand.identity.parse().map_err(broken)?,
        tls: client_tls(settings.cipher, &prepared.identity)?,
        deadline: REACH_DEADLINE,
        stream: StreamOptions {
            stall_limit: settings.stall_deadline,
            ..StreamOptions::default()
        },
    };
    let connector = ErrandConnector {
        peer: errand.peer.clone(),
        reach: Reach::new(options, Some(prepared.listener))
            .map_err(|error| Failure::new(FailureCode::OutOfResources, error))?,
        interrupted: Arc::clone(control.cancelled()),
        over: AtomicBool::new(false),
    };
    let env = Env {
        process: Process::with_pool(settings.memory_bytes),
        base: Some(base()?),
        umask: godwit_sys::umask::clear(),
        connectors: Arc::new(FixedConnectors(Arc::new(connector))),
        list: list.map(|list| NameList {
            bytes: list,
            file: None,
        }),
        tells: Some(EventDetail {
            entries: errand.entries_wanted,
            faults: errand.faults_wanted,
        }),
        ..env(&prepared.home, started)
    };
    let output = Arc::new(Output::new(true, false, started, None));
    let events: Arc<dyn EventSink> = Arc::new(Steered::new(output, &prepared.home, &control));
    Ok(match Runner::run(&spec, &env, &events, &control) {
        Ok(summary) => exit_of(&summary),
        Err(failure) => failure.code.into(),
    })
}

/// Everything that this process gives to a job.
fn env(home: &Home, started: Instant) -> Env {
    Env {
        started,
        alone: true,
        tells: Some(EventDetail::default()),
        ..Env::new(home.clone(), Arc::new(SshConnectors { quiet: true }))
    }
}

/// The one path of an errand: to the agent that the order names, whatever the name of that agent.
struct FixedConnectors(Arc<dyn Connector>);

impl Connectors for FixedConnectors {
    fn by_ssh(
        &self,
        _way: SshTarget<'_>,
        _client: SshClient,
    ) -> Result<Arc<dyn Connector>, Failure> {
        Ok(Arc::clone(&self.0))
    }

    fn start_agent(
        &self,
        way: SshTarget<'_>,
        _order: &AgentOrder,
    ) -> Result<StartedAgent, Refusal> {
        Err(Refusal::own(
            ErrorCode::INTERNAL,
            format!("{}: an agent cannot start another agent", way.login),
        ))
    }

    fn trusts(&self, _address: &PeerAddress, _found: &IdentityId) -> Result<bool, Failure> {
        Ok(false)
    }
}

/// Reaches the other agent without ssh, because there is no ssh between the two.
struct ErrandConnector {
    peer: String,
    reach: Reach,
    interrupted: Arc<AtomicBool>,
    over: AtomicBool,
}

impl Connector for ErrandConnector {
    fn open(&self, first: &[u8]) -> Result<Connection, Refusal> {
        self.over.store(false, Ordering::Relaxed);
        let mut stream = self.join(0)?;
        stream.send_all(first).map_err(GreetError::from)?;
        Ok(stream)
    }

    fn join(&self, _channel: u32) -> Result<Connection, Refusal> {
        let look = || {
            let no = [&*self.interrupted, &self.over];
            if no.into_iter().any(|no| no.load(Ordering::Relaxed)) {
                Look::Stop
            } else {
                Look::Wait
            }
        };
        self.reach.connect(&look).map_err(|error| {
            if self.reach.has_worked() || look() == Look::Stop {
                Refusal::Daemon {
                    peer: self.peer.clone(),
                    code: ErrorCode::UNREACHABLE,
                    message: error.to_string(),
                    retryable: true,
                }
            } else {
                Refusal::Unreachable(unreachable(&self.peer, &error))
            }
        })
    }

    fn makes_more(&self) -> bool {
        self.reach.dials()
    }

    fn peer(&self) -> String {
        self.peer.clone()
    }

    fn give_up(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Reports an errand that could not begin, as an event too.
pub(super) fn failed(home: &Home, failure: &Failure) -> Exit {
    let started = Instant::now();
    let output = Output::new(true, false, started, None);
    emit_refusal(&env(home, started), &output, failure);
    failure.code.into()
}

//! An errand: this agent is the client of another one, and sends its own machine's files there.
//! Tells who sent it what happens as lines of JSON, and ends when that hangs up.

use std::fs::File;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use godwit_api::event::EventSink as _;
use godwit_api::settings::{ConfigFile, CpSettings, Scope, Setting, Typed, resolve};
use godwit_engine::names::ListBytes;
use godwit_engine::session::{Connector, GreetError, Refusal};
use godwit_net::{
    Connection, Identity, Look, Reach, ReachOptions, Stream as _, StreamOptions, is_of_a_machine,
};
use godwit_proto::ErrorCode;
use godwit_proto::agent::{Errand, ListForm, Start, Started};

use super::list::ToldList;
use super::{base, hear, listen, started};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::Output;
use crate::ssh::{SOFTWARE, unreachable};
use crate::transfer;

/// For finding a way to the other agent, in all ways together.
const REACH_DEADLINE: Duration = Duration::from_secs(6);

/// Ready to hear what is to be done.
pub(super) struct Prepared {
    pub(super) started: Started,
    identity: Identity,
    listener: TcpListener,
    home: Home,
}

/// Everything that can fail before the client is told who we are.
pub(super) fn prepare(start: &Start) -> Result<Prepared, Failure> {
    let home = Home::open()?;
    let identity = Identity::ephemeral().map_err(Failure::failed)?;
    let (listener, port) = listen(start)?;
    Ok(Prepared {
        started: started(&identity, port),
        identity,
        listener,
        home,
    })
}

/// Hears what is to be done, and does it.
pub(super) fn run(prepared: Prepared, mut input: File) -> Result<Exit, Failure> {
    let errand: Errand = hear(&mut input)?;
    // From here on everything is told as an event.
    let events = Arc::new(Output::new(true, false, Instant::now(), None));
    let settings = settings(&errand)?;
    std::env::set_current_dir(base()?).map_err(Failure::failed)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let list = match errand.list_form() {
        ListForm::NONE => None,
        _ => {
            let list = ToldList::new(&prepared.home.spill()?).map_err(Failure::failed)?;
            Some(Arc::new(list))
        }
    };
    let (told, taking) = (Arc::clone(&interrupted), list.clone());
    std::thread::Builder::new()
        .name("gw-stdin".to_owned())
        .spawn(move || {
            if let Some(list) = taking {
                list.take(&mut input);
            }
            // Nothing more is to come but the end.
            let mut rest = [0; 64];
            while matches!(input.read(&mut rest), Ok(1..)) {}
            told.store(true, Ordering::Relaxed);
        })
        .map_err(Failure::failed)?;
    let tls = transfer::client_tls(settings.cipher, &prepared.identity)?;
    let targets: Vec<SocketAddr> = errand
        .addresses
        .iter()
        .filter_map(|text| text.parse().ok())
        .filter(|target: &SocketAddr| is_of_a_machine(target.ip()))
        .collect();
    let options = ReachOptions {
        targets,
        identity: errand.identity.parse().map_err(Failure::failed)?,
        tls,
        deadline: REACH_DEADLINE,
        stream: StreamOptions {
            stall_limit: settings.stall_deadline,
            ..StreamOptions::default()
        },
    };
    let connector = ErrandConnector {
        peer: errand.peer.clone(),
        reach: Reach::new(options, Some(prepared.listener)).map_err(Failure::failed)?,
        interrupted: Arc::clone(&interrupted),
        over: AtomicBool::new(false),
    };
    Ok(transfer::run_errand(
        &settings,
        &errand,
        Arc::new(connector),
        list.map(|list| list as Arc<dyn ListBytes>),
        &prepared.home,
        events,
        interrupted,
    ))
}

/// The settings of whoever sent us, and none of this machine's.
fn settings(errand: &Errand) -> Result<CpSettings, Failure> {
    let mut typed = Typed::new();
    let scope = if errand.sync { Scope::Sync } else { Scope::Cp };
    for text in &errand.settings {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let setting = Setting::find(scope, name).ok_or_else(|| {
            Failure::failed(format!(
                "this godwit ({SOFTWARE}) has no setting --{name}; update it"
            ))
        })?;
        typed.insert(setting.name, vec![value.into()]);
    }
    let values = resolve(scope, &typed, &|_| None, &ConfigFile::default())?;
    Ok(match scope {
        Scope::Sync => CpSettings::from_sync_values(&values)?,
        _ => CpSettings::from_values(&values)?,
    })
}

/// Reaches the other agent beside any ssh: there is none between the two.
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
                    code: ErrorCode::INTERNAL,
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

/// What cannot be begun is told as an event too.
pub(super) fn failed(failure: &Failure) -> Exit {
    let started = Instant::now();
    let output = Output::new(true, false, started, None);
    output.error(&failure.message);
    transfer::say_failed(&output, failure.exit, started);
    failure.exit
}

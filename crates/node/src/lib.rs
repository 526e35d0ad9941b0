//! Joins `godwit serve` to the node: settings to a daemon, signals to its end.
//! Parses nothing.

pub mod accounting;
mod apart;
mod api;
mod buffer;
mod cluster;
pub mod cores;
mod home;
mod jobs;
mod log;
mod news;
pub mod outlet;
pub mod plan;
mod pool;
mod service;
pub mod signals;

use std::net::SocketAddr;
use std::sync::Arc;

use godwit_api::settings::{ServeEncryption, ServeSettings, Values};
use godwit_data_port::{Daemon, DaemonConfig};
use godwit_jobs::Guests;
use godwit_net::{Cipher, ServerTls};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::outlet::{complain, print};
use godwit_api::failure::{Exit, Failure};
use godwit_run::Home;

use godwit_buffer::service::Buffer;
use godwit_cluster::Cluster;
use godwit_run::bounds_of;
use godwit_state::FEATURE_LEVEL;
use godwit_web::Web;
use news::News;
use service::{End, Ends};

/// Runs a node until it is asked to stop. `level` replaces the program's level, to act as another version.
#[must_use]
pub fn run(values: &Values, settings: &ServeSettings, home: &Home, level: Option<u32>) -> Exit {
    godwit_sys::umask::clear();
    raise_descriptors();
    match serve(values, settings, home, level.unwrap_or(FEATURE_LEVEL)) {
        Ok(()) => Exit::Complete,
        Err(failure) => {
            complain(&failure.message);
            failure.code.into()
        }
    }
}

/// As many descriptors as the process may have: the usual limit is for programs that wait by `select`.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If the limit cannot be raised, the daemon serves fewer connections at a time.
    let _ = setrlimit(Resource::Nofile, raised);
}

fn serve(
    values: &Values,
    settings: &ServeSettings,
    home: &Home,
    level: u32,
) -> Result<(), Failure> {
    home::check(home)?;
    plan::settings_file(values).map_or(Ok(()), home::check_file)?;
    // Another key would be that of another machine, to which users send their passwords.
    let key = settings.certificate.as_ref().map(|files| &*files.key);
    key.map_or(Ok(()), home::check_way)?;
    let (mut plan, notes) = plan::make(values, settings, home).map_err(plan::failure_of)?;
    // A link that is replaced while the node runs leads it nowhere else.
    let real = std::fs::canonicalize(home.path()).map_err(Failure::local)?;
    let home = &Home::at(real);
    log::begin(settings)?;
    notes.iter().for_each(|note| complain(note));
    cores::restrict(settings.threads, &settings.pin)?;
    let ends = signals::ending()
        .and_then(Ends::of)
        .map_err(Failure::local)?;
    let identity = home.identity()?;
    let tls = ServerTls::new(&identity, &Cipher::ALL).map_err(Failure::local)?;
    home.journals()?;
    home.spill()?;
    let log: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(log::line);
    godwit_data_port::watch(&plan.exports, &log).map_err(Failure::local)?;
    plan.buffer = buffer::open(&settings.buffer, &identity.id().to_string(), &log)?;
    let process = buffer::process(settings, plan.buffer.as_ref());
    buffer::take_arrivals(&settings.buffer, &mut plan.exports, &process);
    let news = News::new(settings, home);
    let claims = Arc::default();
    let left_behind = ends.left_behind();
    let opened = cluster::open(
        settings,
        home,
        &plan.exports,
        &process,
        &claims,
        level,
        left_behind,
    )?;
    let jobs = jobs::start(
        settings,
        home,
        &plan.exports,
        &process,
        &claims,
        &news,
        &opened,
    )?;
    ends.watch(&jobs);
    // The jobs have seen what of them waits.
    godwit_data_port::drain(&plan.exports, &process, &home.spill()?).map_err(Failure::local)?;
    let pool = buffer::pool(&identity, &plan, &opened, &log)?;
    let cluster = opened.cluster;
    let with_origins = values.with_origins();
    let shown = api::Shown::new(&jobs, &cluster, &process, &pool);
    let mut api = api::start(settings, &plan, with_origins, shown, home, &identity)?;
    news.count(api.news_sink());
    let config = DaemonConfig {
        process,
        listen: plan.listen,
        announce: plan.announce,
        exports: plan.exports,
        home: home.path().to_owned(),
        rules: Arc::new(jobs::Rules(jobs.clone())),
        tls,
        plain_allowed: settings.encryption == ServeEncryption::Any,
        handshake_deadline: settings.handshake_deadline,
        connections_per_peer: settings.connections_per_peer as usize,
        connections_max: settings.connections_max as usize,
        transfers_per_peer: settings.transfers_per_peer as usize,
        transfers_max: settings.transfers_max as usize,
        stall_limit: settings.stall_deadline,
        pool_bytes: usize::try_from(settings.memory_bytes).unwrap_or(usize::MAX),
        readers: bounds_of(settings.readers),
        writers: bounds_of(settings.writers),
        keep_for: settings.keep_for,
        claims,
        jobs: Some(Arc::new(Guests::new(jobs.clone()))),
        cluster: Some(Arc::new(cluster.clone())),
        buffer: Some(pool.answers()),
        web: plan.manage.is_empty().then(|| api.taker()),
        tells: news.news_sink(),
        log,
    };
    let mut daemon = Daemon::start(config, &identity).map_err(Failure::local)?;
    let look = cluster::look(&settings.cluster, daemon.addresses());
    cluster.begin(look).map_err(Failure::local)?;
    say_where(&daemon, &api, &cluster);
    service::ready(&jobs);
    let end = ends.wait();
    if let End::LeftBehind(_) = &end {
        jobs.leave_all();
    }
    service::stopping();
    api.stop();
    jobs.stop();
    cluster.stop();
    daemon.stop();
    pool.stop();
    plan.buffer.iter().for_each(Buffer::close);
    result_of(end, home)
}

/// Prints where the node is reached.
fn say_where(daemon: &Daemon, api: &Web, cluster: &Cluster) {
    for address in daemon.addresses() {
        print(&format!("listening on {address} as {}", daemon.identity()));
    }
    let page = page_of(api.managed(), cluster.addresses(), daemon.addresses());
    print(&format!(
        "API at {}, and with the page at https://{page}/; SHA-256 of its key: {}, of its certificate: {}",
        api.socket().display(),
        api.key_fingerprint(),
        api.fingerprint()
    ));
}

/// An address at which a browser finds the page: the first address for management, else the address at which other nodes reach
/// this node.
fn page_of(managed: &[SocketAddr], own: Vec<String>, listening: &[SocketAddr]) -> String {
    match (managed.first(), own.into_iter().next()) {
        (Some(first), _) => cluster::reachable(std::slice::from_ref(first)),
        (None, Some(own)) => own,
        (None, None) => cluster::reachable(listening),
    }
}

/// The result of the command by the end of the node.
fn result_of(end: End, home: &Home) -> Result<(), Failure> {
    match end {
        End::Signal => Ok(()),
        End::LeftBehind(why) => Err(was_left_behind(&why)),
        End::State(why) => Err(Failure::local(format!(
            "the state of the node ended: {why}. Transfers were stopped and can be resumed; check the file system of {}, and start the node again",
            home.path().display()
        ))),
    }
}

/// The end of a node that a recovery left behind.
fn was_left_behind(why: &str) -> Failure {
    Failure::local(format!(
        "the cluster has continued without this node, which stops now to avoid a second copy of the cluster: {why}"
    ))
}

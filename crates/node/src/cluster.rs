//! Joins a node to its cluster: its identity in the cluster, the shared state, its resources, and its addresses.
//! Decides nothing about nodes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use godwit_api::ask::AskSites;
use godwit_api::observation::UNSEEN;
use godwit_api::rest::{NodeInterface, NodeResources, NodeRoom};
use godwit_api::settings::{ClusterSettings, JoinSettings, ServeSettings};
use godwit_cluster::{
    Carrier, Cluster, ClusterConfig, ClusterHome, Joining, LookAtAddresses, NodeAddresses, Token,
    ask_for_recovery, join,
};
use godwit_data_port::{Asker, ClaimTable, Export, Here};
use godwit_net::{Cipher, ClientTls, own_interfaces};
use godwit_run::Process;
use godwit_run::observation::observe;
use godwit_state::{Gate, Options, Replica};
use godwit_sys::secret_file;

use crate::log;
use crate::outlet::print;
use godwit_api::failure::Failure;
use godwit_run::Home;

/// A node's part of its cluster, before it speaks.
pub(crate) struct Opened {
    pub(crate) replica: Arc<Replica>,
    pub(crate) sites: Arc<dyn AskSites>,
    pub(crate) cluster: Cluster,
}

/// Joins if the settings say so, and opens the state.
pub(crate) fn open(
    settings: &ServeSettings,
    home: &Home,
    exports: &[Export],
    process: &Process,
    claims: &Arc<ClaimTable>,
    level: u32,
    left_behind: Arc<dyn Fn(&str) + Send + Sync>,
) -> Result<Opened, Failure> {
    let identity = home.identity()?;
    let tls = ClientTls::new(&identity, &Cipher::ALL).map_err(Failure::local)?;
    let here = Here::new(
        exports.to_vec(),
        home.path().to_owned(),
        process.syncs.clone(),
    )
    .claiming(Arc::clone(claims));
    let sites: Arc<dyn AskSites> = Arc::new(Asker::new(here, tls));
    let names: Vec<String> = exports.iter().map(|export| export.name.clone()).collect();
    let member = match &settings.cluster.join {
        Some(wish) => {
            let cluster = &settings.cluster;
            Some(joined(wish, cluster, home, &*sites, &names, level)?)
        }
        None => ClusterHome::read(home.path()).map_err(Failure::local)?,
    };
    let identity = identity.id().to_string();
    let member = member.unwrap_or_else(|| ClusterHome::of_one(&identity));
    let state = home.path().join("state");
    // A voter that takes part for a moment could form a second cluster with another one that comes back.
    if let Some(why) = ask_for_recovery(&sites, &member.cluster, &identity, &state) {
        return Err(crate::was_left_behind(&why));
    }
    let gate = Gate::default();
    let left_behind: Arc<dyn Fn(&str) + Send + Sync> = {
        let gate = gate.clone();
        Arc::new(move |why| {
            gate.close(why);
            left_behind(why);
        })
    };
    let carrier = Carrier::new(
        Arc::clone(&sites),
        member.cluster.clone(),
        Arc::clone(&left_behind),
    );
    let options = Options {
        gate,
        voter: member.number,
        joins: !member.nodes.is_empty(),
        peers: Arc::new(carrier),
        level,
        zone_trouble: godwit_jobs::time_zone_trouble,
        ..Options::new(state)
    };
    let replica = Replica::open(options)
        .map_err(|error| Failure::local(format!("the state of the node: {error}")))?;
    let replica = Arc::new(replica);
    let cluster = Cluster::new(ClusterConfig {
        replica: Arc::clone(&replica),
        home: member,
        directory: home.path().to_owned(),
        identity,
        exports: names,
        watched: {
            let of = |export: &Export| (export.name.clone(), export.watched.clone());
            exports.iter().map(of).collect()
        },
        admins: godwit_web::machine_admins(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        level,
        sites: Arc::clone(&sites),
        now: godwit_jobs::now,
        left_behind,
        resources: {
            let exports = exports.to_vec();
            Arc::new(move || resources(&exports))
        },
        look: {
            let exports = exports.to_vec();
            Arc::new(move || observations(&exports))
        },
        log: Arc::new(log::line),
    });
    Ok(Opened {
        replica,
        sites,
        cluster,
    })
}

fn joined(
    wish: &JoinSettings,
    settings: &ClusterSettings,
    home: &Home,
    sites: &dyn AskSites,
    exports: &[String],
    level: u32,
) -> Result<ClusterHome, Failure> {
    if let Some(member) = ClusterHome::read(home.path()).map_err(Failure::local)? {
        print(&format!(
            "--join is no longer needed: this is already the node {} of a cluster",
            member.name
        ));
        return Ok(member);
    }
    let token = read_token(&wish.token_file)?;
    let name = match &settings.name {
        Some(name) => name.clone(),
        None => machine_name()?,
    };
    let joining = Joining {
        address: &wish.address.to_string(),
        token: &token,
        name: &name,
        exports: exports.to_vec(),
        version: env!("CARGO_PKG_VERSION"),
        level,
    };
    let member = join(home.path(), sites, joining).map_err(Failure::local)?;
    print(&format!(
        "joined the cluster of {} as the node {}",
        wish.address, member.name
    ));
    Ok(member)
}

/// An invitation has some hundred bytes.
const TOKEN_BYTES_MAX: u64 = 4096;

/// Reads an invitation, which only its owner may be able to read.
fn read_token(file: &Path) -> Result<Token, Failure> {
    let text = secret_file::read_own(file, TOKEN_BYTES_MAX)
        .map_err(|error| Failure::usage(format!("--token-file: {error}")))?;
    let text = String::from_utf8_lossy(&text);
    text.parse()
        .map_err(|what: &str| Failure::usage(format!("--token-file {}: {what}", file.display())))
}

fn machine_name() -> Result<String, Failure> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().into_owned();
    match godwit_api::rest::check_site_name(&name) {
        Ok(()) => Ok(name),
        Err(error) => Err(Failure::usage(format!(
            "the name of this machine is not allowed as a node name: {error}; set a name with --name"
        ))),
    }
}

/// Looks where the other nodes reach this one: at the addresses of the operator, or where it listens at that moment.
pub(crate) fn look(settings: &ClusterSettings, listening: &[SocketAddr]) -> Box<LookAtAddresses> {
    let chosen: Vec<String> = settings.addresses.iter().map(ToString::to_string).collect();
    let listening = listening.to_vec();
    Box::new(move || NodeAddresses {
        addresses: match chosen.is_empty() {
            true => of_interfaces(&listening),
            false => chosen.clone(),
        },
        local: local(&listening),
    })
}

/// An address of this machine at which it listens; loopback if no interface has an address now.
pub(crate) fn reachable(listening: &[SocketAddr]) -> String {
    let first = of_interfaces(listening).into_iter().next();
    first.unwrap_or_else(|| local(listening))
}

fn local(listening: &[SocketAddr]) -> String {
    let port = listening.first().map_or(0, SocketAddr::port);
    SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port).to_string()
}

/// The addresses at which this machine listens now. An unspecified one stands for those of all interfaces that have a carrier.
fn of_interfaces(listening: &[SocketAddr]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for at in listening {
        if !at.ip().is_unspecified() {
            found.push(at.to_string());
            continue;
        }
        let own = own_interfaces().unwrap_or_default();
        let own = own.iter().map(|own| own.address);
        let takes = |address: &IpAddr| at.is_ipv6() || address.is_ipv4();
        found.extend(
            own.filter(takes)
                .map(|address| SocketAddr::new(address, at.port()).to_string()),
        );
    }
    found.sort();
    found.dedup();
    found
}

/// Identities of the exports of this node. An export that cannot be looked at equals no other; one that does not answer is left out.
fn observations(exports: &[Export]) -> BTreeMap<String, Vec<u64>> {
    let answers = |export: &&Export| export.watched.hangs_for(Instant::now()).is_none();
    let seen = exports.iter().filter(answers).map(|export| {
        let directory = export.directory().ok();
        let observation = directory.and_then(|directory| observe(directory).ok());
        let observation = observation.unwrap_or_else(|| UNSEEN.to_vec());
        (export.name.clone(), observation)
    });
    seen.collect()
}

/// Resources of this machine.
fn resources(exports: &[Export]) -> NodeResources {
    let mut interfaces: BTreeMap<String, NodeInterface> = BTreeMap::new();
    for own in own_interfaces().unwrap_or_default() {
        let interface = interfaces.entry(own.interface.clone()).or_default();
        interface.bits_per_second = speed(&own.interface);
        interface.name = own.interface;
        interface.addresses.push(own.address.to_string());
    }
    NodeResources {
        cores: std::thread::available_parallelism()
            .map_or(0, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
        memory_bytes: memory(),
        interfaces: interfaces.into_values().collect(),
        room: exports
            .iter()
            .map(|export| NodeRoom {
                export: export.name.clone(),
                free_bytes: export.watched.room_or(|| None).map(|room| room.free),
            })
            .collect(),
    }
}

/// Bits per second of an interface. The kernel reports megabits, or a number below 1 if the driver does not know.
fn speed(interface: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    let megabits: i64 = text.trim().parse().ok()?;
    u64::try_from(megabits)
        .ok()
        .filter(|megabits| *megabits > 0)
        .map(|megabits| megabits * 1_000_000)
}

fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    // The kernel's types differ between machines.
    #[allow(clippy::useless_conversion, reason = "they do")]
    let (all, unit) = (u64::from(info.totalram), u64::from(info.mem_unit));
    all.saturating_mul(unit)
}

//! A node's directories with its jobs, and questions about them for tests.
//! Tests nothing itself.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use godwit_api::ask::{AskSites, Peer};
use godwit_api::rest::{JobView, NewJob};
use godwit_data_port::Exported;
use godwit_jobs::{Clock, Jobs, JobsConfig};
use godwit_run::{Env, Home, Process};
use godwit_state::{Actor, Change, Op, Options, Replica, Site};
use godwit_worlds::{Nowhere, export, surroundings};

pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A node's directories: a home, and the exports `from` and `to`.
pub(crate) struct World(tempfile::TempDir);

impl World {
    pub(crate) fn new() -> Self {
        let world = Self(tempfile::tempdir().expect("a directory"));
        for name in ["from", "to"] {
            fs::create_dir(world.path(name)).expect("made");
        }
        Home::at(world.path("home")).make().expect("made");
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, bytes).expect("written");
    }

    /// Starts the node's jobs on the existing state.
    pub(crate) fn start(&self, jobs_max: usize) -> Jobs {
        self.start_by(Clock::default(), jobs_max)
    }

    /// The same by another clock.
    pub(crate) fn start_by(&self, clock: Clock, jobs_max: usize) -> Jobs {
        self.start_with(clock, jobs_max, &Arc::default())
    }

    /// The same, but making the surroundings of an attempt panics while `panics` is set.
    pub(crate) fn start_with(
        &self,
        clock: Clock,
        jobs_max: usize,
        panics: &Arc<AtomicBool>,
    ) -> Jobs {
        self.start_all(clock, jobs_max, Arc::clone(panics), Arc::new(Nowhere))
    }

    /// Starts the node's jobs where these are the other sites.
    pub(crate) fn start_among(&self, sites: Arc<dyn AskSites>) -> Jobs {
        self.start_among_by(sites, Clock::default())
    }

    /// The same by another clock.
    pub(crate) fn start_among_by(&self, sites: Arc<dyn AskSites>, clock: Clock) -> Jobs {
        self.start_all(clock, 2, Arc::default(), sites)
    }

    fn start_all(
        &self,
        clock: Clock,
        jobs_max: usize,
        panics: Arc<AtomicBool>,
        sites: Arc<dyn AskSites>,
    ) -> Jobs {
        let exports = ["from", "to"].map(|name| export(name, &self.path(name)));
        let spill = Home::at(self.path("home")).spill().expect("made");
        let process = Process::default();
        let exported = Arc::new(Exported::new(
            exports.to_vec(),
            spill,
            process.syncs.clone(),
        ));
        let home = self.path("home");
        let served = Arc::clone(&exported);
        let make_env = move |_: &[Site]| {
            assert!(!panics.load(Ordering::Relaxed), "on purpose");
            Env {
                process: process.clone(),
                exports: Some(exported.clone()),
                retries_first: true,
                ..surroundings(&home)
            }
        };
        let config = JobsConfig {
            sites,
            own: Arc::new(|| None),
            is_member: Arc::new(|_| Ok(false)),
            node: "node1".to_owned(),
            directory: self.path("home/jobs"),
            exports: vec!["from".to_owned(), "to".to_owned()],
            file_grants: Arc::new(|| Ok(Vec::new())),
            machine_admins: vec!["alice".to_owned()],
            keep_history: Duration::from_hours(24),
            jobs_max,
            waiting_of_owner_max: godwit_jobs::WAITING_OF_OWNER_MAX,
            clock,
            exported: served,
            make_env: Arc::new(make_env),
            tells: Arc::new(|_| {}),
            log: Arc::new(|_| {}),
        };
        Jobs::start(config, Arc::new(self.replica())).expect("started")
    }

    /// The state; the threads of one that was just dropped may still hold it.
    pub(crate) fn replica(&self) -> Replica {
        let until = Instant::now() + DEADLINE;
        loop {
            match Replica::open(Options::new(self.path("home/state"))) {
                Ok(replica) => return replica,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

pub(crate) fn peer(identity: &str) -> Peer {
    Peer {
        name: identity.to_owned(),
        addresses: vec![format!("{identity}.example.org")],
        identity: identity.to_owned(),
    }
}

/// Adds a site by the address and the identity of its first node.
pub(crate) fn site(name: &str, address: &str, identity: &str) -> Op {
    Op::Site(Change::Put(Site {
        name: name.to_owned(),
        addresses: vec![address.to_owned()],
        identity: identity.to_owned(),
        comment: String::new(),
        nodes: Vec::new(),
    }))
}

pub(crate) fn alice() -> Actor {
    Actor::node("alice")
}

pub(crate) fn new(source: &str, destination: &str) -> NewJob {
    serde_json::from_value(serde_json::json!({
        "sources": [source], "destination": destination
    }))
    .expect("a job")
}

pub(crate) fn submit(jobs: &Jobs, new: &NewJob) -> String {
    let (job, created) = jobs.submit(alice(), "alice", new, None).expect("submitted");
    assert!(created);
    job.id
}

#[track_caller]
pub(crate) fn wait_for(jobs: &Jobs, id: &str, is_it: impl Fn(&JobView) -> bool) -> JobView {
    let until = Instant::now() + DEADLINE;
    loop {
        let job = jobs.job(id).expect("the job");
        if is_it(&job) {
            return job;
        }
        assert!(Instant::now() < until, "it does not come: {job:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

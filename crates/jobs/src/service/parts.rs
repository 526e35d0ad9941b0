//! Makes the parts of the jobs of a node from its configuration, and starts their threads.
//! Decides nothing about a job.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use godwit_state::{Replica, Runner};

use super::JobsConfig;
use crate::asking::abroad::Abroad;
use crate::asking::border::Bordered;
use crate::asking::elsewhere::{self, RemoteProgress};
use crate::asking::hosts::Hosts;
use crate::asking::learn_pace::LearnPace;
use crate::asking::past::Others;
use crate::asking::reach::RecentDials;
use crate::asking::{Asking, renewal};
use crate::attempt::SharedSources;
use crate::attempt::divided::{self, Workers};
use crate::attempt::live::Live;
use crate::attempt::local;
use crate::attempt::reports::Reports;
use crate::attempt::site;
use crate::attempt::site::pending::{self, PendingNotices};
use crate::attempt::site::unseen::Unseen;
use crate::attempt::start::Attempts;
use crate::basis::buffered::Shown;
use crate::basis::clock::random_text;
use crate::basis::cluster::Cluster;
use crate::basis::error::JobsError;
use crate::basis::this_node::ThisNode;
use crate::basis::turns::Turns;
use crate::queue::drained::Drained;
use crate::queue::probe::{self, Woken};
use crate::queue::reasons;
use crate::queue::records::{self, Records};
use crate::queue::relay::{Complaints, Rounds};
use crate::queue::rooms::Rooms;
use crate::queue::schedule::KeptTicks;
use crate::queue::submit::{Admission, LastCounts};
use crate::queue::{Paces, Queue, scheduler};
use crate::rights::Rights;
use crate::rights::access::Rules;
use crate::rights::pace::Pace;

/// The parts of the jobs of a node.
pub(crate) struct Parts {
    pub(crate) this: Arc<ThisNode>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) asking: Arc<Asking>,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) records: Arc<Records>,
    /// When each schedule ticks.
    pub(super) kept_ticks: Arc<KeptTicks>,
}

impl Parts {
    /// The attempts that run here now.
    pub(crate) fn live(&self) -> &Live {
        &self.attempts.reports.live
    }

    /// The workers for items of divided jobs here.
    pub(crate) fn workers(&self) -> &Workers {
        &self.attempts.local.divided.workers
    }

    /// The situation at this moment.
    pub(super) fn moment(&self) -> Result<reasons::Now<'_>, JobsError> {
        reasons::Now::read(&self.this, self.live(), &self.asking.elsewhere)
    }

    /// The parts, and what their threads use beside them.
    pub(super) fn of(config: JobsConfig, replica: Arc<Replica>) -> (Self, Queue) {
        let runner = runner_of(&config.node);
        let this = Arc::new(ThisNode {
            name: config.node,
            exports: config.exports,
            files: Arc::clone(&config.exported),
            directory: config.directory,
            replica: Arc::clone(&replica),
            clock: config.clock,
            log: config.log,
            stopping: AtomicBool::new(false),
            shown: Shown::default(),
        });
        let turns = Arc::new(Turns::default());
        let rights = Arc::new(Rights {
            this: Arc::clone(&this),
            cluster: Cluster {
                own: config.own,
                members: Arc::clone(&config.is_member),
            },
            rules: Rules::new(&replica),
            file_grants: config.file_grants,
            machine_admins: config.machine_admins,
            pace: Pace::default(),
            turns: Arc::clone(&turns),
        });
        let sites = Bordered::new(config.sites, config.is_member);
        let asking = Arc::new(asking(&this, sites));
        let (live, shared) = (Arc::<Live>::default(), SharedSources::default());
        let divided = Arc::new(divided::Context {
            this: Arc::clone(&this),
            rights: Arc::clone(&rights),
            asking: Arc::clone(&asking),
            live: Arc::clone(&live),
            exported: Arc::clone(&config.exported),
            make_env: Arc::clone(&config.make_env),
            runner: runner.clone(),
            shared: shared.clone(),
            workers: Workers::default(),
        });
        let attempts = Arc::new(Attempts {
            reports: Arc::new(Reports {
                this: Arc::clone(&this),
                live: Arc::clone(&live),
                asking: Arc::clone(&asking),
                tells: config.tells,
            }),
            rights: Arc::clone(&rights),
            local: local::Context {
                rights: Arc::clone(&rights),
                asking: Arc::clone(&asking),
                make_env: config.make_env,
                divided: Arc::clone(&divided),
                shared,
            },
            site: Arc::new(site::Context {
                this: Arc::clone(&this),
                rights: Arc::clone(&rights),
                asking: Arc::clone(&asking),
                live: Arc::clone(&live),
                exported: Arc::clone(&config.exported),
                notices: PendingNotices::default(),
                unseen: Unseen::default(),
            }),
        });
        let admission = Arc::new(Admission {
            this: Arc::clone(&this),
            rights: Arc::clone(&rights),
            asking: Arc::clone(&asking),
            exported: Arc::clone(&config.exported),
            turns,
            waiting_of_owner_max: config.waiting_of_owner_max,
            counts: LastCounts::default(),
        });
        let kept_ticks = Arc::new(KeptTicks::default());
        let queue = Queue {
            this: Arc::clone(&this),
            rights: Arc::clone(&rights),
            attempts: Arc::clone(&attempts),
            exported: config.exported,
            runner,
            jobs_max: config.jobs_max,
            keep_history: config.keep_history,
            admission: Arc::clone(&admission),
            woken: Arc::new(Woken::default()),
            paces: Paces::default(),
            kept_ticks: Arc::clone(&kept_ticks),
            rooms: Rooms::default(),
            complaints: Complaints::default(),
            rounds: Rounds::default(),
        };
        let parts = Self {
            records: Arc::new(Records::new(Arc::clone(&this), live, divided)),
            this,
            rights,
            asking,
            attempts,
            admission,
            kept_ticks,
        };
        (parts, queue)
    }

    /// Starts the threads of the parts, and returns that of the scheduler.
    pub(super) fn start(&self, queue: Queue) -> Result<JoinHandle<()>, JobsError> {
        let woken = Arc::clone(&queue.woken);
        let exported = Arc::clone(&queue.exported);
        let scheduler = thread("gw-jobs", move || scheduler::run(&queue))?;
        let site = Arc::clone(&self.attempts.site);
        let notices = thread("gw-notices", move || pending::run(&site))?;
        self.live().keep(notices);
        let asking = Arc::clone(&self.asking);
        let elsewhere = thread("gw-elsewhere", move || elsewhere::run(&asking))?;
        self.live().keep(elsewhere);
        let asking = Arc::clone(&self.asking);
        let probe = thread("gw-probe", move || probe::run(&asking, &*exported, &woken))?;
        self.live().keep(probe);
        let asking = Arc::clone(&self.asking);
        let renewal = thread("gw-renewal", move || renewal::run(&asking))?;
        self.live().keep(renewal);
        let records = Arc::clone(&self.records);
        let mut drained = Drained::default();
        // Before the node drains any more. A state that cannot be read now is read at the next look.
        drop(drained.look(&self.this, Instant::now()));
        let records = thread("gw-records", move || records::run(&records, drained))?;
        self.live().keep(records);
        Ok(scheduler)
    }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, JobsError> {
    let thread = Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|source| JobsError::File {
        path: PathBuf::from(format!("thread {name}")),
        source,
    })
}

/// The node as it runs now: an earlier run of it has another instance.
fn runner_of(node: &str) -> Runner {
    Runner {
        node: node.to_owned(),
        instance: random_text(),
    }
}

/// The questions to other nodes. None has been sent yet.
fn asking(this: &Arc<ThisNode>, sites: Bordered) -> Asking {
    Asking {
        this: Arc::clone(this),
        sites: Arc::new(sites),
        elsewhere: RemoteProgress::default(),
        abroad: Abroad::default(),
        others: Others::default(),
        reaching: RecentDials::default(),
        hosts: Hosts::default(),
        learn_pace: LearnPace::default(),
    }
}

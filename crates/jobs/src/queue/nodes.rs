//! Chooses the jobs that this node takes of those that the nodes of a cluster share: a pure function of rows and counts, and a memory of
//! waiting jobs.
//! Claims nothing: if nodes choose the same job, the claim decides.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use godwit_state::{Job, JobFilter, Node, Reader, Reason};

use crate::basis::ends::{needs, reaches, sites_of};
use crate::basis::error::JobsError;
use crate::basis::pages::each_job;
use crate::queue::kin::{Kin, Kinship};
use crate::queue::order::ActiveJob;

/// A node waits this long for each job that it runs more than the node with the fewest.
const STEP: Duration = Duration::from_millis(250);

/// A node waits this long for each node that comes before it for the job, so that not all claim it at once.
const TURN: Duration = Duration::from_millis(40);

/// The longest wait: the node with the fewest jobs may be gone.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Why a job waits: no node can run it, or only nodes that take no jobs.
pub(crate) const NO_NODE: FailureCode = FailureCode::NoNode;
pub(crate) const NODES_DRAINED: FailureCode = FailureCode::NodesDrained;

/// Jobs of other nodes that one pass reads.
const OTHERS_MAX: usize = 1_000;

/// The facts about nodes of the cluster that matter for jobs.
#[derive(Default)]
pub(crate) struct Nodes {
    /// Rows of all nodes; empty for a node that is alone.
    rows: Vec<Node>,
    own: String,
    exports: Vec<String>,
    /// Jobs that the other nodes run.
    others: Vec<(String, ActiveJob)>,
}

impl Nodes {
    /// Reads the nodes, without the jobs that they run.
    pub(crate) fn rows(reader: &Reader, own: &str, exports: &[String]) -> Result<Self, JobsError> {
        Ok(Self {
            rows: reader.objects()?,
            own: own.to_owned(),
            exports: exports.to_vec(),
            others: Vec::new(),
        })
    }

    /// Reads them.
    pub(crate) fn read(reader: &Reader, own: &str, exports: &[String]) -> Result<Self, JobsError> {
        let mut nodes = Self::rows(reader, own, exports)?;
        if nodes.rows.len() < 2 {
            return Ok(nodes);
        }
        // An export that is another file system here than at other nodes is not in the row.
        if let Some(row) = nodes.rows.iter().find(|row| row.name == own) {
            let in_row = |export: &String| row.exports.contains(export);
            nodes.exports.retain(in_row);
        }
        let filter = JobFilter::moving();
        each_job(reader, filter, OTHERS_MAX, &mut |job| {
            let sites = sites_of(&job);
            let runner = job.runner.filter(|runner| runner.node != own);
            if let Some(runner) = runner {
                let running = ActiveJob {
                    owner: job.owner,
                    sites,
                };
                nodes.others.push((runner.node, running));
            }
            Ok(true)
        })?;
        Ok(nodes)
    }

    /// Jobs that the other nodes run.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = &ActiveJob> {
        self.others.iter().map(|(_, running)| running)
    }

    /// Whether this node takes no more jobs.
    pub(crate) fn is_draining(&self) -> bool {
        self.rows
            .iter()
            .any(|row| row.name == self.own && row.draining)
    }

    /// Whether a node of this name is in the cluster and takes jobs.
    pub(crate) fn takes(&self, name: &str) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| row.name == name && !row.draining)
    }

    /// Whether this node reaches the exports that the job needs.
    pub(crate) fn can_run(&self, job: &Job) -> bool {
        reaches(&self.exports, job)
    }

    /// Why no node takes the job, if none does.
    pub(crate) fn nobody(&self, job: &Job) -> Option<Reason> {
        // The row of a node that is alone may be older than its exports.
        if self.rows.len() < 2 && !reaches(&self.exports, job) {
            let missing = needs(job).filter(|name| !self.exports.iter().any(|own| own == name));
            let mut missing: Vec<&str> = missing.collect();
            missing.dedup();
            return Some(Reason::new(
                NO_NODE,
                format!(
                    "This node has no export {}; the job begins once the node is started with it.",
                    missing.join(" and ")
                ),
            ));
        }
        if self.rows.is_empty() {
            return None;
        }
        let able: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| reaches(&row.exports, job))
            .map(|row| row.name.as_str())
            .collect();
        if able.is_empty() {
            let exports: Vec<&str> = needs(job).collect();
            return Some(Reason::new(
                NO_NODE,
                format!(
                    "No node of the cluster has {}; the job begins when a node has this export.",
                    exports.join(" and ")
                ),
            ));
        }
        let takes = |name: &&str| {
            self.rows
                .iter()
                .any(|row| row.name == **name && !row.draining)
        };
        if able.iter().any(takes) {
            return None;
        }
        Some(Reason::new(
            NODES_DRAINED,
            format!(
                "Every node that has the job's exports is drained ({}); the job begins when one of them takes jobs again.",
                able.join(", ")
            ),
        ))
    }

    /// How long this node, which runs `mine` jobs, lets other nodes take the job first. A node that runs kin of the job takes it at once.
    fn patience(&self, job: &Job, kin: Option<&Kin>, mine: usize) -> Duration {
        let mut able: Vec<&Node> = self
            .rows
            .iter()
            .filter(|row| !row.draining && reaches(&row.exports, job))
            .collect();
        if able.len() < 2 {
            return Duration::ZERO;
        }
        if let Some(kin) = kin.filter(|kin| kin.here || kin.elsewhere) {
            return if kin.here { Duration::ZERO } else { WAIT_MAX };
        }
        let runs = |name: &str| match name == self.own {
            true => mine,
            false => self.others.iter().filter(|(node, _)| node == name).count(),
        };
        let least = able.iter().map(|row| runs(&row.name)).min().unwrap_or(0);
        // Another order for each job, so that no node is always the first. One order for all jobs of a parent.
        let of = kin.map_or(&job.id, |kin| &kin.parent);
        able.sort_by_key(|row| {
            let mut hasher = DefaultHasher::new();
            (of, &row.name).hash(&mut hasher);
            (runs(&row.name), hasher.finish())
        });
        let turn = able
            .iter()
            .position(|row| row.name == self.own)
            .unwrap_or(0);
        let times = |step: Duration, number: usize| {
            step.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX))
        };
        (times(STEP, mine.saturating_sub(least)) + times(TURN, turn)).min(WAIT_MAX)
    }
}

/// Time since which this node sees jobs wait.
#[derive(Default)]
pub(crate) struct Seen(HashMap<String, (u64, Instant)>);

impl Seen {
    /// Splits jobs into those that this node takes now and those that it leaves to others for now; returns when to look again.
    pub(crate) fn sift(
        &mut self,
        due: Vec<Job>,
        nodes: &Nodes,
        (kinship, mine): (&Kinship, usize),
        now: Instant,
    ) -> (Vec<Job>, Option<Duration>) {
        let mut next: Option<Duration> = None;
        let mut kept = HashMap::new();
        let mut taken = Vec::new();
        let mut parents: HashSet<&str> = HashSet::new();
        for job in due {
            let known = self.0.get(&job.id).filter(|(epoch, _)| *epoch == job.epoch);
            let since = known.map_or(now, |(_, since)| *since);
            kept.insert(job.id.clone(), (job.epoch, since));
            // Jobs that are taken now count for the next job.
            let kin = kinship.get(&job.id);
            let patience = match kin.is_some_and(|kin| parents.contains(&*kin.parent)) {
                true => Duration::ZERO,
                false => nodes.patience(&job, kin, mine + taken.len()),
            };
            let waited = now.saturating_duration_since(since);
            match patience.checked_sub(waited).filter(|left| !left.is_zero()) {
                None => {
                    parents.extend(kin.map(|kin| &*kin.parent));
                    taken.push(job);
                }
                Some(left) => next = Some(next.map_or(left, |next| next.min(left))),
            }
        }
        self.0 = kept;
        (taken, next)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use godwit_api::rest::HERE;

    use super::*;
    use godwit_state::{StoredPlace, Timestamp};

    fn row(name: &str, exports: &[&str], draining: bool) -> Node {
        Node {
            name: name.to_owned(),
            number: 1,
            identity: format!("gw1-{name}"),
            addresses: Vec::new(),
            exports: exports.iter().map(ToString::to_string).collect(),
            version: "1".to_owned(),
            level: 1,
            draining,
            voter: false,
            joined: Timestamp(0),
            admins: Vec::new(),
        }
    }

    pub(crate) fn job(id: &str, source: &str) -> Job {
        let place = |site: &str, path: &str| StoredPlace {
            site: site.to_owned(),
            path: path.to_owned(),
        };
        Job {
            sources: vec![place(HERE, source)],
            destination: place("siteB", "/x"),
            ..crate::basis::examples::job(id, "alice", "siteB")
        }
    }

    fn nodes(own: &str, rows: &[Node], others: &[&str]) -> Nodes {
        Nodes {
            exports: rows
                .iter()
                .find(|row| row.name == own)
                .map(|row| row.exports.clone())
                .unwrap_or_default(),
            rows: rows.to_vec(),
            own: own.to_owned(),
            others: others
                .iter()
                .map(|name| {
                    let running = ActiveJob {
                        owner: String::new(),
                        sites: Vec::new(),
                    };
                    ((*name).to_owned(), running)
                })
                .collect(),
        }
    }

    /// A node without others, with these exports.
    pub(crate) fn lone(exports: &[&str]) -> Nodes {
        Nodes {
            exports: exports.iter().map(ToString::to_string).collect(),
            own: "a".to_owned(),
            ..Nodes::default()
        }
    }

    #[test]
    fn a_lone_node_does_not_wait() {
        let alone = lone(&["data"]);
        assert_eq!(
            alone.patience(&job("1", "/data/x"), None, 10),
            Duration::ZERO
        );
        assert_eq!(alone.nobody(&job("1", "/data/x")), None);
        let nobody = alone.nobody(&job("1", "/gone/x")).expect("a reason");
        assert!(nobody.text.contains("no export gone;"), "{nobody:?}");
    }

    #[test]
    fn the_node_with_the_fewest_jobs_goes_first() {
        let rows = [
            row("a", &["data"], false),
            row("b", &["data"], false),
            row("c", &["other"], false),
        ];
        let busy = nodes("a", &rows, &[]);
        assert!(busy.patience(&job("1", "/data/x"), None, 3) >= STEP * 3);
        assert!(busy.patience(&job("1", "/data/x"), None, 30) <= WAIT_MAX);
        let idle = nodes("b", &rows, &["a", "a", "a"]);
        assert_eq!(idle.patience(&job("1", "/data/x"), None, 0), Duration::ZERO);
        // One of several equal nodes is preferred. The job decides which.
        let first: Vec<bool> = (0..64)
            .map(|number| {
                let job = job(&number.to_string(), "/data/x");
                let own = nodes("a", &rows, &[]).patience(&job, None, 0).is_zero();
                let other = nodes("b", &rows, &[]).patience(&job, None, 0).is_zero();
                assert_ne!(own, other);
                own
            })
            .collect();
        assert!(first.contains(&true) && first.contains(&false));
    }

    #[test]
    fn a_job_that_no_node_takes_says_why() {
        let rows = [row("a", &["data"], true), row("b", &["other"], false)];
        let nodes = nodes("b", &rows, &[]);
        let code = |source: &str| {
            nodes
                .nobody(&job("1", source))
                .and_then(|reason| reason.code.known())
        };
        assert_eq!(code("/data/x"), Some(NODES_DRAINED));
        assert_eq!(code("/none/x"), Some(NO_NODE));
        assert_eq!(code("/other/x"), None);
        assert!(!nodes.can_run(&job("1", "/data/x")));
    }

    #[test]
    fn a_job_that_no_other_node_takes_is_taken_in_the_end() {
        let rows = [row("a", &["data"], false), row("b", &["data"], false)];
        let nodes = nodes("a", &rows, &[]);
        let mut seen = Seen::default();
        let now = Instant::now();
        let due = || vec![job("1", "/data/x")];
        let (taken, next) = seen.sift(due(), &nodes, (&Kinship::new(), 2), now);
        assert!(taken.is_empty());
        let (taken, next) = seen.sift(
            due(),
            &nodes,
            (&Kinship::new(), 2),
            now + next.expect("a wait"),
        );
        assert_eq!((taken.len(), next), (1, None));
    }

    #[test]
    fn jobs_of_one_parent_come_to_one_node() {
        let rows = [row("a", &["data"], false), row("b", &["data"], false)];
        let kin = |here, elsewhere| Kin {
            parent: "p".to_owned(),
            here,
            elsewhere,
        };
        let [own, other] = ["a", "b"].map(|name| nodes(name, &rows, &[]));
        // Before any of these jobs runs, one node is preferred for all.
        let first = |id: &str| own.patience(&job(id, "/data/x"), Some(&kin(false, false)), 0);
        assert!((0..16).all(|id| first(&id.to_string()) == first("1")));
        let one = job("1", "/data/x");
        assert_eq!(
            own.patience(&one, Some(&kin(true, false)), 9),
            Duration::ZERO
        );
        assert_eq!(other.patience(&one, Some(&kin(false, true)), 0), WAIT_MAX);
        // A job that is taken takes its kin along.
        let kinship: Kinship = ["1", "2"]
            .map(|id| (id.to_owned(), kin(false, false)))
            .into();
        let due = || ["1", "2"].map(|id| job(id, "/data/x")).to_vec();
        let now = Instant::now();
        let taken = [&own, &other].map(|nodes| {
            let (taken, _) = Seen::default().sift(due(), nodes, (&kinship, 0), now);
            taken.len()
        });
        assert!(taken == [2, 0] || taken == [0, 2], "{taken:?}");
    }
}

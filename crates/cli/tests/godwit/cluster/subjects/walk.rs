//! A cluster with one asker for each subject, and a question of each kind that makes sense.
//! Knows no expected answer: the table does.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use godwit_api::ask::{
    Announce, Answer, AskExtent, AskSites as _, BufferQuestion, Carried, ClaimPlace, CleanPlace,
    ClusterQuestion, GrantJob, JoinCluster, KnownNode, ListPlace, MakeDirectory, ManifestAfter,
    Mark, PastAfter, Peer, Question, Refusal, ReleaseClaim, RemovePlace, RenamePlace, RenewClaim,
    RunJob, SealPlace, SteerJob, SteerVerb,
};
use godwit_api::grant::{Grant, Mandate, Subject};
use godwit_api::job::{ClaimId, Text};
use godwit_api::rest::{NodeResources, Timestamp};
use godwit_data_port::{Asker, Grants, Here};
use godwit_net::{Cipher, ClientTls, Identity};
use godwit_state::{Actor, AuditEntry, AuditOutcome, Command, Op, PROPOSE};
use godwit_store::Syncs;
use serde_json::json;

use super::super::super::rig::Rig;
use super::super::super::sites::third::only_job;
use super::super::Site;
use super::{
    ANOTHER, FAR, FOR_JOB, GUEST, KNOWN_SITE, LATER, MEMBER, REMOVED, SUBJECTS, WITHOUT, reach,
};

/// A client that proves a key to a node.
pub(super) struct Key {
    pub(super) id: String,
    pub(super) home: PathBuf,
    asker: Asker,
}

impl Key {
    /// The key of this home, which is made if there is none.
    pub(super) fn new(home: &Path) -> Self {
        fs::create_dir_all(home).expect("made");
        let identity = Identity::load_or_create(home).expect("a key");
        let tls = ClientTls::new(&identity, &Cipher::ALL).expect("set up");
        let here = Here::new(Vec::new(), home.to_owned(), Syncs::default());
        Self {
            id: identity.id().to_string(),
            home: home.to_owned(),
            asker: Asker::new(here, tls),
        }
    }

    /// Grants rights in all of the export.
    pub(super) fn allow(&self, rig: &Rig, rights: &str, expires: Option<Timestamp>) {
        self.allow_at(rig, "data", rights, expires);
    }

    /// Grants rights at a place.
    pub(super) fn allow_at(&self, rig: &Rig, area: &str, rights: &str, expires: Option<Timestamp>) {
        let line = [self.id.as_str(), area, rights];
        let mut grant = Grant::of_words(&line).expect("a grant");
        assert_eq!(grant.subject, Subject::Identity(self.id.clone()));
        grant.expires = expires;
        let added = Grants::new(&rig.daemon_home).add(&grant);
        assert!(added.expect("written"), "{grant:?}");
    }

    pub(super) fn ask(&self, rig: &Rig, question: &Question) -> Result<Answer, Refusal> {
        self.ask_for(None, rig, question)
    }

    fn ask_for(
        &self,
        mandate: Option<&Mandate>,
        rig: &Rig,
        question: &Question,
    ) -> Result<Answer, Refusal> {
        let peer = Peer {
            name: "node".to_owned(),
            addresses: vec![rig.address().to_owned()],
            identity: rig.identity.clone(),
        };
        self.asker
            .ask_for(mandate, Some(&peer), question, &mut |_| true)
    }
}

/// A cluster, and the subjects, which ask its first node.
pub(super) struct Walk {
    site: Site,
    keys: Vec<Key>,
    /// Identity that peers admit for their jobs.
    granted: String,
    cluster: String,
    level: u32,
    /// Id of the guest's job in the cluster.
    job: String,
    /// Counts claims.
    claims: Cell<u8>,
    numbers: BTreeMap<String, u64>,
}

impl Walk {
    pub(super) fn new() -> Self {
        let mut site = Site::of(4);
        let gone = site.nodes[2].daemon_home.clone();
        remove(&site, "dtn3");
        site.nodes[2].kill_daemon();
        // dtn4 keeps running after its removal, and knows only the members at the time of its join.
        remove(&site, "dtn4");
        let rig = &site.nodes[0];
        let keys: Vec<Key> = (0..SUBJECTS.len())
            .map(|subject| match subject {
                MEMBER => Key::new(&site.nodes[1].daemon_home),
                REMOVED | LATER => Key::new(&gone),
                _ => Key::new(&rig.path(format!("key{subject}"))),
            })
            .collect();
        keys[1].allow(rig, "read", None);
        keys[2].allow(rig, "read,write", None);
        keys[3].allow(rig, "read,write", Some(Timestamp(1)));
        keys[GUEST].allow(rig, "read,write", None);
        for subject in [ANOTHER, FOR_JOB, WITHOUT] {
            keys[subject].allow(rig, "read,write", None);
        }
        let known = ["site", "add", "siteX", "192.0.2.1", "--identity"];
        let known = rig.admin(&[&known[..], &[&keys[KNOWN_SITE].id]].concat());
        assert_eq!(known.code, Some(0), "{known:?}");
        fs::create_dir_all(rig.export.join("a")).expect("made");
        let view = site.view(0).expect("a view");
        let cluster = view["cluster"].as_str().expect("an id").to_owned();
        let level = view["level"].as_u64().expect("a number");
        let level = u32::try_from(level).expect("a small one");
        let numbers = super::super::nodes(&view).into_iter().map(|node| {
            let text = |name: &str| node[name].as_str().expect("text").to_owned();
            (text("identity"), node["number"].as_u64().expect("a number"))
        });
        let numbers = numbers.collect();
        let granted = Key::new(&rig.path("granted")).id;
        let mut walk = Self {
            site,
            keys,
            granted,
            cluster,
            level,
            job: String::new(),
            claims: Cell::new(0),
            numbers,
        };
        let run = walk.ask(GUEST, &run("g1", "guest"));
        run.expect("the guest's job");
        let job = only_job(&walk.site.nodes[0]);
        job["id"].as_str().expect("an id").clone_into(&mut walk.job);
        // The node has learned that it was removed.
        let until = Instant::now() + super::super::DEADLINE;
        let status = Question::Cluster(Box::new(walk.of_cluster("cluster/status")));
        while walk.keys[MEMBER].ask(&walk.site.nodes[3], &status).is_ok() {
            assert!(Instant::now() < until, "it serves the nodes that are left");
            std::thread::sleep(Duration::from_millis(100));
        }
        walk
    }

    /// The node that a subject asks.
    pub(super) fn asked(&self, subject: usize) -> &Rig {
        match subject {
            LATER => &self.site.nodes[3],
            _ => &self.site.nodes[0],
        }
    }

    pub(super) fn key(&self, subject: usize) -> &Key {
        &self.keys[subject]
    }

    /// The job for which a subject comes.
    pub(super) fn mandate(&self, subject: usize) -> Option<Mandate> {
        (subject >= FOR_JOB).then(|| Mandate {
            asker: self.keys[GUEST].id.clone(),
            job: "j".to_owned(),
        })
    }

    pub(super) fn ask(&self, subject: usize, question: &Question) -> Result<Answer, Refusal> {
        let mandate = self.mandate(subject);
        self.keys[subject].ask_for(mandate.as_ref(), self.asked(subject), question)
    }

    /// Admits the subject for the job of the asker, at its directory.
    pub(super) fn let_in(&self) {
        for write in [false, true] {
            let wish = GrantJob {
                job: "j".to_owned(),
                identity: self.keys[FOR_JOB].id.clone(),
                paths: vec![Text::from(format!("data/s{FOR_JOB}").as_str())],
                write,
                until: Timestamp(FAR),
                lasts_ms: None,
            };
            self.ask(GUEST, &Question::Grant(wish)).expect("given");
        }
    }

    /// Makes the directory of a subject again, with `old` in it; returns its name.
    pub(super) fn directory(&self, subject: usize) -> String {
        let own = format!("s{subject}");
        let directory = self.site.nodes[0].export.join(&own);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("old")).expect("made");
        own
    }

    /// A meaningful question of the kind, about existing things.
    pub(super) fn question(&self, kind: &str, subject: usize) -> Question {
        let own = self.directory(subject);
        let path = |name: &str| Text::from(format!("data/{own}/{name}").as_str());
        let job = match subject {
            // To a node of the cluster, the id there counts.
            MEMBER if kind == "manifest" => self.job.clone(),
            _ => "g1".to_owned(),
        };
        match kind {
            "exports" => Question::Exports {},
            "list" => Question::List(ListPlace {
                path: path(""),
                cursor: None,
                limit: 5,
            }),
            "stat" => Question::Stat { path: path("old") },
            "make_directory" => Question::MakeDirectory(MakeDirectory {
                path: path("new"),
                parents: false,
            }),
            "remove" => Question::Remove(RemovePlace {
                path: path("old"),
                recursive: false,
            }),
            "rename" => Question::Rename(RenamePlace {
                from: path("old"),
                to: path("new"),
                replace: false,
            }),
            "clean" => Question::Clean(CleanPlace {
                path: path(""),
                dry_run: true,
                older_than_seconds: 0,
                ..CleanPlace::default()
            }),
            "overlaps" => Question::Overlaps {
                paths: vec![path("old"), path("new")],
            },
            "seal" => Question::Seal(SealPlace {
                path: path("old"),
                kinds: "xxh64".to_owned(),
                check: false,
            }),
            "claim" => self.claim(&path("old")).0,
            "renew" => Question::Renew(RenewClaim {
                claim: self.claimed(&path("old")),
                epoch: 1,
                lease_ms: 10_000,
            }),
            "release" => Question::Release(ReleaseClaim {
                claim: self.claimed(&path("old")),
                epoch: 1,
                path: None,
            }),
            "nodes" => Question::Nodes {
                path: path(""),
                of: None,
            },
            "nodes/of a member" => self.nodes_of(&path(""), MEMBER),
            "nodes/of a stranger" => self.nodes_of(&path(""), 0),
            "nodes/of a removed member" => self.nodes_of(&path(""), REMOVED),
            "reach" => reach(Peer {
                name: "b".to_owned(),
                addresses: vec![self.site.nodes[1].address().to_owned()],
                identity: self.site.nodes[1].identity.clone(),
            }),
            "grant" => Question::Grant(GrantJob {
                job: "j".to_owned(),
                identity: self.granted.clone(),
                paths: vec![path("old")],
                write: true,
                until: Timestamp(FAR),
                lasts_ms: None,
            }),
            "revoke" => Question::Revoke {
                job: "j".to_owned(),
                keep: Vec::new(),
            },
            "run" => run(&format!("r{subject}"), &own),
            "job" => Question::Job { job },
            "steer" => Question::Steer(SteerJob {
                job,
                verb: Some(SteerVerb::Cancel),
                ..SteerJob::default()
            }),
            "past" => Question::Past(PastAfter {
                job,
                attempt: 0,
                line: 0,
                sample: Timestamp(0),
            }),
            "manifest" => Question::Manifest(ManifestAfter {
                job,
                offset: 0,
                of: None,
            }),
            "running" => Question::Running {},
            "host" => Question::Host {},
            "buffer" => Question::Buffer(BufferQuestion::Files {
                export: "data".to_owned(),
                below: Text::from(own.as_str()),
                after: None,
                most: 5,
            }),
            "buffer/waiting" => Question::Buffer(BufferQuestion::Waiting {
                export: "data".to_owned(),
                below: Text::from(own.as_str()),
                after: None,
                most: 5,
            }),
            "buffer/retry" => Question::Buffer(BufferQuestion::Retry {
                export: "data".to_owned(),
                below: Text::from(own.as_str()),
            }),
            "buffer/give up" => Question::Buffer(BufferQuestion::GiveUp {
                export: "data".to_owned(),
                below: Text::from(own.as_str()),
            }),
            "extent" => Question::Extent(Box::new(AskExtent {
                export: "data".to_owned(),
                path: Text::from(format!("{own}/old").as_str()),
                bytes: 7,
                stamp: 1,
                offset: 0,
                length: 7,
                from: 0,
                fill: true,
                keep_ms: None,
                next: Vec::new(),
            })),
            kind => Question::Cluster(Box::new(self.of_cluster(kind))),
        }
    }

    fn nodes_of(&self, path: &Text, subject: usize) -> Question {
        Question::Nodes {
            path: path.clone(),
            of: Some(self.keys[subject].id.clone()),
        }
    }

    /// A message of the consensus, from any asker, for the first node.
    fn carried(&self, kind: &str, message: serde_json::Value) -> ClusterQuestion {
        ClusterQuestion::Carry(Carried {
            of: self.cluster.clone(),
            to: self.numbers[&self.site.nodes[0].identity],
            kind: kind.to_owned(),
            once: false,
            is_short: true,
            message,
        })
    }

    fn of_cluster(&self, kind: &str) -> ClusterQuestion {
        let of = self.cluster.clone();
        let member = &self.site.nodes[1];
        match kind {
            "cluster/carry" => self.carried("no such message", json!(null)),
            "cluster/carry a command" => {
                let entry = AuditEntry {
                    action: "walked".to_owned(),
                    object: "the table".to_owned(),
                    outcome: AuditOutcome::Done,
                };
                let command = Command::new(Timestamp(0), Actor::node("dtn2"), Op::Audit(entry));
                let message = serde_json::to_value(command).expect("a command");
                self.carried(PROPOSE, message)
            }
            "cluster/carry entries" => self.carried("append", json!({"entries": []})),
            "cluster/announce" => ClusterQuestion::Announce(Box::new(Announce {
                admins: Default::default(),
                problem: None,
                of,
                node: KnownNode {
                    name: "dtn2".to_owned(),
                    number: self.numbers[&member.identity],
                    identity: member.identity.clone(),
                    addresses: vec![member.address().to_owned()],
                },
                exports: vec!["data".to_owned()],
                version: env!("CARGO_PKG_VERSION").to_owned(),
                level: self.level,
                resources: NodeResources::default(),
                observations: BTreeMap::new(),
            })),
            "cluster/status" => ClusterQuestion::Status { of },
            "cluster/join" => ClusterQuestion::Join(Box::new(JoinCluster {
                secret: "guessed".to_owned(),
                name: "dtn9".to_owned(),
                exports: vec!["data".to_owned()],
                version: env!("CARGO_PKG_VERSION").to_owned(),
                level: self.level,
            })),
            other => panic!("the test has no question {other}"),
        }
    }

    /// A claim of the place, with an unused id.
    fn claim(&self, path: &Text) -> (Question, ClaimId) {
        self.claims.set(self.claims.get() + 1);
        let claim = ClaimId([self.claims.get(); 16]);
        let question = Question::Claim(ClaimPlace {
            copies: false,
            claim,
            epoch: 1,
            path: path.clone(),
            members: vec![self.keys[GUEST].id.clone()],
            lease_ms: 1_000,
            fence: Vec::new(),
            mark: Mark::Untouched,
        });
        (question, claim)
    }

    /// A claim that the asker of the guest job holds at the place.
    fn claimed(&self, path: &Text) -> ClaimId {
        let (question, claim) = self.claim(path);
        let until = Instant::now() + super::super::DEADLINE;
        // Repeats the request until the lease of an earlier claim has ended.
        while let Err(refusal) = self.ask(GUEST, &question) {
            assert!(refusal.retryable && Instant::now() < until, "{refusal:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        claim
    }
}

/// Takes a node out of the cluster; its daemon keeps running.
pub(super) fn remove(site: &Site, name: &str) {
    let before = site
        .view(0)
        .map_or(0, |view| super::super::nodes(&view).len());
    let drained = site.nodes[0].admin(&["cluster", "drain", name]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
    site.wait_at(&[0], "it is drained", |view| {
        super::super::state_of(view, name) == "drained"
    });
    let removed = site.nodes[0].admin(&["cluster", "remove", name]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    site.wait_at(&[0], "it is gone", |view| {
        super::super::nodes(view).len() + 1 == before
    });
}

fn run(job: &str, to: &str) -> Question {
    let new =
        json!({"sources": ["here:/data/a"], "destination": format!("here:/data/copies/{to}/")});
    Question::Run(Box::new(RunJob {
        job: job.to_owned(),
        again: false,
        request: None,
        deadline_ms: None,
        new: serde_json::from_value(new).expect("a job"),
        other: None,
        may_list: Some(true),
        may_read: Some(true),
    }))
}

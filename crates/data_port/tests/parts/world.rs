//! Two nodes in this process that export one directory, a client that is a member, and a controller that sets the
//! claim. Checks nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use godwit_api::ask::{
    Answer, AskSites, ClaimPlace, Peer, Question, Refusal, ReleaseClaim, RenewClaim,
};
use godwit_api::job::{ClaimId, HeldPart, Item, JobKind, JobSpec, Member, PartDigest};
use godwit_data_port::{Asker, ClaimTable, Daemon, Exported, Here};
use godwit_net::{Cipher, ClientTls, Identity, IdentityId};
use godwit_run::local::ExportedFiles;
use godwit_run::{Env, Home};
use godwit_store::{Confine, FsStorage, RelPath, Storage};
use godwit_worlds::{
    BegunTransfer, DEADLINE, Ended, begin, copy, data_port, export, node_home, surroundings, trust,
};

/// The minimum length of a part.
pub(crate) const PART: u64 = 256 << 20;

pub(crate) const CLAIM: ClaimId = ClaimId([7; 16]);

/// A source, a destination, and two nodes that export it.
pub(crate) struct World {
    directory: tempfile::TempDir,
    nodes: Vec<(Daemon, IdentityId)>,
    client: IdentityId,
    asker: Asker,
    /// The claims of the first node.
    claims: Arc<ClaimTable>,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        Home::at(path("home")).make().expect("made");
        let own = Identity::load_or_create(&path("home")).expect("a key");
        for name in ["from", "to/set"] {
            fs::create_dir_all(path(name)).expect("made");
        }
        let claims = Arc::<ClaimTable>::default();
        let nodes = [0, 1].map(|number| {
            let home = path(&format!("node{number}"));
            let identity = node_home(&home, &own.id().to_string(), "read,write,delete");
            let mut config = data_port(&home, &identity, vec![export("to", &path("to"))]);
            if number == 0 {
                config.claims = Arc::clone(&claims);
            }
            let daemon = Daemon::start(config, &identity).expect("started");
            trust(&path("home"), &daemon, *identity.id());
            (daemon, *identity.id())
        });
        let tls = ClientTls::new(&own, &Cipher::ALL).expect("TLS");
        let here = Here::new(Vec::new(), path("home"), Default::default());
        Self {
            nodes: nodes.into(),
            client: *own.id(),
            asker: Asker::new(here, tls),
            claims,
            directory,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn ask(&self, node: usize, question: &Question) -> Result<Answer, Refusal> {
        let (daemon, identity) = &self.nodes[node];
        let peer = Peer {
            name: format!("node{node}"),
            addresses: vec![daemon.addresses()[0].to_string()],
            identity: identity.to_string(),
        };
        self.asker.ask(Some(&peer), question, &mut |_| true)
    }

    /// The question that sets the client's claim on the destination at a node.
    pub(crate) fn claim(&self, epoch: u64, lease: Duration) -> Question {
        Question::Claim(ClaimPlace {
            copies: false,
            claim: CLAIM,
            epoch,
            path: "to/set".into(),
            members: vec![self.client.to_string()],
            lease_ms: u64::try_from(lease.as_millis()).expect("short"),
            fence: Vec::new(),
            mark: godwit_api::ask::Mark::Untouched,
        })
    }

    #[track_caller]
    pub(crate) fn claim_all(&self) {
        for node in 0..self.nodes.len() {
            self.ask(node, &self.claim(1, DEADLINE)).expect("claimed");
        }
    }

    /// Makes all nodes assemble files in copies from now on.
    pub(crate) fn claim_copies(&self) {
        for node in 0..self.nodes.len() {
            let Question::Claim(place) = self.claim(1, DEADLINE) else {
                panic!("no claim");
            };
            let copies = ClaimPlace {
                copies: true,
                ..place
            };
            self.ask(node, &Question::Claim(copies)).expect("claimed");
        }
    }

    pub(crate) fn renew(&self, node: usize, epoch: u64) -> Result<Answer, Refusal> {
        let renewal = RenewClaim {
            claim: CLAIM,
            epoch,
            lease_ms: 240_000,
        };
        self.ask(node, &Question::Renew(renewal))
    }

    pub(crate) fn release(&self, node: usize) -> Result<Answer, Refusal> {
        let release = ReleaseClaim {
            claim: CLAIM,
            epoch: 1,
            path: None,
        };
        self.ask(node, &Question::Release(release))
    }

    /// A job from the source to the destination through a node.
    pub(crate) fn spec(&self, node: usize, settings: &[(&str, &str)]) -> JobSpec {
        let address = self.nodes[node].0.addresses()[0];
        copy("from", &format!("godwit://{address}/to/set/"), settings)
    }

    pub(crate) fn member(
        &self,
        node: usize,
        items: Vec<Item>,
        settings: &[(&str, &str)],
    ) -> JobSpec {
        JobSpec {
            member: Some(Member {
                claim: CLAIM,
                epoch: 1,
                closer: false,
                deletes: false,
                lane: 0,
                region: None,
            }),
            items,
            ..self.spec(node, settings)
        }
    }

    /// The push that finishes the tree.
    pub(crate) fn closer(&self, node: usize) -> JobSpec {
        JobSpec {
            kind: JobKind::Sync,
            member: Some(Member {
                claim: CLAIM,
                epoch: 1,
                closer: true,
                deletes: true,
                lane: 0,
                region: None,
            }),
            ..self.spec(node, &[("delete", "true")])
        }
    }

    pub(crate) fn begin(&self, spec: JobSpec) -> BegunTransfer {
        self.begin_with(spec, None)
    }

    /// A job of the first node itself, between its exports.
    pub(crate) fn begin_own(&self) -> BegunTransfer {
        let exports = ["from", "to"].map(|name| export(name, &self.path(name)));
        let spill = self.path("node0/spill");
        let exported = Exported::new(exports.to_vec(), spill, Default::default());
        let spec = JobSpec {
            sources: vec!["/from/small".parse().expect("an endpoint")],
            destination: "/to/set/".parse().expect("an endpoint"),
            ..self.spec(0, &[])
        };
        let exported = exported.claiming(Arc::clone(&self.claims));
        self.begin_with(spec, Some(Arc::new(exported)))
    }

    fn begin_with(&self, spec: JobSpec, exports: Option<Arc<dyn ExportedFiles>>) -> BegunTransfer {
        let env = Env {
            base: Some(self.directory.path().to_owned()),
            exports,
            ..surroundings(&self.path("home"))
        };
        begin(spec, env)
    }

    #[track_caller]
    pub(crate) fn run(&self, spec: JobSpec) -> Ended {
        self.begin(spec).end()
    }

    /// A file of `bytes` bytes at the source, with some data in each 64 MiB and at its end.
    pub(crate) fn file(&self, name: &str, bytes: u64) {
        let file = File::create(self.path("from").join(name)).expect("made");
        file.set_len(bytes).expect("long");
        for at in (0..bytes).step_by(64 << 20) {
            file.write_all_at(&at.to_be_bytes().repeat(700), at)
                .expect("written");
        }
        let end = bytes.saturating_sub(3000);
        file.write_all_at(&[0xEE; 3000], end).expect("written");
        file.set_len(bytes).expect("as long as before");
    }

    pub(crate) fn generation(&self, name: &str) -> u64 {
        let storage =
            FsStorage::open(&self.path("from"), Confine::Export, &self.path("home")).expect("open");
        let path = RelPath::parse(name.as_bytes()).expect("a path");
        let meta = storage.stat(&path).expect("looked at").expect("there");
        meta.generation()
    }

    /// All parts of a source file, divided as by a controller.
    pub(crate) fn parts(&self, name: &str) -> Vec<Item> {
        let bytes = fs::metadata(self.path("from").join(name))
            .expect("there")
            .len();
        let generation = self.generation(name);
        let part = |offset| Item::Part {
            path: name.into(),
            offset,
            bytes: PART.min(bytes - offset),
            generation,
        };
        (0..bytes)
            .step_by(usize::try_from(PART).expect("it fits"))
            .map(part)
            .collect()
    }

    /// The item that assembles parts.
    pub(crate) fn assemble(&self, name: &str, parts: &[(Item, PartDigest)]) -> Item {
        let held = parts.iter().map(|(item, digest)| match item {
            Item::Part { offset, bytes, .. } => HeldPart {
                offset: *offset,
                bytes: *bytes,
                digest: digest.clone(),
            },
            Item::Assemble { .. } => panic!("no part"),
        });
        Item::Assemble {
            path: name.into(),
            generation: self.generation(name),
            parts: held.collect(),
        }
    }

    /// Sends all parts of a file through the nodes in turn; returns each with its digest.
    #[track_caller]
    pub(crate) fn bring(&self, name: &str, settings: &[(&str, &str)]) -> Vec<(Item, PartDigest)> {
        let parts = self.parts(name);
        let begun: Vec<BegunTransfer> = (0..self.nodes.len())
            .map(|node| {
                let mine = parts.iter().skip(node).step_by(self.nodes.len());
                self.begin(self.member(node, mine.cloned().collect(), settings))
            })
            .collect();
        let mut digests = BTreeMap::new();
        for (node, running) in begun.into_iter().enumerate() {
            let mine: Vec<usize> = (node..parts.len()).step_by(self.nodes.len()).collect();
            let ended = running.end();
            for (number, digest) in mine.iter().zip(ended.digests(mine.len())) {
                let digest = digest.unwrap_or_else(|| panic!("part {number}: {ended:?}"));
                digests.insert(*number, digest);
            }
        }
        parts.into_iter().zip(digests.into_values()).collect()
    }

    /// Temporary files in the destination.
    pub(crate) fn temporary(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("to/set")).expect("read");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths
            .filter(|path| path.file_name().is_some_and(is_temporary))
            .collect()
    }

    #[track_caller]
    pub(crate) fn assert_same(&self, name: &str) {
        let [from, to] = ["from", "to/set"].map(|place| self.path(place).join(name));
        let [one, other] = [&from, &to].map(|path| fs::metadata(path).expect("there"));
        assert_eq!(one.len(), other.len(), "{name}");
        assert_eq!(
            (one.mtime(), one.mtime_nsec(), one.mode()),
            (other.mtime(), other.mtime_nsec(), other.mode()),
            "{name}"
        );
        assert!(same_contents(&from, &to), "{name} has other contents");
    }
}

fn is_temporary(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".godwit-")
}

fn same_contents(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| File::open(path).expect("open"));
    let mut buffers = [vec![0; 4 << 20], vec![0; 4 << 20]];
    let mut at = 0;
    loop {
        let [near, far] = &mut buffers;
        let read = one.read_at(near, at).expect("read");
        if read == 0 {
            return other.read_at(far, at).expect("read") == 0;
        }
        if other.read_exact_at(&mut far[..read], at).is_err() || near[..read] != far[..read] {
            return false;
        }
        at += read as u64;
    }
}

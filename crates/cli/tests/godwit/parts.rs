//! Two nodes that write parts of one file on storage that both see, one of them stopped across the end of its claim.
//! Parts within one process are tested in `node`, by seeds in `engine`.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites, ClaimPlace, Mark, Peer, Question, Refusal};
use godwit_api::endpoint::Endpoint;
use godwit_api::event::{Event, EventSink, Summary};
use godwit_api::failure::Failure;
use godwit_api::job::{
    ClaimId, HeldPart, Item, JOB_VERSION, JobKind, JobSpec, Member, PartDigest, Text,
};
use godwit_data_port::{Asker, Here};
use godwit_engine::session::{Connector, Refusal as Refused};
use godwit_net::{Cipher, ClientTls, Identity, IdentityId, PeerAddress};
use godwit_run::{
    AgentOrder, Connectors, Control, Env, Home, Process, Runner, SshClient, SshWay, StartedAgent,
};
use godwit_store::{Confine, FsStorage, RelPath, Storage};
use rustix::process::Signal;

use super::rig::Rig;

const PART: u64 = 256 << 20;
/// All of it is data.
const LAST: u64 = 24 << 20;
const CLAIM: ClaimId = ClaimId([5; 16]);

struct Nowhere;

impl Connectors for Nowhere {
    fn by_ssh(&self, _: SshWay<'_>, _: SshClient) -> Result<Arc<dyn Connector>, Failure> {
        Err(Failure::usage("there are no other machines"))
    }

    fn start_agent(&self, _: SshWay<'_>, _: &AgentOrder) -> Result<StartedAgent, Refused> {
        Err(godwit_run::refusal_of(Failure::usage(
            "there are no other machines",
        )))
    }

    fn trusts(&self, _: &PeerAddress, _: &IdentityId) -> Result<bool, Failure> {
        Ok(false)
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<Event>>);

impl EventSink for Heard {
    fn tell(&self, event: Event) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(event);
    }
}

impl Heard {
    fn find<T>(&self, find: impl FnMut(&Event) -> Option<T>) -> Option<T> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().find_map(find)
    }

    fn digests(&self) -> Vec<PartDigest> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let done = events.iter().filter_map(|event| match event {
            Event::WorkDone(done) => Some((done.number, done.digest.clone()?)),
            _ => None,
        });
        let mut done: Vec<(usize, PartDigest)> = done.collect();
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, digest)| digest).collect()
    }
}

type Running = JoinHandle<Result<Summary, Failure>>;

/// The client of both nodes, which is the controller, too.
struct Client<'a> {
    rig: &'a Rig,
    key: Identity,
}

impl Client<'_> {
    fn claim(&self, node: &Rig, lease_ms: u64) -> Result<Answer, Refusal> {
        let tls = ClientTls::new(&self.key, &Cipher::ALL).expect("TLS");
        let here = Here::new(Vec::new(), self.rig.client_home(), Default::default());
        let peer = Peer {
            name: "node".to_owned(),
            addresses: vec![node.address().to_owned()],
            identity: node.identity.clone(),
        };
        let question = Question::Claim(ClaimPlace {
            copies: false,
            claim: CLAIM,
            epoch: 1,
            path: "data".into(),
            members: vec![self.key.id().to_string()],
            lease_ms,
            fence: Vec::new(),
            mark: Mark::Untouched,
        });
        Asker::new(here, tls).ask(Some(&peer), &question, &mut |_| true)
    }

    fn begin(&self, node: &Rig, items: Vec<Item>, limit: Option<&str>) -> (Arc<Heard>, Running) {
        let limit = limit.map(|limit| ("limit".to_owned(), vec![Text::from(limit)]));
        let spec = JobSpec {
            version: JOB_VERSION,
            kind: JobKind::Copy,
            sources: vec![Endpoint::Local(self.rig.path("from"))],
            destination: node.url("").parse().expect("an endpoint"),
            settings: limit.into_iter().collect(),
            selection: None,
            member: Some(Member {
                claim: CLAIM,
                epoch: 1,
                closer: false,
                deletes: false,
                lane: 0,
                region: None,
            }),
            items,
        };
        let env = Env {
            process: Process::default(),
            home: Home::at(self.rig.client_home()),
            base: None,
            exports: None,
            umask: 0o077,
            started: Instant::now(),
            alone: false,
            retries_first: false,
            connectors: Arc::new(Nowhere),
            input: None,
            output: None,
            list: None,
            kept_out: Vec::new(),
            tells: None,
            label: None,
            mandate: None,
            hides_names: false,
            hides_contents: false,
            attempts: None,
        };
        let heard = Arc::new(Heard::default());
        let events = Arc::clone(&heard) as Arc<dyn EventSink>;
        let run = move || Runner::run(&spec, &env, &events, &Control::default());
        (heard, thread::spawn(run))
    }
}

/// Both nodes export one directory, so that the kernel's view of it is what a shared file system gives.
#[test]
fn a_node_stopped_across_the_end_of_its_claim_changes_nothing_once_it_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut stopped = Rig::with(directory, None, None);
    stopped.start(&[]);
    let directory = tempfile::tempdir().expect("a directory");
    let mut other = Rig::with(directory, Some(&stopped.export), None);
    other.start(&[]);
    let us = stopped.client(&["id"]).out;
    let rights = ["access", "allow", us.trim(), "--all-exports", "--write"];
    assert_eq!(other.admin(&rights).code, Some(0));
    stopped.trust(other.address(), &other.identity);
    let key = Identity::load_or_create(&stopped.client_home()).expect("a key");
    let client = Client { rig: &stopped, key };

    stopped.make_dirs("from");
    let source = File::create(stopped.path("from/big")).expect("made");
    source.set_len(PART).expect("long");
    let content: Vec<u8> = (0..LAST).map(|at| (at % 253) as u8).collect();
    source.write_all_at(&content, PART).expect("written");
    source.write_all_at(&content, 1 << 20).expect("written");
    drop(source);
    let storage = FsStorage::open(
        &stopped.path("from"),
        Confine::Export,
        &stopped.client_home(),
    );
    let name = RelPath::parse(b"big").expect("a path");
    let meta = storage.expect("open").stat(&name).expect("looked at");
    let generation = meta.expect("there").generation();
    let part = |offset, bytes| Item::Part {
        path: "big".into(),
        offset,
        bytes,
        generation,
    };

    // The lease begins before this moment, and ends after the next by no more than it lasts.
    let lease = Duration::from_secs(5);
    let lease_ms = u64::try_from(lease.as_millis()).expect("short");
    client.claim(&stopped, lease_ms).expect("claimed");
    let claimed = Instant::now();
    client.claim(&other, 240_000).expect("claimed");
    let (slow, running) = client.begin(&stopped, vec![part(PART, LAST)], Some("2MB"));
    let moves = |event: &Event| match event {
        Event::Progress(progress) => (progress.bytes > 0).then_some(()),
        _ => None,
    };
    while slow.find(moves).is_none() {
        assert!(!running.is_finished(), "{:?}", running.join());
        thread::sleep(Duration::from_millis(5));
    }
    stopped.daemon().signal(Signal::STOP);
    thread::sleep(
        (claimed + lease + Duration::from_millis(100)).saturating_duration_since(Instant::now()),
    );

    // The other one takes over.
    let parts = [(0, PART), (PART, LAST)];
    let items = parts.map(|(offset, bytes)| part(offset, bytes)).to_vec();
    let (heard, brought) = client.begin(&other, items, None);
    brought.join().expect("no panic").expect("brought");
    let held = parts.iter().zip(heard.digests());
    let held = held.map(|((offset, bytes), digest)| HeldPart {
        offset: *offset,
        bytes: *bytes,
        digest,
    });
    let assemble = Item::Assemble {
        path: "big".into(),
        generation,
        parts: held.collect(),
    };
    let (heard, assembled) = client.begin(&other, vec![assemble], None);
    assembled.join().expect("no panic").expect("assembled");
    assert_eq!(heard.digests().len(), 1);
    let state = || {
        let meta = fs::metadata(stopped.export.join("big")).expect("there");
        let times = [
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec(),
        ];
        (meta.ino(), meta.len(), times)
    };
    let before = state();
    assert_eq!(before.1, PART + LAST);

    // The stopped node must not write the data that is still in its sockets and buffers.
    stopped.daemon().signal(Signal::CONT);
    running
        .join()
        .expect("no panic")
        .expect_err("it lost its claim");
    assert_eq!(slow.digests(), []);
    assert_eq!(state(), before, "written to after it had its name");
    let from = fs::metadata(stopped.path("from/big")).expect("there");
    assert_eq!([from.mtime(), from.mtime_nsec()], before.2[..2]);
    let [from, to] = [stopped.path("from/big"), stopped.export.join("big")];
    assert!(fs::read(from).expect("read") == fs::read(to).expect("read"));
}

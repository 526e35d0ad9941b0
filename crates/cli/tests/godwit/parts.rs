//! Two nodes that write parts of one file on storage that both see, one of them stopped across the end of its claim.
//! Parts within one process are tested in `node`, by seeds in `engine`.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::ask::{Answer, AskSites, ClaimPlace, Mark, Peer, Question, Refusal};
use godwit_api::endpoint::Endpoint;
use godwit_api::event::Event;
use godwit_api::job::{ClaimId, HeldPart, Item, JobSpec, Member};
use godwit_data_port::{Asker, Here};
use godwit_net::{Cipher, ClientTls, Identity};
use godwit_store::{Confine, FsStorage, RelPath, Storage};
use godwit_worlds::{BegunTransfer, begin, copy, surroundings};
use rustix::process::Signal;

use super::rig::Rig;

const PART: u64 = 256 << 20;
/// All of it is data.
const LAST: u64 = 24 << 20;
const CLAIM: ClaimId = ClaimId([5; 16]);

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

    fn begin(&self, node: &Rig, items: Vec<Item>, settings: &[(&str, &str)]) -> BegunTransfer {
        let spec = JobSpec {
            sources: vec![Endpoint::Local(self.rig.path("from"))],
            member: Some(Member {
                claim: CLAIM,
                epoch: 1,
                closer: false,
                deletes: false,
                lane: 0,
                region: None,
            }),
            items,
            ..copy("from", &node.url(""), settings)
        };
        begin(spec, surroundings(&self.rig.client_home()))
    }
}

/// Both nodes export one directory, so that the kernel's view of it is what a shared file system gives.
#[test]
fn a_node_stopped_across_the_end_of_its_claim_changes_nothing_once_it_continues() {
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

    // The lease begins before `claimed`, so it ends at most one lease time after that.
    let lease = Duration::from_secs(5);
    let lease_ms = u64::try_from(lease.as_millis()).expect("short");
    client.claim(&stopped, lease_ms).expect("claimed");
    let claimed = Instant::now();
    client.claim(&other, 240_000).expect("claimed");
    let slow = client.begin(&stopped, vec![part(PART, LAST)], &[("limit", "2MB")]);
    slow.event_log
        .wait_for(|event| matches!(event, Event::Progress(progress) if progress.bytes > 0));
    stopped.daemon().signal(Signal::STOP);
    thread::sleep(
        (claimed + lease + Duration::from_millis(100)).saturating_duration_since(Instant::now()),
    );

    // The other member takes over.
    let parts = [(0, PART), (PART, LAST)];
    let items = parts.map(|(offset, bytes)| part(offset, bytes)).to_vec();
    let ended_part = client.begin(&other, items, &[]).end();
    ended_part.result.as_ref().expect("the part arrived");
    let held = parts
        .iter()
        .zip(ended_part.digests(parts.len()).into_iter().flatten());
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
    let assembled = client.begin(&other, vec![assemble], &[]).end();
    assembled.result.as_ref().expect("assembled");
    assert!(assembled.digests(1)[0].is_some());
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
    let lost = slow.end();
    lost.result.as_ref().expect_err("it lost its claim");
    assert_eq!(lost.digests(1), [None]);
    assert_eq!(state(), before, "written to after it had its name");
    let from = fs::metadata(stopped.path("from/big")).expect("there");
    assert_eq!([from.mtime(), from.mtime_nsec()], before.2[..2]);
    let [from, to] = [stopped.path("from/big"), stopped.export.join("big")];
    assert!(fs::read(from).expect("read") == fs::read(to).expect("read"));
}

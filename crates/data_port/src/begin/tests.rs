//! Tests how a transfer begins while a claim is being set, and the answer to a peer whose beacon was found.

use std::net::TcpListener;
use std::time::Duration;

use godwit_api::ask::{Answer, AnswerCluster, ClaimPlace, Mark, Question};
use godwit_api::grant::Grant;
use godwit_api::grant::lasting::Look;
use godwit_api::job::{ClaimId, Text};
use godwit_api::watched::Watched;
use godwit_engine::tuner::Bounds;
use godwit_net::{Cipher, Identity, ServerTls};
use godwit_run::Process;
use godwit_store::RelPath;

use super::*;
use crate::ask::claim::Holder;
use crate::claims::{By, Spot};
use crate::{Agent, AgentConfig, Announce, ClaimTable, Daemon, DaemonConfig, Export, Grants, Here};

fn agent(home: &std::path::Path) -> Agent {
    let identity = Identity::load_or_create(home).expect("a key");
    let config = AgentConfig {
        process: Process::default(),
        client: *identity.id(),
        sender: Vec::new(),
        home: home.to_owned(),
        base: home.to_owned(),
        tls: ServerTls::new(&identity, &Cipher::ALL).expect("a certificate"),
        announce: Announce::All,
        dial: Vec::new(),
        handshake_deadline: Duration::from_secs(60),
        stall_limit: Duration::from_secs(60),
        pool_bytes: 64 << 20,
        readers: Bounds::fixed(0),
        writers: Bounds::fixed(0),
        keep_for: Duration::ZERO,
        log: Arc::new(|_| {}),
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    Agent::start(config, listener).expect("an agent")
}

pub(crate) fn export(path: &std::path::Path) -> Export {
    Export {
        name: "data".to_owned(),
        path: path.to_owned(),
        set_id: false,
        owner: false,
        security_xattrs: false,
        devices: false,
        require_mount: false,
        watched: Watched::default(),
        arrivals: None,
        bounds: crate::export::ExportBounds::default(),
    }
}

/// A daemon with the export `data` and its grants in the file.
pub(crate) fn daemon(home: &std::path::Path, identity: &Identity) -> Daemon {
    daemon_in(home, identity, None)
}

/// A daemon as in `daemon`, in a cluster.
pub(crate) fn daemon_in(
    home: &std::path::Path,
    identity: &Identity,
    cluster: Option<Arc<dyn AnswerCluster>>,
) -> Daemon {
    for directory in ["journals", "export"] {
        std::fs::create_dir_all(home.join(directory)).expect("made");
    }
    let wait = Duration::from_secs(60);
    let config = DaemonConfig {
        process: Process::default(),
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        announce: Announce::None,
        exports: vec![export(&home.join("export"))],
        home: home.to_owned(),
        rules: Arc::new(|| Ok(Arc::default())),
        tls: ServerTls::new(identity, &Cipher::ALL).expect("TLS"),
        plain_allowed: false,
        handshake_deadline: wait,
        connections_per_peer: 8,
        connections_max: 8,
        transfers_per_peer: 8,
        transfers_max: 8,
        stall_limit: wait,
        pool_bytes: 64 << 20,
        readers: Bounds::fixed(0),
        writers: Bounds::fixed(0),
        keep_for: wait,
        claims: Arc::default(),
        jobs: None,
        cluster,
        buffer: None,
        web: None,
        tells: Arc::new(|_| {}),
        log: Arc::new(|_| {}),
    };
    Daemon::start(config, identity).expect("started")
}

#[test]
fn a_peer_whose_ends_meet_does_not_hear_where_the_export_lies() {
    let home = tempfile::tempdir().expect("a directory");
    let identity = Identity::load_or_create(home.path()).expect("a key");
    let name = format!(".godwit-{}", "0".repeat(32));
    for directory in ["journals", "export/set"] {
        std::fs::create_dir_all(home.path().join(directory)).expect("made");
    }
    std::fs::write(home.path().join("export/set").join(&name), "").expect("written");
    let grant =
        Grant::of_words(&[&identity.id().to_string(), "data", "read,write"]).expect("a grant");
    Grants::new(home.path()).add(&grant).expect("granted");
    let mut daemon = daemon(home.path(), &identity);
    let request = Open {
        direction: Direction::PULL.0,
        sources: vec![b"data/set".to_vec()],
        destination: b"/somewhere".to_vec(),
        digest: DigestKind::CRC64_NVME.0.into(),
        beacon: Some(Beacon {
            name: name.into_bytes(),
            ..Beacon::default()
        }),
        ..Open::default()
    };
    // A node reveals to each site which files it sees, so that site may falsely claim to see them too.
    let push = Open {
        direction: Direction::PUSH.0,
        sources: vec![b"/".to_vec()],
        names: vec![b"set".to_vec()],
        destination: b"data/set".to_vec(),
        beacon: None,
        view: godwit_run::itself::view(),
        ..request.clone()
    };
    let real = home.path().display().to_string();
    for (request, says) in [(&request, "data/set"), (&push, "a source cannot be copied")] {
        let no = begin(&daemon.shared, *identity.id(), request).err();
        let no = no.expect("the ends meet");
        assert_eq!(no.code, ErrorCode::INTO_ITSELF, "{}", no.message);
        assert!(no.message.contains(says), "{}", no.message);
        assert!(!no.message.contains(&real), "{}", no.message);
    }
    daemon.stop();
}

#[test]
fn no_claim_is_set_between_the_look_for_claims_and_the_place_in_the_table() {
    let home = tempfile::tempdir().expect("a directory");
    let agent = agent(home.path());
    let shared = agent.shared();
    let peer = shared.only.expect("the client");
    let destination = home.path().join("copy").into_os_string();
    let request = Open {
        direction: Direction::PUSH.0,
        sources: vec![b"a".to_vec()],
        names: vec![b"a".to_vec()],
        destination: destination.into_encoded_bytes(),
        digest: DigestKind::CRC64_NVME.0.into(),
        block_bytes: 64 << 10,
        streams: 1,
        ..Open::default()
    };
    let begun = begin(shared, peer, &request);
    let (_, begun, _) = begun.unwrap_or_else(|no| panic!("refused: {}", no.message));
    let claims = &shared.config.claims;
    assert!(
        claims.is_entered(),
        "a claim waits until it is in the table"
    );
    begun.engine.join();
    drop(begun);
    assert!(!claims.is_entered());
    agent.finish();
}

#[test]
fn no_transfer_begins_between_the_look_for_writers_and_the_claim() {
    let home = tempfile::tempdir().expect("a directory");
    let export = export(home.path());
    let claims = Arc::new(ClaimTable::default());
    let here = Here::new(
        vec![export],
        home.path().to_owned(),
        Process::default().syncs,
    )
    .claiming(Arc::clone(&claims));
    let may = |_: &str, _: &RelPath, _| Ok(());
    let may_hold = |_: &By, _: &Text| Look::Holds;
    let holder = Holder {
        may_hold: &may_hold,
        by: By::Here,
    };
    let question = Question::Claim(ClaimPlace {
        claim: ClaimId([1; 16]),
        epoch: 1,
        path: Text(b"data/set".to_vec()),
        members: Vec::new(),
        fence: Vec::new(),
        lease_ms: 10_000,
        copies: false,
        mark: Mark::Untouched,
    });
    let looked = std::cell::Cell::new(false);
    let is_written = |_: &Spot| {
        looked.set(true);
        assert!(claims.is_entered(), "a transfer waits until it is set");
        false
    };
    let answered = here.claim(&question, &holder, &may, &is_written);
    assert!(
        matches!(answered, Some(Ok(Answer::Done {}))),
        "{answered:?}"
    );
    assert!(looked.get() && !claims.is_entered());
}

/// This node keeps the names that a peer sends, so they count as memory of its transfer.
#[test]
fn sources_count_as_memory_of_their_transfer() {
    let home = tempfile::tempdir().expect("a directory");
    let identity = Identity::load_or_create(home.path()).expect("a key");
    let grant = Grant::of_words(&[&identity.id().to_string(), "data", "read"]).expect("a grant");
    Grants::new(home.path()).add(&grant).expect("granted");
    let mut daemon = daemon(home.path(), &identity);
    let directory = home.path().join("export").join("d".repeat(200));
    std::fs::create_dir(&directory).expect("made");
    let names = (0..2_000).map(|number| format!("data/{}/f{number}", "d".repeat(200)));
    let request = Open {
        direction: Direction::PULL.0,
        sources: [format!("data/{}", "d".repeat(200))]
            .into_iter()
            .chain(names)
            .map(String::into_bytes)
            .collect(),
        destination: b"/somewhere".to_vec(),
        digest: DigestKind::CRC64_NVME.0.into(),
        ..Open::default()
    };
    let governor = daemon.shared.config.process.governor.clone();
    assert_eq!(governor.figures().held, 0);
    let begun = begin(&daemon.shared, *identity.id(), &request);
    let (_, begun, _) = begun.unwrap_or_else(|no| panic!("refused: {}", no.message));
    let named: usize = request.sources.iter().map(Vec::len).sum();
    assert!(governor.figures().held > 2 * named as u64);
    begun.engine.cancel("over");
    begun.engine.join();
    drop(begun);
    daemon.stop();
}

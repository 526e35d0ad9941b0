//! Tests questions to a site with an older program, which would ignore a mandate, and to a node that only shows that it works. The other end
//! reads the questions and closes the connection without an answer.

use std::net::TcpListener;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use godwit_api::ask::{AskSites as _, ClusterQuestion, Peer, Question, Refusal, code};
use godwit_api::grant::Mandate;
use godwit_api::job::Text;
use godwit_data_port::{Asker, Here};
use godwit_engine::session::receive_frame;
use godwit_net::{
    AcceptOptions, Cipher, ClientTls, Connection, Identity, ServerTls, Stream as _, accept,
};
use godwit_proto::hello::capability;
use godwit_proto::{Frame, Hello, Reply};

/// Wait for a question that arrives at once, or never.
const WITHIN: Duration = Duration::from_secs(10);

/// A site that a node may ask, and what the site needs to answer.
struct World {
    _home: tempfile::TempDir,
    listener: TcpListener,
    tls: ServerTls,
    site: Peer,
    asker: Asker,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let identity = Identity::load_or_create(home.path()).expect("a key");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let site = Peer {
            name: "siteB".to_owned(),
            addresses: vec![listener.local_addr().expect("bound").to_string()],
            identity: identity.id().to_string(),
        };
        let syncs = godwit_store::Syncs::default();
        let here = Here::new(Vec::new(), home.path().to_owned(), syncs);
        let tls = ClientTls::new(&identity, &Cipher::ALL).expect("usable");
        Self {
            listener,
            tls: ServerTls::new(&identity, &Cipher::ALL).expect("a certificate"),
            site,
            asker: Asker::new(here, tls),
            _home: home,
        }
    }

    /// The next connection, after HELLO. The site lacks these capabilities.
    fn meet(&self, lacks: u64) -> Connection {
        let (socket, _) = self.listener.accept().expect("dialled");
        let accepted = accept(socket, &self.tls, &AcceptOptions::default());
        let mut stream = accepted.expect("a client").stream;
        let mut head = Vec::new();
        Hello::ours("godwit 0.0", capability::ALL & !lacks).encode(&mut head);
        stream.send(&head, &[]).expect("sent");
        let hello = receive_frame(&mut stream, WITHIN);
        assert!(matches!(hello, Ok(Frame::Hello(_))), "{hello:?}");
        stream
    }
}

/// Whether a question comes.
fn is_asked_on(stream: &mut Connection) -> bool {
    matches!(receive_frame(stream, WITHIN), Ok(Frame::Ask(_)))
}

/// Asks a site that lacks these capabilities; returns the asker's refusal, and whether the site received a
/// question.
fn asked(lacks: u64, mandate: Option<&Mandate>, question: &Question) -> (Refusal, bool) {
    let world = World::new();
    let World { site, asker, .. } = &world;
    thread::scope(|scope| {
        let is_asked_on = scope.spawn(|| is_asked_on(&mut world.meet(lacks)));
        let answer = asker.ask_for(mandate, Some(site), question, &mut |_| true);
        (
            answer.expect_err("no answer"),
            is_asked_on.join().expect("asked"),
        )
    })
}

/// The question for a job, with its other end at a third site if one is given.
fn run(other: Option<&Peer>) -> Question {
    let other = other.map_or(String::new(), |peer| {
        format!(
            r#","other":{{"name":"{}","addresses":[],"identity":"{}"}}"#,
            peer.name, peer.identity
        )
    });
    let document = format!(
        r#"{{"version":1,"ask":"run","with":{{"job":"c-job","may_list":true,"may_read":true,
            "new":{{"sources":["here:/data/a"],"destination":"here:/data/b"}}{other}}}}}"#
    );
    Question::parse(document.as_bytes()).expect("a question")
}

#[test]
fn a_site_that_does_not_know_mandates_gets_no_question_for_a_job_of_another_site() {
    let mandate = Mandate {
        asker: "gw1-c".to_owned(),
        job: "c-job".to_owned(),
    };
    let stat = Question::Stat {
        path: Text::from("data/a"),
    };
    let (refusal, is_asked) = asked(capability::MANDATE, Some(&mandate), &stat);
    assert_eq!(refusal.code, code::UNSUPPORTED, "{refusal:?}");
    for word in ["the site siteB", "older version", "update that site"] {
        assert!(refusal.message.contains(word), "{refusal:?}");
    }
    assert!(!is_asked, "it would answer by the rights of this node");
    // The node's own questions need no mandate, and a site that knows mandates gets all questions.
    for (lacks, mandate) in [(capability::MANDATE, None), (0, Some(&mandate))] {
        let (refusal, is_asked) = asked(lacks, mandate, &stat);
        assert_eq!(refusal.code, code::BROKEN, "{refusal:?}");
        assert!(is_asked, "{lacks}");
    }
}

#[test]
fn a_site_that_does_not_know_mandates_gets_no_job_with_a_third_site() {
    let third = Peer {
        name: "siteC".to_owned(),
        addresses: Vec::new(),
        identity: "gw1-c".to_owned(),
    };
    let (refusal, is_asked) = asked(capability::MANDATE, None, &run(Some(&third)));
    assert_eq!(refusal.code, code::UNSUPPORTED, "{refusal:?}");
    assert!(!is_asked, "it would go to the third site by its own rights");
    for (lacks, other) in [(capability::MANDATE, None), (0, Some(&third))] {
        let (refusal, is_asked) = asked(lacks, None, &run(other));
        assert_eq!(refusal.code, code::BROKEN, "{refusal:?}");
        assert!(is_asked, "{lacks}");
    }
}

/// The signs of an abandoned question are read before the next one. The signs could come faster than they are read.
#[test]
fn a_node_that_sends_signs_without_end_holds_up_no_further_question() {
    let world = World::new();
    let World { site, asker, .. } = &world;
    let question = Question::Cluster(Box::new(ClusterQuestion::Status { of: "c".to_owned() }));
    let (sender, flooded) = sync_channel(1);
    thread::scope(|scope| {
        let is_asked = scope.spawn(|| {
            let mut first = world.meet(0);
            assert!(is_asked_on(&mut first));
            let mut sign = Vec::new();
            let reply = Reply {
                number: 1,
                ..Reply::default()
            };
            reply.encode(&mut sign).expect("short");
            for _ in 0..400 {
                first.send(&sign, &[]).expect("sent");
            }
            sender.send(()).expect("the test waits");
            // The asker has closed this connection, and has made another one.
            !is_asked_on(&mut first) && is_asked_on(&mut world.meet(0))
        });
        let mut looks = 0;
        let abandoned = asker.ask_for(None, Some(site), &question, &mut |_| {
            looks += 1;
            looks == 1
        });
        let abandoned = abandoned.expect_err("no answer");
        assert_eq!(abandoned.code, code::GIVEN_UP, "{abandoned:?}");
        flooded.recv().expect("the other end sends");
        let answer = asker.ask_for(None, Some(site), &question, &mut |_| true);
        assert_eq!(answer.expect_err("no answer").code, code::BROKEN);
        assert!(is_asked.join().expect("asked"));
    });
}

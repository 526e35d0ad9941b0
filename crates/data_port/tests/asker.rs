//! Tests questions to a site with an older program, which would ignore a mandate. The site reads the
//! questions and closes the connection without an answer.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use godwit_api::ask::{AskSites as _, Peer, Question, Refusal, code};
use godwit_api::grant::Mandate;
use godwit_api::job::Text;
use godwit_data_port::{Asker, Here};
use godwit_engine::session::receive_frame;
use godwit_net::{AcceptOptions, Cipher, ClientTls, Identity, ServerTls, Stream as _, accept};
use godwit_proto::hello::capability;
use godwit_proto::{Frame, Hello};

/// Wait for a question that arrives at once, or never.
const WITHIN: Duration = Duration::from_secs(10);

/// Asks a site that lacks these capabilities; returns the asker's refusal, and whether the site received a
/// question.
fn asked(lacks: u64, mandate: Option<&Mandate>, question: &Question) -> (Refusal, bool) {
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
    let asker = Asker::new(here, tls);
    let tls = ServerTls::new(&identity, &Cipher::ALL).expect("a certificate");
    thread::scope(|scope| {
        let hears = scope.spawn(|| {
            let (socket, _) = listener.accept().expect("dialled");
            let accepted = accept(socket, &tls, &AcceptOptions::default());
            let mut stream = accepted.expect("a client").stream;
            let mut head = Vec::new();
            Hello::ours("godwit 0.0", capability::ALL & !lacks).encode(&mut head);
            stream.send(&head, &[]).expect("sent");
            let hello = receive_frame(&mut stream, WITHIN);
            assert!(matches!(hello, Ok(Frame::Hello(_))), "{hello:?}");
            matches!(receive_frame(&mut stream, WITHIN), Ok(Frame::Ask(_)))
        });
        let answer = asker.ask_for(mandate, Some(&site), question, &mut |_| true);
        (answer.expect_err("no answer"), hears.join().expect("heard"))
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
    let (refusal, heard) = asked(capability::MANDATE, Some(&mandate), &stat);
    assert_eq!(refusal.code, code::UNSUPPORTED, "{refusal:?}");
    for word in ["the site siteB", "older version", "update that site"] {
        assert!(refusal.message.contains(word), "{refusal:?}");
    }
    assert!(!heard, "it would answer by the rights of this node");
    // The node's own questions need no mandate, and a site that knows mandates gets all questions.
    for (lacks, mandate) in [(capability::MANDATE, None), (0, Some(&mandate))] {
        let (refusal, heard) = asked(lacks, mandate, &stat);
        assert_eq!(refusal.code, code::BROKEN, "{refusal:?}");
        assert!(heard, "{lacks}");
    }
}

#[test]
fn a_site_that_does_not_know_mandates_gets_no_job_with_a_third_site() {
    let third = Peer {
        name: "siteC".to_owned(),
        addresses: Vec::new(),
        identity: "gw1-c".to_owned(),
    };
    let (refusal, heard) = asked(capability::MANDATE, None, &run(Some(&third)));
    assert_eq!(refusal.code, code::UNSUPPORTED, "{refusal:?}");
    assert!(!heard, "it would go to the third site by its own rights");
    for (lacks, other) in [(capability::MANDATE, None), (0, Some(&third))] {
        let (refusal, heard) = asked(lacks, None, &run(other));
        assert_eq!(refusal.code, code::BROKEN, "{refusal:?}");
        assert!(heard, "{lacks}");
    }
}

//! Tests the push to Graphite: a real listener gets the figures, and a listener that does not read blocks nothing.
//! The figures themselves are tested in `health`.

use std::io::Read as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use godwit_api::failure::FailureCode;
use godwit_api::record::{TransferDirection, TransferNews, TransferRecord, TransferStart};
use godwit_api::rest::{Bottleneck, Timestamp};

use crate::world::{Settings, World};

const DEADLINE: Duration = Duration::from_secs(60);

fn world(listener: &TcpListener) -> World {
    World::with(Settings {
        graphite: Some(listener.local_addr().unwrap().to_string()),
        ..Settings::default()
    })
}

/// The text of one push.
fn push(listener: &TcpListener) -> String {
    let (mut socket, _) = listener.accept().unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_figures_come_again_and_again_as_lines_of_three_words() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let world = world(&listener);
    world
        .client()
        .post("/api/v1/jobs", &crate::jobs::later("a"))
        .expect(201);
    let until = Instant::now() + DEADLINE;
    loop {
        let text = push(&listener);
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words.len(), 3, "{line}");
            assert!(words[0].starts_with("godwit."), "{line}");
            assert!(
                words[1].parse::<f64>().is_ok() && words[2].parse::<u64>().is_ok(),
                "{line}"
            );
        }
        if text.contains(".jobs.state.scheduled.asked.here 1 ") {
            break;
        }
        assert!(Instant::now() < until, "{text}");
    }
}

#[test]
fn a_receiver_that_is_away_or_deaf_holds_nothing_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let world = world(&listener);
    push(&listener);
    // Connections wait in the queue, which is never read.
    for _ in 0..20 {
        world.client().get("/api/v1/node").expect(200);
    }
    drop(listener);
    let until = Instant::now() + DEADLINE;
    while !world
        .log
        .lock()
        .unwrap()
        .iter()
        .any(|line| line.contains("does not accept the figures"))
    {
        assert!(
            Instant::now() < until,
            "nothing is said of a receiver that is away"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    world.client().get("/api/v1/node").expect(200);
    let said = world.log.lock().unwrap();
    assert_eq!(
        said.iter()
            .filter(|line| line.contains("does not accept"))
            .count(),
        1,
        "{said:?}"
    );
}

/// However many peers there are, the number of time series is bounded.
#[test]
fn transfers_are_counted_by_outcome_stage_and_a_bounded_number_of_peers() {
    let world = World::new();
    let sink = world.web.news_sink();
    for peer in 0..300 {
        let start = TransferStart {
            id: "t".to_owned(),
            job: None,
            identity: Some(format!("gw1-{peer}")),
            peer: None,
            owner: None,
            direction: TransferDirection::Receive,
            places: Vec::new(),
            label: None,
            request: None,
            encryption: None,
            counted_as: Vec::new(),
        };
        sink(&TransferNews::Started(start.clone()));
        sink(&TransferNews::Ended(Box::new(TransferRecord {
            start,
            started: Timestamp(0),
            ended: Timestamp(1),
            bytes: 10,
            files: 1,
            failed: 0,
            bytes_per_second: 0.0,
            streams: 1,
            bottleneck: Some(Bottleneck::Network),
            code: FailureCode::Complete.into(),
            message: None,
        })));
    }
    let text = world.client().get("/metrics").expect(200).body;
    let text = String::from_utf8(text).unwrap();
    let peers = text
        .lines()
        .filter(|line| line.starts_with("godwit_peer_moved_bytes_total{"));
    let peers: Vec<&str> = peers.collect();
    assert_eq!(peers.len(), 101, "{peers:?}");
    assert!(
        peers
            .iter()
            .any(|line| line.contains("peer=\"other\"") && line.ends_with(" 2000")),
        "{peers:?}"
    );
    let transfers = "godwit_transfers_total{direction=\"receive\",outcome=\"complete\"} 300";
    assert!(text.contains(transfers), "{text}");
    assert!(
        text.contains("godwit_bottlenecks_total{stage=\"network\"} 300"),
        "{text}"
    );
}

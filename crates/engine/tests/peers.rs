//! Tests each end against a peer that breaks the protocol, is silent or sends late: whole engines, with
//! frames by hand. `simulation` tests honest ends over bad streams and storage.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/flaky.rs"]
mod flaky;
#[path = "support/hand.rs"]
mod hand;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use godwit_engine::tuner::Bounds;
use godwit_engine::{Counters, End, Live, Receiver, ReceiverConfig, Sink, StreamLoss};
use godwit_net::{Stream as _, StreamOptions, local_pair};
use godwit_proto::*;
use godwit_store::{FinalMeta, Timestamp};
use godwit_testkit::MemoryStorage;
use godwit_tree::synthetic::NullSink;
use godwit_tree::{DestinationPlace, DestinationRequest, TreeSink};

use flaky::Flaky;
use hand::*;

fn manifest(seq: u64, records: Vec<Record>) -> Frame {
    Frame::Manifest(Manifest {
        transfer: TRANSFER,
        seq: Seq(seq),
        records,
    })
}

/// Waits until the receiver has refused, and its refusal has arrived.
fn expect_refusal(receiver: &Receiver, mut hand: Hand, words: &str) {
    let Some(End::Failed { code, message, .. }) = receiver.wait(DEADLINE) else {
        panic!(
            "the transfer goes on, or ended otherwise: {:?}",
            receiver.end()
        );
    };
    assert_eq!(code, ErrorCode::PROTOCOL, "{message}");
    assert!(message.contains(words), "{message}");
    loop {
        if let Frame::Error(error) = hand.receive() {
            assert_eq!(error.code, ErrorCode::PROTOCOL.0);
            return;
        }
    }
}

#[test]
fn items_of_another_transfer_are_the_senders_fault() {
    let other = TransferId([8; 16]);
    let items = [
        empty_bundle(other),
        Frame::Manifest(Manifest {
            transfer: other,
            seq: Seq(1),
            records: Vec::new(),
        }),
        Frame::Finish(Finish {
            transfer: other.0.to_vec(),
            seq: 1,
            ..Finish::default()
        }),
    ];
    for item in items {
        let receiver = null_receiver();
        let (mut hand, thread) = attach(&receiver);
        hand.say(&item);
        expect_refusal(&receiver, hand, "of another transfer");
        assert!(matches!(
            thread.join().unwrap(),
            Err(StreamLoss::Peer { .. })
        ));
        receiver.join();
    }
}

#[test]
fn numbers_with_gaps_between_them_end_the_transfer_before_they_take_all_memory() {
    let receiver = null_receiver();
    let (mut hand, thread) = attach(&receiver);
    let mut seq = 1;
    'refused: while seq <= 4 * godwit_engine::limits::ITEM_RANGES_MAX as u64 {
        for _ in 0..64 {
            hand.say(&manifest(seq, Vec::new()));
            seq += 2;
        }
        for _ in 0..64 {
            match hand.receive() {
                Frame::Answer(_) => {}
                Frame::Ack(_) => panic!("manifests are not acknowledged"),
                Frame::Error(error) => {
                    assert!(error.message.contains("gaps"), "{}", error.message);
                    break 'refused;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(matches!(receiver.end(), Some(End::Failed { .. })));
    assert!(thread.join().unwrap().is_err());
    receiver.join();
}

#[test]
fn a_manifest_that_comes_again_counts_once_and_is_answered_as_before() {
    let journals = tempfile::tempdir().unwrap();
    let target = MemoryStorage::new();
    let meta = FinalMeta {
        mode: 0o644,
        mtime: Timestamp {
            seconds: 5,
            nanoseconds: 0,
        },
        ..FinalMeta::default()
    };
    target.put(&path("out/there"), &meta, b"same").unwrap();
    let request = DestinationRequest::new(
        DestinationPlace {
            storage: Arc::new(target),
            storage_path: b"/target".to_vec(),
            base: path("out"),
            is_directory: true,
            display: Vec::new(),
        },
        b"me".to_vec(),
        vec![b"/src".to_vec()],
        vec![Vec::new()],
        journals.path().to_owned(),
    );
    let prepared = request.prepare().unwrap();
    let (seen, counters) = (Arc::new(Seen::default()), Arc::new(Counters::default()));
    let for_sink = Arc::clone(&counters);
    let make = Box::new(move |acks| -> std::io::Result<Arc<dyn Sink>> {
        let (config, journal) = (prepared.config, prepared.journal);
        Ok(TreeSink::start(
            config,
            journal,
            prepared.recovered,
            acks,
            for_sink,
        )?)
    });
    let receiver = receiver_with(&seen, make, &counters);
    let record = |id, kind, name: &str, bytes, target: &[u8]| Record {
        id: EntryId(id),
        kind,
        path: name.as_bytes().to_vec(),
        bytes,
        mtime_seconds: 5,
        target: target.to_vec(),
        ..Record::default()
    };
    let announced = manifest(
        1,
        vec![
            record(1, EntryKind::SYMLINK, "link", 0, b"there"),
            record(2, EntryKind::FILE, "new", 10, b""),
            record(3, EntryKind::FILE, "there", 4, b""),
            record(4, EntryKind(77), "what", 0, b""),
        ],
    );
    let (mut first, thread) = attach(&receiver);
    first.say(&announced);
    let answer = first.receive();
    drop(first);
    assert!(thread.join().unwrap().is_err());
    let (mut second, thread) = attach(&receiver);
    second.say(&announced);
    // Messages that may have been lost with the first stream are sent again.
    let again = loop {
        match second.receive() {
            Frame::Answer(again) => break again,
            Frame::Ack(_) => {}
            other => panic!("no answer to the copy: {other:?}"),
        }
    };
    assert_eq!(Frame::Answer(again.clone()), answer);
    assert!(matches!(again.verdicts[0], Verdict::Done));
    let counted = counters.snapshot();
    assert_eq!(
        (counted.entries_scanned, counted.bytes_scanned),
        (4, 14),
        "each entry counts once"
    );
    assert_eq!((counted.files_skipped, counted.bytes_skipped), (1, 4));
    assert_eq!((counted.files_done, counted.entries_failed), (1, 1));
    assert_eq!(seen.all(), ["out/what"]);
    receiver.cancel("over");
    thread.join().unwrap().unwrap();
    receiver.join();
}

fn failed(seq: u64, entry: u64, name: &str) -> Frame {
    Frame::EntryFailed(EntryFailed {
        transfer: TRANSFER,
        seq: Seq(seq),
        root: 0,
        path: name.as_bytes().to_vec(),
        fault: Fault {
            entry: EntryId(entry),
            side: Side::DESTINATION,
            code: FaultCode::IO,
            errno: None,
            message: "late".to_owned(),
        },
    })
}

/// Accepts everything, and returns the number of the finish.
fn take_all(hand: &mut Hand) -> (u64, Vec<Record>) {
    let mut records = Vec::new();
    loop {
        match hand.receive() {
            Frame::Manifest(manifest) => {
                let verdict = |record: &Record| match record.kind {
                    EntryKind::FILE => Verdict::Send,
                    _ => Verdict::Done,
                };
                hand.say(&Frame::Answer(Answer {
                    transfer: TRANSFER,
                    seq: manifest.seq,
                    verdicts: manifest.records.iter().map(verdict).collect(),
                }));
                records.extend(manifest.records);
            }
            Frame::Block(block) => hand.say(&Frame::Ack(Ack {
                transfer: TRANSFER,
                items: vec![AckRange {
                    first: block.header.seq,
                    last: block.header.seq,
                    status: AckStatus::DURABLE,
                }],
            })),
            Frame::Finish(finish) => return (finish.seq, records),
            other => panic!("{other:?}"),
        }
    }
}

fn finished(seq: u64, failed: u64) -> Frame {
    Frame::Finished(Finished {
        transfer: TRANSFER.0.to_vec(),
        seq,
        failed,
        ..Finished::default()
    })
}

fn finish(hand: &mut Hand, seq: u64, failed: u64) {
    hand.say(&finished(seq, failed));
}

#[test]
fn a_failure_that_is_reported_after_its_item_was_durable_is_named() {
    let seen = Arc::new(Seen::default());
    let (sender, mut hand, thread) = sender_of(&["dir/x"], &seen);
    let (seq, records) = take_all(&mut hand);
    let file = records
        .iter()
        .find(|record| record.path == b"dir/x")
        .unwrap();
    // Reported on both streams: for an item, and without an item, as for a link.
    for item in [2, 2, 0] {
        hand.say(&failed(item, file.id.0, "dir/x"));
    }
    finish(&mut hand, seq, 1);
    assert!(matches!(sender.wait(DEADLINE), Some(End::Finished(_))));
    assert_eq!(seen.all(), ["src/dir/x"]);
    assert_eq!(sender.counters().entries_failed.get(), 1);
    sender.join();
    thread.join().unwrap();
}

#[test]
fn failures_beyond_what_is_remembered_are_counted() {
    let seen = Arc::new(Seen::default());
    let (sender, mut hand, thread) = sender_of(&["x"], &seen);
    let (seq, _) = take_all(&mut hand);
    let said = 2 * godwit_engine::limits::FAILED_RANGES_MAX as u64;
    for index in 0..said {
        hand.say(&failed(0, 1000 + 2 * index, "many"));
    }
    // Some were never reported one by one.
    finish(&mut hand, seq, said + 10);
    assert!(matches!(sender.wait(DEADLINE), Some(End::Finished(_))));
    assert_eq!(sender.counters().entries_failed.get(), said + 10);
    sender.join();
    thread.join().unwrap();
    let seen = seen.all();
    assert_eq!(seen.len() as u64, said + 1);
    assert!(seen.last().unwrap().starts_with("note: 10 more entries"));
}

#[test]
fn a_failure_that_is_heard_after_the_end_is_counted_once() {
    let seen = Arc::new(Seen::default());
    let (sender, mut hand, thread) = sender_of(&["x"], &seen);
    let (seq, _) = take_all(&mut hand);
    // This is like an end that arrives first on another stream. Both frames are sent in one piece, so that both are received.
    let mut frames = Vec::new();
    finished(seq, 1).encode(&mut frames).unwrap();
    failed(0, 1000, "x").encode(&mut frames).unwrap();
    hand.0.send_all(&frames).unwrap();
    assert!(matches!(sender.wait(DEADLINE), Some(End::Finished(_))));
    sender.join();
    thread.join().unwrap();
    assert_eq!(sender.counters().entries_failed.get(), 1);
    assert_eq!(seen.all(), ["src/x"]);
}

#[test]
fn frames_of_another_transfer_are_the_receivers_fault() {
    let other = TransferId([8; 16]);
    let frames = [
        Frame::Ack(Ack {
            transfer: other,
            items: Vec::new(),
        }),
        Frame::Notices(Notices {
            transfer: other,
            first: 1,
            notices: Vec::new(),
        }),
    ];
    for frame in frames {
        let (sender, mut hand, thread) = sender_of(&["x"], &Arc::default());
        hand.say(&frame);
        thread.join().unwrap();
        assert_eq!(sender.counters().streams_lost.get(), 1);
        sender.cancel("over");
        sender.join();
    }
}

#[test]
fn a_note_with_the_last_number_ends_no_sender_and_a_daemon_logs_none_of_a_client() {
    for of_client in [false, true] {
        let seen = Arc::new(Seen::default());
        let (sender, mut hand, thread) = sender_of(&["x"], &seen);
        if of_client {
            sender.obey_limits();
        }
        hand.say(&Frame::Notices(Notices {
            transfer: TRANSFER,
            first: u64::MAX - 1,
            notices: vec![Notice::note("last")],
        }));
        let (seq, _) = take_all(&mut hand);
        finish(&mut hand, seq, 0);
        assert!(matches!(sender.wait(DEADLINE), Some(End::Finished(_))));
        sender.join();
        thread.join().unwrap();
        assert_eq!(seen.all().is_empty(), of_client, "{:?}", seen.all());
    }
}

#[test]
fn decisions_of_the_other_end_are_reported_once() {
    let said = |what, numbers: &[u32]| {
        let tuned = |number: &u32| Tuned {
            number: u64::from(*number),
            what,
            from: 0,
            to: *number,
            reason: "so".to_owned(),
        };
        Status {
            tuned: numbers.iter().map(tuned).collect(),
            ..Status::default()
        }
    };
    let reported = |what: &str| [1, 2, 3].map(|to| format!("theirs: {what} 0 -> {to}: so"));

    let seen = Arc::new(Seen::default());
    let (sender, mut hand, thread) = sender_of(&["x"], &seen);
    for numbers in [&[1][..], &[1, 2], &[1]] {
        hand.say(&Frame::Status(said(Tuned::WRITERS, numbers)));
    }
    let (seq, _) = take_all(&mut hand);
    hand.say(&Frame::Finished(Finished {
        transfer: TRANSFER.0.to_vec(),
        seq,
        counters: Some(said(Tuned::WRITERS, &[2, 3])),
        ..Finished::default()
    }));
    assert!(matches!(sender.wait(DEADLINE), Some(End::Finished(_))));
    assert_eq!(seen.all(), reported("writers"));
    sender.join();
    thread.join().unwrap();

    let (seen, counters) = <(Arc<Seen>, Arc<Counters>)>::default();
    let for_sink = Arc::clone(&counters);
    let make = Box::new(move |acks| -> std::io::Result<Arc<dyn Sink>> {
        Ok(Arc::new(NullSink::new(acks, for_sink)))
    });
    let receiver = receiver_with(&seen, make, &counters);
    let (mut hand, thread) = attach(&receiver);
    for numbers in [&[1][..], &[1, 2], &[1]] {
        hand.say(&Frame::Status(said(Tuned::READERS, numbers)));
    }
    hand.say(&Frame::Finish(Finish {
        transfer: TRANSFER.0.to_vec(),
        seq: 1,
        counters: Some(said(Tuned::READERS, &[2, 3])),
        ..Finish::default()
    }));
    while !matches!(hand.receive(), Frame::Finished(_)) {}
    assert_eq!(seen.all(), reported("readers"));
    drop(hand);
    thread.join().unwrap().unwrap();
    receiver.join();
}

/// A stream on which no send succeeds, but the other end then sends these frames.
fn hung_up(frames: &[Frame]) -> Flaky {
    let (inner, other) = local_pair(&StreamOptions::default()).unwrap();
    let mut said = Vec::new();
    for frame in frames {
        frame.encode(&mut said).unwrap();
    }
    Flaky {
        inner,
        left: 1,
        breaks: Arc::new(AtomicI64::new(1)),
        last_words: Some((other, said)),
    }
}

#[test]
fn a_last_error_of_the_peer_is_read_although_sending_fails() {
    let reported = Frame::Error(Error {
        code: ErrorCode::LIMIT.0,
        message: "no way for data".to_owned(),
        retryable: false,
    });
    let assert_reported = |end: Option<End>| {
        let Some(End::Failed { code, message, .. }) = end else {
            panic!("it is not known how it ended: {end:?}");
        };
        assert_eq!((code, &message[..]), (ErrorCode::LIMIT, "no way for data"));
    };
    let receiver = null_receiver();
    receiver
        .run_stream(&mut hung_up(&[
            Frame::Status(Status::default()),
            reported.clone(),
        ]))
        .unwrap();
    assert_reported(receiver.end());
    receiver.join();
    let sender = idle_sender(&[("a", b"content")], &Arc::default());
    sender.run_stream(&mut hung_up(&[reported])).unwrap();
    assert_reported(sender.end());
    sender.join();
    let receiver = null_receiver();
    let cancel = Frame::Cancel(Cancel {
        reason: "stopped by its user".to_owned(),
    });
    receiver.run_stream(&mut hung_up(&[cancel])).unwrap();
    let Some(End::Failed {
        retryable: true,
        message,
        ..
    }) = receiver.end()
    else {
        panic!("it is not known how it ended: {:?}", receiver.end());
    };
    assert!(message.contains("stopped by its user"), "{message}");
    receiver.join();
    // If a stream breaks without such a message, it is lost, and the transfer continues.
    let receiver = null_receiver();
    let loss = receiver.run_stream(&mut hung_up(&[])).unwrap_err();
    assert!(loss.is_retryable(), "{loss}");
    assert!(receiver.end().is_none());
    receiver.join();
}

#[test]
fn a_sink_that_cannot_be_made_keeps_the_receiver_from_starting() {
    let config = ReceiverConfig {
        transfer: TRANSFER,
        digest: DigestKind::CRC64_NVME,
        block_bytes: 4096,
        observer: Arc::new(Seen::default()),
        resources: Arc::new(|| None),
        comparison: None,
        itemise: false,
    };
    let live = Arc::new(Live::receiving(Bounds::fixed(0)));
    let make = Box::new(|_| Err(std::io::Error::other("no room for it")));
    let started = Receiver::start(config, make, live, Arc::default());
    let error = started.err().expect("refused");
    assert_eq!(error.to_string(), "no room for it");
}

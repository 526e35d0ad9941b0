//! Tests ends that arrive before a request, blocks on streams that carry few, and blocks that wait: whole engines, with the
//! other end driven by hand. `simulation` tests honest ends over bad streams and storage.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/flaky.rs"]
mod flaky;
#[path = "support/hand.rs"]
mod hand;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use godwit_engine::session::{
    Client, Connector, Engine, Refusal, Watch, our_hello, receive_frame, run,
};
use godwit_engine::tuner::Bounds;
use godwit_engine::{End, Fence, Receiver};
use godwit_net::{Connection, Stream as _, StreamOptions, local_pair};
use godwit_proto::*;
use godwit_store::{Confine, FsStorage};

use flaky::Flaky;
use hand::*;

fn foretell(last_item: u64) -> Frame {
    Frame::Status(Status {
        last_item,
        ..Status::default()
    })
}

fn ack(seq: u64, status: AckStatus) -> Frame {
    Frame::Ack(Ack {
        transfer: TRANSFER,
        items: vec![AckRange {
            first: Seq(seq),
            last: Seq(seq),
            status,
        }],
    })
}

fn finished(seq: u64) -> Frame {
    Frame::Finished(Finished {
        transfer: TRANSFER.0.to_vec(),
        seq,
        files: 1,
        ..Finished::default()
    })
}

fn manifest(hand: &mut Hand) -> Manifest {
    match hand.receive() {
        Frame::Manifest(manifest) => manifest,
        other => panic!("no manifest: {other:?}"),
    }
}

/// Requests the files of the next manifest.
fn want_all(hand: &mut Hand) {
    let manifest = manifest(hand);
    want(hand, &manifest);
}

fn want(hand: &mut Hand, manifest: &Manifest) {
    let verdict = |record: &Record| match record.kind {
        EntryKind::FILE => Verdict::Send,
        _ => Verdict::Done,
    };
    hand.say(&Frame::Answer(Answer {
        transfer: TRANSFER,
        seq: manifest.seq,
        verdicts: manifest.records.iter().map(verdict).collect(),
    }));
}

/// The next status for which `of` returns a value; all other frames except blocks are ignored.
fn status<T>(hand: &mut Hand, of: impl Fn(&Status) -> Option<T>) -> T {
    loop {
        match hand.receive_all() {
            Frame::Status(status) => {
                if let Some(found) = of(&status) {
                    return found;
                }
            }
            Frame::Block(_) => panic!("a block too many"),
            _ => {}
        }
    }
}

/// The number of the last item, on any stream that announces the end: each idle stream may announce it once.
fn foretold_on(mut hands: [&mut Hand; 2]) -> u64 {
    let began = Instant::now();
    loop {
        for hand in &mut hands {
            match hand.try_receive() {
                Some(Frame::Status(status)) if status.last_item > 0 => return status.last_item,
                Some(Frame::Block(_)) => panic!("a block too many"),
                _ => {}
            }
        }
        assert!(began.elapsed() < DEADLINE, "nothing comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn foretold(status: &Status) -> Option<u64> {
    (status.last_item > 0).then_some(status.last_item)
}

fn block(hand: &mut Hand) -> u64 {
    match hand.receive() {
        Frame::Block(block) => block.header.seq.0,
        other => panic!("{other:?}"),
    }
}

/// Waits until every earlier frame has been processed.
fn settle(hand: &mut Hand) {
    hand.say(&Frame::Ping(Ping { nonce: 9 }));
    while !matches!(hand.receive(), Frame::Pong(Pong { nonce: 9 })) {}
}

#[test]
fn a_receiver_finishes_unasked_when_the_end_was_foretold() {
    let receiver = null_receiver();
    let (mut hand, thread) = attach(&receiver);
    hand.say(&foretell(1));
    settle(&mut hand);
    assert!(receiver.end().is_none(), "the item has not come");
    hand.say(&empty_bundle(TRANSFER));
    loop {
        match hand.receive() {
            Frame::Ack(_) => {}
            Frame::Finished(finished) => break assert_eq!(finished.seq, 1),
            other => panic!("{other:?}"),
        }
    }
    // A sender that missed the answer asks again.
    hand.say(&Frame::Finish(Finish {
        transfer: TRANSFER.0.to_vec(),
        seq: 2,
        ..Finish::default()
    }));
    assert!(matches!(hand.receive(), Frame::Finished(_)));
    drop(hand);
    thread.join().unwrap().unwrap();
    receiver.join();
}

#[test]
fn a_receiver_waits_to_be_asked_when_more_came_than_was_foretold() {
    let receiver = null_receiver();
    let (mut hand, thread) = attach(&receiver);
    hand.say(&Frame::Manifest(Manifest {
        transfer: TRANSFER,
        seq: Seq(2),
        records: Vec::new(),
    }));
    hand.say(&foretell(2));
    hand.say(&Frame::Manifest(Manifest {
        transfer: TRANSFER,
        seq: Seq(3),
        records: Vec::new(),
    }));
    hand.say(&empty_bundle(TRANSFER));
    settle(&mut hand);
    settle(&mut hand);
    assert!(receiver.end().is_none());
    drop(hand);
    assert!(thread.join().unwrap().is_err());
    receiver.cancel("over");
    receiver.join();
}

#[test]
fn a_sender_foretells_the_end_again_after_something_was_lost() {
    let (sender, mut hand, thread) = sender_of(&["x"], &Arc::default());
    want_all(&mut hand);
    let seq = block(&mut hand);
    assert_eq!(status(&mut hand, foretold), seq);
    hand.say(&ack(seq, AckStatus::RESEND));
    assert_eq!(block(&mut hand), seq);
    assert_eq!(status(&mut hand, foretold), seq);
    hand.say(&ack(seq, AckStatus::DURABLE));
    hand.say(&finished(seq));
    assert!(matches!(sender.wait(DEADLINE), Some(End::Finished(_))));
    sender.join();
    thread.join().unwrap();
}

#[test]
fn a_finish_that_overtakes_what_was_durable_before_it_waits_for_that() {
    let seen = Arc::new(Seen::default());
    let (sender, mut hand, thread) = sender_of(&["x"], &seen);
    want_all(&mut hand);
    let seq = block(&mut hand);
    hand.say(&finished(seq));
    settle(&mut hand);
    assert!(
        sender.end().is_none(),
        "the block is not known to be durable"
    );
    hand.say(&ack(seq, AckStatus::DURABLE));
    assert!(matches!(sender.wait(DEADLINE), Some(End::Finished(_))));
    assert_eq!(sender.counters().files_done.get(), 1);
    assert!(seen.all().is_empty(), "{:?}", seen.all());
    sender.join();
    thread.join().unwrap();
}

#[test]
fn a_stream_for_few_blocks_carries_no_more_and_says_that_another_is_wanted() {
    // Each too large for a bundle.
    let content = vec![7; BLOCK_BYTES as usize];
    let sender = idle_sender(&[("a", &content), ("b", &content)], &Arc::default());
    let most = u64::from(BLOCK_BYTES) * 2 - 1;
    let (mut few, first) = attach_to(&sender, Some(most));
    want_all(&mut few);
    block(&mut few);
    status(&mut few, |status| status.wants_stream.then_some(()));
    assert!(sender.wants_stream());
    let (mut any, second) = attach_to(&sender, None);
    let seq = block(&mut any);
    assert!(!sender.wants_stream());
    assert_eq!(foretold_on([&mut few, &mut any]), seq);
    sender.cancel("over");
    sender.join();
    first.join().unwrap();
    second.join().unwrap();
}

#[test]
fn a_sender_that_hashes_a_large_hole_listens_and_gives_signs_of_life() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("src")).unwrap();
    let file = std::fs::File::create(place.path().join("src/hole")).unwrap();
    // Hashing takes minutes, which the test does not wait for.
    file.set_len(1 << 40).unwrap();
    let storage = FsStorage::open(place.path(), Confine::Local, place.path()).unwrap();
    let sender = sender_with(Arc::new(storage), DigestKind::BLAKE3, &Arc::default(), None);
    let (mut hand, thread) = attach_to(&sender, None);
    want_all(&mut hand);
    settle(&mut hand);
    loop {
        match hand.receive_all() {
            Frame::Ping(_) => break,
            Frame::Block(_) => panic!("it is hashed, and no sign of life came"),
            _ => {}
        }
    }
    settle(&mut hand);
    sender.cancel("enough");
    thread.join().unwrap();
}

#[test]
fn a_block_that_waits_for_the_limit_counts_while_it_does_and_is_not_sent_after_the_end() {
    // Too large for a bundle. The first file is sent at once and counts afterwards: at this limit the second one waits for an
    // hour.
    let content = vec![7; BLOCK_BYTES as usize];
    let sender = idle_sender(&[("a", &content), ("b", &content)], &Arc::default());
    sender.live().rate().set(1);
    let (mut hand, thread) = attach_to(&sender, None);
    want_all(&mut hand);
    block(&mut hand);
    let began = Instant::now();
    while sender.counters().limited_ns.get() == 0 {
        assert!(began.elapsed() < DEADLINE, "no wait is counted");
        assert!(sender.wait(Duration::from_millis(10)).is_none());
    }
    sender.cancel("over");
    loop {
        match hand.receive() {
            Frame::Cancel(_) => break,
            Frame::Block(block) => panic!("{:?} is sent after the end", block.header),
            _ => {}
        }
    }
    sender.join();
    thread.join().unwrap();
    assert_eq!(sender.counters().bytes_sent.get(), u64::from(BLOCK_BYTES));
}

#[test]
fn a_stream_that_waits_for_the_limit_leaves_at_once_and_another_sends_its_block_once() {
    // Too large for a bundle. The first file is sent at once; the second one must wait an hour.
    let content = vec![7; BLOCK_BYTES as usize];
    let sender = idle_sender(&[("a", &content), ("b", &content)], &Arc::default());
    sender.live().rate().set(1);
    let (mut hand, thread) = attach_to(&sender, None);
    want_all(&mut hand);
    let first = block(&mut hand);
    let began = Instant::now();
    while sender.counters().limited_ns.get() == 0 {
        assert!(began.elapsed() < DEADLINE, "no wait is counted");
        assert!(sender.wait(Duration::from_millis(10)).is_none());
    }
    sender.retire(sender.streams()[0].id);
    hand.say(&ack(first, AckStatus::DURABLE));
    loop {
        match hand.receive() {
            Frame::Retired(_) => break,
            Frame::Block(block) => panic!("{:?} is sent before its turn", block.header),
            _ => {}
        }
    }
    hand.say(&Frame::Retired(Retired {}));
    thread.join().unwrap();
    sender.live().rate().set(0);
    let (mut hand, thread) = attach_to(&sender, None);
    let second = block(&mut hand);
    assert_ne!(second, first);
    assert_eq!(status(&mut hand, foretold), second);
    hand.say(&ack(second, AckStatus::DURABLE));
    hand.say(&finished(second));
    assert!(matches!(sender.wait(DEADLINE), Some(End::Finished(_))));
    sender.join();
    thread.join().unwrap();
    let counters = sender.counters();
    assert_eq!(counters.bytes_sent.get(), 2 * u64::from(BLOCK_BYTES));
    assert_eq!(counters.bytes_resent.get(), 0);
}

/// A permission to send that another node can take over.
#[derive(Default)]
struct Right(AtomicBool);

impl Fence for Right {
    fn holds(&self) -> bool {
        !self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn a_sender_whose_right_has_ended_sends_nothing_more() {
    let right = Arc::new(Right::default());
    let fence = Arc::clone(&right) as Arc<dyn Fence>;
    let sender = fenced_sender(&[("a", b"content")], &Arc::default(), Some(fence));
    let (mut hand, thread) = attach_to(&sender, None);
    let manifest = manifest(&mut hand);
    right.0.store(true, Ordering::SeqCst);
    want(&mut hand, &manifest);
    loop {
        match hand.receive() {
            Frame::Cancel(_) => break,
            Frame::Block(block) => panic!("{:?} is sent without a right", block.header),
            _ => {}
        }
    }
    assert!(matches!(sender.wait(DEADLINE), Some(End::Cancelled(_))));
    sender.join();
    thread.join().unwrap();
    assert_eq!(sender.counters().bytes_sent.get(), 0);
}

#[test]
fn the_end_is_heard_after_the_receiver_has_hung_up() {
    let (sender, mut hand, thread) = sender_of(&["x"], &Arc::default());
    want_all(&mut hand);
    let seq = block(&mut hand);
    drop(hand);
    thread.join().unwrap();
    assert!(sender.end().is_none());
    let (inner, other) = local_pair(&StreamOptions::default()).unwrap();
    let mut said = Vec::new();
    for frame in [ack(seq, AckStatus::DURABLE), finished(seq)] {
        frame.encode(&mut said).unwrap();
    }
    let mut stream = Flaky {
        inner,
        left: 1,
        breaks: Arc::new(AtomicI64::new(1)),
        last_words: Some((other, said)),
    };
    sender.run_stream(&mut stream).unwrap();
    let end = sender.end();
    assert!(matches!(end, Some(End::Finished(_))), "{end:?}");
    sender.join();
}

/// A daemon with a receiver, which takes the transfer as soon as it may.
struct Taker {
    receiver: Arc<Receiver>,
    may: Arc<AtomicBool>,
}

impl Connector for Taker {
    fn open(&self, first: &[u8]) -> Result<Connection, Refusal> {
        let (mut near, mut far) = local_pair(&StreamOptions::default()).unwrap();
        near.send_all(first).unwrap();
        let (receiver, may) = (Arc::clone(&self.receiver), Arc::clone(&self.may));
        std::thread::spawn(move || {
            for _ in ["hello", "open"] {
                receive_frame(&mut far, DEADLINE).unwrap();
            }
            let mut head = Vec::new();
            our_hello().encode(&mut head);
            let opened = Frame::Opened(Opened {
                transfer: TRANSFER.0.to_vec(),
                block_bytes: BLOCK_BYTES,
                streams_max: 1,
                ..Opened::default()
            });
            opened.encode(&mut head).unwrap();
            far.send_all(&head).unwrap();
            while !may.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(receiver.run_stream(&mut far));
        });
        Ok(near)
    }

    fn join(&self, _channel: u32) -> Result<Connection, Refusal> {
        Err(Refusal::own(ErrorCode::INTERNAL, "one stream is enough"))
    }

    fn peer(&self) -> String {
        "h".to_owned()
    }
}

/// The client looks for the end, and then at its streams. The end may come in between, and takes the streams with it.
#[test]
fn a_transfer_that_ended_has_lost_no_connection() {
    let may = Arc::new(AtomicBool::new(false));
    let receiver = null_receiver();
    let client = Client {
        connector: Arc::new(Taker {
            receiver: Arc::clone(&receiver),
            may: Arc::clone(&may),
        }),
        streams: Bounds::fixed(1),
        retry_for: Duration::ZERO,
        once: None,
        retries_first: false,
    };
    let open = Open {
        direction: Direction::PUSH.0,
        sources: vec![b"/src".to_vec()],
        names: vec![b"src".to_vec()],
        destination: b"data".to_vec(),
        digest: DigestKind::CRC64_NVME.0.into(),
        ..Open::default()
    };
    let mut begin = |_: &Opened, _| {
        Ok(Engine::Sender(idle_sender(
            &[("x", b"content")],
            &Arc::default(),
        )))
    };
    let mut watch = |seen: Watch<'_>| {
        if let Some(Engine::Sender(sender)) = seen.engine {
            // One of these is of the thread that keeps the stream.
            let owners = Arc::strong_count(sender);
            let is_first = !may.swap(true, Ordering::Relaxed);
            let until = Instant::now() + DEADLINE;
            while is_first && (sender.end().is_none() || Arc::strong_count(sender) >= owners) {
                assert!(Instant::now() < until, "it does not end");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        true
    };
    let report = run(&client, &open, &mut begin, &mut watch);
    let end = report.end.map_err(|refusal| refusal.to_string());
    assert!(matches!(end, Ok(End::Finished(_))), "{end:?}");
    receiver.join();
}

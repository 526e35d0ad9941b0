//! Drives one end of a transfer, with the other end played by hand, frame by frame. Enforces no rules: a hand may
//! send anything.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use godwit_engine::tuner::{Bounds, Decision};
use godwit_engine::{
    Counters, Fence, Live, Observer, Order, Receiver, ReceiverConfig, Sender, SenderConfig, Sink,
    StreamLoss,
};
use godwit_net::{Connection, Stream as _, StreamOptions, local_pair};
use godwit_proto::*;
use godwit_store::{FinalMeta, RelPath, Storage, Timestamp};
use godwit_testkit::MemoryStorage;
use godwit_tree::synthetic::NullSink;
use godwit_tree::{TreeRoot, TreeSource, TreeWork};

pub(crate) const TRANSFER: TransferId = TransferId([7; 16]);
pub(crate) const BLOCK_BYTES: u32 = 4096;
/// No test needs a tenth of this, even on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Seen(Mutex<Vec<String>>);

impl Seen {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Seen {
    fn entry_failed(&self, failed: &godwit_engine::FailedEntry<'_>) {
        let path = String::from_utf8_lossy(failed.shown).into_owned();
        self.0.lock().unwrap().push(path);
    }
    fn note(&self, message: &str) {
        self.0.lock().unwrap().push(format!("note: {message}"));
    }
    fn tuned(&self, decision: &Decision, _channel: Option<u32>) {
        self.0.lock().unwrap().push(format!("own: {decision}"));
    }
    fn tuned_there(&self, decision: &Decision) {
        self.0.lock().unwrap().push(format!("theirs: {decision}"));
    }
}

/// The other end of a stream, by hand.
pub(crate) struct Hand(pub(crate) Connection);

impl Hand {
    pub(crate) fn say(&mut self, frame: &Frame) {
        let mut head = Vec::new();
        frame.encode(&mut head).unwrap();
        self.0.send(&head, &[]).unwrap();
    }

    /// The next frame that is no status and no ping; contents of blocks are dropped.
    pub(crate) fn receive(&mut self) -> Frame {
        loop {
            match self.receive_all() {
                Frame::Status(_) | Frame::Ping(_) => {}
                frame => return frame,
            }
        }
    }

    /// The next frame.
    pub(crate) fn receive_all(&mut self) -> Frame {
        let began = Instant::now();
        loop {
            if let Some(frame) = self.try_receive() {
                return frame;
            }
            assert!(began.elapsed() < DEADLINE, "nothing comes");
            self.0.wait(DEADLINE).unwrap();
        }
    }

    /// The next frame, if it has arrived.
    pub(crate) fn try_receive(&mut self) -> Option<Frame> {
        let (prelude, head) = self.0.try_recv().unwrap()?;
        self.0
            .recv_payload(&mut vec![0; prelude.payload_bytes as usize])
            .unwrap();
        Some(decode(&prelude, &head).unwrap())
    }
}

pub(crate) fn path(name: &str) -> RelPath {
    RelPath::parse(name.as_bytes()).unwrap()
}

pub(crate) fn receiver_with(
    seen: &Arc<Seen>,
    make: Box<godwit_engine::MakeSink<'_>>,
    counters: &Arc<Counters>,
) -> Arc<Receiver> {
    let config = ReceiverConfig {
        transfer: TRANSFER,
        digest: DigestKind::CRC64_NVME,
        block_bytes: BLOCK_BYTES,
        observer: Arc::clone(seen) as Arc<dyn Observer>,
        resources: Arc::new(|| None),
        comparison: None,
        itemise: false,
    };
    Receiver::start(
        config,
        make,
        Arc::new(Live::receiving(Bounds::fixed(0))),
        Arc::clone(counters),
    )
    .unwrap()
}

pub(crate) fn null_receiver() -> Arc<Receiver> {
    let counters = Arc::new(Counters::default());
    let for_sink = Arc::clone(&counters);
    let make = Box::new(move |acks| -> std::io::Result<Arc<dyn Sink>> {
        Ok(Arc::new(NullSink::new(acks, for_sink)))
    });
    receiver_with(&Arc::default(), make, &counters)
}

pub(crate) fn attach(receiver: &Arc<Receiver>) -> (Hand, JoinHandle<Result<(), StreamLoss>>) {
    let (near, mut far) = local_pair(&StreamOptions::default()).unwrap();
    let receiver = Arc::clone(receiver);
    let thread = std::thread::spawn(move || receiver.run_stream(&mut far));
    (Hand(near), thread)
}

pub(crate) fn empty_bundle(transfer: TransferId) -> Frame {
    Frame::Block(Block {
        header: BlockHeader {
            transfer,
            seq: Seq(1),
            kind: BlockKind::BUNDLE,
            digest_kind: DigestKind::CRC64_NVME,
            ..BlockHeader::default()
        },
        ranges: Vec::new(),
        records: Vec::new(),
    })
}

/// A sender of the files `names`, and its receiver by hand.
pub(crate) fn sender_of(names: &[&str], seen: &Arc<Seen>) -> (Arc<Sender>, Hand, JoinHandle<()>) {
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b"content"[..])).collect();
    let sender = idle_sender(&files, seen);
    let (hand, thread) = attach_to(&sender, None);
    (sender, hand, thread)
}

/// An additional stream, which may carry up to `early_bytes` of content in blocks.
pub(crate) fn attach_to(sender: &Arc<Sender>, early_bytes: Option<u64>) -> (Hand, JoinHandle<()>) {
    let (near, mut far) = local_pair(&StreamOptions::default()).unwrap();
    if let Some(bytes) = early_bytes {
        far.carry_blocks_up_to(bytes);
    }
    let sending = Arc::clone(sender);
    let thread = std::thread::spawn(move || drop(sending.run_stream(&mut far)));
    (Hand(near), thread)
}

/// A sender of these files, without any stream.
pub(crate) fn idle_sender(files: &[(&str, &[u8])], seen: &Arc<Seen>) -> Arc<Sender> {
    fenced_sender(files, seen, None)
}

/// The same, with a permission to send that may end.
pub(crate) fn fenced_sender(
    files: &[(&str, &[u8])],
    seen: &Arc<Seen>,
    fence: Option<Arc<dyn Fence>>,
) -> Arc<Sender> {
    let source = MemoryStorage::new();
    let meta = FinalMeta {
        mode: 0o644,
        mtime: Timestamp {
            seconds: 5,
            nanoseconds: 0,
        },
        ..FinalMeta::default()
    };
    for (name, content) in files {
        source
            .put(&path(&format!("src/{name}")), &meta, content)
            .unwrap();
    }
    sender_with(Arc::new(source), DigestKind::CRC64_NVME, seen, fence)
}

/// A sender of the entries below `src` of a storage, without any stream, perhaps with a permission to send that may
/// end.
pub(crate) fn sender_with(
    storage: Arc<dyn Storage>,
    digest: DigestKind,
    seen: &Arc<Seen>,
    fence: Option<Arc<dyn Fence>>,
) -> Arc<Sender> {
    let roots = vec![TreeRoot {
        storage,
        start: path("src"),
    }];
    let config = SenderConfig {
        transfer: TRANSFER,
        digest,
        block_bytes: BLOCK_BYTES,
        pool_bytes: 16 * BLOCK_BYTES as usize,
        order: Order::Source,
        observer: Arc::clone(seen) as Arc<dyn Observer>,
        resources: Arc::new(|| None),
        root_names: vec![b"src".to_vec()],
        comparison: None,
        itemise: false,
        fence,
    };
    Sender::start(
        config,
        Box::new(TreeWork::new(roots.clone())),
        Arc::new(TreeSource::new(roots)),
        Arc::new(Live::sending(0, Bounds::fixed(0))),
        Arc::default(),
    )
    .unwrap()
}

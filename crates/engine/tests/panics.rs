//! Tests threads that panic: the whole transfer ends with an error, and no thread hangs. Does not
//! test where panics may occur.

use std::sync::Arc;

use godwit_engine::session::run_local;
use godwit_engine::tuner::Bounds;
use godwit_engine::{
    Counters, End, Ending, FinishReport, Live, Observer, Offers, Order, PANICKED, ReadError,
    Receiver, ReceiverConfig, Sender, SenderConfig, Sink, SinkFailure, Slice, Source, SourceFile,
    Work,
};
use godwit_proto::{DigestKind, Fault, Record, Seq, TransferId, Verdict};
use godwit_tree::synthetic::{MemorySource, NullSink};

const BYTES: u64 = 1 << 20;

/// Which thread panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Scan,
    Open,
    Plan,
    Write,
    Finish,
}

struct Mistaken<T>(At, T);

impl<T> Mistaken<T> {
    fn pass(&self, at: At) -> &T {
        assert_ne!(self.0, at, "as a mistake might");
        &self.1
    }
}

impl Work for Mistaken<MemorySource> {
    fn next_batch(&mut self, out: &mut Offers) -> bool {
        self.pass(At::Scan);
        self.1.next_batch(out)
    }
}

impl Source for Mistaken<MemorySource> {
    fn open(&self, record: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        self.pass(At::Open).open(record)
    }
    fn read_whole(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.1.read_whole(record, buffer)
    }
    fn refresh(&self, record: &Record) -> Result<Record, Fault> {
        self.1.refresh(record)
    }
}

impl Sink for Mistaken<NullSink> {
    fn plan(&self, records: &[Record]) -> Vec<Verdict> {
        self.pass(At::Plan).plan(records)
    }
    fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault> {
        self.pass(At::Write).write_slice(slice)
    }
    fn write_bundle(&self, seq: Seq, records: &[Record], contents: &[&[u8]]) -> Vec<Fault> {
        self.pass(At::Write).write_bundle(seq, records, contents)
    }
    fn finish(&self, ending: &mut Ending<'_>) -> Result<FinishReport, SinkFailure> {
        self.pass(At::Finish).finish(ending)
    }
    fn suspend(&self) {}
    fn display_path(&self, root: u16, path: &[u8]) -> Vec<u8> {
        self.1.display_path(root, path)
    }
}

struct Deaf;

impl Observer for Deaf {
    fn entry_failed(&self, _failed: &godwit_engine::FailedEntry<'_>) {}
}

#[test]
fn a_panic_of_any_thread_ends_the_whole_with_an_error() {
    for at in [At::Scan, At::Open, At::Plan, At::Write, At::Finish] {
        let source = MemorySource::new(BYTES);
        let sender = Sender::start(
            SenderConfig {
                transfer: TransferId([7; 16]),
                digest: DigestKind::CRC64_NVME,
                block_bytes: 4096,
                pool_bytes: 64 << 10,
                order: Order::Source,
                observer: Arc::new(Deaf),
                resources: Arc::new(|| None),
                root_names: vec![b"mem".to_vec()],
                comparison: None,
                itemise: false,
                fence: None,
            },
            Box::new(Mistaken(at, source)),
            Arc::new(Mistaken(at, source)),
            Arc::new(Live::sending(0, Bounds::fixed(0))),
            Arc::default(),
        )
        .unwrap();
        let counters = Arc::new(Counters::default());
        let for_sink = Arc::clone(&counters);
        let receiver = Receiver::start(
            ReceiverConfig {
                transfer: TransferId([7; 16]),
                digest: DigestKind::CRC64_NVME,
                block_bytes: 4096,
                observer: Arc::new(Deaf),
                resources: Arc::new(|| None),
                comparison: None,
                itemise: false,
            },
            Box::new(move |acks| -> std::io::Result<Arc<dyn Sink>> {
                Ok(Arc::new(Mistaken(at, NullSink::new(acks, for_sink))))
            }),
            Arc::new(Live::receiving(Bounds::fixed(0))),
            counters,
        )
        .unwrap();
        let end = run_local(&sender, &receiver, 2, &mut |_| true).unwrap();
        let End::Failed { message, .. } = &end else {
            panic!("{at:?}: {end:?}");
        };
        assert!(message.contains(PANICKED), "{at:?}: {message}");
    }
}

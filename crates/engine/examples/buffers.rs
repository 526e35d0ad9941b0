//! Sends and receives buffers without any files: implements work, source and sink itself. Shows the minimum that each
//! of the three traits requires; both ends run in this process.
//!
//! ```text
//! cargo run -p godwit-engine --example buffers
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example speaks to whoever runs it"
)]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use godwit_engine::session::run_local;
use godwit_engine::tuner::Bounds;
use godwit_engine::{
    Acks, Counters, End, Ending, FinishReport, Live, Observer, Offers, Order, ReadError, Receiver,
    ReceiverConfig, Sender, SenderConfig, Sink, SinkFailure, Slice, Source, SourceFile, Work,
    limits,
};
use godwit_proto::{
    DigestKind, EntryId, EntryKind, Fault, Generation, Record, Seq, TransferId, Verdict,
};

/// The source: buffers that never change, so a single generation suffices.
#[derive(Clone)]
struct Buffers(Arc<Vec<(String, Vec<u8>)>>);

impl Buffers {
    fn find(&self, record: &Record) -> &[u8] {
        let found = self
            .0
            .iter()
            .find(|(name, _)| name.as_bytes() == record.path);
        found.map_or(&[], |(_, bytes)| bytes)
    }
}

impl Work for Buffers {
    /// Offers everything at once; the sender numbers the entries.
    fn next_batch(&mut self, out: &mut Offers) -> bool {
        out.entries
            .extend(self.0.iter().map(|(name, bytes)| Record {
                kind: EntryKind::FILE,
                generation: Generation(1),
                bytes: bytes.len() as u64,
                path: name.clone().into_bytes(),
                ..Record::default()
            }));
        false
    }
}

impl Source for Buffers {
    /// Called for buffers that are sent in slices.
    fn open(&self, record: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        Ok(Arc::new(Open(self.find(record).to_vec())))
    }

    /// Called for small buffers, which share a block with others.
    fn read_whole(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let bytes = self.find(record);
        let Some(into) = buffer.get_mut(..bytes.len()) else {
            return Err(ReadError::Changed);
        };
        into.copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn refresh(&self, record: &Record) -> Result<Record, Fault> {
        Ok(record.clone())
    }
}

struct Open(Vec<u8>);

impl SourceFile for Open {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = start
            .checked_add(buffer.len())
            .and_then(|end| self.0.get(start..end))
            .ok_or(ReadError::Changed)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
        let bytes = self.0.len() as u64;
        Ok((offset < bytes).then_some(offset..bytes))
    }

    fn generation(&self) -> Result<u64, ReadError> {
        Ok(1)
    }
}

/// The sink: keeps the received buffers. A program that must not lose buffers acknowledges durability only once they
/// are safe.
struct Inbox {
    acks: Arc<Acks>,
    buffers: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

impl Inbox {
    fn place(&self, record: &Record, offset: usize, bytes: &[u8]) {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let buffer = buffers.entry(record.path.clone()).or_default();
        // This program announced the sizes itself; a sink for untrusted peers checks them before it allocates memory.
        let end = offset + bytes.len();
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        buffer[offset..end].copy_from_slice(bytes);
    }
}

impl Sink for Inbox {
    /// Wants every entry.
    fn plan(&self, records: &[Record]) -> Vec<Verdict> {
        records.iter().map(|_| Verdict::Send).collect()
    }

    fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault> {
        let offset = usize::try_from(slice.header.offset).unwrap_or(usize::MAX);
        self.place(slice.record, offset, slice.payload);
        self.acks.durable(&[slice.header.seq]);
        Ok(())
    }

    fn write_bundle(&self, seq: Seq, records: &[Record], contents: &[&[u8]]) -> Vec<Fault> {
        for (record, bytes) in records.iter().zip(contents) {
            self.place(record, 0, bytes);
        }
        self.acks.durable(&[seq]);
        Vec::new()
    }

    fn finish(&self, _ending: &mut Ending<'_>) -> Result<FinishReport, SinkFailure> {
        Ok(FinishReport::default())
    }

    fn suspend(&self) {}

    fn display_path(&self, _root: u16, path: &[u8]) -> Vec<u8> {
        path.to_vec()
    }
}

/// Prints failed entries.
struct Complain;

impl Observer for Complain {
    fn entry_failed(&self, failed: &godwit_engine::FailedEntry<'_>) {
        let fault = failed.fault;
        let EntryId(number) = fault.entry;
        let name = String::from_utf8_lossy(failed.shown);
        eprintln!("buffer {number}, {name}: {}", fault.message);
    }
}

fn main() -> std::io::Result<()> {
    let sent = Buffers(Arc::new(vec![
        ("greeting".to_owned(), b"hello".to_vec()),
        ("empty".to_owned(), Vec::new()),
        ("large".to_owned(), vec![7; 5_000_000]),
    ]));
    let transfer = TransferId([1; 16]);
    let sender = Sender::start(
        SenderConfig {
            transfer,
            digest: DigestKind::CRC64_NVME,
            block_bytes: limits::BLOCK_BYTES,
            pool_bytes: limits::POOL_BYTES,
            order: Order::Source,
            observer: Arc::new(Complain),
            resources: Arc::new(|| None),
            root_names: vec![Vec::new()],
            comparison: None,
            itemise: false,
            fence: None,
        },
        Box::new(sent.clone()),
        Arc::new(sent.clone()),
        Arc::new(Live::sending(0, Bounds::fixed(0))),
        Arc::default(),
    )?;
    let mut inbox = None;
    let make = |acks| -> std::io::Result<Arc<dyn Sink>> {
        let made = Arc::new(Inbox {
            acks,
            buffers: Mutex::default(),
        });
        inbox = Some(Arc::clone(&made));
        Ok(made)
    };
    let receiver = Receiver::start(
        ReceiverConfig {
            transfer,
            digest: DigestKind::CRC64_NVME,
            block_bytes: limits::BLOCK_BYTES,
            observer: Arc::new(Complain),
            resources: Arc::new(|| None),
            comparison: None,
            itemise: false,
        },
        Box::new(make),
        Arc::new(Live::receiving(Bounds::fixed(0))),
        Arc::new(Counters::default()),
    )?;
    // Elsewhere, each end would call `run_stream` on its own threads, with streams over the network.
    let began = std::time::Instant::now();
    let patience = Duration::from_secs(60);
    let end = run_local(&sender, &receiver, 2, &mut |_| began.elapsed() < patience)?;
    let arrived = inbox.map(|inbox| {
        std::mem::take(&mut *inbox.buffers.lock().unwrap_or_else(PoisonError::into_inner))
    });
    let arrived = arrived.unwrap_or_default();
    let whole = sent
        .0
        .iter()
        .all(|(name, bytes)| arrived.get(name.as_bytes()) == Some(bytes));
    match end {
        End::Finished(_) if whole => {
            println!("{} buffers arrived", arrived.len());
            Ok(())
        }
        other => Err(std::io::Error::other(format!("not all arrived: {other:?}"))),
    }
}

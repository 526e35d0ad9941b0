//! Slow ends for tests: a source, a sink and a line that sleep or burn processor time. The engine
//! between them is real; this module checks nothing.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use godwit_engine::{
    Ending, FinishReport, Offers, ReadError, Sink, SinkFailure, Slice, Source, SourceFile, Work,
};
use godwit_net::{
    AcceptOptions, Carrier, ClientTls, Connection, DialOptions, Expect, Identity, PeerAddress,
    ServerTls, Stream, accept, dial_over,
};
use godwit_proto::{EntryKind, Fault, Generation, Record, Seq, Verdict};
use godwit_tree::synthetic::NullSink;

use super::support::Random;

/// How slow a stage is.
#[derive(Default)]
pub(crate) enum Pace {
    #[default]
    Free,
    /// A rate in bytes a second for all threads together; they sleep.
    Rate(f64, Mutex<Option<Instant>>),
    /// Processor time for each byte, in nanoseconds.
    Burn(f64),
}

impl Pace {
    pub(crate) fn rate(bytes_per_second: f64) -> Self {
        Self::Rate(bytes_per_second, Mutex::default())
    }

    pub(crate) fn take(&self, bytes: usize) {
        match self {
            Self::Free => {}
            Self::Rate(rate, free_at) => {
                let now = Instant::now();
                let cost = Duration::from_secs_f64(bytes as f64 / rate);
                let until = {
                    let mut free_at = free_at.lock().unwrap();
                    let begin = free_at.map_or(now, |at| at.max(now));
                    *free_at.insert(begin + cost)
                };
                thread::sleep(until.saturating_duration_since(now));
            }
            Self::Burn(nanoseconds) => {
                let end =
                    processor_time() + Duration::from_secs_f64(bytes as f64 * nanoseconds / 1e9);
                while processor_time() < end {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap(),
        time.tv_nsec.try_into().unwrap(),
    )
}

/// The sizes of the files of a data set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mix {
    Large,
    Small,
    Both,
}

/// More files than any test reads.
pub(crate) struct Files {
    mix: Mix,
    random: Random,
    count: u64,
}

impl Files {
    pub(crate) const fn new(mix: Mix, seed: u64) -> Self {
        Self {
            mix,
            random: Random(seed),
            count: 0,
        }
    }
}

impl Work for Files {
    fn next_batch(&mut self, out: &mut Offers) -> bool {
        for _ in 0..256 {
            let large = match self.mix {
                Mix::Large => true,
                Mix::Small => false,
                Mix::Both => self.random.below(64) == 0,
            };
            let bytes = if large {
                64 << 20
            } else {
                4096 + self.random.below(28 << 10)
            };
            self.count += 1;
            out.entries.push(Record {
                kind: EntryKind::FILE,
                generation: Generation(bytes),
                bytes,
                path: format!("{:08}", self.count).into_bytes(),
                ..Record::default()
            });
        }
        self.count < 20_000
    }
}

/// Files of any size, read at the given pace.
pub(crate) struct SlowSource(pub(crate) Arc<Pace>);

struct SlowFile(u64, Arc<Pace>);

impl Source for SlowSource {
    fn open(&self, record: &Record) -> Result<Arc<dyn SourceFile>, Fault> {
        Ok(Arc::new(SlowFile(record.bytes, Arc::clone(&self.0))))
    }

    fn read_whole(&self, record: &Record, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let bytes = usize::try_from(record.bytes).unwrap();
        buffer[..bytes].fill(7);
        self.0.take(bytes);
        Ok(bytes)
    }

    fn refresh(&self, record: &Record) -> Result<Record, Fault> {
        Ok(record.clone())
    }
}

impl SourceFile for SlowFile {
    fn read_at(&self, _offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        buffer.fill(7);
        self.1.take(buffer.len());
        Ok(())
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ReadError> {
        Ok((offset < self.0).then_some(offset..self.0))
    }

    fn generation(&self) -> Result<u64, ReadError> {
        Ok(self.0)
    }
}

/// A sink that keeps nothing, at the given pace.
pub(crate) struct SlowSink(pub(crate) NullSink, pub(crate) Arc<Pace>);

impl Sink for SlowSink {
    fn plan(&self, records: &[Record]) -> Vec<Verdict> {
        self.0.plan(records)
    }

    fn write_slice(&self, slice: &Slice<'_>) -> Result<(), Fault> {
        self.1.take(slice.payload.len());
        self.0.write_slice(slice)
    }

    fn write_bundle(&self, seq: Seq, records: &[Record], contents: &[&[u8]]) -> Vec<Fault> {
        self.1.take(contents.iter().map(|bytes| bytes.len()).sum());
        self.0.write_bundle(seq, records, contents)
    }

    fn finish(&self, ending: &mut Ending<'_>) -> Result<FinishReport, SinkFailure> {
        self.0.finish(ending)
    }

    fn suspend(&self) {}

    fn display_path(&self, root: u16, path: &[u8]) -> Vec<u8> {
        self.0.display_path(root, path)
    }
}

/// Small, so that buffered data does not hide the slow stage for long.
const BUFFER_BYTES: usize = 64 << 10;

fn small_buffers(tcp: &TcpStream) {
    rustix::net::sockopt::set_socket_send_buffer_size(tcp, BUFFER_BYTES).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(tcp, BUFFER_BYTES).unwrap();
}

/// Relays bytes at the pace of the line, until one side closes.
fn pass(mut from: TcpStream, mut to: TcpStream, pace: Arc<Pace>) {
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            pace.take(bytes);
            if to.write_all(&buffer[..bytes]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}

/// Both ends of a stream with TLS over TCP, through a line of this pace (from the first to the
/// second).
pub(crate) fn line(pace: &Arc<Pace>, plain: bool) -> (Connection, Connection) {
    let listen = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    };
    let ((near, near_at), (far, far_at)) = (listen(), listen());
    let ours = TcpStream::connect(near_at).unwrap();
    let relay_in = near.accept().unwrap().0;
    let relay_out = TcpStream::connect(far_at).unwrap();
    let theirs = far.accept().unwrap().0;
    for tcp in [&ours, &relay_in, &relay_out, &theirs] {
        small_buffers(tcp);
    }
    let free = Arc::new(Pace::Free);
    pass(
        relay_in.try_clone().unwrap(),
        relay_out.try_clone().unwrap(),
        Arc::clone(pace),
    );
    pass(relay_out, relay_in, free);
    let identities = [
        Identity::ephemeral().unwrap(),
        Identity::ephemeral().unwrap(),
    ];
    let [client, server] = &identities;
    let server_tls = ServerTls::new(server, &[]).unwrap();
    let options = AcceptOptions {
        deadline: Duration::from_secs(30),
        ..AcceptOptions::default()
    };
    let accepted = thread::spawn(move || accept(theirs, &server_tls, &options).unwrap().stream);
    let mut dialling = DialOptions::new(Expect::Identity(*server.id()));
    dialling.deadline = Duration::from_secs(30);
    let (mut ours, _) = dial_over(
        Carrier::Tcp(ours),
        &PeerAddress::new("127.0.0.1", near_at.port()),
        &ClientTls::new(client, &[]).unwrap(),
        &dialling,
    )
    .unwrap();
    let mut theirs = accepted.join().unwrap();
    ours.set_plain_payload(plain);
    theirs.set_plain_payload(plain);
    (ours, theirs)
}

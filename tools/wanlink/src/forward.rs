//! Owns the loops that move packets between the two devices through the two lines, a thread for each direction.
//! Decides nothing about a packet's fate: that is `line`'s.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use godwit_sys::tun::{Offload, Tun, VNET_HEADER_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::line::{Counters, Line, LineConfig, Time};

/// Counters of one direction, and the number of packets that the kernel at its far end refused.
pub(crate) type Sums = (Counters, u64);

/// The two ends and the link between them. Index 0 is the left end, or the direction from left to right.
pub(crate) struct Forwarder {
    ends: [Tun; 2],
    lines: [LineConfig; 2],
    header_bytes: usize,
    sums: [Mutex<Sums>; 2],
    start: Instant,
}

/// Inputs that end the forwarding.
pub(crate) struct Control<'fd> {
    /// Readable means stop.
    pub(crate) signalled: BorrowedFd<'fd>,
    /// Its end means stop; its contents do not matter.
    pub(crate) input: Option<BorrowedFd<'fd>>,
    /// How often to call `report`.
    pub(crate) report_every: Option<Duration>,
}

impl Control<'_> {
    /// Waits for a stop, or until `ended` has come to its end.
    fn wait(&self, ended: &OwnedFd, report: impl Fn()) -> io::Result<()> {
        let mut report_at = self.report_every.map(|every| Instant::now() + every);
        // Without an input the signals replace it.
        let input = self.input.unwrap_or(self.signalled);
        loop {
            let mut files = [ended.as_fd(), self.signalled, input]
                .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
            let left = report_at.map(|at| at.saturating_duration_since(Instant::now()));
            wait(&mut files, left)?;
            if !files[0].revents().is_empty() || !files[1].revents().is_empty() {
                return Ok(());
            }
            let said = files[2].revents();
            if said.contains(PollFlags::IN) {
                if rustix::io::read(input, &mut [0; 256])? == 0 {
                    return Ok(());
                }
            } else if !said.is_empty() {
                return Ok(());
            }
            if let (Some(at), Some(every)) = (report_at, self.report_every)
                && Instant::now() >= at
            {
                report();
                report_at = Some(at + every);
            }
        }
    }
}

impl Forwarder {
    pub(crate) fn new(ends: [Tun; 2], lines: [LineConfig; 2], offload: Offload) -> Self {
        Self {
            ends,
            lines,
            header_bytes: match offload {
                Offload::Off => 0,
                Offload::On => VNET_HEADER_BYTES,
            },
            sums: Default::default(),
            start: Instant::now(),
        }
    }

    pub(crate) fn sums(&self) -> [Sums; 2] {
        [0, 1].map(|direction| *lock(&self.sums[direction]))
    }

    /// Forwards until a stop.
    ///
    /// # Errors
    ///
    /// A device has gone, for instance with its namespace.
    pub(crate) fn run(&self, control: &Control<'_>, report: impl Fn(&Self)) -> anyhow::Result<()> {
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let (ended, ends) = pipe().context("cannot make a pipe")?;
        let (stop, stops) = pipe().context("cannot make a pipe")?;
        thread::scope(|scope| {
            let mut directions = Vec::with_capacity(2);
            for direction in 0..2 {
                let ending = Ending(ends.try_clone().context("cannot copy a pipe")?);
                let mut way = Lane::new(self, direction);
                let stop = stop.as_fd();
                directions.push(scope.spawn(move || {
                    let _ending = ending;
                    way.run(stop)
                }));
            }
            let waited = control.wait(&ended, || report(self));
            drop(stops);
            for direction in directions {
                direction
                    .join()
                    .expect("a direction reports its errors and does not panic")?;
            }
            waited.context("cannot wait")
        })
    }
}

/// Signals that a direction has ended, by an error or a panic too: the other must not continue without it.
struct Ending(OwnedFd);

impl Drop for Ending {
    fn drop(&mut self) {
        // The pipe is empty, and its other end exists as long as any direction.
        let _ = rustix::io::write(&self.0, &[0]);
    }
}

/// One direction of the line: a thread that moves packets from one end to the other. A receiver's stack runs within the call
/// that delivers to it,
/// so one thread for both directions would often be the bottleneck.
struct Lane<'forwarder> {
    direction: usize,
    from: &'forwarder Tun,
    to: &'forwarder Tun,
    line: Line<Packet>,
    /// Packets that the other end's kernel did not take.
    refused: u64,
    header_bytes: usize,
    buffers: Buffers,
    sums: &'forwarder Mutex<Sums>,
    start: Instant,
}

impl<'forwarder> Lane<'forwarder> {
    fn new(forwarder: &'forwarder Forwarder, direction: usize) -> Self {
        Self {
            direction,
            from: &forwarder.ends[direction],
            to: &forwarder.ends[1 - direction],
            line: Line::new(forwarder.lines[direction]),
            refused: 0,
            header_bytes: forwarder.header_bytes,
            buffers: Buffers::default(),
            sums: &forwarder.sums[direction],
            start: forwarder.start,
        }
    }

    /// Forwards until the other end of `stop` is closed.
    fn run(&mut self, stop: BorrowedFd<'_>) -> anyhow::Result<()> {
        // The default of 50 µs would show in every round trip. Without the call the timers are merely later.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NANOSECONDS));
        loop {
            let now = self.now();
            let busy = self.round(now);
            *lock(self.sums) = (self.line.counters(), self.refused);
            let busy = busy?;
            // Packets that come closer together than this share a round: the poll watches for the end alone.
            let pause = if busy {
                now
            } else {
                Time(now.0 + ROUND_NANOSECONDS)
            };
            let mut files = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
            wait(&mut files, Some(self.left(pause)))?;
            if !files[0].revents().is_empty() {
                return Ok(());
            }
            if busy {
                continue;
            }
            let next = self.line.poll_timeout().map(|next| self.left(next));
            let mut files = [
                PollFd::new(self.from, PollFlags::IN),
                PollFd::from_borrowed_fd(stop, PollFlags::IN),
            ];
            wait(&mut files, next)?;
        }
    }

    /// Delivers due packets and takes in new ones. Returns whether more may be waiting.
    fn round(&mut self, now: Time) -> anyhow::Result<bool> {
        self.deliver(now)
            .with_context(|| format!("the device on the {} is lost", SIDES[1 - self.direction]))?;
        self.take_in()
            .with_context(|| format!("the device on the {} is lost", SIDES[self.direction]))
    }

    fn deliver(&mut self, now: Time) -> io::Result<()> {
        while let Some(packet) = self.line.poll_packet(now) {
            let written = self.to.write(packet.bytes());
            self.buffers.put_back(packet);
            match written {
                Ok(_) => {}
                Err(error) if is_gone(&error) => return Err(error),
                // The device is down, or the stack refuses the packet. The packet is lost, as on a real line.
                Err(_) => self.refused += 1,
            }
        }
        Ok(())
    }

    fn take_in(&mut self) -> io::Result<bool> {
        for _ in 0..BATCH_PACKETS {
            let mut buffer = self.buffers.take();
            let bytes = match self.from.read(&mut buffer) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.buffers.keep(buffer);
                    return if is_gone(&error) {
                        Err(error)
                    } else {
                        Ok(false)
                    };
                }
            };
            let packet = self.buffers.packet(buffer, bytes);
            let wire_bytes = bytes.saturating_sub(self.header_bytes);
            let wire_bytes = u32::try_from(wire_bytes).expect("a packet fits its buffer");
            // Not when the round began: an answer to a packet delivered since would arrive before its time.
            let now = self.now();
            if let Err((_refusal, packet)) = self.line.handle_packet(now, wire_bytes, packet) {
                self.buffers.put_back(packet);
            }
        }
        Ok(true)
    }

    fn left(&self, until: Time) -> Duration {
        Duration::from_nanos(until.0.saturating_sub(self.now().0))
    }

    fn now(&self) -> Time {
        Time::after_start(self.start.elapsed())
    }
}

fn wait(files: &mut [PollFd<'_>], left: Option<Duration>) -> io::Result<()> {
    let timeout = left.map(|left| {
        Timespec::try_from(left).unwrap_or(Timespec {
            tv_sec: i64::MAX,
            tv_nsec: 0,
        })
    });
    match poll(files, timeout.as_ref()) {
        Ok(_) => Ok(()),
        // A signal: whatever it means comes through one of the files.
        Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sums that a panicked thread left are consistent, because sums are replaced at once.
fn lock(sums: &Mutex<Sums>) -> std::sync::MutexGuard<'_, Sums> {
    sums.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One packet with the header before it, if the devices use one.
#[derive(Debug)]
struct Packet {
    buffer: Vec<u8>,
    bytes: usize,
}

impl Packet {
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.bytes]
    }
}

/// Full-size buffers to read into, reused while they are still in the cache.
#[derive(Default)]
struct Buffers {
    free: Vec<Vec<u8>>,
}

impl Buffers {
    fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_else(|| vec![0; READ_BYTES])
    }

    /// A large packet keeps its read buffer; a small one moves to a buffer of the right size. So the link never holds more than twice the
    /// bytes it counts.
    fn packet(&mut self, buffer: Vec<u8>, bytes: usize) -> Packet {
        if bytes >= READ_BYTES / 2 {
            return Packet { buffer, bytes };
        }
        let own = buffer[..bytes].to_vec();
        self.keep(buffer);
        Packet { buffer: own, bytes }
    }

    fn put_back(&mut self, packet: Packet) {
        if packet.buffer.len() == READ_BYTES {
            self.keep(packet.buffer);
        }
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        if self.free.len() < FREE_BUFFERS_MAX {
            self.free.push(buffer);
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    let code = error
        .raw_os_error()
        .map(rustix::io::Errno::from_raw_os_error);
    matches!(
        code,
        Some(rustix::io::Errno::BADFD | rustix::io::Errno::BADF | rustix::io::Errno::NODEV)
    )
}

const SIDES: [&str; 2] = ["left", "right"];
/// The largest packet of the kernel, 64 KiB, with its header and to spare: a packet that fills it would be cut.
const READ_BYTES: usize = (64 << 10) + (4 << 10);
/// Most packets that are read before due packets are sent.
const BATCH_PACKETS: usize = 64;
const FREE_BUFFERS_MAX: usize = BATCH_PACKETS;
/// At most 20,000 rounds a second, however many packets: a fifth of a core where each packet alone would take it all.
const ROUND_NANOSECONDS: u64 = 50_000;
const TIMER_SLACK_NANOSECONDS: u64 = 1_000;

//! Owns the loop that moves packets between the two devices through the two lines, on one thread.
//! Decides nothing about a packet's fate: that is `line`'s.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use godwit_sys::tun::{Offload, Tun, VNET_HEADER_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::line::{Counters, Line, LineConfig, Time};

/// The two ends and what is between them. Index 0 is left, or from left to right.
pub(crate) struct Forwarder {
    ends: [Tun; 2],
    lines: [Line<Packet>; 2],
    /// Packets that the other end's kernel did not take.
    refused: [u64; 2],
    header_bytes: usize,
    buffers: Buffers,
    start: Instant,
}

/// What ends the forwarding.
pub(crate) struct Control<'fd> {
    /// Readable means stop.
    pub(crate) signalled: BorrowedFd<'fd>,
    /// Its end means stop; what it says does not matter.
    pub(crate) input: Option<BorrowedFd<'fd>>,
    /// How often to call `report`.
    pub(crate) report_every: Option<Duration>,
}

impl Control<'_> {
    /// The files to watch. Without an input the first one stands in for it.
    fn files(&self) -> [PollFd<'_>; 2] {
        let input = self.input.unwrap_or(self.signalled);
        [self.signalled, input].map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
    }

    /// Whether one of `files` means stop.
    fn stops(&self, files: &[PollFd<'_>; 2]) -> io::Result<bool> {
        if !files[0].revents().is_empty() {
            return Ok(true);
        }
        match self.input {
            Some(input) if files[1].revents().contains(PollFlags::IN) => {
                Ok(rustix::io::read(input, &mut [0; 256])? == 0)
            }
            _ => Ok(!files[1].revents().is_empty()),
        }
    }
}

impl Forwarder {
    pub(crate) fn new(ends: [Tun; 2], lines: [LineConfig; 2], offload: Offload) -> Self {
        Self {
            ends,
            lines: lines.map(Line::new),
            refused: [0; 2],
            header_bytes: match offload {
                Offload::Off => 0,
                Offload::On => VNET_HEADER_BYTES,
            },
            buffers: Buffers::default(),
            start: Instant::now(),
        }
    }

    /// What each direction did, and how many packets the kernel at its far end refused.
    pub(crate) fn counters(&self) -> [(Counters, u64); 2] {
        [
            (self.lines[0].counters(), self.refused[0]),
            (self.lines[1].counters(), self.refused[1]),
        ]
    }

    /// Forwards until told to stop.
    ///
    /// # Errors
    ///
    /// A device has gone, for instance with its namespace.
    pub(crate) fn run(
        &mut self,
        control: &Control<'_>,
        report: impl Fn(&Self),
    ) -> anyhow::Result<()> {
        // The default of 50 µs would show in every round trip. Without the call the timers are merely later.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NANOSECONDS));
        let mut report_at = control
            .report_every
            .map(|every| self.now().0 + nanoseconds(every));
        loop {
            let now = self.now();
            let busy = self.round(now)?;
            if let (Some(at), Some(every)) = (report_at, control.report_every)
                && now.0 >= at
            {
                report(self);
                report_at = Some(at + nanoseconds(every));
            }
            // Packets that come closer together than this share a round: the poll watches for the end alone.
            let pause = if busy {
                now
            } else {
                Time(now.0 + ROUND_NANOSECONDS)
            };
            if self.wait_for_end(control, pause)? {
                return Ok(());
            }
            if busy {
                continue;
            }
            let next = [
                self.lines[0].poll_timeout(),
                self.lines[1].poll_timeout(),
                report_at.map(Time),
            ];
            self.wait_for_packets(control, next.into_iter().flatten().min())?;
        }
    }

    /// Delivers what is due and takes in what has come. Says whether more may be waiting.
    fn round(&mut self, now: Time) -> anyhow::Result<bool> {
        let mut busy = false;
        for direction in 0..2 {
            self.deliver(direction, now)
                .with_context(|| format!("the device on the {} is lost", SIDES[1 - direction]))?;
            busy |= self
                .take_in(direction)
                .with_context(|| format!("the device on the {} is lost", SIDES[direction]))?;
        }
        Ok(busy)
    }

    fn deliver(&mut self, direction: usize, now: Time) -> io::Result<()> {
        while let Some(packet) = self.lines[direction].poll_packet(now) {
            let written = self.ends[1 - direction].write(packet.bytes());
            self.buffers.put_back(packet);
            match written {
                Ok(_) => {}
                Err(error) if is_gone(&error) => return Err(error),
                // A device set down, or a packet that the stack does not like: lost there, as on any line.
                Err(_) => self.refused[direction] += 1,
            }
        }
        Ok(())
    }

    fn take_in(&mut self, direction: usize) -> io::Result<bool> {
        for _ in 0..BATCH_PACKETS {
            let mut buffer = self.buffers.take();
            let bytes = match self.ends[direction].read(&mut buffer) {
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
            // Not when the round began: an answer to what was delivered since would arrive before its time.
            let now = self.now();
            if let Err((_refusal, packet)) =
                self.lines[direction].handle_packet(now, wire_bytes, packet)
            {
                self.buffers.put_back(packet);
            }
        }
        Ok(true)
    }

    fn wait_for_end(&self, control: &Control<'_>, until: Time) -> io::Result<bool> {
        let mut files = control.files();
        self.wait(&mut files, Some(until))?;
        control.stops(&files)
    }

    fn wait_for_packets(&self, control: &Control<'_>, until: Option<Time>) -> io::Result<()> {
        let [signalled, input] = control.files();
        let [left, right] = &self.ends;
        let mut all = [
            PollFd::new(left, PollFlags::IN),
            PollFd::new(right, PollFlags::IN),
            signalled,
            input,
        ];
        self.wait(&mut all, until)
    }

    fn wait(&self, files: &mut [PollFd<'_>], until: Option<Time>) -> io::Result<()> {
        let timeout = until.map(|until| {
            let left = Duration::from_nanos(until.0.saturating_sub(self.now().0));
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

    fn now(&self) -> Time {
        Time::after_start(self.start.elapsed())
    }
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

    /// A large packet keeps the buffer that it was read into; a small one moves to one of its own size, so that the
    /// line never holds more than twice the bytes it counts.
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

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const SIDES: [&str; 2] = ["left", "right"];
/// The largest packet of the kernel, 64 KiB, with its header and to spare: a packet that fills it would be cut.
const READ_BYTES: usize = (64 << 10) + (4 << 10);
/// Packets taken from one device before the other has its turn.
const BATCH_PACKETS: usize = 64;
/// One batch in each direction.
const FREE_BUFFERS_MAX: usize = 2 * BATCH_PACKETS;
/// At most 20,000 rounds a second, however many packets: a fifth of a core where each packet alone would take it all.
const ROUND_NANOSECONDS: u64 = 50_000;
const TIMER_SLACK_NANOSECONDS: u64 = 1_000;

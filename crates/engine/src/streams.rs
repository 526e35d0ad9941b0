//! Collects measurements of one end's streams, separately and summed in the counters. Does not measure or decide.
//!
//! A stream measures itself at most five times a second, also during a blocked send (`godwit_net::meter`): bytes, time
//! without room, time without data, and the kernel's figures of its socket. A snapshot of the counters adds the new
//! figures of all streams. STATUS contains the counters of the other end, and SENDING the kernel's figures of each
//! sending stream, so both ends know each stream.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use godwit_net::{Stream, StreamMeasure, StreamMeter, TcpInfo};
use godwit_proto::SendingStream;

use crate::lock;
use crate::{Counters, PathSample};

/// One stream of a transfer, as measured at this end.
#[derive(Debug, Clone)]
pub struct StreamFigures {
    /// Number of the stream, assigned by its end of the transfer.
    pub id: u64,
    /// Number of the stream's channel, assigned by the client.
    pub channel: u32,
    /// Whether the stream carries contents.
    pub carries_blocks: bool,
    /// Time since the stream was attached.
    pub age: Duration,
    /// Measurements of the stream at this end.
    pub measure: StreamMeasure,
    /// The connection according to the kernel of the **sending** end: measured here if this end sends, otherwise from
    /// the sender's latest report. `None` if it is not TCP, or no report has arrived yet.
    pub sending: Option<SendingStream>,
}

impl StreamFigures {
    /// Bytes in the direction of the contents, with all overhead.
    pub fn bytes(&self) -> u64 {
        self.measure.bytes_in.max(self.measure.bytes_out)
    }
}

/// The attached streams, and the part of their measurements already counted.
#[derive(Debug)]
pub(crate) struct StreamTable {
    rows: Mutex<BTreeMap<u64, Row>>,
    /// Bytes a second of each channel in the background; locked after the rows.
    paces: Mutex<BTreeMap<u32, u64>>,
    /// Initial pace of a channel without measurements; 0 is no limit.
    pace_first: AtomicU64,
    began: Instant,
}

impl Default for StreamTable {
    fn default() -> Self {
        Self {
            rows: Mutex::default(),
            paces: Mutex::default(),
            pace_first: AtomicU64::new(0),
            began: Instant::now(),
        }
    }
}

#[derive(Debug)]
struct Row {
    channel: u32,
    carries_blocks: bool,
    attached: Instant,
    meter: Arc<StreamMeter>,
    reported: Option<SendingStream>,
    counted_time: Duration,
    counted: StreamMeasure,
}

impl StreamTable {
    pub(crate) fn attach(&self, id: u64, stream: &mut dyn Stream) {
        stream.measure();
        let meter = stream.meter();
        // Earlier bytes do not belong to this transfer, or are very few.
        let counted = meter.read();
        let row = Row {
            channel: stream.channel(),
            carries_blocks: stream.carries_blocks(),
            attached: Instant::now(),
            meter,
            reported: None,
            counted_time: Duration::ZERO,
            counted,
        };
        self.insert(id, row);
        // The pace applies from the first byte on, not only from the next measurement.
        stream.measure();
    }

    fn insert(&self, id: u64, row: Row) {
        let mut rows = lock(&self.rows);
        let channel = row.channel;
        rows.insert(id, row);
        let pace = lock(&self.paces).get(&channel).copied();
        let pace = pace.unwrap_or_else(|| self.pace_first.load(Ordering::Relaxed));
        if pace > 0 {
            divide_pace(&rows, channel, pace);
        }
    }

    /// Removes a stream that is given up.
    pub(crate) fn detach(&self, id: u64, stream: &mut dyn Stream, counters: &Counters) {
        stream.measure();
        let mut rows = lock(&self.rows);
        if let Some(mut row) = rows.remove(&id) {
            row.settle(Instant::now(), counters);
        }
    }

    /// Stores the sender's report on a stream.
    pub(crate) fn set_reported(&self, id: u64, sending: SendingStream) {
        if let Some(row) = lock(&self.rows).get_mut(&id) {
            row.reported = Some(sending);
        }
    }

    /// Adds the measurements since the last call to the counters, and sets the momentary values.
    pub(crate) fn settle(&self, counters: &Counters) {
        let mut rows = lock(&self.rows);
        let now = Instant::now();
        let mut gauges = Gauges::default();
        for row in rows.values_mut() {
            row.settle(now, counters);
            if row.carries_blocks {
                gauges.add(&row.counted);
            }
        }
        gauges.set(counters);
        counters
            .elapsed_ns
            .set(nanoseconds(now.duration_since(self.began)));
    }

    /// Totals of each channel's streams since their start, for the pace of a transfer in the background.
    pub(crate) fn paths(&self) -> BTreeMap<u32, PathSample> {
        let mut paths: BTreeMap<u32, PathSample> = BTreeMap::new();
        for row in lock(&self.rows).values().filter(|row| row.carries_blocks) {
            let Some(tcp) = row.meter.read().tcp else {
                continue;
            };
            let path = paths.entry(row.channel).or_default();
            // Queueing delay of its packets, above the minimum RTT, because streams may take different paths.
            path.round_trip += tcp.round_trip.saturating_sub(tcp.round_trip_min);
            if path.round_trip_min.is_zero() || tcp.round_trip_min < path.round_trip_min {
                path.round_trip_min = tcp.round_trip_min;
            }
            path.acknowledged_bytes += tcp.acknowledged_bytes;
            path.sent_bytes += tcp.sent_bytes;
            path.resent_bytes += tcp.retransmitted_bytes;
            path.segment_bytes = path.segment_bytes.max(tcp.segment_bytes.into());
            path.streams += 1;
        }
        for path in paths.values_mut() {
            path.round_trip = path.round_trip_min + path.round_trip / path.streams.max(1);
        }
        paths
    }

    /// Sets the pace of new channels until [`set_pace`](Self::set_pace); 0 is no limit.
    pub(crate) fn set_pace_first(&self, bytes_per_second: u64) {
        self.pace_first.store(bytes_per_second, Ordering::Relaxed);
    }

    /// Sets the total pace of a channel's streams, including future ones; 0 is no limit.
    pub(crate) fn set_pace(&self, channel: u32, bytes_per_second: u64) {
        let rows = lock(&self.rows);
        lock(&self.paces).insert(channel, bytes_per_second);
        divide_pace(&rows, channel, bytes_per_second);
    }

    pub(crate) fn figures(&self) -> Vec<StreamFigures> {
        let now = Instant::now();
        lock(&self.rows)
            .iter()
            .map(|(id, row)| {
                let measure = row.meter.read();
                StreamFigures {
                    id: *id,
                    channel: row.channel,
                    carries_blocks: row.carries_blocks,
                    age: now.duration_since(row.attached),
                    measure,
                    sending: row.reported.or_else(|| sending(&measure)),
                }
            })
            .collect()
    }
}

/// Gives each stream of the channel that carries contents its part of the pace.
fn divide_pace(rows: &BTreeMap<u64, Row>, channel: u32, bytes_per_second: u64) {
    let streams = || {
        rows.values()
            .filter(|row| row.carries_blocks && row.channel == channel)
    };
    let each = bytes_per_second / (streams().count().max(1) as u64);
    for row in streams() {
        row.meter.set_pace(each);
    }
}

impl Row {
    fn settle(&mut self, now: Instant, counters: &Counters) {
        if !self.carries_blocks {
            return;
        }
        let time = now.duration_since(self.attached);
        counters
            .streams_ns
            .add_time(time.saturating_sub(self.counted_time));
        self.counted_time = time;
        let (then, now) = (self.counted, self.meter.read());
        self.counted = now;
        counters
            .blocked_sending_ns
            .add_time(now.blocked_sending.saturating_sub(then.blocked_sending));
        let receiving = now.blocked_receiving.saturating_sub(then.blocked_receiving);
        counters.blocked_receiving_ns.add_time(receiving);
        let Some(tcp) = now.tcp else { return };
        let before = then.tcp.unwrap_or_default();
        for (counter, now, then) in [
            (&counters.tcp_busy_ns, tcp.busy, before.busy),
            (
                &counters.tcp_window_limited_ns,
                tcp.window_limited,
                before.window_limited,
            ),
            (
                &counters.tcp_buffer_limited_ns,
                tcp.buffer_limited,
                before.buffer_limited,
            ),
        ] {
            counter.add_time(now.saturating_sub(then));
        }
        for (counter, now, then) in [
            (&counters.tcp_bytes_sent, tcp.sent_bytes, before.sent_bytes),
            (
                &counters.tcp_bytes_resent,
                tcp.retransmitted_bytes,
                before.retransmitted_bytes,
            ),
            (
                &counters.tcp_bytes_acknowledged,
                tcp.acknowledged_bytes,
                before.acknowledged_bytes,
            ),
        ] {
            counter.add(now.saturating_sub(then));
        }
        // The kernel counts segments in 32 bits.
        for (counter, now, then) in [
            (
                &counters.tcp_segments_sent,
                tcp.data_segments,
                before.data_segments,
            ),
            (
                &counters.tcp_segments_resent,
                tcp.retransmitted_segments,
                before.retransmitted_segments,
            ),
        ] {
            counter.add(now.wrapping_sub(then).into());
        }
    }
}

/// Momentary values of all streams together.
#[derive(Default)]
struct Gauges {
    streams: u64,
    tcp_streams: u32,
    round_trips: Duration,
    round_trip_min: Option<Duration>,
    delivery: u64,
    app_limited: u64,
    window: u64,
    unacknowledged: u64,
    unsent: u64,
}

impl Gauges {
    fn add(&mut self, measure: &StreamMeasure) {
        self.streams += 1;
        let Some(tcp) = measure.tcp else { return };
        self.tcp_streams += 1;
        self.round_trips += tcp.round_trip;
        let least = tcp.round_trip_min;
        if !least.is_zero() {
            self.round_trip_min = Some(self.round_trip_min.map_or(least, |min| min.min(least)));
        }
        self.delivery += tcp.delivery_bytes_per_second;
        self.app_limited += u64::from(tcp.delivery_app_limited);
        self.window += segments(&tcp, tcp.congestion_window_segments);
        self.unacknowledged += segments(&tcp, tcp.unacknowledged_segments);
        self.unsent += u64::from(tcp.unsent_bytes);
    }

    fn set(&self, counters: &Counters) {
        counters.streams.set(self.streams);
        let round_trip = self.round_trips / self.tcp_streams.max(1);
        counters.round_trip_ns.set(nanoseconds(round_trip));
        let least = self.round_trip_min.unwrap_or_default();
        counters.round_trip_min_ns.set(nanoseconds(least));
        counters.delivery_bytes_per_second.set(self.delivery);
        counters.streams_app_limited.set(self.app_limited);
        counters.tcp_window_bytes.set(self.window);
        counters.tcp_unacknowledged_bytes.set(self.unacknowledged);
        counters.tcp_unsent_bytes.set(self.unsent);
    }
}

/// A sending stream's report for the other end; `None` if it is not TCP.
pub(crate) fn sending(measure: &StreamMeasure) -> Option<SendingStream> {
    let tcp = measure.tcp?;
    Some(SendingStream {
        round_trip_ns: nanoseconds(tcp.round_trip),
        round_trip_min_ns: nanoseconds(tcp.round_trip_min),
        delivery_bytes_per_second: tcp.delivery_bytes_per_second,
        delivery_app_limited: tcp.delivery_app_limited,
        window_bytes: segments(&tcp, tcp.congestion_window_segments),
        unacknowledged_bytes: segments(&tcp, tcp.unacknowledged_segments),
        unsent_bytes: tcp.unsent_bytes.into(),
        busy_ns: nanoseconds(tcp.busy),
        window_limited_ns: nanoseconds(tcp.window_limited),
        buffer_limited_ns: nanoseconds(tcp.buffer_limited),
        segments_sent: tcp.data_segments.into(),
        segments_resent: tcp.retransmitted_segments.into(),
        bytes_sent: tcp.sent_bytes,
        bytes_resent: tcp.retransmitted_bytes,
        bytes_acknowledged: tcp.acknowledged_bytes,
        blocked_ns: nanoseconds(measure.blocked_sending),
    })
}

fn segments(tcp: &TcpInfo, count: u32) -> u64 {
    u64::from(tcp.segment_bytes) * u64::from(count)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(channel: u32, carries_blocks: bool) -> (Row, Arc<StreamMeter>) {
        let meter = Arc::<StreamMeter>::default();
        let row = Row {
            channel,
            carries_blocks,
            attached: Instant::now(),
            meter: Arc::clone(&meter),
            reported: None,
            counted_time: Duration::ZERO,
            counted: StreamMeasure::default(),
        };
        (row, meter)
    }

    #[test]
    fn a_stream_that_comes_has_its_part_of_the_pace_at_once() {
        let table = StreamTable::default();
        table.set_pace_first(4_000_000);
        let (of_control, control) = row(0, false);
        let (first, of_first) = row(0, true);
        table.insert(0, of_control);
        table.insert(1, first);
        assert_eq!(of_first.pace(), 4_000_000);
        table.set_pace(0, 30_000_000);
        let (second, of_second) = row(0, true);
        table.insert(2, second);
        let (other, of_other) = row(1, true);
        table.insert(3, other);
        assert_eq!(of_first.pace(), 15_000_000);
        assert_eq!(of_second.pace(), 15_000_000);
        assert_eq!(of_other.pace(), 4_000_000);
        assert_eq!(control.pace(), 0);
    }

    #[test]
    fn a_transfer_that_is_not_in_the_background_has_no_pace() {
        let table = StreamTable::default();
        let (first, meter) = row(0, true);
        table.insert(1, first);
        assert_eq!(meter.pace(), 0);
    }
}

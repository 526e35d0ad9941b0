//! Owns the list of counters of one end of a transfer, and the snapshot of all counters at one moment. Does not count.

use std::time::Duration;

/// Passes the counters, with their documentation, to a macro. The counters after the semicolon are gauges.
#[macro_export]
macro_rules! each_counter {
    ($define:ident) => {
        $define! {
            /// Entries that the scan found.
            entries_scanned,
            /// Scanned entries that are not directories. Not sent to the other end, which counts the files it receives.
            files_scanned,
            /// Sizes of the files found. A file that changed and was restarted counts once more.
            bytes_scanned,
            /// Entries that the selection left out. A directory counts once, with its whole content.
            entries_excluded,
            /// Files that were already at the destination.
            files_skipped,
            /// Content bytes of the skipped files.
            bytes_skipped,
            /// At the sender: part of `bytes_scanned` that is settled but neither written nor skipped. These are ranges that the
            /// receiver had, holes, files of which only the metadata was set, and failed files.
            bytes_unmoved,
            /// Entries other than directories that are complete at the destination because of this transfer.
            files_done,
            /// Content bytes read from source storage.
            bytes_read,
            /// Content bytes handed to streams, including repetitions.
            bytes_sent,
            /// Content bytes sent again after a lost stream, a failed sync or a changed file.
            bytes_resent,
            /// Content bytes that arrived.
            bytes_received,
            /// Content bytes acknowledged as written.
            bytes_written,
            /// Content bytes acknowledged as durable, without files that failed or were restarted.
            bytes_durable,
            /// Entries that failed.
            entries_failed,
            /// Failed entries whose source itself could not be read.
            sources_failed,
            /// Entries whose owner this end could not keep or determine.
            owners_lost,
            /// Entries whose group this end could not keep or determine.
            groups_lost,
            /// Entries whose set-id bits this end could not keep or determine.
            set_ids_lost,
            /// Entries whose `user.*` attributes this end could not keep or determine.
            xattrs_lost,
            /// Entries whose `security.*` or `trusted.*` attributes this end could not keep or determine.
            privileged_xattrs_lost,
            /// Entries whose access lists this end could not keep or determine.
            acls_lost,
            /// Entries whose time this end could not keep or determine.
            times_lost,
            /// Entries whose mode this end could not keep or determine.
            modes_lost,
            /// Files that are hard links to a file in another root, and are sent again.
            links_split,
            /// Entries that were already complete except for their metadata, which was set.
            entries_adjusted,
            /// Entries that existed only at the destination and were removed.
            entries_deleted,
            /// Paths of the source that the scan could not read.
            scan_faults,
            /// Blocks that arrived with a wrong digest.
            digest_failures,
            /// Time of stream threads in nanoseconds: reading source storage.
            reading_ns,
            /// Time of stream threads in nanoseconds: handing data to the network.
            sending_ns,
            /// Time of stream threads in nanoseconds: no data to send.
            starved_ns,
            /// Time of stream threads in nanoseconds: no free block, because everything sent is still unacknowledged.
            unacknowledged_ns,
            /// Time of stream threads in nanoseconds: waiting for the rate limit.
            limited_ns,
            /// Time of receiving threads in nanoseconds: waiting for data.
            waiting_ns,
            /// Time of receiving threads in nanoseconds: taking data off the network, including decryption.
            receiving_ns,
            /// Time of receiving threads in nanoseconds: checking and writing.
            writing_ns,
            /// Time of receiving threads in nanoseconds: blocked because too much is written but not yet durable.
            undurable_ns,
            /// Nanoseconds spent in making batches durable.
            syncing_ns,
            /// CPU nanoseconds of this transfer's threads.
            cpu_ns,
            /// Number of streams ever attached.
            streams_attached,
            /// Streams that ended before the transfer did.
            streams_lost,
            /// Nanoseconds that threads of any kind spent in calls of the source's storage.
            storage_reading_ns,
            /// Nanoseconds that threads of any kind spent in calls of the destination's storage, including planning but not syncing.
            storage_writing_ns,
            /// Nanoseconds spent computing or checking digests.
            digesting_ns,
            /// Nanoseconds that threads of this transfer were ready to run but had no processor.
            cpu_waiting_ns,
            /// Nanoseconds that streams which carry contents were attached, summed over them.
            streams_ns,
            /// Part of `sending_ns` and similar counters in nanoseconds: no room in the socket.
            blocked_sending_ns,
            /// Part of `receiving_ns` in nanoseconds: the rest of a payload had not arrived.
            blocked_receiving_ns,
            /// Nanoseconds of work of the threads that read or write for streams.
            helping_ns,
            /// Nanoseconds in which sockets that carry contents had data to send; from the kernel, summed over the sockets.
            tcp_busy_ns,
            /// Nanoseconds of `tcp_busy_ns` in which the receiver's window was the limit.
            tcp_window_limited_ns,
            /// Nanoseconds of `tcp_busy_ns` in which the send buffer was the limit.
            tcp_buffer_limited_ns,
            /// Segments with data, including retransmissions.
            tcp_segments_sent,
            /// Segments retransmitted.
            tcp_segments_resent,
            /// Bytes of segments, including retransmissions.
            tcp_bytes_sent,
            /// Bytes retransmitted by the kernel.
            tcp_bytes_resent,
            /// Bytes that the other end's kernel acknowledged.
            tcp_bytes_acknowledged,
            /// Bytes that the pace of a background transfer allowed, over all channels; 0 if the transfer is not in the background.
            paced_bytes,
            /// Nanoseconds since this end began.
            elapsed_ns;
            /// Currently attached streams that carry contents.
            streams,
            /// Smoothed RTT in nanoseconds, the mean over streams; 0 if no stream is TCP.
            round_trip_ns,
            /// Lowest recent RTT in nanoseconds; 0 if no stream is TCP.
            round_trip_min_ns,
            /// Latest delivery rates, summed over all streams.
            delivery_bytes_per_second,
            /// Streams whose delivery rate was measured while they had too little data to send.
            streams_app_limited,
            /// Bytes that the congestion control allows in flight, over all streams.
            tcp_window_bytes,
            /// Bytes in flight.
            tcp_unacknowledged_bytes,
            /// Unsent bytes in sockets.
            tcp_unsent_bytes,
            /// Processors that this process may use.
            cores,
            /// The rate limit that the sending end obeys; 0 means no limit.
            limit_bytes_per_second,
        }
    };
}

macro_rules! snapshot {
    (
        $($(#[$doc:meta])* $name:ident),* $(,)?;
        $($(#[$gauge_doc:meta])* $gauge:ident),* $(,)?
    ) => {
        /// A copy of all counters at one moment.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
            $($(#[$gauge_doc])* pub $gauge: u64,)*
        }
        impl Snapshot {
            /// All counters with their names, in the order of their definition.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)* $((stringify!($gauge), self.$gauge),)*].into_iter()
            }

            /// The counters, with the value that `find` returns for each name.
            pub fn of_fields(find: impl Fn(&str) -> u64) -> Self {
                Self { $($name: find(stringify!($name)),)* $($gauge: find(stringify!($gauge)),)* }
            }

            /// The counts since `earlier`. Gauges keep their value.
            #[must_use]
            pub const fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)* $($gauge: self.$gauge,)* }
            }
        }
    };
}

each_counter!(snapshot);

/// One channel of a transfer, as measured at this end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelFigures {
    /// Number of the channel, assigned by the client from 0.
    pub number: u32,
    /// Name for messages: the interface and addresses.
    pub name: String,
    /// Number of streams attached now.
    pub streams: u32,
    /// Bytes in the direction that carried more, with all overhead.
    pub bytes: u64,
    /// Smoothed RTT of the last stream that was sampled; zero without a stream.
    pub round_trip: Duration,
    /// Bytes that this end retransmitted.
    pub resent_bytes: u64,
    /// How often streams of the channel were cut off because it was dead.
    pub cuts: u64,
    /// Time since the channel's first stream was attached.
    pub age: Duration,
}

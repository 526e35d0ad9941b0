//! Owns the list of what one end of a transfer counts, and a copy of all of it at one moment.
//! Counts nothing.

use std::time::Duration;

/// Hands the counters, with their documentation, to a macro; those behind the semicolon are gauges.
#[macro_export]
macro_rules! each_counter {
    ($define:ident) => {
        $define! {
            /// Entries that the scan found.
            entries_scanned,
            /// Of those, the ones that are no directories; not told to the other end, which counts what it is told of.
            files_scanned,
            /// Sizes of the files found, and once more of those that changed and were begun anew.
            bytes_scanned,
            /// Entries that the selection left out; a directory counts once, with all that is in it.
            entries_excluded,
            /// Files that were there already.
            files_skipped,
            /// Their content bytes.
            bytes_skipped,
            /// At the sender: of `bytes_scanned`, what is done with and was neither written nor skipped. Ranges that the receiver had, holes,
            /// files of which the metadata alone was set, files that failed.
            bytes_unmoved,
            /// Entries other than directories that are complete at the destination because of this transfer.
            files_done,
            /// Content bytes read from source storage.
            bytes_read,
            /// Content bytes handed to streams, repeats included.
            bytes_sent,
            /// Content bytes sent once more: after a lost stream, a failed sync, a file that changed.
            bytes_resent,
            /// Content bytes that arrived.
            bytes_received,
            /// Content bytes acknowledged as written.
            bytes_written,
            /// Content bytes acknowledged as durable, those of files that failed or began anew left out.
            bytes_durable,
            /// Entries that failed.
            entries_failed,
            /// Of those, sources that could not be read themselves.
            sources_failed,
            /// Entries whose owner this end could not keep, or not tell.
            owners_lost,
            /// Entries whose group.
            groups_lost,
            /// Entries whose set-id bits.
            set_ids_lost,
            /// Entries with `user.*` attributes that.
            xattrs_lost,
            /// Entries with `security.*` or `trusted.*` attributes that.
            privileged_xattrs_lost,
            /// Entries whose access lists.
            acls_lost,
            /// Entries whose time.
            times_lost,
            /// Entries whose mode.
            modes_lost,
            /// Files that are another name of one in another root, and are sent once more.
            links_split,
            /// Entries that were there but for their metadata, which was set.
            entries_adjusted,
            /// Entries that only the destination had, and that were removed.
            entries_deleted,
            /// Places of the source that could not be looked at.
            scan_faults,
            /// Blocks that arrived with a wrong digest.
            digest_failures,
            /// Nanoseconds of stream threads: reading source storage.
            reading_ns,
            /// Nanoseconds of stream threads: handing data to the network.
            sending_ns,
            /// Nanoseconds of stream threads: nothing to send.
            starved_ns,
            /// Nanoseconds of stream threads: no free block, everything sent and not yet acknowledged.
            unacknowledged_ns,
            /// Nanoseconds of stream threads: waiting for the rate limit.
            limited_ns,
            /// Nanoseconds of receiving threads: waiting for data.
            waiting_ns,
            /// Nanoseconds of receiving threads: taking data off the network, decrypting included.
            receiving_ns,
            /// Nanoseconds of receiving threads: checking and writing.
            writing_ns,
            /// Nanoseconds of receiving threads: held back because too much is written and not yet durable.
            undurable_ns,
            /// Nanoseconds spent in making batches durable.
            syncing_ns,
            /// CPU nanoseconds of this transfer's threads.
            cpu_ns,
            /// Streams attached, ever.
            streams_attached,
            /// Streams that ended before the transfer did.
            streams_lost,
            /// Nanoseconds that threads of any kind spent in calls of the source's storage.
            storage_reading_ns,
            /// Nanoseconds that threads of any kind spent in calls of the destination's storage, planning included and syncing not.
            storage_writing_ns,
            /// Nanoseconds spent in taking or checking digests.
            digesting_ns,
            /// Nanoseconds that threads of this transfer were ready to run and had no processor.
            cpu_waiting_ns,
            /// Nanoseconds that streams which carry contents were attached, summed over them.
            streams_ns,
            /// Nanoseconds of `sending_ns` and the like: no room in the socket.
            blocked_sending_ns,
            /// Nanoseconds of `receiving_ns`: the rest of a payload had not come.
            blocked_receiving_ns,
            /// Nanoseconds of work of the threads that read or write for streams.
            helping_ns,
            /// Of the sockets that carry contents, from the kernel, summed over them: nanoseconds with something to send.
            tcp_busy_ns,
            /// Nanoseconds of that limited by the receiver's window.
            tcp_window_limited_ns,
            /// Nanoseconds of that limited by the send buffer.
            tcp_buffer_limited_ns,
            /// Segments with data, those sent again included.
            tcp_segments_sent,
            /// Segments sent again.
            tcp_segments_resent,
            /// Bytes of segments, those sent again included.
            tcp_bytes_sent,
            /// Bytes sent again by the kernel.
            tcp_bytes_resent,
            /// Bytes that the other end's kernel acknowledged.
            tcp_bytes_acknowledged,
            /// Bytes that the pace of a transfer in the background allowed, of all channels together; 0 if it is not in the background.
            paced_bytes,
            /// Nanoseconds since this end began.
            elapsed_ns;
            /// Streams attached now that carry contents.
            streams,
            /// Nanoseconds of a round trip, smoothed, the mean over streams; 0 if none is TCP.
            round_trip_ns,
            /// Nanoseconds of the least round trip of late; 0 if none is TCP.
            round_trip_min_ns,
            /// Latest delivery rates of all streams together.
            delivery_bytes_per_second,
            /// Streams whose delivery rate was measured while there was not enough to send.
            streams_app_limited,
            /// Bytes that the congestion control lets fly, of all streams together.
            tcp_window_bytes,
            /// Bytes that fly.
            tcp_unacknowledged_bytes,
            /// Bytes that wait in sockets.
            tcp_unsent_bytes,
            /// Processors that this process may use.
            cores,
            /// The rate limit that the sending end obeys, 0 for none.
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
            /// Each counter with its name, in their order.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)* $((stringify!($gauge), self.$gauge),)*].into_iter()
            }

            /// The counters that `find` knows by their names.
            pub fn of_fields(find: impl Fn(&str) -> u64) -> Self {
                Self { $($name: find(stringify!($name)),)* $($gauge: find(stringify!($gauge)),)* }
            }

            /// What was counted since `earlier`; gauges stay as they are.
            #[must_use]
            pub const fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)* $($gauge: self.$gauge,)* }
            }
        }
    };
}

each_counter!(snapshot);

/// One channel of a transfer, as this end sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelFigures {
    /// Its number, as the client counts them from 0.
    pub number: u32,
    /// For people: the interface and addresses.
    pub name: String,
    /// Streams attached now.
    pub streams: u32,
    /// Bytes that passed over it in the direction in which more did, with all overhead.
    pub bytes: u64,
    /// Smoothed round trip of the stream looked at last; zero if there was none.
    pub round_trip: Duration,
    /// Bytes that this end sent again.
    pub resent_bytes: u64,
    /// How often streams of it were cut off because it was dead.
    pub cuts: u64,
    /// Since its first stream was attached.
    pub age: Duration,
}

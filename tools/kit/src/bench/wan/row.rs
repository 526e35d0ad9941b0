//! Owns the definition of a row for long links and channels: the network, the senders and their times, and the bars. Runs
//! nothing; `table` lists the rows.

use super::super::case::LineSpec;
use super::super::data::Load;
use super::super::process::Side;

/// One row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(super) net: Net,
    /// The turns in order, each with a separate network; the last one is compared with the bars.
    pub(super) turns: Vec<Turn>,
    pub(super) judge: Judge,
}

impl Row {
    /// Memory that the row's files need, at the source and at the destination.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let flows = self.turns.iter().flat_map(|turn| &turn.flows);
        let loads = flows.filter_map(super::flow::load);
        2 * loads.map(Load::footprint).max().unwrap_or(0)
    }

    /// The same row with Godwit's clients at the destination.
    pub(super) fn pulled(mut self) -> Self {
        self.name.insert_str(0, "pull-");
        self.title.push_str(", pulled");
        for flow in self.turns.iter_mut().flat_map(|turn| &mut turn.flows) {
            if let Who::Godwit { client, .. } = &mut flow.who {
                *client = Side::Destination;
            }
        }
        self
    }
}

/// The network between the two ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Net {
    Line(LineSpec),
    /// This number of cables with these rates in the form of `tc`; the last rate is valid for all later cables.
    Cables(u8, &'static str),
}

/// Flows that share the network during one period.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) title: String,
    pub(super) flows: Vec<Flow>,
    /// Largest send and receive buffer of both ends in bytes; `None` keeps the kernel's setting.
    pub(super) buffer_bytes_max: Option<[u64; 2]>,
    /// A cable that is disconnected and reconnected at these times.
    pub(super) cut: Option<Cut>,
}

/// A cable without a carrier between two moments, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) cable: u8,
    pub(super) from: f64,
    pub(super) until: f64,
}

/// One program and its counterpart.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) title: String,
    pub(super) who: Who,
    /// Start of the flow, and the time at which it is stopped if it has not ended, in seconds.
    pub(super) from: f64,
    pub(super) until: f64,
}

/// The program that moves data from the source to the destination; its client is at either end.
#[derive(Debug, Clone)]
pub(super) enum Who {
    /// iperf3 from memory to memory, with this number of connections over this cable; its client sends.
    Iperf {
        streams: u32,
        cable: u8,
        congestion: Option<&'static str>,
    },
    /// `godwit cp` with its defaults and these options.
    Godwit {
        what: What,
        /// Where the client runs: at the source it pushes, at the destination it pulls.
        client: Side,
        options: Vec<&'static str>,
    },
}

impl Who {
    /// The end of the client; the server is at the other end.
    pub(super) const fn client(&self) -> Side {
        match self {
            Self::Iperf { .. } => Side::Source,
            Self::Godwit { client, .. } => *client,
        }
    }
}

/// The data that Godwit moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Data from memory, until the flow is stopped.
    Endless,
    /// This number of bytes from memory.
    Memory { bytes: u64 },
    /// Files from memory to memory.
    Files { files: u64, bytes: u64 },
    /// A file to a disk with this write rate in bytes per second.
    SlowDisk { bytes: u64, rate: u64 },
}

/// The measured figure of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Judge {
    /// The rate of the last turn in the second half of its time, and after `after` seconds, compared with the best rates of the other
    /// turns.
    Beside {
        half_min: f64,
        after: f64,
        after_min: Option<f64>,
    },
    /// The sum of the rates of all flows in the second half of the last turn, compared with the same sum of the first turn. Also the
    /// difference of the cables' shares from even shares.
    Together {
        sum_min: f64,
        uneven_max: Option<f64>,
    },
    /// A cable has no carrier for some time: the rate of the other cables, compared with their share of the first turn's sum.
    Cut { kept_min: f64 },
    /// A disk is the bottleneck.
    Disk {
        streams_max: f64,
        memory_mib_max: f64,
    },
    /// A second flow joins at this second: the share of each flow compared with half, and the sum compared with the first turn.
    Joins {
        at: f64,
        uneven_max: f64,
        sum_min: f64,
    },
    /// The last flow of the last turn, from this second on, compared with that of the first turn, which uses the network alone.
    Foreground { from: f64, kept_min: f64 },
}

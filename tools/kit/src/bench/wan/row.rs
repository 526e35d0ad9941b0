//! Owns the definition of a row of the long links and channels: the network, the senders and their times, and the judgement.
//! Runs nothing; which rows there are is in `table`.

use super::super::case::LineSpec;
use super::super::data::Load;
use super::super::process::Side;

/// One row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(super) net: Net,
    /// Turns run one after the other, each with its own network, the judged one last.
    pub(super) turns: Vec<Turn>,
    pub(super) judge: Judge,
}

impl Row {
    /// Memory that its files take, at the source and at the destination.
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
    /// This many cables of these rates, as `tc` takes them; the last rate holds for all further cables.
    Cables(u8, &'static str),
}

/// Flows that share the network for a while.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) title: String,
    pub(super) flows: Vec<Flow>,
    /// Largest send and receive buffer of both ends in bytes; `None` keeps the kernel's setting.
    pub(super) buffer_bytes_max: Option<[u64; 2]>,
    /// A cable that is pulled and put back, at these moments.
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
    /// Start of the flow, and the time at which it is stopped if it has not ended; seconds.
    pub(super) from: f64,
    pub(super) until: f64,
}

/// The program that moves data: from the source to the destination, whichever of them has the client.
#[derive(Debug, Clone)]
pub(super) enum Who {
    /// From memory to memory, with this many connections over that cable; its client sends.
    Iperf {
        streams: u32,
        cable: u8,
        congestion: Option<&'static str>,
    },
    /// `godwit cp` with its defaults and these options.
    Godwit {
        what: What,
        /// Where its client is: one at the source pushes, one at the destination pulls.
        client: Side,
        options: Vec<&'static str>,
    },
}

impl Who {
    /// Where the client is; the server is at the other end.
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
    /// Memory, until it is stopped.
    Endless,
    /// This much memory.
    Memory { bytes: u64 },
    /// Files from memory to memory.
    Files { files: u64, bytes: u64 },
    /// A file to a disk with this write rate in bytes a second.
    SlowDisk { bytes: u64, rate: u64 },
}

/// The measured figure of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Judge {
    /// The last turn's rate over its last half, and from `after` seconds on, beside the best of the others over theirs.
    Beside {
        half_min: f64,
        after: f64,
        after_min: Option<f64>,
    },
    /// All flows of a turn together over the last half, the last turn's beside the first's. The shares of the cables at most so
    /// far from even.
    Together {
        sum_min: f64,
        uneven_max: Option<f64>,
    },
    /// A cable is away for a while: the rate of the others, beside their part of the first turn's sum.
    Cut { kept_min: f64 },
    /// A disk is the bottleneck.
    Disk {
        streams_max: f64,
        memory_mib_max: f64,
    },
    /// A second flow joins, at this second: the share of each, beside half, and both together beside the first turn.
    Joins {
        at: f64,
        uneven_max: f64,
        sum_min: f64,
    },
    /// The last flow of the last turn beside that of the first turn, which has the network alone; from this second on.
    Foreground { from: f64, kept_min: f64 },
}

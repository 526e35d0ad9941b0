//! Owns the definition of a case: the data, the contenders, and the expectations.
//! Runs nothing; which cases there are is in `table`.

mod far;
mod growth;
mod kind;
mod table;
mod title;

use serde::{Deserialize, Serialize};

use super::data::Load;

pub(crate) use kind::Kind;
pub(crate) use table::cases;
pub(crate) use title::size;

/// Whether contents are encrypted in transit; only equals are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Class {
    Plain,
    Encrypted,
}

/// The reference that Godwit is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Bar {
    pub(crate) reference: Kind,
    #[serde(flatten)]
    pub(crate) expect: Expect,
}

/// The expectation of Godwit relative to the reference; medians of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "expect")]
pub(crate) enum Expect {
    /// Speed divided by the reference's speed, and processor time of both sides divided by the reference's.
    Speed {
        /// `None` only reports.
        ratio_min: Option<f64>,
        /// `None` only reports.
        cpu_ratio_max: Option<f64>,
    },
    /// Seconds longer than the reference.
    Extra { seconds_max: f64 },
    /// The reference moves less of the same data: the cost of each byte or file, and the memory for more of them.
    Growth { bytes_max: u64, cpu_ratio_max: f64 },
}

/// Lowers a bar beside a program that takes no digests, or transfers nothing. Such a program may be close to the limit of programs that do
/// both. Then Godwit cannot lead it by as much as it leads the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Ceiling {
    pub(crate) limit: Kind,
    /// Part of the limit's speed. No bar beside such a program asks for more, nor for less processor time than the limit's, divided by
    /// this.
    pub(crate) share: f64,
}

impl Ceiling {
    pub(crate) fn of(limit: Kind, share: f64) -> Self {
        Self { limit, share }
    }
}

impl Bar {
    /// Godwit at least this many times as fast.
    fn ratio(reference: Kind, ratio_min: Option<f64>) -> Self {
        let expect = Expect::Speed {
            ratio_min,
            cpu_ratio_max: None,
        };
        Self { reference, expect }
    }
}

/// A long line between the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineSpec {
    /// Round trip in milliseconds.
    pub(crate) rtt_ms: u32,
    /// As `wanlink` takes it; `None` is as fast as it can.
    pub(crate) rate: Option<&'static str>,
    /// Share of packets lost, as `wanlink` takes it.
    pub(crate) loss: Option<&'static str>,
    /// Whether segments cross together, which costs the emulator far less, but loses them together too.
    pub(crate) offload: bool,
    /// Where the sequence of losses starts.
    pub(crate) seed: u64,
}

impl LineSpec {
    /// No delay, no loss, as fast as the emulator is.
    pub(crate) const DIRECT: Self = Self {
        rtt_ms: 0,
        rate: None,
        loss: None,
        offload: true,
        seed: 1,
    };
}

/// Where source and destination are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Both in the benchmark's directory, which is memory.
    Memory,
    /// The source there, the destination on the machine's disk.
    DiskWrite,
    /// The source on the machine's disk, with none of its contents in memory; the destination in memory.
    DiskRead,
}

/// One row of the benchmark.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) title: String,
    /// The contender that is judged.
    pub(crate) subject: Kind,
    pub(crate) class: Class,
    pub(crate) load: Load,
    /// The load of contenders that move something else ([`Kind::moves_beside`]).
    pub(crate) beside: Option<Load>,
    /// `None` is wherever the benchmark is.
    pub(crate) line: Option<LineSpec>,
    pub(crate) storage: Storage,
    pub(crate) bars: Vec<Bar>,
    /// For the bars beside programs without digests.
    pub(crate) ceiling: Option<Ceiling>,
    /// The destination has everything already: `godwit sync` finds that out.
    pub(crate) again: bool,
    /// Resident memory of each side at most, where that is the question; such a case runs once.
    pub(crate) rss_max: Option<u64>,
    /// Rounds that count at most, where each is long.
    pub(crate) rounds_max: Option<u32>,
}

impl Case {
    /// A case of nothing but its load, between the ends of the benchmark, in memory.
    fn new(name: &'static str, class: Class, load: Load) -> Self {
        Self {
            name,
            title: title::title(load, class),
            subject: Kind::Godwit,
            class,
            load,
            beside: None,
            line: None,
            storage: Storage::Memory,
            bars: Vec::new(),
            ceiling: None,
            again: false,
            rss_max: None,
            rounds_max: None,
        }
    }

    /// All contenders, Godwit first.
    pub(crate) fn contenders(&self) -> Vec<Kind> {
        std::iter::once(self.subject)
            .chain(self.bars.iter().map(|bar| bar.reference))
            .collect()
    }

    /// Its name in tables.
    pub(crate) fn title_of(&self, kind: Kind) -> String {
        match self.beside {
            Some(beside) if kind.moves_beside() => format!("godwit, {}", title::what(beside)),
            _ => kind.title().to_owned(),
        }
    }

    /// Whether a copy is made, or files are only read.
    pub(crate) fn moves(&self) -> bool {
        self.subject != Kind::GodwitVerify
    }

    /// Memory that the case takes at its peak: the data sets that are in memory, and the memory of a run beside them.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let loads = || std::iter::once(self.load).chain(self.beside);
        let sets = match self.storage {
            Storage::Memory | Storage::DiskWrite => loads().map(Load::footprint).sum(),
            Storage::DiskRead => 0,
        };
        let run = loads().map(|load| self.run_bytes(load)).max();
        sets + run.unwrap_or(0)
    }

    /// Memory that is used once before a run, for the run to take, where there is as much.
    pub(crate) fn warm_bytes(&self, load: Load) -> u64 {
        match self.storage {
            // Such a case only measures the memory.
            _ if self.rss_max.is_some() => 0,
            Storage::Memory => self.run_bytes(load),
            // The page cache of a disk takes large pages, which are elsewhere in memory than the pages freed last.
            Storage::DiskWrite | Storage::DiskRead => 3 * load.footprint(),
        }
    }

    /// Memory that a run takes and that was free before it: the arriving data, and data read from disk or written to it.
    fn run_bytes(&self, load: Load) -> u64 {
        match self.storage {
            Storage::Memory | Storage::DiskWrite => load.footprint(),
            Storage::DiskRead => 2 * load.footprint(),
        }
    }

    /// Names in memory during the run: the source and the copy.
    pub(crate) fn peak_names(&self) -> u64 {
        let load = self.load.names();
        let beside = self.beside.map_or(0, Load::names);
        load + beside + load.max(beside)
    }
}

/// Which cases, how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// The cases of the bars at a quarter of the data, with the best peer of each class.
    Quick,
    /// As the bars are defined, with all peers, memory and distance.
    Full,
    /// The cases of files at a quarter of the data, with all peers.
    Peers,
    /// Over long lines and several channels, over time, beside iperf3.
    Wan,
    /// Files over long lines, with all peers.
    WanPeers,
}

impl Suite {
    /// On the command line, in this order.
    pub(crate) const NAMES: [(&'static str, Self); 5] = [
        ("quick", Self::Quick),
        ("full", Self::Full),
        ("peers", Self::Peers),
        ("wan", Self::Wan),
        ("wan-peers", Self::WanPeers),
    ];
}

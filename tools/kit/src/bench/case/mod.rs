//! Owns the definition of a case: the data, the contenders, and the expectations. Runs nothing; `table` lists the cases.

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

/// Whether contents are encrypted in transit; only contenders of the same class are compared.
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

/// The expectation of Godwit relative to the reference, for the medians of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "expect")]
pub(crate) enum Expect {
    /// The ratio of Godwit's speed to the reference's, and the ratio of the processor times of both sides.
    Speed {
        /// `None` only reports the ratio.
        ratio_min: Option<f64>,
        /// `None` only reports the ratio.
        cpu_ratio_max: Option<f64>,
    },
    /// Additional seconds compared with the reference.
    Extra { seconds_max: f64 },
    /// The reference moves less of the same data: the cost of each byte or file, and the additional memory.
    Growth { bytes_max: u64, cpu_ratio_max: f64 },
}

/// Lowers a bar for the comparison with a program that computes no digests, or transfers no data. Such a program may be close to the limit
/// of programs that do both. Godwit then cannot gain as much over this program as over the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Ceiling {
    pub(crate) limit: Kind,
    /// Share of the limit's speed. No bar for such a program requires a higher speed, or less processor time than the limit's divided by
    /// this share.
    pub(crate) share: f64,
}

impl Ceiling {
    pub(crate) fn of(limit: Kind, share: f64) -> Self {
        Self { limit, share }
    }
}

impl Bar {
    /// A bar that requires Godwit to be at least this many times as fast.
    fn ratio(reference: Kind, ratio_min: Option<f64>) -> Self {
        let expect = Expect::Speed {
            ratio_min,
            cpu_ratio_max: None,
        };
        Self { reference, expect }
    }
}

/// A long link between the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineSpec {
    /// Round trip in milliseconds.
    pub(crate) rtt_ms: u32,
    /// The rate in the form of `wanlink`; `None` means the emulator's highest rate.
    pub(crate) rate: Option<&'static str>,
    /// Share of lost packets, in the form of `wanlink`.
    pub(crate) loss: Option<&'static str>,
    /// Whether several segments pass as one, which costs the emulator much less; they are also lost as one.
    pub(crate) offload: bool,
    /// Seed of the sequence of losses.
    pub(crate) seed: u64,
}

impl LineSpec {
    /// A link without delay and loss, at the emulator's highest rate.
    pub(crate) const DIRECT: Self = Self {
        rtt_ms: 0,
        rate: None,
        loss: None,
        offload: true,
        seed: 1,
    };
}

/// Places of source and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Both in the benchmark's directory, which is memory.
    Memory,
    /// The source in the benchmark's directory, the destination on the machine's disk.
    DiskWrite,
    /// The source on the machine's disk, with no contents in memory; the destination in memory.
    DiskRead,
}

/// One case of the benchmark.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) title: String,
    /// The contender that is judged.
    pub(crate) subject: Kind,
    pub(crate) class: Class,
    pub(crate) load: Load,
    /// The load of contenders that move different data ([`Kind::moves_beside`]).
    pub(crate) beside: Option<Load>,
    /// `None` means the place of the benchmark.
    pub(crate) line: Option<LineSpec>,
    pub(crate) storage: Storage,
    pub(crate) bars: Vec<Bar>,
    /// The ceiling for bars of programs without digests.
    pub(crate) ceiling: Option<Ceiling>,
    /// The destination already has all data: `godwit sync` must detect it.
    pub(crate) again: bool,
    /// Largest resident memory of each side, if the case measures memory; such a case runs once.
    pub(crate) rss_max: Option<u64>,
    /// Largest number of counted rounds, if each round is long.
    pub(crate) rounds_max: Option<u32>,
}

impl Case {
    /// A case with only a load, between the ends of the benchmark, in memory.
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

    /// The name of a contender in tables.
    pub(crate) fn title_of(&self, kind: Kind) -> String {
        match self.beside {
            Some(beside) if kind.moves_beside() => format!("godwit, {}", title::what(beside)),
            _ => kind.title().to_owned(),
        }
    }

    /// Whether the case makes a copy; otherwise it only reads files.
    pub(crate) fn moves(&self) -> bool {
        self.subject != Kind::GodwitVerify
    }

    /// Memory that the case needs at its peak: the data sets in memory, and the additional memory of a run.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let loads = || std::iter::once(self.load).chain(self.beside);
        let sets = match self.storage {
            Storage::Memory | Storage::DiskWrite => loads().map(Load::footprint).sum(),
            Storage::DiskRead => 0,
        };
        let run = loads().map(|load| self.run_bytes(load)).max();
        sets + run.unwrap_or(0)
    }

    /// Memory that is used once before a run so that the run can use it, if there is enough.
    pub(crate) fn warm_bytes(&self, load: Load) -> u64 {
        match self.storage {
            // Such a case only measures the memory.
            _ if self.rss_max.is_some() => 0,
            Storage::Memory => self.run_bytes(load),
            // The page cache of a disk uses large pages, which are in other parts of memory than the last freed pages.
            Storage::DiskWrite | Storage::DiskRead => 3 * load.footprint(),
        }
    }

    /// Memory that a run needs and that was free before it: the arriving data, and data read from disk or written to it.
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

/// The selected cases and their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// The cases with bars at a quarter of the data, with the best peer of each class.
    Quick,
    /// All cases as the bars define them, with all peers, and with the cases of memory and distance.
    Full,
    /// The cases of files at a quarter of the data, with all peers.
    Peers,
    /// Rows over long links and several channels, measured over time, in comparison with iperf3.
    Wan,
    /// Files over long links, with all peers.
    WanPeers,
    /// Commands to a state, without transfers.
    State,
}

impl Suite {
    /// Names on the command line, in this order.
    pub(crate) const NAMES: [(&'static str, Self); 6] = [
        ("quick", Self::Quick),
        ("full", Self::Full),
        ("peers", Self::Peers),
        ("wan", Self::Wan),
        ("wan-peers", Self::WanPeers),
        ("state", Self::State),
    ];
}

//! Owns what a case is: what is moved, by whom, and what is expected of it.
//! Runs nothing; which cases there are is in `table`.

mod table;
mod title;

use serde::Serialize;

use super::data::Load;

pub(crate) use table::cases;
pub(crate) use title::size;

/// Whether contents are encrypted on the way; only equals are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Class {
    Plain,
    Tls,
}

/// Who moves the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Godwit,
    Pipe,
    TarSocat,
    TarSsh,
    /// Two trees looked at, and nothing more.
    Scan,
    /// Godwit through the same emulator, without its delay.
    GodwitNear,
    /// Godwit checking files by a manifest, which moves nothing.
    GodwitVerify,
    /// The usual program that hashes files, with as many threads as there are cores.
    B3sum,
}

impl Kind {
    /// Its name in tables and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Godwit => "godwit",
            Self::Pipe => "bare pipe",
            Self::TarSocat => "tar | socat | tar",
            Self::TarSsh => "tar | ssh | tar",
            Self::Scan => "two bare scans",
            Self::GodwitNear => "godwit, no delay",
            Self::GodwitVerify => "godwit verify",
            Self::B3sum => "b3sum",
        }
    }
}

/// What Godwit is held against.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Bar {
    pub(crate) reference: Kind,
    /// Godwit's speed over that of the reference, median of pairs, at least; `None` only reports.
    pub(crate) ratio_min: Option<f64>,
    /// Seconds that Godwit takes longer than the reference, median of pairs, at most.
    pub(crate) extra_seconds_max: Option<f64>,
}

impl Bar {
    /// Godwit at least so many times as fast.
    fn ratio(reference: Kind, ratio_min: Option<f64>) -> Self {
        Self {
            reference,
            ratio_min,
            extra_seconds_max: None,
        }
    }
}

/// A long line between the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineSpec {
    /// Round trip in milliseconds.
    pub(crate) rtt_ms: u32,
    /// As `wanlink` takes it; `None` is as fast as it can.
    pub(crate) rate: Option<&'static str>,
}

/// One row of the benchmark.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) title: String,
    pub(crate) class: Class,
    pub(crate) load: Load,
    /// `None` is loopback.
    pub(crate) line: Option<LineSpec>,
    pub(crate) bars: Vec<Bar>,
    /// The destination has everything already: `godwit sync` finds that out.
    pub(crate) again: bool,
    /// Resident memory of each side at most, where that is the question; such a case runs once.
    pub(crate) rss_max: Option<u64>,
}

impl Case {
    /// Everybody who takes part, Godwit first.
    pub(crate) fn contenders(&self) -> Vec<Kind> {
        std::iter::once(self.subject())
            .chain(self.bars.iter().map(|bar| bar.reference))
            .collect()
    }

    /// Who is judged.
    pub(crate) fn subject(&self) -> Kind {
        if self.bars.iter().any(|bar| bar.reference == Kind::B3sum) {
            Kind::GodwitVerify
        } else {
            Kind::Godwit
        }
    }

    /// Whether a copy is made, or files are only read.
    pub(crate) fn moves(&self) -> bool {
        self.subject() == Kind::Godwit
    }

    /// Memory that the case takes at its peak: the data set and its copy.
    pub(crate) fn peak_bytes(&self) -> u64 {
        2 * self.load.footprint()
    }
}

/// Which cases, how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// A quarter of the data; neither memory nor distance.
    Quick,
    /// As the bars are defined.
    Full,
}

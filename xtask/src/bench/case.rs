//! Owns the table of cases: what is moved, by whom, and what is expected of it.
//! Runs nothing.

use serde::Serialize;

use super::data::Load;

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

/// Godwit's speed over the bare pipe's, memory and large files.
const PIPE_RATIO_MIN: f64 = 0.85;
/// Godwit's speed over that of `b3sum`, checking the same files.
const VERIFY_RATIO_MIN: f64 = 0.9;
/// Round trip of the delay case.
const DELAY_MS: u32 = 50;
/// Round trips that the delay may cost.
const DELAY_ROUND_TRIPS_MAX: u32 = 30;
/// Time of a second run over that of two bare scans at once.
const SCAN_RATIO_MAX: f64 = 1.3;
/// Round trips that the delay may cost a second run.
const AGAIN_ROUND_TRIPS_MAX: u32 = 20;
/// The line of the memory cases that are far apart.
const FAR: LineSpec = LineSpec {
    rtt_ms: 100,
    rate: Some("1Gbit"),
};
/// Resident memory of each side, whatever the data set.
const RSS_MAX: u64 = 256 << 20;

/// The cases of `suite`; counts and sizes are multiplied by `scale` (at least one file, one byte).
pub(crate) fn cases(suite: Suite, scale: f64) -> Vec<Case> {
    let scale = if suite == Suite::Quick {
        scale / 4.0
    } else {
        scale
    };
    let mut cases = Vec::new();
    for class in [Class::Plain, Class::Tls] {
        cases.push(transfer(
            "memory",
            class,
            Load::Memory {
                bytes: scaled(16 << 30, scale),
            },
        ));
    }
    for class in [Class::Plain, Class::Tls] {
        let bytes = scaled(4 << 30, scale);
        cases.push(transfer(
            "one",
            class,
            Load::Files {
                files: 1,
                bytes,
                directories: 0,
            },
        ));
    }
    for class in [Class::Plain, Class::Tls] {
        let bytes = scaled(100 << 20, scale);
        cases.push(transfer(
            "forty",
            class,
            Load::Files {
                files: 40,
                bytes,
                directories: 0,
            },
        ));
    }
    for class in [Class::Plain, Class::Tls] {
        let (files, directories) = (scaled(100_000, scale), scaled(1000, scale));
        let mut case = transfer(
            "small",
            class,
            Load::Files {
                files,
                bytes: 8192,
                directories,
            },
        );
        let peer = if class == Class::Plain {
            Kind::TarSocat
        } else {
            Kind::TarSsh
        };
        case.bars = vec![Bar::ratio(peer, Some(1.0)), Bar::ratio(Kind::Pipe, None)];
        cases.push(case);
    }
    for (name, files, bytes) in [("verify-one", 1, 4 << 30), ("verify-forty", 40, 100 << 20)] {
        cases.push(verify(name, files, scaled(bytes, scale)));
    }
    if suite == Suite::Full {
        cases.push(delay(scale));
        cases.extend(second_runs(scale));
        for (names, line) in [
            (["rss-empty", "rss-links", "rss-sparse"], None),
            (
                ["rss-empty-far", "rss-links-far", "rss-sparse-far"],
                Some(FAR),
            ),
        ] {
            let (files, directories) = (scaled(1_000_000, scale), scaled(1000, scale));
            let empty = Load::Files {
                files,
                bytes: 0,
                directories,
            };
            let links = Load::HardLinks {
                files: scaled(200_000, scale),
            };
            let sparse = Load::Sparse {
                bytes: scaled(1 << 40, scale),
            };
            for (name, load) in names.into_iter().zip([empty, links, sparse]) {
                cases.push(memory(name, load, line));
            }
        }
    }
    cases
}

/// A case of speed against the bare pipe.
fn transfer(what: &'static str, class: Class, load: Load) -> Case {
    let name = match (what, class) {
        ("memory", Class::Plain) => "memory-plain",
        ("memory", Class::Tls) => "memory-tls",
        ("one", Class::Plain) => "one-plain",
        ("one", Class::Tls) => "one-tls",
        ("forty", Class::Plain) => "forty-plain",
        ("forty", Class::Tls) => "forty-tls",
        (_, Class::Plain) => "small-plain",
        (_, Class::Tls) => "small-tls",
    };
    let bars = vec![Bar::ratio(Kind::Pipe, Some(PIPE_RATIO_MIN))];
    Case {
        name,
        title: title(load, class),
        class,
        load,
        line: None,
        bars,
        again: false,
        rss_max: None,
    }
}

/// Checking files by a manifest, against hashing them.
fn verify(name: &'static str, files: u64, bytes: u64) -> Case {
    let load = Load::Files {
        files,
        bytes,
        directories: 0,
    };
    Case {
        name,
        title: format!("{files} × {}, verified", size(bytes)),
        class: Class::Plain,
        load,
        line: None,
        bars: vec![Bar::ratio(Kind::B3sum, Some(VERIFY_RATIO_MIN))],
        again: false,
        rss_max: None,
    }
}

/// What a delay may cost: the same files through the same emulator with it and without it.
fn delay(scale: f64) -> Case {
    let (files, directories) = (scaled(100_000, scale), scaled(1000, scale));
    let load = Load::Files {
        files,
        bytes: 1024,
        directories,
    };
    let line = LineSpec {
        rtt_ms: DELAY_MS,
        rate: None,
    };
    let bar = Bar {
        reference: Kind::GodwitNear,
        ratio_min: None,
        extra_seconds_max: Some(f64::from(DELAY_MS * DELAY_ROUND_TRIPS_MAX) / 1000.0),
    };
    Case {
        name: "delay",
        title: format!("{}, {DELAY_MS} ms", title(load, Class::Tls)),
        class: Class::Tls,
        load,
        line: Some(line),
        bars: vec![bar],
        again: false,
        rss_max: None,
    }
}

/// What it costs to find that nothing has changed: beside two bare scans, and over a long line.
fn second_runs(scale: f64) -> [Case; 2] {
    let (files, directories) = (scaled(1_000_000, scale), scaled(1000, scale));
    let load = Load::Files {
        files,
        bytes: 0,
        directories,
    };
    let case = Case {
        name: "second-run",
        title: format!("second run, {}", title(load, Class::Tls)),
        class: Class::Tls,
        load,
        line: None,
        bars: vec![Bar::ratio(Kind::Scan, Some(1.0 / SCAN_RATIO_MAX))],
        again: true,
        rss_max: None,
    };
    let line = LineSpec {
        rtt_ms: DELAY_MS,
        rate: None,
    };
    let bar = Bar {
        reference: Kind::GodwitNear,
        ratio_min: None,
        extra_seconds_max: Some(f64::from(DELAY_MS * AGAIN_ROUND_TRIPS_MAX) / 1000.0),
    };
    let far = Case {
        name: "second-run-far",
        title: format!("{}, {DELAY_MS} ms", case.title),
        line: Some(line),
        bars: vec![bar],
        ..case.clone()
    };
    [case, far]
}

/// A case of memory: Godwit alone, with TLS, once.
fn memory(name: &'static str, load: Load, line: Option<LineSpec>) -> Case {
    let class = Class::Tls;
    let mut title = title(load, class);
    if let Some(LineSpec { rtt_ms, rate }) = line {
        title = format!("{title}, {rtt_ms} ms, {}", rate.unwrap_or("no limit"));
    }
    Case {
        name,
        title,
        class,
        load,
        line,
        bars: Vec::new(),
        again: false,
        rss_max: Some(RSS_MAX),
    }
}

fn title(load: Load, class: Class) -> String {
    let what = match load {
        Load::Memory { bytes } => format!("{} memory to memory", size(bytes)),
        Load::Files {
            files,
            bytes: 0,
            directories,
        } => {
            format!("{files} empty files in {directories} directories")
        }
        Load::Files {
            files,
            bytes,
            directories: 0,
        } => format!("{files} × {}", size(bytes)),
        Load::Files {
            files,
            bytes,
            directories,
        } => {
            format!("{files} × {} in {directories} directories", size(bytes))
        }
        Load::HardLinks { files } => format!("{files} empty files with a hard link each"),
        Load::Sparse { bytes } => format!("one sparse file of {}", size(bytes)),
    };
    let how = if class == Class::Plain {
        "plain"
    } else {
        "TLS"
    };
    format!("{what}, {how}")
}

/// `4 GiB`; exact where the unit divides it, else with one decimal.
pub(crate) fn size(bytes: u64) -> String {
    let units = [
        (1_u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    for (unit, name) in units {
        if bytes >= unit {
            let (whole, tenths) = (bytes / unit, bytes % unit * 10 / unit);
            return match bytes % unit {
                0 => format!("{whole} {name}"),
                _ => format!("{whole}.{tenths} {name}"),
            };
        }
    }
    format!("{bytes} B")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "sizes are far below 2^52, and the scale is positive"
)]
fn scaled(figure: u64, scale: f64) -> u64 {
    ((figure as f64 * scale) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::world::PEAK_BYTES_MAX;
    use super::*;

    #[test]
    fn names_are_unique_and_peaks_are_within_the_limit() {
        let cases = cases(Suite::Full, 1.0);
        for (index, case) in cases.iter().enumerate() {
            assert!(
                cases[..index].iter().all(|other| other.name != case.name),
                "{}",
                case.name
            );
            assert!(case.peak_bytes() <= PEAK_BYTES_MAX, "{}", case.name);
        }
    }

    #[test]
    fn a_tiny_scale_leaves_something_of_each_case() {
        for case in cases(Suite::Full, 1e-9) {
            assert!(
                case.load.names() > 0 || case.load.bytes() > 0,
                "{}",
                case.name
            );
        }
    }

    #[test]
    fn sizes_are_exact_or_have_a_decimal() {
        let titles = [
            (4 << 30, "4 GiB"),
            (8192, "8 KiB"),
            (1 << 40, "1 TiB"),
            (7, "7 B"),
        ];
        for (bytes, title) in titles {
            assert_eq!(size(bytes), title);
        }
        assert_eq!(size((5 << 20) + (1 << 19)), "5.5 MiB");
    }
}

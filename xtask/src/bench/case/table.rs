//! Owns the table of cases: which there are in each suite, how large, and the bars.
//! Runs nothing.

use super::super::data::Load;
use super::title::{size, title};
use super::{Bar, Case, Class, Kind, LineSpec, Suite};

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
    use super::super::super::world::PEAK_BYTES_MAX;
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
}

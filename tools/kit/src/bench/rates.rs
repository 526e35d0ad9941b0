//! Owns the rates of a run: bits and files per second, and processor time for the moved data.
//! Measures nothing, and does not depend on the contender.

use serde::Serialize;

use super::process::Usage;

/// Speeds and costs of one run; `None` if a number for the division is missing or zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) gbit_s: Option<f64>,
    /// Files per second, if there is more than one file.
    pub(crate) files_s: Option<f64>,
    pub(crate) cpu_seconds_per_gb: Option<CpuCost>,
}

/// Processor time in seconds for 10⁹ bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct CpuCost {
    pub(crate) source: f64,
    pub(crate) destination: f64,
}

impl Rates {
    /// Rates of a run, from its data, its duration in seconds, and the resources of each side.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn of(bytes: u64, files: u64, seconds: f64, sides: [Usage; 2]) -> Self {
        let gigabytes = bytes as f64 / 1e9;
        let [source, destination] = sides.map(|side| side.cpu_seconds / gigabytes);
        let per_second = |amount: f64| (seconds > 0.0).then(|| amount / seconds);
        Self {
            gbit_s: per_second(gigabytes * 8.0).filter(|_| bytes > 0),
            files_s: per_second(files as f64).filter(|_| files > 1),
            cpu_seconds_per_gb: (bytes > 0).then_some(CpuCost {
                source,
                destination,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cpu_seconds: f64) -> Usage {
        Usage {
            cpu_seconds,
            ..Usage::default()
        }
    }

    #[test]
    fn a_run_comes_to_what_it_moved_in_its_time() {
        let rates = Rates::of(2_000_000_000, 100, 4.0, [usage(1.0), usage(3.0)]);
        let expected = Rates {
            gbit_s: Some(4.0),
            files_s: Some(25.0),
            cpu_seconds_per_gb: Some(CpuCost {
                source: 0.5,
                destination: 1.5,
            }),
        };
        assert_eq!(rates, expected);
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        let empty = Rates::of(0, 1, 2.0, [usage(1.0), usage(1.0)]);
        assert_eq!(empty, Rates::default());
        let no_time = Rates::of(1, 2, 0.0, [usage(0.0), usage(0.0)]);
        assert_eq!((no_time.gbit_s, no_time.files_s), (None, None));
    }
}

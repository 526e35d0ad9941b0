//! Owns the cases over long links in which all peers take part. Cases that are judged by their rate
//! over time are in `bench::wan`.

use super::super::data::Load;
use super::table::{CLASSES, Table};
use super::title::title;
use super::{Bar, Case, Class, Kind, LineSpec};

impl Table<'_> {
    /// The cases over long links: one large file, and small files, without loss and with loss.
    pub(super) fn far(&self) -> Vec<Case> {
        let line = |rtt_ms, loss| LineSpec {
            rtt_ms,
            rate: Some("1Gbit"),
            loss,
            ..LineSpec::DIRECT
        };
        let one = Load::Files {
            files: 1,
            bytes: self.scaled(2 << 30),
            directories: 0,
        };
        let small = Load::Files {
            files: self.scaled(80_000),
            bytes: 8192,
            directories: self.scaled(80),
        };
        let mut cases = Vec::new();
        for (names, load, line) in [
            (["wan-one-plain", "wan-one-tls"], one, line(50, None)),
            (
                ["wan-lossy-plain", "wan-lossy-tls"],
                one,
                line(50, Some("0.01%")),
            ),
            (["wan-small-plain", "wan-small-tls"], small, line(50, None)),
        ] {
            for (name, class) in names.into_iter().zip(CLASSES) {
                let mut case = Case::new(name, class, load);
                case.title = far_title(load, class, line);
                case.line = Some(line);
                case.rounds_max = Some(3);
                case.bars = vec![Bar::ratio(Kind::Pipe, None)];
                self.peers(&mut case, None, None);
                cases.push(case);
            }
        }
        cases
    }
}

pub(super) fn far_title(load: Load, class: Class, line: LineSpec) -> String {
    let rate = line.rate.unwrap_or("no limit");
    let loss = line
        .loss
        .map_or_else(String::new, |loss| format!(", {loss} lost"));
    format!("{}, {} ms, {rate}{loss}", title(load, class), line.rtt_ms)
}

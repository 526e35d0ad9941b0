//! Owns the table of cases: the cases of each suite, their size, and their bars. Runs nothing.

use super::super::data::Load;
use super::super::peers::{Definition, Role};
use super::far::far_title;
use super::title::size;
use super::{Bar, Case, Ceiling, Class, Expect, Kind, LineSpec, Storage, Suite};

/// Smallest ratio of Godwit's speed to that of the bare pipe with digests, by class: memory, and files that are
/// not small.
const MEMORY_RATIO_MIN: [f64; 2] = [0.95, 0.92];
const FILES_RATIO_MIN: f64 = 0.95;
/// Smallest ratio of Godwit's speed to that of each peer, by class: large files, and small ones.
const LARGE_PEER_RATIO_MIN: [f64; 2] = [1.2, 1.6];
const SMALL_PEER_RATIO_MIN: [f64; 2] = [1.0, 1.5];
/// Smallest ratio of Godwit's speed with files of 1 MiB to its speed with files of 100 MiB.
const MIDDLE_RATIO_MIN: f64 = 0.9;
/// Smallest ratio of Godwit's speed to that of the bare loop of the same calls, with small files.
const LOOP_RATIO_MIN: f64 = 0.8;
/// Smallest ratio of Godwit's speed to and from disk to that of the pipe. The same for `fio`, as far as the pipe
/// reaches its speed.
const DISK_RATIO_MIN: f64 = 0.95;
/// Smallest ratio of Godwit's speed to that of `b3sum`, checking the same files.
const VERIFY_RATIO_MIN: f64 = 0.9;
/// Round trip of the delay case.
const DELAY_MS: u32 = 50;
/// Largest number of round trips by which the delay may lengthen a run.
const DELAY_ROUND_TRIPS_MAX: u32 = 30;
/// Largest ratio of the time of a second run to the time of two bare scans at once.
const SCAN_RATIO_MAX: f64 = 1.3;
/// Largest number of round trips by which the delay may lengthen a second run.
const AGAIN_ROUND_TRIPS_MAX: u32 = 20;
/// The link of the delay cases.
const DELAY: LineSpec = LineSpec {
    rtt_ms: DELAY_MS,
    ..LineSpec::DIRECT
};
/// The link of the memory cases with distant ends.
const FAR: LineSpec = LineSpec {
    rtt_ms: 100,
    rate: Some("1Gbit"),
    ..LineSpec::DIRECT
};
/// The link of the cases of one small file by ssh, and their allowed cost compared with `ssh HOST true`.
const SSH: LineSpec = LineSpec {
    rtt_ms: 200,
    ..LineSpec::DIRECT
};
const SSH_ROUND_TRIPS_MAX: u32 = 3;
const SSH_EXTRA_MS_MAX: u32 = 150;
/// Largest resident memory of each side, for all data sets.
const RSS_MAX: u64 = 256 << 20;
/// Peers that represent the others in the quick suite: the fastest with small files, by class.
const BEST: [&str; 2] = ["tar-socat", "tar-ssh"];
/// Cases that the quick suite runs only if the user names them: other cases are nearly the same.
const NOT_QUICK: [&str; 6] = [
    "one-plain",
    "forty-plain",
    "middle-tls",
    "tree-plain",
    "disk-write-tls",
    "disk-read-tls",
];
pub(super) const CLASSES: [Class; 2] = [Class::Plain, Class::Encrypted];

/// The cases of `suite`; counts and sizes are multiplied by `scale` (at least one file, one byte). `peers` are all
/// known peers; those in `added` take part in all cases that they can run.
pub(crate) fn cases(
    suite: Suite,
    scale: f64,
    peers: &[&'static Definition],
    added: &[String],
) -> Vec<Case> {
    let table = Table {
        suite,
        scale: match suite {
            Suite::Quick | Suite::Peers | Suite::WanPeers => scale / 4.0,
            Suite::Full | Suite::Wan | Suite::State => scale,
        },
        peers,
        added,
    };
    match suite {
        Suite::Peers => table.files(),
        Suite::WanPeers => table.far(),
        // These suites have no pairs of runs: their lines are in `bench::wan` and `bench::state`.
        Suite::Wan | Suite::State => Vec::new(),
        Suite::Quick => {
            let mut cases = table.memory();
            cases.extend(table.files());
            cases.extend(table.disk());
            cases.extend(table.growth());
            cases.extend(table.verify());
            cases
        }
        Suite::Full => {
            let mut cases = table.memory();
            cases.extend(table.files());
            cases.extend(table.disk());
            cases.extend(table.growth());
            cases.extend(table.verify());
            cases.push(table.delay());
            cases.extend(table.second_runs());
            cases.extend(table.by_ssh());
            cases.extend(table.rss());
            cases
        }
    }
}

impl Case {
    /// Whether the quick suite has the case by default.
    pub(crate) fn is_quick(&self) -> bool {
        !NOT_QUICK.contains(&self.name)
    }
}

pub(super) struct Table<'a> {
    pub(super) suite: Suite,
    scale: f64,
    peers: &'a [&'static Definition],
    added: &'a [String],
}

impl Table<'_> {
    fn memory(&self) -> Vec<Case> {
        let load = Load::Memory {
            bytes: self.scaled(16 << 30),
        };
        let names = ["memory-plain", "memory-tls"];
        let each = (0..).zip(CLASSES).map(|(index, class)| {
            let mut case = Case::new(names[index], class, load);
            case.bars = vec![
                Bar::ratio(Kind::PipeDigest, Some(MEMORY_RATIO_MIN[index])),
                Bar::ratio(Kind::PipeCubic, None),
                Bar::ratio(Kind::Pipe, None),
            ];
            if class == Class::Plain {
                self.limit("iperf3", &mut case);
            }
            case
        });
        each.collect()
    }

    /// All file sizes, in both classes: cases with the same data set follow each other, so that it is made once.
    fn files(&self) -> Vec<Case> {
        let some = |files, bytes, directories| Load::Files {
            files,
            bytes,
            directories,
        };
        let large = some(40, self.scaled(100 << 20), 0);
        let tree = Load::Spec {
            spec: "source:200000",
            scale: self.scale,
            files: self.scaled(200_000),
            bytes: self.scaled(2_200_000_000),
        };
        let mut cases = Vec::new();
        for (names, load) in [
            (["one-plain", "one-tls"], some(1, self.scaled(4 << 30), 0)),
            (["forty-plain", "forty-tls"], large),
        ] {
            cases.extend(self.both(names, load, |index, case| {
                case.bars = vec![
                    Bar::ratio(Kind::PipeDigest, Some(FILES_RATIO_MIN)),
                    Bar::ratio(Kind::PipeCubic, None),
                    Bar::ratio(Kind::Pipe, None),
                ];
                case.ceiling = Some(Ceiling::of(Kind::PipeDigest, FILES_RATIO_MIN));
                self.limit("cp", case);
                self.peers(case, Some(LARGE_PEER_RATIO_MIN[index]), Some(1.0));
            }));
        }
        let middle = some(self.scaled(4000), 1 << 20, self.scaled(4));
        cases.extend(
            self.both(["middle-plain", "middle-tls"], middle, |_, case| {
                case.beside = Some(large);
                case.bars = vec![
                    Bar::ratio(Kind::GodwitBeside, Some(MIDDLE_RATIO_MIN)),
                    Bar::ratio(Kind::Pipe, None),
                ];
                self.limit("cp", case);
                self.peers(case, None, None);
            }),
        );
        let small = some(self.scaled(100_000), 8192, self.scaled(1000));
        for (names, load) in [
            (["small-plain", "small-tls"], small),
            (["tree-plain", "tree-tls"], tree),
        ] {
            cases.extend(self.both(names, load, |index, case| {
                case.bars = vec![
                    Bar::ratio(Kind::Loop, Some(LOOP_RATIO_MIN)),
                    Bar::ratio(Kind::LoopDigest, None),
                    Bar::ratio(Kind::Pipe, None),
                ];
                self.limit("cp", case);
                self.peers(case, Some(SMALL_PEER_RATIO_MIN[index]), None);
            }));
        }
        cases
    }

    /// A case in each class; `complete` gets the index of the class.
    fn both(
        &self,
        names: [&'static str; 2],
        load: Load,
        complete: impl Fn(usize, &mut Case),
    ) -> [Case; 2] {
        std::array::from_fn(|index| {
            let mut case = Case::new(names[index], CLASSES[index], load);
            complete(index, &mut case);
            case
        })
    }

    /// The cases to and from the machine's disk.
    fn disk(&self) -> Vec<Case> {
        // Whole MiB, because other programs write only whole blocks.
        let load = Load::Files {
            files: 40,
            bytes: self.scaled(100) << 20,
            directories: 0,
        };
        let ways = [
            (
                ["disk-write-plain", "disk-write-tls"],
                Storage::DiskWrite,
                "fio-write",
                "to disk, durable",
            ),
            (
                ["disk-read-plain", "disk-read-tls"],
                Storage::DiskRead,
                "fio-read",
                "from disk, nothing of it in memory",
            ),
        ];
        let each = ways.into_iter().flat_map(|(names, storage, limit, said)| {
            (0..).zip(CLASSES).map(move |(index, class)| {
                let mut case = Case::new(names[index], class, load);
                case.title = format!("{}, {said}", case.title);
                case.storage = storage;
                // The preparation of the memory for each run lasts longer than the run.
                case.rounds_max = (self.suite == Suite::Quick).then_some(3);
                case.bars = vec![Bar::ratio(Kind::PipeSynced, None)];
                case.ceiling = Some(Ceiling::of(Kind::PipeSynced, DISK_RATIO_MIN));
                self.limit(limit, &mut case);
                for bar in &mut case.bars {
                    bar.expect = Bar::ratio(bar.reference, Some(DISK_RATIO_MIN)).expect;
                }
                case
            })
        });
        each.collect()
    }

    /// Checking files by a manifest, compared with hashing them.
    fn verify(&self) -> Vec<Case> {
        let each = [("verify-one", 1, 4 << 30), ("verify-forty", 40, 100 << 20)];
        let each = each.map(|(name, files, bytes)| {
            let bytes = self.scaled(bytes);
            let load = Load::Files {
                files,
                bytes,
                directories: 0,
            };
            let mut case = Case::new(name, Class::Plain, load);
            case.title = format!("{files} × {}, verified", size(bytes));
            case.subject = Kind::GodwitVerify;
            case.bars = vec![Bar::ratio(Kind::B3sum, Some(VERIFY_RATIO_MIN))];
            case
        });
        each.into()
    }

    /// The cost of a delay: the same files through the same emulator, with the delay and without it.
    fn delay(&self) -> Case {
        let load = Load::Files {
            files: self.scaled(100_000),
            bytes: 1024,
            directories: self.scaled(1000),
        };
        let mut case = Case::new("delay", Class::Encrypted, load);
        case.title = format!("{}, {DELAY_MS} ms", case.title);
        case.line = Some(DELAY);
        case.bars = vec![beside_near(DELAY_ROUND_TRIPS_MAX)];
        case
    }

    /// The cost of detecting that nothing has changed: compared with two bare scans, and over a long link.
    fn second_runs(&self) -> [Case; 2] {
        let mut case = Case::new("second-run", Class::Encrypted, self.empty());
        case.title = format!("second run, {}", case.title);
        case.bars = vec![Bar::ratio(Kind::Scan, Some(1.0 / SCAN_RATIO_MAX))];
        case.again = true;
        let far = Case {
            name: "second-run-far",
            title: format!("{}, {DELAY_MS} ms", case.title),
            line: Some(DELAY),
            bars: vec![beside_near(AGAIN_ROUND_TRIPS_MAX)],
            ..case.clone()
        };
        [case, far]
    }

    /// The cost of one small file by ssh, to the far end and from it, compared with an ssh that does nothing.
    fn by_ssh(&self) -> [Case; 2] {
        let load = Load::Files {
            files: 1,
            bytes: self.scaled(16 << 10),
            directories: 0,
        };
        let rtt_ms = SSH.rtt_ms;
        let seconds_max = f64::from(rtt_ms * SSH_ROUND_TRIPS_MAX + SSH_EXTRA_MS_MAX) / 1000.0;
        let each = [
            ("ssh-small", "to ssh", Kind::GodwitToSsh),
            ("ssh-small-back", "from ssh", Kind::GodwitFromSsh),
        ];
        each.map(|(name, way, subject)| {
            let mut case = Case::new(name, Class::Encrypted, load);
            case.title = format!("{} {way}, {rtt_ms} ms", super::title::what(load));
            case.subject = subject;
            case.line = Some(SSH);
            case.bars = vec![Bar {
                reference: Kind::SshTrue,
                expect: Expect::Extra { seconds_max },
            }];
            case
        })
    }

    /// The cases of memory: Godwit alone, encrypted, once.
    fn rss(&self) -> Vec<Case> {
        let links = Load::HardLinks {
            files: self.scaled(200_000),
        };
        let sparse = Load::Sparse {
            bytes: self.scaled(1 << 40),
        };
        let mut cases = Vec::new();
        for (names, line) in [
            (["rss-empty", "rss-links", "rss-sparse"], None),
            (
                ["rss-empty-far", "rss-links-far", "rss-sparse-far"],
                Some(FAR),
            ),
        ] {
            for (name, load) in names.into_iter().zip([self.empty(), links, sparse]) {
                let mut case = Case::new(name, Class::Encrypted, load);
                if let Some(line) = line {
                    case.title = far_title(load, case.class, line);
                }
                case.line = line;
                case.rss_max = Some(RSS_MAX);
                cases.push(case);
            }
        }
        cases
    }

    /// A million empty files.
    fn empty(&self) -> Load {
        Load::Files {
            files: self.scaled(1_000_000),
            bytes: 0,
            directories: self.scaled(1000),
        }
    }

    /// Adds a limit: reports show it, but no bar uses it unless the case adds one.
    fn limit(&self, name: &str, case: &mut Case) {
        let found = self.peers.iter().find(|limit| limit.name == name);
        case.bars
            .extend(found.map(|limit| Bar::ratio(Kind::Peer(limit), None)));
    }

    /// Adds the peers of the case's class that the suite includes and that can move its load.
    pub(super) fn peers(
        &self,
        case: &mut Case,
        ratio_min: Option<f64>,
        cpu_ratio_max: Option<f64>,
    ) {
        let all = self.suite != Suite::Quick;
        for peer in self.peers.iter().filter(|peer| peer.role == Role::Peer) {
            let asked = all || BEST.contains(&&*peer.name) || self.added.contains(&peer.name);
            if asked && peer.class == case.class && peer.moves(case.load).is_some() {
                case.bars.push(Bar {
                    reference: Kind::Peer(peer),
                    expect: Expect::Speed {
                        ratio_min,
                        cpu_ratio_max,
                    },
                });
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "sizes are far below 2^52, and the scale is positive"
    )]
    pub(super) fn scaled(&self, figure: u64) -> u64 {
        ((figure as f64 * self.scale) as u64).max(1)
    }
}

fn beside_near(round_trips: u32) -> Bar {
    Bar {
        reference: Kind::GodwitNear,
        expect: Expect::Extra {
            seconds_max: f64::from(DELAY_MS * round_trips) / 1000.0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::peers;
    use super::super::super::world::PEAK_BYTES_MAX;
    use super::*;

    fn all(suite: Suite, scale: f64) -> Vec<Case> {
        let peers = peers::load(&[]).expect("our definitions");
        cases(suite, scale, &peers, &[])
    }

    #[test]
    fn names_are_unique_and_peaks_are_within_the_limit() {
        for (_, suite) in Suite::NAMES {
            let cases = all(suite, 1.0);
            for (index, case) in cases.iter().enumerate() {
                let others = &cases[..index];
                assert!(others.iter().all(|other| other.name != case.name));
                // The data or the read data, and the arriving data.
                let peaks = 2 * case.load.footprint()..=PEAK_BYTES_MAX;
                assert!(peaks.contains(&case.peak_bytes()), "{}", case.name);
            }
        }
    }

    #[test]
    fn a_tiny_scale_leaves_something_of_each_case() {
        for case in all(Suite::Full, 1e-9) {
            let load = case.load;
            assert!(load.names() > 0 || load.bytes() > 0, "{}", case.name);
        }
    }

    #[test]
    fn every_definition_of_ours_takes_part_in_the_full_suite() {
        let cases = all(Suite::Full, 1.0);
        for peer in peers::load(&[]).expect("our definitions") {
            let kind = Kind::Peer(peer);
            assert!(
                cases.iter().any(|case| case.contenders().contains(&kind)),
                "{}",
                peer.name
            );
        }
    }
}
